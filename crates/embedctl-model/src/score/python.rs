//! Values as Python writes them: `str`, `repr` and `json.dumps`.

use std::fmt::Write;

use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// A tuple. The interpreter has lists alone.
#[derive(Debug)]
pub(super) struct Tuple(pub Vec<Value>);

impl Object for Tuple {
    fn repr(self: &std::sync::Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &std::sync::Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &std::sync::Arc<Self>) -> minijinja::value::Enumerator {
        minijinja::value::Enumerator::Seq(self.0.len())
    }
}

/// `str` of a value.
pub(super) fn text_of(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    match value.kind() {
        ValueKind::Number | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            write_repr(value, &mut out)?;
        }
        _ => out += &value.to_string(),
    }
    Ok(out)
}

/// Appends `repr` of a value, which is not nested deeply.
fn write_repr(value: &Value, out: &mut String) -> Result<(), Error> {
    let is_tuple = value.downcast_object_ref::<Tuple>().is_some();
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::String => write_quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push(if is_tuple { '(' } else { '[' });
            let mut count = 0;
            for item in value.try_iter()? {
                out.push_str(if count > 0 { ", " } else { "" });
                write_repr(&item, out)?;
                count += 1;
            }
            out.push_str(match (is_tuple, count) {
                (true, 1) => ",)",
                (true, _) => ")",
                (false, _) => "]",
            });
        }
        ValueKind::Map => {
            out.push('{');
            for (count, key) in value.try_iter()?.enumerate() {
                out.push_str(if count > 0 { ", " } else { "" });
                write_repr(&key, out)?;
                out.push_str(": ");
                write_repr(&value.get_item(&key)?, out)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(number) if !value.is_integer() => float(number),
        _ => value.to_string(),
    }
}

/// `repr` of a float: the shortest digits, with an exponent below 1e-4 and from 1e16 on.
fn float(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        return match exponent {
            -4 => value.to_string(),
            _ => format!("{value:?}"),
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn write_quoted(text: &str, out: &mut String) {
    let quote = match text.contains('\'') && !text.contains('"') {
        true => '"',
        false => '\'',
    };
    out.push(quote);
    for one in text.chars() {
        match one {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            one if one == quote || one == '\\' => out.extend(['\\', one]),
            one if is_printable(one) => out.push(one),
            one => write_code(one, out),
        }
    }
    out.push(quote);
}

fn write_code(one: char, out: &mut String) {
    let written = match u32::from(one) {
        code @ ..=0xff => write!(out, "\\x{code:02x}"),
        code @ ..=0xffff => write!(out, "\\u{code:04x}"),
        code => write!(out, "\\U{code:08x}"),
    };
    written.expect("a String takes everything");
}

/// Whether Python prints a character as it is.
fn is_printable(one: char) -> bool {
    // Rust escapes the same categories, and at the beginning of a text marks that combine, too.
    matches!(one, ' '..='~') || format!("a{one}").escape_debug().nth(1) == Some(one)
}

/// How `json.dumps` writes.
pub(super) struct Json {
    pub ascii: bool,
    /// Spaces of a level, where each item has a line.
    pub indent: Option<usize>,
    /// Between items, and behind a key.
    pub separators: [String; 2],
    pub sorted: bool,
}

impl Json {
    pub fn of(&self, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.write(value, 0, &mut out)?;
        Ok(out)
    }

    fn write(&self, value: &Value, level: usize, out: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::String => self.write_text(value.as_str().unwrap_or_default(), out),
            ValueKind::None | ValueKind::Bool | ValueKind::Number => out.push_str(&plain(value)),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.write_items(['[', ']'], items, level, out, |item, out| {
                    self.write(item, level + 1, out)
                })?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sorted {
                    keys.sort();
                }
                self.write_items(['{', '}'], keys, level, out, |key, out| {
                    match key.as_str() {
                        Some(text) => self.write_text(text, out),
                        None => self.write_text(&plain(key), out),
                    }
                    out.push_str(&self.separators[1]);
                    self.write(&value.get_item(key)?, level + 1, out)
                })?;
            }
            kind => {
                let reason = format!("a value of the kind '{kind}' is not JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, reason));
            }
        }
        Ok(())
    }

    fn write_items(
        &self,
        [open, close]: [char; 2],
        items: Vec<Value>,
        level: usize,
        out: &mut String,
        write: impl Fn(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = |level: usize, out: &mut String| {
            if let Some(spaces) = self.indent {
                out.push('\n');
                out.push_str(&" ".repeat(spaces * level));
            }
        };
        out.push(open);
        let is_empty = items.is_empty();
        for (count, item) in items.iter().enumerate() {
            out.push_str(if count > 0 { &self.separators[0] } else { "" });
            line(level + 1, out);
            write(item, out)?;
        }
        if !is_empty {
            line(level, out);
        }
        out.push(close);
        Ok(())
    }

    fn write_text(&self, text: &str, out: &mut String) {
        out.push('"');
        for one in text.chars() {
            match one {
                '"' | '\\' => out.extend(['\\', one]),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                ' '..='~' => out.push(one),
                one if one >= '\u{7f}' && !self.ascii => out.push(one),
                one => {
                    for unit in one.encode_utf16(&mut [0; 2]) {
                        write!(out, "\\u{unit:04x}").expect("a String takes everything");
                    }
                }
            }
        }
        out.push('"');
    }
}

/// A value without parts as JSON.
fn plain(value: &Value) -> String {
    match value.kind() {
        ValueKind::None => "null".into(),
        ValueKind::Bool => value.is_true().to_string(),
        _ => match number(value).as_str() {
            "nan" => "NaN".into(),
            "inf" => "Infinity".into(),
            "-inf" => "-Infinity".into(),
            other => other.into(),
        },
    }
}

//! Filters, tests and methods of texts as Python's Jinja2 and transformers have them, where the interpreter lacks them or
//! does otherwise.

use minijinja::value::{Kwargs, Rest, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::python::{Json, Tuple, text_of};

/// The longest separator of JSON.
const LONGEST_SEPARATOR: usize = 16;

/// Adds the filters and tests whose results are about as large as what they get.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_filter("string", |value: &Value| match value.as_str() {
        Some(_) => Ok(value.clone()),
        None => text_of(value).map(Value::from),
    });
    environment.add_filter("items", items);
    environment.add_filter("dictsort", |value: &Value, named: Kwargs| {
        pairs(filters::dictsort(value, named)?)
    });
    environment.add_filter("title", |value: &Value| Ok(title(&text_of(value)?)));
    for name in ["e", "escape"] {
        environment.add_filter(name, escape);
    }
    // Python writes it in another way.
    environment.remove_filter("pprint");
    environment.add_test("sequence", |value: &Value| {
        let kinds = [
            ValueKind::Undefined,
            ValueKind::String,
            ValueKind::Seq,
            ValueKind::Map,
        ];
        kinds.contains(&value.kind())
    });
}

/// Pairs of a map's keys and values.
fn items(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(Value::from(Vec::<Value>::new())),
        _ => pairs(filters::items(value)?),
    }
}

fn pairs(of: Value) -> Result<Value, Error> {
    let pairs = of.try_iter()?.map(|pair| Ok(tuple(pair.try_iter()?)));
    pairs
        .collect::<Result<Vec<Value>, Error>>()
        .map(Value::from)
}

fn tuple(items: impl IntoIterator<Item = Value>) -> Value {
    Value::from_object(Tuple(items.into_iter().collect()))
}

/// Each word with a large first letter. A word begins behind white space, a dash or an opening bracket.
fn title(text: &str) -> String {
    let mut is_first = true;
    let mut written = String::with_capacity(text.len());
    for one in text.chars() {
        match is_first {
            true => written.extend(one.to_uppercase()),
            false => written.extend(one.to_lowercase()),
        }
        is_first = one.is_whitespace() || matches!(one, '-' | '(' | '{' | '[' | '<');
    }
    written
}

fn escape(value: &Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    let mut escaped = String::new();
    for one in text_of(value)?.chars() {
        match one {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\'' => escaped.push_str("&#39;"),
            '"' => escaped.push_str("&#34;"),
            other => escaped.push(other),
        }
    }
    Ok(Value::from_safe_string(escaped))
}

pub(super) fn replace(
    value: &Value,
    old: &Value,
    new: &Value,
    count: Option<i64>,
) -> Result<String, Error> {
    let (text, old, new) = (text_of(value)?, text_of(old)?, text_of(new)?);
    Ok(match count.map(usize::try_from) {
        Some(Ok(count)) => text.replacen(&old, &new, count),
        _ => text.replace(&old, &new),
    })
}

pub(super) fn join(value: &Value, separator: Option<Value>) -> Result<String, Error> {
    let items = value.try_iter()?.map(|item| text_of(&item));
    let items = items.collect::<Result<Vec<String>, Error>>()?;
    let separator = separator.as_ref().map_or(Ok(String::new()), text_of)?;
    Ok(items.join(&separator))
}

/// transformers' `tojson`: `json.dumps` without escapes for HTML.
pub(super) fn tojson(value: &Value, given: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let mut given = given.0.into_iter();
    let arguments = names.map(|name| match given.next() {
        Some(value) => Ok(Some(value)),
        None => named.get::<Option<Value>>(name),
    });
    named.assert_all_used()?;
    let [ascii, indent, separators, sorted] = arguments;
    let is_true = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    let indent = indent?.filter(|value| !value.is_none());
    let indent = indent.map(usize::try_from).transpose()?;
    let separators = match separators?.filter(|value| !value.is_none()) {
        Some(pair) => separators_of(&pair)?,
        None if indent.is_some() => [",".into(), ": ".into()],
        None => [", ".into(), ": ".into()],
    };
    let json = Json {
        ascii: is_true(ascii?),
        indent,
        separators,
        sorted: is_true(sorted?),
    };
    json.of(value)
}

fn separators_of(pair: &Value) -> Result<[String; 2], Error> {
    let texts: Vec<String> = pair.try_iter()?.map(|one| one.to_string()).collect();
    let is_short = texts.iter().all(|text| text.len() <= LONGEST_SEPARATOR);
    let texts = <[String; 2]>::try_from(texts).ok().filter(|_| is_short);
    texts.ok_or_else(|| failed("the separators of JSON are no two short texts"))
}

/// Calls a method of Python's texts, lists and maps.
pub(super) fn method(
    state: &State<'_, '_>,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    let own = match value.as_str() {
        Some(text) => of_text(text, name, arguments)?,
        None if name == "items" && value.kind() == ValueKind::Map => {
            let () = from_args(arguments)?;
            Some(items(value)?)
        }
        None => None,
    };
    match own {
        Some(done) => Ok(done),
        None => unknown_method_callback(state, value, name, arguments),
    }
}

/// A method of a text that the interpreter's library lacks, or that counts bytes there.
fn of_text(text: &str, name: &str, arguments: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match name {
        "title" => {
            let () = from_args(arguments)?;
            title_of_letters(text).into()
        }
        "isalnum" | "isalpha" | "isdigit" | "isnumeric" | "isspace" if text.is_empty() => {
            false.into()
        }
        "islower" | "isupper" => {
            let () = from_args(arguments)?;
            let (has_lower, has_upper) = (
                text.contains(char::is_lowercase),
                text.contains(char::is_uppercase),
            );
            Value::from(match name {
                "islower" => has_lower && !has_upper,
                _ => has_upper && !has_lower,
            })
        }
        "find" | "index" | "rfind" | "rindex" => place(text, name, arguments)?,
        "count" => {
            let (sought,): (&str,) = from_args(arguments)?;
            text.matches(sought).count().into()
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(arguments)?;
            text.strip_prefix(prefix).unwrap_or(text).into()
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(arguments)?;
            text.strip_suffix(suffix).unwrap_or(text).into()
        }
        "partition" | "rpartition" => parted(text, name, arguments)?,
        "rsplit" => {
            let (separator, most): (Option<&str>, Option<i64>) = from_args(arguments)?;
            let most = most.and_then(|most| usize::try_from(most).ok());
            split_from_the_right(text, separator, most.unwrap_or(usize::MAX))?.into()
        }
        "ljust" | "rjust" | "center" | "zfill" => filled(text, name, arguments)?,
        _ => return Ok(None),
    }))
}

/// Each row of letters with a large first letter.
fn title_of_letters(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut is_inside = false;
    for one in text.chars() {
        match is_inside {
            true => written.extend(one.to_lowercase()),
            false => written.extend(one.to_uppercase()),
        }
        is_inside = one.is_lowercase() || one.is_uppercase();
    }
    written
}

fn place(text: &str, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (sought,): (&str,) = from_args(arguments)?;
    let place = match name.starts_with('r') {
        true => text.rfind(sought),
        false => text.find(sought),
    };
    match place {
        Some(place) => Ok(text[..place].chars().count().into()),
        None if name.ends_with("find") => Ok((-1).into()),
        None => Err(failed("substring not found")),
    }
}

fn parted(text: &str, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (separator,): (&str,) = from_args(arguments)?;
    if separator.is_empty() {
        return Err(failed("empty separator"));
    }
    let parts = match name {
        "partition" => text.split_once(separator),
        _ => text.rsplit_once(separator),
    };
    let parts = match parts {
        Some((before, behind)) => [before, separator, behind],
        None if name == "partition" => [text, "", ""],
        None => ["", "", text],
    };
    Ok(tuple(parts.map(Value::from)))
}

fn split_from_the_right(
    text: &str,
    separator: Option<&str>,
    most: usize,
) -> Result<Vec<String>, Error> {
    let mut parts: Vec<String> = Vec::new();
    match separator {
        Some("") => return Err(failed("empty separator")),
        Some(separator) => {
            let all = text.rsplitn(most.saturating_add(1), separator);
            parts.extend(all.map(str::to_owned));
        }
        None => {
            let mut rest = text.trim_end();
            while let Some(space) = rest
                .rfind(char::is_whitespace)
                .filter(|_| parts.len() < most)
            {
                parts.push(rest[space..].trim_start().to_owned());
                rest = rest[..space].trim_end();
            }
            parts.extend(Some(rest.to_owned()).filter(|rest| !rest.is_empty()));
        }
    }
    parts.reverse();
    Ok(parts)
}

/// A text of so many characters at least.
fn filled(text: &str, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (width, with): (usize, Option<char>) = from_args(arguments)?;
    let lacking = width.saturating_sub(text.chars().count());
    let (left, with) = match name {
        "ljust" => (0, with),
        "rjust" => (lacking, with),
        "center" => (lacking / 2 + (lacking & width & 1), with),
        _ => (lacking, Some('0')),
    };
    let fill = |count: usize| with.unwrap_or(' ').to_string().repeat(count);
    let signs = usize::from(name == "zfill" && text.starts_with(['+', '-']));
    let (sign, rest) = text.split_at(signs);
    Ok(format!("{sign}{}{rest}{}", fill(left), fill(lacking - left)).into())
}

fn failed(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

#[cfg(test)]
#[path = "jinja_tests.rs"]
mod tests;

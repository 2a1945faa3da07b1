//! JSONL: a line is a JSON object, or a string, which is a text; blank lines are ignored.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::cells::Cell;
use crate::columns::InputColumns;
use crate::fault::no_text;
use crate::json::{self, JsonType};
use crate::options::InputOptions;
use crate::paths::{self, PathValues, Paths};
use crate::record::RecordFields;
use crate::window::{Record, RejectedFields};
use embedctl_common::error::Cause;
use embedctl_common::setting::{ID_FIELD, ID_TYPE, INPUT_FORMAT, KEEP, Setting, TEXT_FIELD};

/// How many of a record's fields are listed where the text is missing.
const LISTED_FIELDS: usize = 5;

/// Reads objects.
pub(crate) struct Jsonl {
    paths: Paths,
    options: Arc<InputOptions>,
    /// Number of fields that make up the text, and index of the first kept field.
    texts: usize,
    kept: usize,
    /// Index of the first field that is called like a partition.
    partitions: usize,
    /// Fields that `--keep '*'` has met.
    met: HashSet<String>,
    /// Named fields that no record has had so far, by their numbers in `paths`.
    unseen: Vec<(usize, Setting, String)>,
    /// The source and the fields of the first record.
    first: Option<(u32, Vec<String>)>,
    /// Whether a record so far has the field of ids.
    has_ids: bool,
    /// The fields that are the text, by their numbers in `paths`: those that a string has.
    of_text: Vec<usize>,
}

/// A named field that no record of the first window has had.
pub struct UnseenField {
    /// The option that names it.
    pub option: Setting,
    /// Its name.
    pub name: String,
    /// The first record's source.
    pub source: u32,
    /// The first record's fields.
    pub fields: Vec<String>,
}

const ID: usize = 0;
const TEXT: usize = 1;

impl Jsonl {
    /// Looks for the fields that `options` name, and for those that are called like one of the `partitions`.
    pub(crate) fn new<'n>(
        options: &'n Arc<InputOptions>,
        partitions: impl Iterator<Item = &'n str>,
    ) -> Self {
        let (option, texts) = options.texts();
        let texts_count = texts.len();
        let mut names = vec![options.id_field.as_deref().unwrap_or_default()];
        names.extend(texts.iter().map(String::as_str));
        let partitions_at = names.len();
        names.extend(partitions);
        let kept_at = names.len();
        names.extend(options.kept().map(|keep| keep.name.as_str()));
        let named = names.iter().enumerate().filter_map(|(index, name)| {
            let option = match index {
                ID if !options.names_id() => return None,
                ID => ID_FIELD,
                index if index < partitions_at => option,
                // A record need not have them.
                index if index < kept_at => return None,
                _ => KEEP,
            };
            Some((index, option, (*name).to_owned()))
        });
        // A missing text is reported first.
        let mut unseen: Vec<_> = named.collect();
        let are_text = names.iter().enumerate();
        let of_text = are_text.filter(|(_, name)| **name == options.text_field);
        if unseen.first().is_some_and(|(index, ..)| *index == ID) {
            let id = unseen.remove(0);
            unseen.push(id);
        }
        Self {
            unseen,
            first: None,
            has_ids: false,
            of_text: of_text.map(|(index, _)| index).collect(),
            paths: Paths::new(names.iter().copied()),
            options: Arc::clone(options),
            texts: texts_count,
            partitions: partitions_at,
            kept: kept_at,
            met: HashSet::new(),
        }
    }

    /// Under `--keep '*'`: gives every field of the object that `line` holds a column.
    ///
    /// # Errors
    /// If a field is called as a column of the output's own.
    pub(crate) fn expand(
        &mut self,
        line: &str,
        columns: &mut InputColumns,
        warnings: &mut Vec<String>,
    ) -> Result<(), Cause> {
        if !columns.keeps_all() {
            return Ok(());
        }
        let mut new = match is_string(line) {
            true => vec![self.options.text_field.clone()],
            false => names(line),
        };
        new.retain(|name| !self.met.contains(name));
        if !new.is_empty() {
            columns.expand(new.iter().map(String::as_str), warnings)?;
            self.met.extend(new);
        }
        // Those of other formats, too.
        for name in columns.names().skip(self.paths.len() - self.kept) {
            if name == self.options.text_field {
                self.of_text.push(self.paths.len());
            }
            self.paths.add(name);
        }
        Ok(())
    }

    /// The values of an object's fields; a string is the text of a record without others.
    fn find<'a>(&self, line: &'a str) -> serde_json::Result<PathValues<'a>> {
        match is_string(line) {
            true => {
                let value: &RawValue = serde_json::from_str(line)?;
                Ok(self.paths.with(&self.of_text, value.get()))
            }
            false => self.paths.find(line),
        }
    }

    /// Whether `line` is an object, and if so, whether it holds the text field.
    pub(crate) fn recognises(&self, line: &str) -> Option<bool> {
        let values = self.paths.find(line).ok()?;
        Some((0..self.texts).all(|index| values.get(TEXT + index).is_some()))
    }

    /// The record that `line` holds.
    ///
    /// # Errors
    /// The reason for which it holds none.
    pub(crate) fn record<'a>(
        &mut self,
        line: &'a str,
        source: u32,
        columns: &InputColumns,
    ) -> Result<Record<'a>, Cause> {
        let values = (self.find(line)).map_err(|error| not_an_object(line, &error))?;
        if self.options.text_template.is_some() && is_string(line) {
            let (option, _) = self.options.texts();
            let reason = format!("the line is a string, but `{option}` needs fields");
            return Err(Cause::of(reason).with("make an object of it (`jq -c '{text: .}'`)"));
        }
        if !self.unseen.is_empty() {
            self.unseen
                .retain(|(index, ..)| values.get(*index).is_none());
            let names = || match is_string(line) {
                true => vec![self.options.text_field.clone()],
                false => names(line),
            };
            self.first.get_or_insert_with(|| (source, names()));
        }
        self.has_ids |= values.get(ID).is_some();
        let places = columns.of_places();
        for (number, name) in places.partitions().enumerate() {
            let raw = values.get(self.partitions + number);
            if let Some(value) = raw.map(|raw| plain(name, raw)).transpose()?.flatten() {
                places.check(number, source, &value)?;
            }
        }
        Ok(Record {
            text: self.text(line, &values)?,
            id: self.id(&values, columns)?,
            kept: (0..columns.kept())
                .map(|index| columns.cell(index, values.get(self.kept + index)))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Whether a record so far has the field of ids.
    pub(crate) fn has_ids(&self) -> bool {
        self.has_ids
    }

    /// The known fields of a line that is not a record; `None`: it is not an object.
    pub(crate) fn known<'a>(
        &self,
        line: &'a str,
        columns: &InputColumns,
    ) -> Option<RejectedFields<'a>> {
        let values = self.find(line).ok()?;
        let kept = (0..columns.kept()).map(|index| {
            let cell = columns.cell(index, values.get(self.kept + index));
            cell.unwrap_or(Cell::Null)
        });
        Some(RejectedFields {
            id: self.id(&values, columns).unwrap_or(Cell::Null),
            kept: kept.collect(),
        })
    }

    /// The requested fields as written; empty for a value that is not an object.
    pub(crate) fn fields(&self, line: &str, columns: &InputColumns) -> RecordFields {
        let mut fields = RecordFields::default();
        let Ok(values) = self.find(line) else {
            return fields;
        };
        let (_, texts) = self.options.texts();
        let id = std::iter::once(self.options.id_field.as_deref());
        let names = id.chain(texts.iter().map(|name| Some(name.as_str())));
        let names = names.chain(columns.of_places().partitions().map(Some));
        let names = names.chain(columns.names().map(Some));
        for (index, name) in names.enumerate() {
            if let (Some(name), Some(raw)) = (name, values.get(index)) {
                fields.add(name, |out| out.extend_from_slice(raw.as_bytes()));
            }
        }
        fields
    }

    /// Whether there is a record, and a named field that none has had so far.
    pub(crate) fn has_unseen(&self) -> bool {
        self.first.is_some() && !self.unseen.is_empty()
    }

    /// At the end of a window: the first named field that no record has had so far. Only the first window
    /// with a record is asked.
    pub(crate) fn unseen(&mut self) -> Option<UnseenField> {
        let (source, fields) = self.first.take()?;
        let (_, option, name) = std::mem::take(&mut self.unseen).into_iter().next()?;
        Some(UnseenField {
            option,
            name,
            source,
            fields,
        })
    }

    fn text<'a>(&self, line: &str, values: &PathValues<'a>) -> Result<Cow<'a, str>, Cause> {
        if let Some(template) = &self.options.text_template {
            let fields = template.fields().iter().zip(TEXT..);
            let found = fields.map(|(name, index)| match values.get(index) {
                Some(raw) => plain(name, raw),
                None => Ok(None),
            });
            let found = found.collect::<Result<Vec<_>, _>>()?;
            return template.text(found).map(Cow::Owned);
        }
        let name = &self.options.text_field;
        let is_tokens = |raw: &str| {
            let numbers = serde_json::from_str::<Vec<f64>>(raw);
            numbers.is_ok_and(|numbers| !numbers.is_empty())
        };
        let wrong = match values.get(TEXT).map(|raw| (raw, json::kind(raw))) {
            Some((raw, JsonType::String)) => {
                return plain(name, raw).map(Option::unwrap_or_default);
            }
            Some((_, JsonType::Null)) => return Err(no_text("the record", name)),
            Some((raw, JsonType::Array)) if is_tokens(raw) => {
                let reason = format!("the field `{name}` is an array of numbers, not a string");
                let remedy = "give the text that they are tokens of: token ids are not read";
                return Err(Cause::of(reason).with(remedy));
            }
            Some((_, kind)) => format!("the field `{name}` is {kind}, not a string"),
            None => format!("the record has no field `{name}`{}", fields(line)),
        };
        Err(Cause::of(wrong).with(format!(
            "name the field that holds the text with `{TEXT_FIELD}`"
        )))
    }

    fn id<'a>(&self, values: &PathValues<'a>, columns: &InputColumns) -> Result<Cell<'a>, Cause> {
        let (Some(name), Some(raw)) = (&self.options.id_field, values.get(ID)) else {
            return Ok(Cell::Null);
        };
        let kind = json::kind(raw);
        let (takes, remedy) = match (columns.has_int_ids(), kind) {
            (_, JsonType::Null) => return Ok(Cell::Null),
            (false, JsonType::Integer) => {
                let number = raw.parse().ok().filter(|_| columns.infers_ids());
                return Ok(match number {
                    Some(number) => Cell::Int(number),
                    None => Cell::String(Cow::Borrowed(raw)),
                });
            }
            // A number as it is written.
            (false, JsonType::Float) if columns.wants_text_ids() => {
                return Ok(Cell::String(Cow::Borrowed(raw)));
            }
            (false, JsonType::Float) => (
                "ids are strings or integers".to_owned(),
                match json::whole(raw) {
                    Some(_) => format!(
                        "use `{ID_TYPE} int` if all are whole numbers, or `{ID_TYPE} string`"
                    ),
                    None => string_ids(),
                },
            ),
            (false, JsonType::String) => {
                let text = json::string(raw).map_err(|error| no_character("id", name, &error));
                return Ok(Cell::String(text?));
            }
            (false, _) => ("ids are strings or integers".to_owned(), another_id()),
            (true, JsonType::Integer) => {
                return raw.parse().map(Cell::Int).map_err(|_| {
                    let excerpt = json::excerpt(raw);
                    Cause::of(format!("the id `{name}` is beyond 64 bits ({excerpt})"))
                        .with(string_ids())
                });
            }
            (true, JsonType::Float) if json::whole(raw).is_some() => {
                return Ok(json::whole(raw).map_or(Cell::Null, Cell::Int));
            }
            (true, kind) => (
                columns.reason_of_int_ids(),
                match kind {
                    JsonType::String | JsonType::Float => string_ids(),
                    _ => another_id(),
                },
            ),
        };
        let excerpt = json::excerpt(raw);
        Err(Cause::of(format!(
            "the id `{name}` is {kind} ({excerpt}), but {takes}"
        ))
        .with(remedy))
    }
}

/// The remedy for ids of another type than asked for.
fn string_ids() -> String {
    format!("use `{ID_TYPE} string`")
}

/// The same, where strings would be of no use.
fn another_id() -> String {
    format!("name another field with `{ID_FIELD}`")
}

fn no_character(what: &str, name: &str, error: &impl std::fmt::Display) -> Cause {
    Cause::of(format!(
        "the {what} `{name}` holds an escape that is not a character ({error})"
    ))
    .with("mend it")
}

/// A value as text: strings without quotes and escapes, null as nothing, all else as it is written.
fn plain<'a>(name: &str, raw: &'a str) -> Result<Option<Cow<'a, str>>, Cause> {
    match json::kind(raw) {
        JsonType::Null => Ok(None),
        JsonType::String => {
            let text = json::string(raw);
            text.map(Some)
                .map_err(|error| no_character("field", name, &error))
        }
        _ => Ok(Some(Cow::Borrowed(raw))),
    }
}

/// Whether a line begins as a string does.
fn is_string(line: &str) -> bool {
    line.trim_start().starts_with('"')
}

/// Whether there is nothing but space on a line.
pub(crate) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

/// Whether a line of text begins a JSON array of objects or strings: the line is the whole array, or its values go on behind
/// the line.
pub(crate) fn begins_array(line: &str) -> bool {
    let first = line.strip_prefix('[').map(str::trim_start);
    // No string goes on behind a line, so text in brackets and quotes is not cut JSON.
    first.is_some_and(|first| first.starts_with(['{', '"']))
        && serde_json::from_str::<IgnoredAny>(&format!("{line}\n"))
            .map_or_else(|error| error.is_eof(), |_| true)
}

/// Whether a line does not begin as a record of a JSON file does, an object or a string.
pub(crate) fn is_other(line: &str) -> bool {
    !line.trim_start().starts_with(['{', '"', '\u{feff}'])
}

/// Why `line`, the element of that number of a JSON file, is not a record. `field` is that of the text.
pub(crate) fn not_an_element(line: &str, number: u64, field: &str) -> Cause {
    let name = json::excerpt(field);
    match serde_json::from_str::<IgnoredAny>(line) {
        Ok(_) => {
            let kind = json::kind(line.trim_start());
            let reason = format!("element {number} is {kind}, neither an object nor a string");
            Cause::of(reason).with(format!(
                "make it an object with the field `{name}`, or a string, or leave it out"
            ))
        }
        Err(_) if has_bare_nan(line) => Cause::of(format!("element {number} is not valid JSON"))
            .with("JSON has no NaN or Infinity: leave them out"),
        Err(error) => {
            let message = json::message(&error);
            let reason = format!("element {number} is not valid JSON ({message})");
            Cause::of(reason).with(format!(
                "write an array of objects with the field `{name}` or of strings, or use `{INPUT_FORMAT} text` where \
                 every line is plain text"
            ))
        }
    }
}

/// The reason why `line` is not one JSON object, and the remedy.
fn not_an_object(line: &str, error: &serde_json::Error) -> Cause {
    let plain = || format!("use `{INPUT_FORMAT} text` where lines are plain text");
    let start = line.trim_start().chars().next();
    if start != Some('{') && serde_json::from_str::<IgnoredAny>(line).is_ok() {
        let kind = json::kind(line.trim_start());
        let remedy = match kind {
            JsonType::Array => "write its elements one a line (`jq -c '.[]'`)".to_owned(),
            _ => plain(),
        };
        return Cause::of(format!("the line is {kind}, not a JSON object")).with(remedy);
    }
    let remedy = match start {
        _ if has_bare_nan(line) => {
            "JSON has no NaN or Infinity: write null for them, in Python with \
             `df.to_json(orient='records', lines=True)` or `json.dumps(…, allow_nan=False)`"
        }
        Some('{') if error.is_eof() => "write every object on one line (`jq -c .`)",
        Some('{') => "mend it",
        Some('\u{feff}') => "remove the byte-order mark before it",
        Some('[') => "write the array's elements one a line (`jq -c '.[]'`)",
        _ => &plain(),
    };
    // An error about the whole value, such as its type, names no column.
    let place = match error.column() {
        0 => String::new(),
        column => format!(" at column {column}"),
    };
    let message = json::message(error);
    Cause::of(format!("the line is not valid JSON ({message}{place})")).with(remedy)
}

/// Whether a line is JSON but for numbers that Python writes and JSON does not have.
fn has_bare_nan(line: &str) -> bool {
    let (mut mended, mut rest, mut found) = (String::new(), line, false);
    while !rest.is_empty() {
        // Strings stay as they are.
        let length = match rest.as_bytes()[0] {
            b'"' => {
                let mut ends = rest.char_indices().skip(1);
                let mut end = None;
                while let Some((at, character)) = ends.next() {
                    match character {
                        '\\' => drop(ends.next()),
                        '"' => {
                            end = Some(at + 1);
                            break;
                        }
                        _ => {}
                    }
                }
                end.unwrap_or(rest.len())
            }
            _ => rest.find('"').unwrap_or(rest.len()),
        };
        let (part, behind) = rest.split_at(length);
        if part.starts_with('"') {
            mended.push_str(part);
        } else {
            let numbers = part
                .replace("-Infinity", "0")
                .replace("Infinity", "0")
                .replace("NaN", "0");
            found |= numbers != part;
            mended.push_str(&numbers);
        }
        rest = behind;
    }
    found && serde_json::from_str::<IgnoredAny>(&mended).is_ok()
}

/// The first fields of an object, for messages: ` (it has …)`.
pub(crate) fn fields(line: &str) -> String {
    let fields = names(line);
    let mut names: Vec<String> = fields
        .iter()
        .take(LISTED_FIELDS)
        .map(|name| format!("`{}`", json::excerpt(name)))
        .collect();
    if names.is_empty() {
        return " (it is empty)".to_owned();
    }
    if fields.len() > LISTED_FIELDS {
        names.push("…".to_owned());
    }
    format!(" (it has {})", names.join(", "))
}

/// The names of an object's fields, each once; none if it is not an object.
fn names(object: &str) -> Vec<String> {
    paths::keys(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::{Partitions, PlaceColumns};

    fn reason(line: &str) -> String {
        let options = Arc::new(InputOptions::default());
        let places = PlaceColumns::new(&options, Partitions::default(), &[].into()).unwrap();
        let columns = InputColumns::new(&options, places);
        let reason = Jsonl::new(&options, std::iter::empty()).record(line, 0, &columns);
        reason.unwrap_err().to_string()
    }

    #[test]
    fn faults_are_explained() {
        for (line, message, remedy) in [
            (
                r#"{"text":"a"#,
                "EOF while parsing a string at column 10",
                "jq -c .",
            ),
            (r#"{"text" "a"}"#, "expected `:` at column 9", "mend it"),
            (
                r#"{"text":"a"} x"#,
                "trailing characters at column 14",
                "mend it",
            ),
            ("{", "EOF while parsing an object", "jq -c ."),
            ("[", "not valid JSON (", "jq -c '.[]'"),
            (r#"[{"text":"a"}]"#, "the line is an array", "jq -c '.[]'`"),
            (r#"["a", "b"]"#, "the line is an array", "jq -c '.[]'`"),
            (r#""words" 1"#, "not valid JSON (", "-i text"),
            (r#""words"#, "not valid JSON (", "-i text"),
            ("\u{feff}{}", "not valid JSON (", "byte-order mark"),
            ("plain words", "not valid JSON (", "-i text"),
            ("12", "the line is an integer", "-i text"),
            (
                r#"{"text":"a","x":NaN}"#,
                "not valid JSON (",
                "no NaN or Infinity",
            ),
            (
                r#"{"x":[-Infinity, 1],"text":"NaN"}"#,
                "not valid JSON (",
                "no NaN or Infinity",
            ),
            (r#"{"text":"NaN" "a"}"#, "not valid JSON (", "mend it"),
            ("null", "the line is null", "-i text"),
            ("{}", "no field `text` (it is empty)", "--text-field"),
            (
                r#"{"body":"x","t":1}"#,
                "(it has `body`, `t`)",
                "--text-field",
            ),
            (
                r#"{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}"#,
                "`e`, …)",
                "--text-field",
            ),
            (r#"{"text":null}"#, "`text` is null", "give it a text"),
            (r#"{"text":1}"#, "`text` is an integer", "--text-field"),
            (r#"{"text":["a"]}"#, "`text` is an array", "--text-field"),
            (r#"{"text":[1, 2]}"#, "an array of numbers", "token ids"),
            (r#"{"text":"\ud800"}"#, "not a character", "mend it"),
            (r#"{"text":"a","id":1.5}"#, "(1.5)", "--id-type string"),
            (r#"{"text":"a","id":true}"#, "a boolean", "--id-field"),
            (r#"{"text":"a","id":{}}"#, "an object", "--id-field"),
        ] {
            let reason = reason(line);
            assert!(reason.contains(message), "{line}: {reason}");
            assert!(reason.contains(remedy), "{line}: {reason}");
            assert!(!reason.contains("line 1"), "{line}: {reason}");
        }
    }

    #[test]
    fn arrays_are_told_from_text_in_brackets() {
        for array in [
            r#"["a", "b"]"#,
            r#"[ "a",3]"#,
            r#"[{"text": "a"}]"#,
            r#"[{"text": "a"},"#,
            r#"[{"text":"#,
            "[{",
            r#"["a","#,
        ] {
            assert!(begins_array(array), "{array}");
        }
        for text in [
            "[1] a footnote",
            "[1]",
            "[3, 4]",
            "[]",
            "[[1]]",
            "[a link](https://example.org)",
            r#"["a quotation"], he said"#,
            r#"["a quotation that is open"#,
            "[{x}]",
            "[{x",
            "[",
        ] {
            assert!(!begins_array(text), "{text}");
        }
    }

    #[test]
    fn elements_of_other_types_are_named_with_what_they_should_be() {
        for (element, message, remedy) in [
            (
                " 3",
                "element 2 is an integer, neither",
                "an object with the field `body`, or a string",
            ),
            (
                "[1]",
                "element 2 is an array, neither",
                "an object with the field `body`, or a string",
            ),
            (
                "null",
                "element 2 is null, neither",
                "an object with the field `body`, or a string",
            ),
            ("NaN", "element 2 is not valid JSON", "no NaN"),
            ("plain words", "element 2 is not valid JSON", "-i text"),
        ] {
            assert!(is_other(element));
            let reason = not_an_element(element, 2, "body").to_string();
            assert!(reason.contains(message), "{element}: {reason}");
            assert!(reason.contains(remedy), "{element}: {reason}");
        }
        assert!(!is_other(r#" {"a": 1}"#) && !is_other(r#""a""#));
    }

    #[test]
    fn blank_lines() {
        assert!(is_blank(b"") && is_blank(b" \t\r "));
        assert!(!is_blank(b"\0") && !is_blank("\u{a0}".as_bytes()));
    }
}

//! One line, parsed as its source's format says.

use std::borrow::Cow;
use std::str;
use std::sync::Arc;

use crate::cells::Cell;
use crate::columns::InputColumns;
use crate::fault::{not_utf8, too_long};
use crate::format::InputFormat;
use crate::jsonl::{self, Jsonl, UnseenField};
use crate::lines::{Filled, Line, LineReader, ReadFault, is_utf16, utf16};
use crate::options::InputOptions;
use crate::record::{Origin, RecordFields};
use crate::source::SourceFacts;
use crate::window::{OpenWindow, Record, RejectedFields};
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::setting::{INPUT_FORMAT, TEXT_FIELD};

/// Parses lines of all formats.
pub struct Parser {
    options: Arc<InputOptions>,
    jsonl: Jsonl,
    /// How much of a source of text was compared with JSON.
    start: JsonStart,
}

/// How much of a source's text was compared with JSON. Only its first lines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonStart {
    /// No line but blank ones.
    Blank,
    /// A line with an opening bracket alone.
    Bracket,
    /// Enough.
    Compared,
}

impl Parser {
    /// Parses lines for columns as these options say.
    #[must_use]
    pub fn new(options: &Arc<InputOptions>, columns: &InputColumns) -> Self {
        Self {
            jsonl: Jsonl::new(options, columns.of_places().partitions()),
            options: Arc::clone(options),
            start: JsonStart::Compared,
        }
    }

    /// Bytes of a record at most.
    fn limit(&self) -> usize {
        self.options.max_record_bytes
    }

    /// Adds the records of the lines at hand to `filling`, those that begin before the byte `end`. An empty window waits for
    /// its first line here.
    ///
    /// # Errors
    /// If the source cannot be read, or is of another format.
    pub fn fill(
        &mut self,
        source: &SourceFacts,
        lines: &mut LineReader,
        end: u64,
        filling: &mut OpenWindow,
    ) -> Result<Filled, ReadFault> {
        while !filling.is_full() {
            if lines.offset() >= end {
                return Ok(Filled::End);
            }
            // Before each read, not each line: the beginning of a line may come long before its end.
            if !filling.is_empty() && !lines.has_line() {
                return Ok(Filled::Waits);
            }
            let Some(line) = lines.next_line()? else {
                return Ok(Filled::End);
            };
            source.check_ends(&line)?;
            let origin = Origin {
                source: source.index,
                line: line.number,
                offset: line.offset,
            };
            let (columns, warnings) = (&mut filling.columns, &mut filling.warnings);
            match self.parse(source, &line, columns, warnings)? {
                Some(Ok(record)) => {
                    let fields = |columns: &_| self.fields(source, &line, columns);
                    filling.accept(origin, &record, line.bytes, fields);
                }
                Some(Err(cause)) => {
                    let known = |columns: &_| self.known(source, &line, columns);
                    let fields = |columns: &_| self.fields(source, &line, columns);
                    filling.reject(origin, cause, line.bytes, known, fields);
                }
                None => {}
            }
        }
        Ok(Filled::Full)
    }

    /// Parses one line of `source` for `columns`: a record, why it is a bad one, or nothing that counts.
    ///
    /// # Errors
    /// If the source is of another format.
    fn parse<'a>(
        &mut self,
        source: &SourceFacts,
        line: &Line<'a>,
        columns: &mut InputColumns,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Result<Record<'a>, Cause>>> {
        if line.length > self.limit() as u64 {
            let limit = self.limit();
            return Ok(Some(Err(too_long("record", line.length, limit))));
        }
        if source.format == InputFormat::File
            && let Some(name) = utf16(line.bytes)
        {
            return Ok(Some(Err(is_utf16("the document is", name))));
        }
        let text = match str::from_utf8(line.bytes) {
            Ok(text) => text,
            Err(error) => return Ok(Some(Err(not_utf8(error)))),
        };
        match source.format {
            InputFormat::Text | InputFormat::File if line.bytes.contains(&0) => Ok(Some(Err(
                Cause::of("the record holds a NUL byte, so it is hardly UTF-8 text").with(
                    "convert UTF-16 with `iconv -f UTF-16LE -t UTF-8`, or remove such bytes with `tr -d '\\0'`",
                )))),
            InputFormat::Text | InputFormat::File => {
                self.compare_with_json(source, line.number, text, warnings)?;
                let record = text_record(text, source, line.number, columns);
                Ok(Some(record))
            }
            format if format.is_json() && jsonl::is_blank(line.bytes) => Ok(None),
            InputFormat::Json if jsonl::is_other(text) => {
                let field = &self.options.text_field;
                Ok(Some(Err(jsonl::not_an_element(
                    text,
                    line.number,
                    field,
                ))))
            }
            format if format.is_json() => {
                (self.jsonl.expand(text, columns, warnings))
                    .map_err(|cause| source.usage(cause))?;
                let record = self.jsonl.record(text, source.index, columns);
                Ok(Some(record))
            }
            _ => Err(Error::internal("a table read as lines")),
        }
    }

    /// The known fields of a line that was rejected.
    fn known<'a>(
        &self,
        source: &SourceFacts,
        line: &Line<'a>,
        columns: &InputColumns,
    ) -> RejectedFields<'a> {
        let nothing = RejectedFields::nothing(columns.kept());
        let text = str::from_utf8(line.bytes);
        match (source.format, text) {
            (InputFormat::Text | InputFormat::File, _) => RejectedFields {
                id: text_id(source, line.number, columns),
                ..nothing
            },
            (format, Ok(text)) if format.is_json() && line.length <= self.limit() as u64 => {
                self.jsonl.known(text, columns).unwrap_or(nothing)
            }
            _ => nothing,
        }
    }

    /// The fields of a line's record, as far as they can be read.
    fn fields(
        &self,
        source: &SourceFacts,
        line: &Line<'_>,
        columns: &InputColumns,
    ) -> RecordFields {
        let text = str::from_utf8(line.bytes).ok();
        let text = text.filter(|_| line.length <= self.limit() as u64);
        match (source.format, text) {
            (InputFormat::Text | InputFormat::File, text) => {
                let mut fields = RecordFields::default();
                if let Some(name) = &self.options.id_field {
                    let id = text_id(source, line.number, columns);
                    fields.add(name, |out| id.write_json(out));
                }
                if let Some(text) = text {
                    fields.add_text(&self.options.text_field, text);
                }
                fields
            }
            (format, Some(text)) if format.is_json() => self.jsonl.fields(text, columns),
            _ => RecordFields::default(),
        }
    }

    /// Whether what follows depends on where the window at hand ends: types of kept fields, and which named ones
    /// there are.
    #[must_use]
    pub fn decides(&self, columns: &InputColumns) -> bool {
        columns.undecided() || columns.infers_ids() || self.jsonl.has_unseen()
    }

    /// Whether a record of JSON so far has the field of ids.
    #[must_use]
    pub fn has_ids(&self) -> bool {
        self.jsonl.has_ids()
    }

    /// At the end of a window: a named field that no record of the first one has had.
    pub fn unseen(&mut self) -> Option<UnseenField> {
        self.jsonl.unseen()
    }

    /// Looks whether the first lines of text are JSON whose format was not named: an object, or the beginning of an array
    /// of objects or strings. An array of other values may be text, such as `[1]`.
    ///
    /// # Errors
    /// If they are, and no name says that the source is text; otherwise it is a warning.
    fn compare_with_json(
        &mut self,
        source: &SourceFacts,
        number: u64,
        line: &str,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        if number == 1 && source.format == InputFormat::Text && self.options.format.is_none() {
            self.start = JsonStart::Blank;
        }
        let content = line.trim();
        let is_array = match (self.start, content) {
            (JsonStart::Compared, _) | (_, "") => return Ok(()),
            (JsonStart::Blank, "[") => {
                self.start = JsonStart::Bracket;
                return Ok(());
            }
            (JsonStart::Blank, _) => jsonl::begins_array(content),
            (JsonStart::Bracket, _) => jsonl::begins_array(&format!("[{content}")),
        };
        let is_first = self.start == JsonStart::Blank;
        self.start = JsonStart::Compared;
        match (is_array, source.guessed) {
            (true, true) => Err(Error::usage(format!(
                "{} looks like JSON: it begins with an array of records",
                source.name
            ))
            .with_remedy(format!(
                "say `{INPUT_FORMAT} json` to embed the array's elements, or `{INPUT_FORMAT} text` to embed the lines as \
                 they are"
            ))),
            (true, false) => {
                warnings.push(format!(
                    "{} looks like JSON: it begins with an array of records, but each line is embedded as it is; \
                     `{INPUT_FORMAT} json` embeds the array's elements",
                    source.name
                ));
                Ok(())
            }
            (false, true) if is_first => match self.jsonl.recognises(content) {
                Some(has_text) => Err(self.looks_like_jsonl(source, content, has_text)),
                None => Ok(()),
            },
            (false, _) => Ok(()),
        }
    }

    fn looks_like_jsonl(&self, source: &SourceFacts, line: &str, has_text: bool) -> Error {
        let field = &self.options.text_field;
        let (has, remedy) = if has_text {
            (
                format!(" with the field `{field}`"),
                format!("say `{INPUT_FORMAT} jsonl`"),
            )
        } else {
            (
                format!(" without the field `{field}`{}", jsonl::fields(line)),
                format!(
                    "say `{INPUT_FORMAT} jsonl` and name the field that holds the text with `{TEXT_FIELD}`"
                ),
            )
        };
        Error::usage(format!(
            "{} looks like JSONL: its first record is a JSON object{has}",
            source.name
        ))
        .with_remedy(format!(
            "{remedy} to embed that field, or `{INPUT_FORMAT} text` to embed the lines as they are"
        ))
    }
}

/// The record of line `number`, or of the whole source.
///
/// # Errors
/// If a type was named that the text does not have: the reason.
fn text_record<'a>(
    text: &'a str,
    source: &SourceFacts,
    number: u64,
    columns: &InputColumns,
) -> Result<Record<'a>, Cause> {
    let places = columns.of_places();
    for (index, name) in places.partitions().enumerate() {
        if columns.is_text(name) {
            places.check(index, source.index, text)?;
        }
    }
    Ok(Record {
        text: Cow::Borrowed(text),
        id: text_id(source, number, columns),
        kept: columns.line_cells(text)?,
    })
}

/// The id of line `number`, or of the whole source.
fn text_id(source: &SourceFacts, number: u64, columns: &InputColumns) -> Cell<'static> {
    if !columns.has_ids() {
        return Cell::Null;
    }
    if source.format == InputFormat::File {
        return Cell::String(Cow::Owned(source.name.clone()));
    }
    match columns.has_int_ids() {
        false => Cell::String(Cow::Owned(number.to_string())),
        true => Cell::Int(i64::try_from(number).expect("no source has 2^63 lines")),
    }
}

//! CSV and TSV: a header, and records that may go over several lines.
//!
//! The csv crate reads the fields. Before it, a record's lines are put together here, since it takes any
//! quoting for right and reads on to the end of the file after a quote that is never closed: here such a
//! record is rejected with its line, and reading continues with the next line.

mod records;
mod split;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use csv::ByteRecord;

use self::records::{NextRecord, Records};
use self::split::Split;
use super::input::{InputFacts, InputSpec};
use crate::input::cells::Cell;
use crate::input::columns::InputColumns;
use crate::input::fields::IdType;
use crate::input::json;
use crate::input::options::{Delimiter, InputOptions};
use crate::input::pace::Pace;
use crate::input::parse::{Parser, not_utf8};
use crate::input::reader::{Filled, Reader};
use crate::input::source::{From, Planned};
use crate::input::window::{Filling, Known, Record};
use crate::position::Seek;
use crate::record::{Origin, RecordFields};
use arrow::datatypes::{DataType, Field};
use embedctl_common::error::{Cause, Error, Place, Result};
use embedctl_common::setting::{CSV_DELIMITER, ID_FIELD, ID_TYPE, KEEP, Setting};

/// The format.
pub(super) struct CsvInput {
    /// The byte between fields.
    pub separator: u8,
}

impl InputSpec for CsvInput {
    fn facts(&self) -> InputFacts {
        InputFacts {
            endings: match self.separator {
                b'\t' => &["tsv"],
                _ => &["csv"],
            },
            about: match self.separator {
                b'\t' => "Tab-separated values with a header",
                _ => "Comma-separated values with a header",
            },
            has_header: true,
            ..InputFacts::DEFAULT
        }
    }

    fn open(
        &self,
        source: &Arc<Planned>,
        options: &Arc<InputOptions>,
        from: &mut From<'_>,
        filling: &mut Filling,
    ) -> Result<Option<Box<dyn Reader>>> {
        let separator = Delimiter(self.separator);
        let reader = CsvReader::open(separator, source, options, from, filling)?;
        Ok(Some(Box::new(reader)))
    }
}

/// Reads records of one source.
struct CsvReader {
    source: Arc<Planned>,
    records: Records,
    split: Split,
    asked: AskedFields,
}

/// The asked fields of a source's records.
struct AskedFields {
    source: Arc<Planned>,
    options: Arc<InputOptions>,
    header: Vec<String>,
    /// Numbers of the asked fields in the header.
    text: Vec<usize>,
    id: Option<usize>,
    kept: Vec<Option<usize>>,
}

impl CsvReader {
    /// Reads the header; fields are separated by `separator` unless the options say otherwise.
    fn open(
        separator: Delimiter,
        source: &Arc<Planned>,
        options: &Arc<InputOptions>,
        from: &mut From<'_>,
        filling: &mut Filling,
    ) -> Result<Self> {
        let (columns, warnings) = (&mut filling.columns, &mut filling.warnings);
        let Delimiter(delimiter) = options.csv_delimiter.unwrap_or(separator);
        let limit = options.max_record_bytes;
        let whole = Planned {
            start: None,
            ..Planned::clone(source)
        };
        let opened = whole.open(from, limit)?;
        let mut records = Records::new(opened, delimiter, limit);
        let mut split = Split::new(delimiter);
        let header = match records.next(source, true)? {
            NextRecord::End | NextRecord::Waits => Vec::new(),
            NextRecord::Record => header(source, split.fields(&records.record)?)?,
            NextRecord::Bad(cause) => {
                return Err(
                    source.usage(cause.map(|why| format!("the header cannot be read: {why}")))
                );
            }
        };
        if let [only] = header.as_slice()
            && let Some(other) = only.chars().find(|byte| ",;\t|".contains(*byte))
        {
            return Err(source
                .usage(format!(
                    "the header is one field, `{}`; expected fields separated by {}",
                    json::excerpt(only),
                    Delimiter(delimiter)
                ))
                .with_remedy(match other {
                    '\t' => "say `-i tsv`".to_owned(),
                    other => format!("say `{CSV_DELIMITER} '{other}'` if that is the separator"),
                }));
        }
        let mut asked = AskedFields {
            source: Arc::clone(source),
            options: Arc::clone(options),
            header,
            text: Vec::new(),
            id: None,
            kept: Vec::new(),
        };
        if !asked.header.is_empty() {
            asked.find(columns, warnings)?;
        }
        let mut reader = Self {
            source: Arc::clone(source),
            records,
            split,
            asked,
        };
        match source.start {
            Some((_, Seek::Byte { .. })) => {
                reader.records = Records::new(source.open(from, limit)?, delimiter, limit);
            }
            Some((lines, _)) => reader.records.skip(source, lines)?,
            None => {}
        }
        Ok(reader)
    }
}

impl AskedFields {
    /// Finds the asked fields in the header.
    fn find(&mut self, columns: &mut InputColumns, warnings: &mut Vec<String>) -> Result<()> {
        let (source, options, header) = (&self.source, &self.options, &self.header);
        let names = || header.iter().map(String::as_str);
        // The place of each name, and whether it is there twice: there may be a hundred thousand of them.
        let mut places: HashMap<&str, (usize, bool)> = HashMap::with_capacity(header.len());
        for (index, name) in names().enumerate() {
            let place = places.entry(name);
            place.and_modify(|it| it.1 = true).or_insert((index, false));
        }
        let find = |option: Setting, name: &str| match places.get(name) {
            Some((_, true)) => Err(source
                .usage(format!(
                    "there are several columns called `{name}` (`{option}`)"
                ))
                .with_remedy("rename all but one of them")),
            found => Ok(found.map(|(index, _)| *index)),
        };
        let (option, texts) = options.texts();
        for name in texts {
            let found = find(option, name)?;
            self.text
                .push(found.ok_or_else(|| source.missing(option, name, names()))?);
        }
        self.id = find(ID_FIELD, &options.id_field)?;
        if self.id.is_none() && options.names_id() {
            return Err(source.missing(ID_FIELD, &options.id_field, names()));
        }
        columns
            .expand(names(), &options.id_field, warnings)
            .map_err(|cause| source.usage(cause))?;
        for name in columns.names() {
            let found = find(KEEP, name)?;
            if found.is_none() {
                if !columns.is_fixed() {
                    return Err(source.missing(KEEP, name, names()));
                }
                warnings.push(format!(
                    "{}: there is no column `{name}`, so it is null in its rows",
                    source.name
                ));
            }
            self.kept.push(found);
        }
        let text = |found: &Option<usize>| {
            found.map(|index| Arc::new(Field::new(&header[index], DataType::Utf8, true)))
        };
        let fields: Vec<_> = self.kept.iter().map(text).collect();
        columns.adopt(&fields).map_err(|cause| source.usage(cause))
    }

    /// The record of those fields.
    fn record<'a>(&self, fields: &[&'a str], columns: &InputColumns) -> Result<Record<'a>, Cause> {
        if fields.len() != self.header.len() {
            return Err(Cause::of(format!(
                "the record has {} fields, and the header has {}",
                fields.len(),
                self.header.len()
            ))
            .with("quote a field that holds the separator or a line break, or mend the line"));
        }
        let text = match &self.options.text_template {
            None => Cow::Borrowed(fields[self.text[0]]),
            Some(template) => Cow::Owned(template.text(self.text.iter().map(|&index| {
                let text = Some(fields[index]).filter(|text| !text.is_empty());
                text.map(Cow::Borrowed)
            }))?),
        };
        Ok(Record {
            text,
            id: self.id(fields)?,
            kept: self.kept(fields, columns).collect::<Result<_, _>>()?,
        })
    }

    /// The known fields of a record that was rejected.
    fn known<'a>(&self, fields: &[&'a str], columns: &InputColumns) -> Known<'a> {
        // Which field is which cannot be told.
        if fields.len() != self.header.len() {
            return Known::nothing(columns.kept());
        }
        let kept = self.kept(fields, columns);
        Known {
            id: self.id(fields).unwrap_or(Cell::Null),
            kept: kept.map(|cell| cell.unwrap_or(Cell::Null)).collect(),
        }
    }

    /// The requested fields of a record; a value that its column does not take stays as written.
    fn fields(&self, fields: &[&str], columns: &InputColumns) -> RecordFields {
        let mut own = RecordFields::default();
        if fields.len() != self.header.len() {
            return own;
        }
        let mut add = |name: &str, cell: Result<Cell<'_>, Cause>, written: &str| match cell {
            Ok(cell) => own.add(name, |out| cell.write_json(out)),
            Err(_) => own.add_text(name, written),
        };
        if let Some(index) = self.id {
            add(&self.options.id_field, self.id(fields), fields[index]);
        }
        let (_, texts) = self.options.texts();
        for (name, &index) in texts.iter().zip(&self.text) {
            add(name, Ok(Cell::String(Cow::Borrowed(fields[index]))), "");
        }
        let kept = self.kept(fields, columns).zip(&self.kept);
        for (name, (cell, index)) in columns.names().zip(kept) {
            if let Some(index) = index {
                add(name, cell, fields[*index]);
            }
        }
        own
    }

    fn id<'a>(&self, fields: &[&'a str]) -> Result<Cell<'a>, Cause> {
        Ok(match self.id.map(|index| fields[index]) {
            None | Some("") => Cell::Null,
            Some(id) => match self.options.id_type {
                IdType::String => Cell::String(Cow::Borrowed(id)),
                IdType::Int => id.parse().map(Cell::Int).map_err(|_| {
                    Cause::of(format!(
                        "the id `{}` is not a 64-bit integer ({})",
                        self.options.id_field,
                        json::excerpt(id)
                    ))
                    .with(format!("use `{ID_TYPE} string`"))
                })?,
            },
        })
    }

    fn kept<'a>(
        &self,
        fields: &[&'a str],
        columns: &InputColumns,
    ) -> impl Iterator<Item = Result<Cell<'a>, Cause>> {
        let kept = self.kept.iter().enumerate();
        kept.map(|(column, field)| match field {
            Some(field) => columns.text_cell(column, fields[*field]),
            None => Ok(Cell::Null),
        })
    }
}

fn header(source: &Planned, fields: &ByteRecord) -> Result<Vec<String>> {
    let names = fields.iter().map(|name| String::from_utf8(name.to_vec()));
    names.collect::<Result<_, _>>().map_err(|_| {
        Error::input(Place::file(&source.name), "its header is not valid UTF-8")
            .with_remedy("convert the input, for example with `iconv -t UTF-8`")
    })
}

impl Reader for CsvReader {
    fn fill(&mut self, _: &mut Parser, filling: &mut Filling, pace: &mut Pace) -> Result<Filled> {
        while !filling.is_full() {
            // Records that are whole don't wait for the end of one that is not.
            let found = self.records.next(&self.source, filling.is_empty())?;
            match found {
                NextRecord::End => return Ok(Filled::End),
                NextRecord::Waits if pace.pauses(false) => break,
                NextRecord::Waits => {
                    self.records.read_on(&self.source)?;
                    continue;
                }
                NextRecord::Record | NextRecord::Bad(_) => {}
            }
            let origin = Origin {
                source: self.source.index,
                ..self.records.origin
            };
            let raw = self.records.record.as_slice();
            if let NextRecord::Bad(cause) = found {
                let nothing = |columns: &InputColumns| Known::nothing(columns.kept());
                filling.reject(origin, cause, raw, nothing, |_| RecordFields::default());
                continue;
            }
            if let Err(error) = std::str::from_utf8(raw) {
                let nothing = |columns: &InputColumns| Known::nothing(columns.kept());
                let cause = not_utf8(error);
                filling.reject(origin, cause, raw, nothing, |_| RecordFields::default());
                continue;
            }
            let fields = self.split.fields(raw)?;
            let fields = fields
                .iter()
                .map(std::str::from_utf8)
                .collect::<Result<Vec<_>, _>>();
            let fields = fields.map_err(|error| Error::internal(error.to_string()))?;
            let own = |columns: &InputColumns| self.asked.fields(&fields, columns);
            match self.asked.record(&fields, &filling.columns) {
                Ok(record) => filling.accept(origin, &record, raw, own),
                Err(cause) => {
                    let known = |columns: &InputColumns| self.asked.known(&fields, columns);
                    filling.reject(origin, cause, raw, known, own);
                }
            }
        }
        Ok(Filled::Window)
    }

    fn consumed(&self) -> u64 {
        self.records.opened.consumed()
    }

    fn place(&self) -> (u64, Seek) {
        self.records.place()
    }
}

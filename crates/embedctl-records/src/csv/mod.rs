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

use self::records::{NextRecord, Records};
use self::split::{Split, SplitFields};
use crate::cells::Cell;
use crate::columns::InputColumns;
use crate::csv_options::{CsvDialect, Delimiter};
use crate::fault::{CONVERT, no_text, not_utf8};
use crate::json;
use crate::lines::{Filled, LineReader, ReadFault};
use crate::options::InputOptions;
use crate::record::{Origin, RecordFields};
use crate::source::SourceFacts;
use crate::window::{OpenWindow, Record, RejectedFields};
use arrow::datatypes::{DataType, Field};
use embedctl_common::error::{Cause, Error, Place, Result};
use embedctl_common::setting::{
    CSV_DELIMITER, CSV_QUOTE, ID_FIELD, ID_TYPE, INPUT_FORMAT, KEEP, Setting,
};

/// Lines of a quoted field that need no warning.
const FEW_LINES: u64 = 5;

/// Reads records of one source.
pub struct CsvRows {
    source: SourceFacts,
    dialect: CsvDialect,
    records: Records,
    split: Split,
    asked: RequestedFields,
    /// Whether the user was told of a quoted field over many lines.
    has_warned: bool,
}

/// The asked fields of a source's records.
struct RequestedFields {
    options: Arc<InputOptions>,
    header: Vec<String>,
    /// Numbers of the asked fields in the header.
    text: Vec<usize>,
    id: Option<usize>,
    /// The fields that are called like a partition.
    partitions: Vec<Option<usize>>,
    kept: Vec<Option<usize>>,
}

impl CsvRows {
    /// Reads the header.
    ///
    /// # Errors
    /// If the source cannot be read, or its header lacks a field that was named.
    pub fn open(
        dialect: CsvDialect,
        source: &SourceFacts,
        options: &Arc<InputOptions>,
        lines: &mut LineReader,
        filling: &mut OpenWindow,
    ) -> Result<Self, ReadFault> {
        let (columns, warnings) = (&mut filling.columns, &mut filling.warnings);
        let limit = options.max_record_bytes;
        let mut records = Records::new(dialect, limit);
        let mut split = Split::new(dialect, options.csv.null.as_deref());
        let header = match records.next(source, lines, true)? {
            NextRecord::End | NextRecord::Waits => Vec::new(),
            NextRecord::Record => {
                if let Some(delimiter) = separator_line(&records.record) {
                    let reason = format!(
                        "the first line is not the header, but names the separator for Excel (sep={delimiter})"
                    );
                    let typed = match delimiter {
                        '\t' => "\\t".to_owned(),
                        other => other.to_string(),
                    };
                    return Err(source
                        .usage(reason)
                        .with_remedy(format!(
                            "remove that line (`tail -n +2`), and say `{CSV_DELIMITER} '{typed}'`"
                        ))
                        .into());
                }
                header(source, split.fields(&records.record)?)?
            }
            NextRecord::Misquoted(cause) if dialect.is_doubtful() => {
                return Err(doubtful(source, 1, &cause.reason).into());
            }
            NextRecord::Bad(cause) | NextRecord::Misquoted(cause) => {
                return Err(source
                    .usage(cause.map(|why| format!("the header cannot be read: {why}")))
                    .into());
            }
        };
        if let [only] = header.as_slice()
            && let Some(other) = only.chars().find(|byte| ",;\t|".contains(*byte))
        {
            return Err(source
                .usage(format!(
                    "the header is one field, `{}`; expected fields separated by {}",
                    json::excerpt(only),
                    Delimiter(dialect.delimiter)
                ))
                .with_remedy(match other {
                    '\t' => format!("say `{INPUT_FORMAT} tsv`"),
                    other => format!("say `{CSV_DELIMITER} '{other}'` if that is the separator"),
                })
                .into());
        }
        let mut asked = RequestedFields {
            options: Arc::clone(options),
            header,
            text: Vec::new(),
            id: None,
            partitions: Vec::new(),
            kept: Vec::new(),
        };
        if !asked.header.is_empty() {
            asked.find(source, columns, warnings)?;
        }
        Ok(Self {
            source: source.clone(),
            dialect,
            records,
            split,
            asked,
            has_warned: false,
        })
    }

    /// Passes over the lines before number `count`, and that one.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn skip(&mut self, lines: &mut LineReader, count: u64) -> Result<(), ReadFault> {
        self.records.skip(&self.source, lines, count)
    }

    /// Goes on with other lines of the source.
    pub fn begin_again(&mut self) {
        self.records = Records::new(self.dialect, self.records.limit);
    }

    /// Where the next record stands, if it begins before the line that is read next: the lines before it, and its byte.
    #[must_use]
    pub fn place(&self) -> Option<(u64, u64)> {
        self.records.place()
    }

    /// Adds the records of the lines at hand to `filling`. An empty window waits for its first record here.
    ///
    /// # Errors
    /// If the source cannot be read, or is of another format.
    pub fn fill(
        &mut self,
        lines: &mut LineReader,
        filling: &mut OpenWindow,
    ) -> Result<Filled, ReadFault> {
        while !filling.is_full() {
            // Records that are whole don't wait for the end of one that is not.
            let found = self.records.next(&self.source, lines, filling.is_empty())?;
            match found {
                NextRecord::End => return Ok(Filled::End),
                NextRecord::Waits => return Ok(Filled::Waits),
                NextRecord::Misquoted(cause) if self.dialect.is_doubtful() => {
                    let line = self.records.origin.line;
                    return Err(doubtful(&self.source, line, &cause.reason).into());
                }
                NextRecord::Record => self.check_lines(&mut filling.warnings)?,
                NextRecord::Bad(_) | NextRecord::Misquoted(_) => {}
            }
            let origin = Origin {
                source: self.source.index,
                ..self.records.origin
            };
            let raw = self.records.record.as_slice();
            if let NextRecord::Bad(cause) | NextRecord::Misquoted(cause) = found {
                let nothing = |columns: &InputColumns| RejectedFields::nothing(columns.kept());
                filling.reject(origin, cause, raw, nothing, |_| RecordFields::default());
                continue;
            }
            if let Err(error) = std::str::from_utf8(raw) {
                let nothing = |columns: &InputColumns| RejectedFields::nothing(columns.kept());
                let cause = not_utf8(error);
                filling.reject(origin, cause, raw, nothing, |_| RecordFields::default());
                continue;
            }
            let fields = self.split.fields(raw)?;
            let fields = fields.texts()?;
            let own = |columns: &InputColumns| self.asked.fields(&fields, columns);
            match self.asked.record(&fields, origin.source, &filling.columns) {
                Ok(record) => filling.accept(origin, &record, raw, own),
                Err(cause) => {
                    let known = |columns: &InputColumns| self.asked.known(&fields, columns);
                    filling.reject(origin, cause, raw, known, own);
                }
            }
        }
        Ok(Filled::Full)
    }

    /// Looks at the lines of a record with a quoted field over several of them. If each is a record by itself, quotes are
    /// ordinary characters, or the file is strange: TSV is refused then. A field over many lines is worth a warning.
    ///
    /// # Errors
    /// For such TSV.
    fn check_lines(&mut self, warnings: &mut Vec<String>) -> Result<()> {
        let lines = self.records.record_lines();
        if lines < 2 || self.dialect.is_named {
            return Ok(());
        }
        let line = self.records.origin.line;
        let are_whole =
            self.asked.header.len() > 1 && self.records.are_whole(self.asked.header.len());
        if are_whole && self.dialect.is_doubtful() {
            let last = line + lines - 1;
            let reason = format!(
                "a quoted field that begins here ends on line {last}, but each of these lines has as many fields as the \
                 header"
            );
            return Err(doubtful(&self.source, line, &reason));
        }
        if (are_whole || lines > FEW_LINES) && !std::mem::replace(&mut self.has_warned, true) {
            warnings.push(format!(
                "{}:{line}: a quoted field goes over {lines} lines; say `{CSV_QUOTE} none` if quotes are ordinary \
                 characters here, or `{CSV_QUOTE} '\"'` if that is right",
                self.source.name
            ));
        }
        Ok(())
    }
}

impl RequestedFields {
    /// Finds the asked fields in the header.
    fn find(
        &mut self,
        source: &SourceFacts,
        columns: &mut InputColumns,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let (options, header) = (&self.options, &self.header);
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
        self.id = match &options.id_field {
            None => None,
            Some(name) => match find(ID_FIELD, name)? {
                None if options.names_id() => {
                    return Err(source.missing(ID_FIELD, name, names()));
                }
                found => found,
            },
        };
        columns.find_ids(self.id.is_some());
        let partitions = columns.of_places().partitions();
        self.partitions = partitions
            .map(|name| find(KEEP, name))
            .collect::<Result<_>>()?;
        columns
            .expand(names(), warnings)
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
        columns
            .adopt(None, &fields)
            .map_err(|cause| source.usage(cause))
    }

    /// The record of those fields.
    fn record<'a>(
        &self,
        fields: &[Option<&'a str>],
        source: u32,
        columns: &InputColumns,
    ) -> Result<Record<'a>, Cause> {
        if fields.len() != self.header.len() {
            return Err(Cause::of(format!(
                "the record has {} fields, but the header has {}",
                fields.len(),
                self.header.len()
            ))
            .with("quote a field that holds the separator or a line break, or mend the line"));
        }
        let text = match &self.options.text_template {
            None => match fields[self.text[0]] {
                Some(text) => Cow::Borrowed(text),
                None => return Err(no_text("the record", &self.options.text_field)),
            },
            Some(template) => Cow::Owned(template.text(self.text.iter().map(|&index| {
                let is_pair = template.is_pair();
                let text = fields[index].filter(|text| is_pair || !text.is_empty());
                text.map(Cow::Borrowed)
            }))?),
        };
        for (number, found) in self.partitions.iter().enumerate() {
            let value = found.and_then(|index| fields[index]);
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                columns.of_places().check(number, source, value)?;
            }
        }
        Ok(Record {
            text,
            id: self.id(fields, columns)?,
            kept: self.kept(fields, columns).collect::<Result<_, _>>()?,
        })
    }

    /// The known fields of a record that was rejected.
    fn known<'a>(&self, fields: &[Option<&'a str>], columns: &InputColumns) -> RejectedFields<'a> {
        // Which field is which cannot be told.
        if fields.len() != self.header.len() {
            return RejectedFields::nothing(columns.kept());
        }
        let kept = self.kept(fields, columns);
        RejectedFields {
            id: self.id(fields, columns).unwrap_or(Cell::Null),
            kept: kept.map(|cell| cell.unwrap_or(Cell::Null)).collect(),
        }
    }

    /// The requested fields of a record; a value that its column does not take stays as written.
    fn fields(&self, fields: &[Option<&str>], columns: &InputColumns) -> RecordFields {
        let mut own = RecordFields::default();
        if fields.len() != self.header.len() {
            return own;
        }
        let mut add = |name: &str, cell: Result<Cell<'_>, Cause>, written: Option<&str>| match cell
        {
            Ok(cell) => own.add(name, |out| cell.write_json(out)),
            Err(_) => own.add_text(name, written.unwrap_or_default()),
        };
        if let (Some(index), Some(name)) = (self.id, &self.options.id_field) {
            add(name, self.id(fields, columns), fields[index]);
        }
        let (_, texts) = self.options.texts();
        for (name, &index) in texts.iter().zip(&self.text) {
            let text = fields[index].map(Cow::Borrowed);
            add(name, Ok(text.map_or(Cell::Null, Cell::String)), None);
        }
        let kept = self.kept(fields, columns).zip(&self.kept);
        for (name, (cell, index)) in columns.names().zip(kept) {
            if let Some(index) = index {
                add(name, cell, fields[*index]);
            }
        }
        own
    }

    fn id<'a>(
        &self,
        fields: &[Option<&'a str>],
        columns: &InputColumns,
    ) -> Result<Cell<'a>, Cause> {
        Ok(match self.id.and_then(|index| fields[index]) {
            None | Some("") => Cell::Null,
            Some(id) => match columns.has_int_ids() {
                false => Cell::String(Cow::Borrowed(id)),
                true => id
                    .parse()
                    .ok()
                    .or_else(|| json::whole(id))
                    .map(Cell::Int)
                    .ok_or_else(|| {
                        Cause::of(format!(
                            "the id `{}` is not a 64-bit integer ({})",
                            self.options.id_field.as_deref().unwrap_or_default(),
                            json::excerpt(id)
                        ))
                        .with(format!("use `{ID_TYPE} string`"))
                    })?,
            },
        })
    }

    fn kept<'a>(
        &self,
        fields: &[Option<&'a str>],
        columns: &InputColumns,
    ) -> impl Iterator<Item = Result<Cell<'a>, Cause>> {
        let kept = self.kept.iter().enumerate();
        kept.map(
            |(column, field)| match field.and_then(|field| fields[field]) {
                Some(field) => columns.text_cell(column, field),
                None => Ok(Cell::Null),
            },
        )
    }
}

/// The error for TSV whose quotes seem to be ordinary characters.
fn doubtful(source: &SourceFacts, line: u64, reason: &str) -> Error {
    let reason = format!("{reason}; TSV files often have no quoting");
    Error::record(
        Place::file(&source.name).line(line),
        Cause::of(reason).with(format!(
            "say `{CSV_QUOTE} none` if quotes are ordinary characters here, or `{CSV_QUOTE} '\"'` if fields are quoted"
        )),
    )
}

/// The separator that Excel reads in a line before the header: `sep=;`, with or without quotes.
fn separator_line(line: &[u8]) -> Option<char> {
    let line = std::str::from_utf8(line)
        .ok()?
        .trim_end_matches(['\r', '\n']);
    let quoted = line
        .strip_prefix('"')
        .and_then(|line| line.strip_suffix('"'));
    let line = quoted.unwrap_or(line);
    let named = line
        .strip_prefix("sep=")
        .or_else(|| line.strip_prefix("SEP="));
    let mut named = named?.chars();
    named.next().filter(|_| named.next().is_none())
}

fn header(source: &SourceFacts, fields: &SplitFields) -> Result<Vec<String>> {
    let names = fields
        .bytes
        .iter()
        .map(|name| String::from_utf8(name.to_vec()));
    names.collect::<Result<_, _>>().map_err(|_| {
        Error::input(Place::file(&source.name), "its header is not valid UTF-8")
            .with_remedy(CONVERT)
    })
}

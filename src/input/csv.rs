//! CSV and TSV: a header, and records that may go over several lines.
//!
//! The csv crate reads the fields. Before it, a record's lines are put together here, since it takes any
//! quoting for right and reads on to the end of the file after a quote that is never closed: here such a
//! record is rejected with its line, and reading goes on with the next line.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use csv::{ByteRecord, ReaderBuilder, Terminator};

use super::cells::Cell;
use super::columns::Columns;
use super::fields::IdType;
use super::format::InputFormat;
use super::json;
use super::options::InputOptions;
use super::pace::Pace;
use super::parse::{Parser, not_utf8, too_long};
use super::reader::{Filled, Reader};
use super::source::{From, OpenSource, Planned};
use super::window::{Filling, Record};
use crate::error::{Error, Place, Result};
use crate::position::Seek;
use crate::record::Origin;

/// Reads records of one source.
pub(super) struct CsvReader {
    source: Arc<Planned>,
    records: Records,
    split: Split,
    asked: Asked,
}

/// What is asked of a source's records.
struct Asked {
    source: Arc<Planned>,
    options: Arc<InputOptions>,
    header: Vec<String>,
    /// Numbers of the asked fields in the header.
    text: Vec<usize>,
    id: Option<usize>,
    kept: Vec<Option<usize>>,
}

impl CsvReader {
    /// Reads the header.
    pub(super) fn open(
        source: &Arc<Planned>,
        options: &Arc<InputOptions>,
        from: &mut From<'_>,
        filling: &mut Filling,
    ) -> Result<Self> {
        let (columns, warnings) = (&mut filling.columns, &mut filling.warnings);
        let delimiter = match source.format {
            InputFormat::Tsv => b'\t',
            _ => b',',
        };
        let limit = options.max_record_bytes;
        let whole = Planned {
            start: None,
            ..Planned::clone(source)
        };
        let opened = whole.open(from, limit)?;
        let mut records = Records::new(opened, delimiter, limit);
        let mut split = Split::new(delimiter);
        let header = match records.next(source)? {
            None => Vec::new(),
            Some(Found::Record) => header(source, split.fields(&records.record)?)?,
            Some(Found::Bad(reason)) => {
                return Err(source.usage(format!("the header cannot be read: {reason}")));
            }
        };
        if header.len() == 1 && header[0].contains([';', '\t', '|']) {
            return Err(source.usage(format!(
                "the header is one field, `{}`, so its fields are parted by something else than {}; convert the \
                 file, or say `-i tsv` if it is TSV",
                json::excerpt(&header[0]),
                if delimiter == b'\t' { "tabs" } else { "commas" }
            )));
        }
        let mut asked = Asked {
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

impl Asked {
    /// Finds the asked fields in the header.
    fn find(&mut self, columns: &mut Columns, warnings: &mut Vec<String>) -> Result<()> {
        let (source, options, header) = (&self.source, &self.options, &self.header);
        let names = || header.iter().map(String::as_str);
        let find = |option: &str, name: &str| match names().filter(|field| *field == name).count() {
            0 | 1 => Ok(names().position(|field| field == name)),
            _ => Err(source.usage(format!(
                "there are several columns called `{name}` (`{option}`); rename all but one of them"
            ))),
        };
        let (option, texts) = options.texts();
        for name in texts {
            let found = find(option, name)?;
            self.text
                .push(found.ok_or_else(|| source.missing(option, name, names()))?);
        }
        self.id = find("--id-field", &options.id_field)?;
        if self.id.is_none() && options.names_id() {
            return Err(source.missing("--id-field", &options.id_field, names()));
        }
        columns
            .expand(names(), &options.id_field, warnings)
            .map_err(|reason| source.usage(reason))?;
        for name in columns.names() {
            let found = find("--keep", name)?;
            if found.is_none() {
                if !columns.is_fixed() {
                    return Err(source.missing("--keep", name, names()));
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
            .adopt(&fields)
            .map_err(|reason| source.usage(reason))
    }

    /// The record of those fields.
    fn record<'a>(&self, fields: &[&'a str], columns: &Columns) -> Result<Record<'a>, String> {
        if fields.len() != self.header.len() {
            return Err(format!(
                "the record has {} fields, and the header has {}; quote a field that holds the separator or a \
                 line break, or mend the line",
                fields.len(),
                self.header.len()
            ));
        }
        let text = match &self.options.text_template {
            None => Cow::Borrowed(fields[self.text[0]]),
            Some(template) => Cow::Owned(template.text(|index| {
                Some(fields[self.text[index]])
                    .filter(|text| !text.is_empty())
                    .map(Cow::Borrowed)
            })?),
        };
        let id = match self.id.map(|index| fields[index]) {
            None | Some("") => Cell::Null,
            Some(id) => match self.options.id_type {
                IdType::String => Cell::String(Cow::Borrowed(id)),
                IdType::Int => id.parse().map(Cell::Int).map_err(|_| {
                    format!(
                        "the id `{}` is no integer of 64 bits ({}); use `--id-type string`",
                        self.options.id_field,
                        json::excerpt(id)
                    )
                })?,
            },
        };
        let kept = self.kept.iter().enumerate();
        let kept = kept.map(|(column, field)| match field {
            Some(field) => columns.text_cell(column, fields[*field]),
            None => Ok(Cell::Null),
        });
        Ok(Record {
            text,
            id,
            kept: kept.collect::<Result<_, _>>()?,
        })
    }
}

fn header(source: &Planned, fields: &ByteRecord) -> Result<Vec<String>> {
    let names = fields.iter().map(|name| String::from_utf8(name.to_vec()));
    names.collect::<Result<_, _>>().map_err(|_| {
        Error::input(
            Place::file(&source.name),
            "its header is not valid UTF-8; convert the input, for example with `iconv -t UTF-8`",
        )
    })
}

impl Reader for CsvReader {
    fn fill(&mut self, _: &mut Parser, filling: &mut Filling, pace: &mut Pace) -> Result<Filled> {
        while !filling.is_full() {
            if !filling.is_empty() && !self.records.has_line() && pace.pauses() {
                break;
            }
            let Some(found) = self.records.next(&self.source)? else {
                return Ok(Filled::End);
            };
            let origin = Origin {
                source: self.source.index,
                ..self.records.origin
            };
            let raw = self.records.record.as_slice();
            if let Found::Bad(reason) = found {
                filling.reject(origin, reason, raw);
                continue;
            }
            if let Err(error) = std::str::from_utf8(raw) {
                filling.reject(origin, not_utf8(error), raw);
                continue;
            }
            let fields = self.split.fields(raw)?;
            let fields = fields
                .iter()
                .map(std::str::from_utf8)
                .collect::<Result<Vec<_>, _>>();
            let fields = fields.map_err(|error| Error::internal(error.to_string()))?;
            match self.asked.record(&fields, &filling.columns) {
                Ok(record) => filling.accept(origin, &record, raw),
                Err(reason) => filling.reject(origin, reason, raw),
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

/// Splits records into fields.
struct Split {
    csv: csv::Reader<Feed>,
    fields: ByteRecord,
}

/// One record at a time for the csv crate, with its end of line, so that it never sees an end of input.
struct Feed {
    bytes: Vec<u8>,
    at: usize,
}

impl Read for Feed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = (&self.bytes[self.at..]).read(into)?;
        self.at += bytes;
        Ok(bytes)
    }
}

impl Split {
    fn new(delimiter: u8) -> Self {
        let feed = Feed {
            bytes: Vec::new(),
            at: 0,
        };
        Self {
            csv: ReaderBuilder::new()
                .has_headers(false)
                .flexible(true)
                .delimiter(delimiter)
                .terminator(Terminator::Any(b'\n'))
                .from_reader(feed),
            fields: ByteRecord::new(),
        }
    }

    /// The fields of one whole record.
    fn fields(&mut self, record: &[u8]) -> Result<&ByteRecord> {
        let feed = self.csv.get_mut();
        feed.bytes.clear();
        feed.bytes.extend_from_slice(record);
        feed.bytes.push(b'\n');
        feed.at = 0;
        match self.csv.read_byte_record(&mut self.fields) {
            Ok(true) => Ok(&self.fields),
            Ok(false) => Err(Error::internal("a record of CSV without fields")),
            Err(error) => Err(Error::internal(error.to_string())),
        }
    }
}

/// What the next record is; its lines are in [`Records::record`].
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Record,
    Bad(String),
}

/// Puts records together from lines.
struct Records {
    opened: OpenSource,
    delimiter: u8,
    limit: usize,
    record: Vec<u8>,
    origin: Origin,
    /// Lines that were read in vain, as a part of a record that was none.
    again: VecDeque<Kept>,
}

/// A line, kept.
struct Kept {
    /// With its end.
    bytes: Vec<u8>,
    /// How much of that is the end.
    end: usize,
    number: u64,
    offset: u64,
    length: u64,
}

impl Records {
    fn new(opened: OpenSource, delimiter: u8, limit: usize) -> Self {
        Self {
            opened,
            delimiter,
            limit,
            record: Vec::new(),
            origin: Origin {
                source: 0,
                line: 0,
                offset: 0,
            },
            again: VecDeque::new(),
        }
    }

    fn has_line(&mut self) -> bool {
        !self.again.is_empty() || self.opened.lines.has_line()
    }

    /// Where the next record stands.
    fn place(&self) -> (u64, Seek) {
        let (lines, seek) = self.opened.place();
        match (self.again.front(), seek) {
            (None, seek) => (lines, seek),
            (Some(line), Seek::Byte { .. }) => (line.number - 1, Seek::Byte { byte: line.offset }),
            (Some(line), seek) => (line.number - 1, seek),
        }
    }

    /// Passes over the lines before number `lines`, and that one.
    fn skip(&mut self, source: &Planned, lines: u64) -> Result<()> {
        while self.place().0 < lines {
            if self.line(source)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn line(&mut self, source: &Planned) -> Result<Option<Kept>> {
        if let Some(line) = self.again.pop_front() {
            return Ok(Some(line));
        }
        let (number, offset, length, bytes) = match self.opened.lines.next() {
            Ok(None) => return Ok(None),
            Ok(Some(line)) => (line.number, line.offset, line.length, line.bytes.to_vec()),
            Err(error) => return Err(source.failed(&self.opened, error)),
        };
        // The line's end is not told, but how long it is.
        let end = self.opened.lines.offset() - offset - length;
        let end = usize::try_from(end).expect("an end of line is two bytes at most");
        let mut bytes = bytes;
        bytes.extend_from_slice(match end {
            0 => b"",
            1 => b"\n",
            _ => b"\r\n",
        });
        Ok(Some(Kept {
            bytes,
            end,
            number,
            offset,
            length,
        }))
    }

    /// The next record, blank lines passed over; `None` at the end.
    fn next(&mut self, source: &Planned) -> Result<Option<Found>> {
        let first = loop {
            match self.line(source)? {
                None => return Ok(None),
                Some(line) if line.length == 0 => {}
                Some(line) => break line,
            }
        };
        self.origin.line = first.number;
        self.origin.offset = first.offset;
        self.record.clear();
        self.record
            .extend_from_slice(&first.bytes[..first.bytes.len() - first.end]);
        if first.length > self.limit as u64 {
            return Ok(Some(Found::Bad(too_long(first.length, self.limit))));
        }
        let mut quotes = Quotes::Start;
        if memchr::memchr(b'"', &first.bytes).is_none() {
            return Ok(Some(Found::Record));
        }
        let mut lines: Vec<Kept> = Vec::new();
        let mut size = first.bytes.len();
        let mut last = &first;
        let bad = loop {
            let content = &last.bytes[..last.bytes.len() - last.end];
            if quotes.over(content, self.delimiter).is_err() {
                break format!(
                    "its quoting is wrong: on line {} a quoted field goes on behind its closing quote; double the \
                     quotes inside of a field (`\"\"`)",
                    last.number
                );
            }
            if quotes != Quotes::Inside {
                self.record.clear();
                for line in [&first].into_iter().chain(&lines) {
                    self.record.extend_from_slice(&line.bytes);
                }
                let end = last.end;
                self.record.truncate(self.record.len() - end);
                return Ok(Some(Found::Record));
            }
            match self.line(source)? {
                None => {
                    break "its quoting is wrong: a quoted field that begins here is never closed; close it, or \
                           double the quotes inside of a field (`\"\"`)"
                        .to_owned();
                }
                Some(line) => {
                    size = size.saturating_add(usize::try_from(line.length).unwrap_or(usize::MAX));
                    lines.push(line);
                    if size > self.limit {
                        break format!(
                            "a quoted field that begins here is not closed within {} bytes; close it, or raise the \
                             limit with `--max-record-bytes`",
                            self.limit
                        );
                    }
                }
            }
            last = lines.last().expect("one was just put there");
        };
        // Only its first line is given up.
        for line in lines.into_iter().rev() {
            self.again.push_front(line);
        }
        Ok(Some(Found::Bad(bad)))
    }
}

/// Where a record's quotes stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    /// At the start of a field.
    Start,
    /// In a field that does not begin with a quote; others mean nothing there.
    Plain,
    /// In a quoted field.
    Inside,
    /// Behind a quote in a quoted field: its end, or the first of two.
    Closed,
}

impl Quotes {
    /// Goes over a line of the record; an error where something follows a closing quote.
    fn over(&mut self, line: &[u8], delimiter: u8) -> Result<(), ()> {
        if *self != Self::Inside {
            *self = Self::Start;
        }
        for &byte in line {
            *self = match (*self, byte) {
                (Self::Inside, b'"') => Self::Closed,
                (Self::Inside, _) | (Self::Start | Self::Closed, b'"') => Self::Inside,
                (_, byte) if byte == delimiter => Self::Start,
                (Self::Closed, _) => return Err(()),
                (Self::Start | Self::Plain, _) => Self::Plain,
            };
        }
        Ok(())
    }
}

//! Fields of one record at a time: by the csv crate where fields are quoted, by the separator alone where they are not.

use std::io::{self, Read};

use csv::{ByteRecord, ReaderBuilder, Terminator};

use crate::csv_options::CsvDialect;
use embedctl_common::error::{Error, Result};

/// Splits records into fields.
pub(super) struct Split {
    /// `None`: nothing is quoted.
    csv: Option<csv::Reader<Feed>>,
    dialect: CsvDialect,
    /// The field that is null, as it is written.
    null: Option<Vec<u8>>,
    fields: SplitFields,
}

/// The fields of a record.
#[derive(Default)]
pub(super) struct SplitFields {
    pub bytes: ByteRecord,
    /// Whether each is null.
    nulls: Vec<bool>,
}

impl SplitFields {
    /// The texts of the fields, nulls as `None`.
    ///
    /// # Errors
    /// Only on an internal error: the record is UTF-8.
    pub(super) fn texts(&self) -> Result<Vec<Option<&str>>> {
        let texts = self.bytes.iter().zip(&self.nulls);
        let texts = texts.map(|(field, is_null)| match is_null {
            true => Ok(None),
            false => std::str::from_utf8(field).map(Some),
        });
        let texts = texts.collect::<Result<_, _>>();
        texts.map_err(|error| Error::internal(error.to_string()))
    }
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
    pub(super) fn new(dialect: CsvDialect, null: Option<&str>) -> Self {
        let feed = Feed {
            bytes: Vec::new(),
            at: 0,
        };
        let csv = dialect.quote.map(|quote| {
            ReaderBuilder::new()
                .has_headers(false)
                .flexible(true)
                .delimiter(dialect.delimiter)
                .quote(quote)
                .escape(dialect.escape)
                .terminator(Terminator::Any(b'\n'))
                .from_reader(feed)
        });
        Self {
            csv,
            dialect,
            null: null.map(|null| null.as_bytes().to_vec()),
            fields: SplitFields::default(),
        }
    }

    /// The fields of one whole record.
    pub(super) fn fields(&mut self, record: &[u8]) -> Result<&SplitFields> {
        let SplitFields { bytes, nulls } = &mut self.fields;
        nulls.clear();
        let null = self.null.as_deref();
        let Some(csv) = &mut self.csv else {
            bytes.clear();
            for field in unquoted(record, self.dialect) {
                // Before its escapes are resolved: `\N` is null, and `\\N` is a text.
                nulls.push(null == Some(field));
                match self.dialect.escape {
                    Some(escape) => bytes.push_field(&unescaped(field, escape)),
                    None => bytes.push_field(field),
                }
            }
            return Ok(&self.fields);
        };
        let feed = csv.get_mut();
        feed.bytes.clear();
        feed.bytes.extend_from_slice(record);
        feed.bytes.push(b'\n');
        feed.at = 0;
        match csv.read_byte_record(bytes) {
            Ok(true) => {}
            Ok(false) => return Err(Error::internal("a record of CSV without fields")),
            Err(error) => return Err(Error::internal(error.to_string())),
        }
        nulls.extend(bytes.iter().map(|field| null == Some(field)));
        Ok(&self.fields)
    }
}

/// The fields between separators that are not escaped.
fn unquoted(record: &[u8], dialect: CsvDialect) -> impl Iterator<Item = &[u8]> {
    let mut is_escaped = false;
    record.split(move |&byte| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        is_escaped = dialect.escape == Some(byte);
        byte == dialect.delimiter
    })
}

/// A field with its escapes resolved as PostgreSQL's COPY and MySQL write them: letters stand for control characters,
/// and any other character for itself.
fn unescaped(field: &[u8], escape: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.iter();
    while let Some(&byte) = rest.next() {
        if byte != escape {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b'b') => 8,
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'v') => 11,
            Some(b'f') => 12,
            Some(b'r') => b'\r',
            Some(&other) => other,
            // Nothing follows it.
            None => escape,
        });
    }
    bytes
}

//! Fields of one record at a time, by the csv crate.

use std::io::{self, Read};

use csv::{ByteRecord, ReaderBuilder, Terminator};

use embedctl_common::error::{Error, Result};

/// Splits records into fields.
pub(super) struct Split {
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
    pub(super) fn new(delimiter: u8) -> Self {
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
    pub(super) fn fields(&mut self, record: &[u8]) -> Result<&ByteRecord> {
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

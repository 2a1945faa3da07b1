//! Arrow's own files and streams (IPC), record batch by record batch.

use std::collections::HashSet;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use super::claims::CheckedMessages;
use super::footer::{Footer, batch, rows};
use crate::formats::columnar::open::{footer, guarded};
use crate::formats::columnar::table::RequestedColumns;
use crate::formats::columnar::{Batches, at_most, entered};
use crate::reading::source::Planned;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::{FileDecoder, StreamReader};
use embedctl_common::error::Result;
use embedctl_common::threads::locked;
use embedctl_records::position::Seek;
use embedctl_storage::Bytes;

/// So many columns are always chosen one by one.
const MOST_CHOSEN: usize = 1000;

/// An Arrow file, by its footer.
pub(super) struct ArrowFile {
    source: Arc<Planned>,
    bytes: Arc<dyn Bytes>,
    footer: Footer,
    /// Made with the first batch.
    decoder: Option<FileDecoder>,
    /// The decoded columns; `None`: all.
    columns: Option<Vec<usize>>,
    batch: usize,
    /// Rows of the first batch to leave out.
    skip: u64,
    /// Rows that were read or passed over.
    row: u64,
    /// The row of the file to stop before.
    end: u64,
}

impl ArrowFile {
    /// Reads the footer.
    pub fn open(source: &Arc<Planned>, bytes: Arc<dyn Bytes>) -> Result<Self> {
        let footer = guarded(source, footer, || Footer::read(bytes.as_ref()))?;
        Ok(Self {
            source: Arc::clone(source),
            bytes,
            footer,
            decoder: None,
            columns: None,
            batch: 0,
            skip: 0,
            row: 0,
            end: u64::MAX,
        })
    }

    /// Decodes only the columns of `table`.
    pub(super) fn project(&mut self, table: &RequestedColumns) {
        self.columns = projection(&self.footer.schema, table);
    }

    /// Stops before the row `end`.
    pub(super) fn stop_before(&mut self, end: u64) {
        self.end = end;
    }

    /// Rows of each batch, by its header.
    pub(super) fn rows(&self) -> impl Iterator<Item = Result<u64>> {
        let (batches, of) = (&self.footer.batches, self.footer.batches.len());
        batches.iter().zip(1..).map(move |(block, number)| {
            let spot = || (format!("record batch {number} of {of}").into(), 0);
            guarded(&self.source, spot, || rows(self.bytes.as_ref(), block))
        })
    }

    /// Goes to a row of a batch, and returns how many come before it.
    pub(super) fn seek(&mut self, batch: usize, row: u64) -> Result<u64> {
        let before = self.rows().take(batch).collect::<Result<Vec<_>>>()?;
        (self.batch, self.skip, self.row) = (
            batch,
            row,
            before.into_iter().fold(row, u64::saturating_add),
        );
        Ok(self.row)
    }

    /// Goes to a row of the file, which is how many come before it.
    pub(super) fn enter(&mut self, row: u64) -> Result<u64> {
        if row == 0 {
            return Ok(0);
        }
        let rows = self.rows().collect::<Result<Vec<_>>>()?;
        let (batch, row) = entered(rows.into_iter(), row);
        self.seek(batch, row)
    }
}

impl Batches for ArrowFile {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.footer.schema)
    }

    fn next(&mut self) -> Result<Option<(RecordBatch, Seek)>> {
        let Some(block) = self.footer.batches.get(self.batch) else {
            return Ok(None);
        };
        if self.row >= self.end {
            return Ok(None);
        }
        let bytes = self.bytes.as_ref();
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => {
                let columns = self.columns.take();
                let decoder = || self.footer.decoder(bytes, columns);
                none.insert(guarded(&self.source, footer, decoder)?)
            }
        };
        let (number, of) = (self.batch + 1, self.footer.batches.len());
        let spot = || (format!("record batch {number} of {of}").into(), self.row);
        let batch = guarded(&self.source, spot, || batch(decoder, bytes, block))?;
        let place = self.place();
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        let skip = skip.min(batch.num_rows());
        let batch = batch.slice(skip, batch.num_rows() - skip);
        let batch = at_most(batch, self.end - self.row);
        self.batch += 1;
        self.skip = 0;
        self.row += batch.num_rows() as u64;
        Ok(Some((batch, place)))
    }

    fn place(&self) -> Seek {
        Seek::Batch {
            batch: self.batch as u64,
            row: self.skip,
        }
    }

    fn consumed(&self) -> u64 {
        let share = self.batch as f64 / self.footer.batches.len().max(1) as f64;
        (self.bytes.len() as f64 * share) as u64
    }
}

/// Several streams that follow one another in one. Each decoder takes no more than its own.
#[derive(Clone)]
struct Shared(Arc<Mutex<ChainedStreams>>);

struct ChainedStreams {
    /// A byte that was read to see whether there is one.
    first: Option<u8>,
    rest: Box<dyn Read + Send>,
}

impl Read for Shared {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut streams = locked(&self.0);
        if let ([place, ..], Some(first)) = (&mut *into, streams.first) {
            *place = first;
            streams.first = None;
            return Ok(1);
        }
        streams.rest.read(into)
    }
}

impl Shared {
    /// Whether there is anything more.
    fn goes_on(&self) -> io::Result<bool> {
        let mut streams = locked(&self.0);
        let mut first = [0];
        loop {
            match streams.rest.read(&mut first) {
                Ok(0) => return Ok(false),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        streams.first = Some(first[0]);
        Ok(true)
    }
}

/// An Arrow stream.
pub(super) struct ArrowStream {
    source: Arc<Planned>,
    shared: Shared,
    reader: StreamReader<Shared>,
    consumed: Box<dyn Fn() -> u64 + Send>,
    batches: u64,
    rows: u64,
}

impl ArrowStream {
    /// Reads the schema.
    pub fn open(
        source: &Arc<Planned>,
        stream: Box<dyn Read + Send>,
        consumed: Box<dyn Fn() -> u64 + Send>,
    ) -> Result<Self> {
        let (first, rest) = (None, Box::new(CheckedMessages::new(stream)));
        let shared = Shared(Arc::new(Mutex::new(ChainedStreams { first, rest })));
        let reader = stream_reader(source, &shared)?;
        Ok(Self {
            source: Arc::clone(source),
            shared,
            reader,
            consumed,
            batches: 0,
            rows: 0,
        })
    }
}

impl Batches for ArrowStream {
    fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }

    fn next(&mut self) -> Result<Option<(RecordBatch, Seek)>> {
        let (number, rows) = (self.batches + 1, self.rows);
        let reader = &mut self.reader;
        let spot = || (format!("record batch {number}").into(), rows);
        let batch = guarded(&self.source, spot, || reader.next().transpose())?;
        Ok(batch.map(|batch| {
            self.batches += 1;
            self.rows += batch.num_rows() as u64;
            (batch, Seek::Reread)
        }))
    }

    fn place(&self) -> Seek {
        Seek::Reread
    }

    fn consumed(&self) -> u64 {
        (self.consumed)()
    }

    fn next_stream(&mut self) -> Result<bool> {
        // Where a limit was reached in the middle of this one, the rest of it comes first.
        while self.next()?.is_some() {}
        let next = || ("the next stream".into(), 0);
        if !guarded(&self.source, next, || self.shared.goes_on())? {
            return Ok(false);
        }
        self.reader = stream_reader(&self.source, &self.shared)?;
        (self.batches, self.rows) = (0, 0);
        Ok(true)
    }
}

fn stream_reader(source: &Planned, shared: &Shared) -> Result<StreamReader<Shared>> {
    guarded(
        source,
        || ("the stream's schema".into(), 0),
        || StreamReader::try_new(shared.clone(), None),
    )
}

/// The asked columns by their places at the top; `None` where they are most of all: the decoder compares each column with
/// each that is asked for.
fn projection(schema: &SchemaRef, table: &RequestedColumns) -> Option<Vec<usize>> {
    let asked: HashSet<&str> = table
        .paths()
        .filter_map(|path| path.first().map(String::as_str))
        .collect();
    let fields = schema.fields();
    let chosen = fields.iter().enumerate();
    let chosen: Vec<usize> = chosen
        .filter_map(|(index, field)| asked.contains(field.name().as_str()).then_some(index))
        .collect();
    (chosen.len() <= MOST_CHOSEN.max(fields.len() / 2)).then_some(chosen)
}

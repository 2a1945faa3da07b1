//! Arrow's own files and streams (IPC), record batch by record batch.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use ::arrow::array::RecordBatch;
use ::arrow::datatypes::SchemaRef;
use ::arrow::ipc::reader::{FileReader, FileReaderBuilder, StreamReader};

use super::Batches;
use super::open::guarded;
use super::table::Table;
use crate::error::Result;
use crate::input::bytes::{Bytes, Seeking};
use crate::input::source::Planned;
use crate::position::Seek;

/// What an Arrow file begins with; a stream follows it.
pub(crate) const ARROW: &[u8] = b"ARROW1\0\0";

/// An Arrow file, by its footer.
pub(super) struct ArrowFile {
    source: Arc<Planned>,
    bytes: Arc<dyn Bytes>,
    schema: SchemaRef,
    reader: FileReader<Seeking>,
    batch: usize,
    /// Rows of the first batch to leave out.
    skip: usize,
}

impl ArrowFile {
    /// Reads the footer.
    pub(super) fn open(source: &Arc<Planned>, bytes: Arc<dyn Bytes>) -> Result<Self> {
        let reader = file_reader(source, &bytes, None)?;
        Ok(Self {
            source: Arc::clone(source),
            schema: reader.schema(),
            bytes,
            reader,
            batch: 0,
            skip: 0,
        })
    }

    /// Decodes what `table` asks for alone.
    pub(super) fn project(&mut self, table: &Table) -> Result<()> {
        let columns = projection(&self.schema, table);
        self.reader = file_reader(&self.source, &self.bytes, Some(columns))?;
        Ok(())
    }

    /// Goes to a row of a batch, and returns how many come before it. Their batches are read, since nothing
    /// else tells how many rows they have.
    pub(super) fn seek(&mut self, batch: usize, row: usize) -> Result<u64> {
        let mut rows = 0;
        while self.batch < batch {
            match self.next()? {
                Some((batch, _)) => rows += batch.num_rows() as u64,
                None => return Ok(rows),
            }
        }
        self.skip = row;
        Ok(rows + row as u64)
    }
}

fn file_reader(
    source: &Planned,
    bytes: &Arc<dyn Bytes>,
    columns: Option<Vec<usize>>,
) -> Result<FileReader<Seeking>> {
    let mut builder = FileReaderBuilder::new();
    if let Some(columns) = columns {
        builder = builder.with_projection(columns);
    }
    guarded(
        source,
        || "its footer".to_owned(),
        || builder.build(Seeking::new(Arc::clone(bytes))),
    )
}

impl Batches for ArrowFile {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn next(&mut self) -> Result<Option<(RecordBatch, Seek)>> {
        let (number, of) = (self.batch + 1, self.reader.num_batches());
        let place = || format!("record batch {number} of {of}");
        let reader = &mut self.reader;
        let Some(batch) = guarded(&self.source, place, || reader.next().transpose())? else {
            return Ok(None);
        };
        let (place, skip) = (self.place(), self.skip.min(batch.num_rows()));
        self.batch += 1;
        self.skip = 0;
        Ok(Some((batch.slice(skip, batch.num_rows() - skip), place)))
    }

    fn place(&self) -> Seek {
        Seek::Batch {
            batch: self.batch as u64,
            row: self.skip as u64,
        }
    }

    fn consumed(&self) -> u64 {
        let share = self.batch as f64 / self.reader.num_batches().max(1) as f64;
        (self.bytes.len() as f64 * share) as u64
    }
}

/// Several streams that follow one another in one. Each decoder takes no more than its own.
#[derive(Clone)]
struct Shared(Arc<Mutex<Streams>>);

struct Streams {
    /// A byte that was read to see whether there is one.
    first: Option<u8>,
    rest: Box<dyn Read + Send>,
}

impl Read for Shared {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
}

impl ArrowStream {
    /// Reads the schema.
    pub(super) fn open(
        source: &Arc<Planned>,
        stream: Box<dyn Read + Send>,
        consumed: Box<dyn Fn() -> u64 + Send>,
    ) -> Result<Self> {
        let (first, rest) = (None, stream);
        let shared = Shared(Arc::new(Mutex::new(Streams { first, rest })));
        let reader = stream_reader(source, &shared)?;
        Ok(Self {
            source: Arc::clone(source),
            shared,
            reader,
            consumed,
            batches: 0,
        })
    }
}

impl Batches for ArrowStream {
    fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }

    fn next(&mut self) -> Result<Option<(RecordBatch, Seek)>> {
        let place = self.place();
        let number = self.batches + 1;
        let reader = &mut self.reader;
        let name = || format!("record batch {number}");
        let batch = guarded(&self.source, name, || reader.next().transpose())?;
        self.batches += u64::from(batch.is_some());
        Ok(batch.map(|batch| (batch, place)))
    }

    fn place(&self) -> Seek {
        Seek::Reread
    }

    fn consumed(&self) -> u64 {
        (self.consumed)()
    }

    fn next_stream(&mut self) -> Result<bool> {
        let next = || "the next stream".to_owned();
        if !guarded(&self.source, next, || self.shared.goes_on())? {
            return Ok(false);
        }
        self.reader = stream_reader(&self.source, &self.shared)?;
        self.batches = 0;
        Ok(true)
    }
}

fn stream_reader(source: &Planned, shared: &Shared) -> Result<StreamReader<Shared>> {
    guarded(
        source,
        || "the stream's schema".to_owned(),
        || StreamReader::try_new(shared.clone(), None),
    )
}

/// The asked columns by their places at the top.
fn projection(schema: &SchemaRef, table: &Table) -> Vec<usize> {
    let fields = schema.fields().iter().enumerate();
    let asked = fields.filter(|(_, field)| {
        let mut paths = table.paths();
        paths.any(|path| path.first() == Some(field.name()))
    });
    asked.map(|(index, _)| index).collect()
}

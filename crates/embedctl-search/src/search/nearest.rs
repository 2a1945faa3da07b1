//! The nearest rows to each of some queries, found by several threads.

use std::ops::Range;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use embedctl_records::quantize::Dtype;
use embedctl_vectors::{NearestRows, Neighbour, Numbers, RowVector};

use super::decoder::Decoder;
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::output::MatrixRows;
use crate::threads::{panic_message, spawn_scoped, usable_cores};

/// Numbers of rows that are handed to a thread at a time.
const BATCH_NUMBERS: usize = 1 << 19;

/// Rows that are handed to a thread at a time, at most.
const BATCH_ROWS: usize = 4096;

/// Elements of a matrix that a thread reads at a time: they stay in a core's own cache.
const STRIPE_NUMBERS: usize = 1 << 16;

/// What a thread compares next.
enum SearchWork {
    Rows(Batch),
    Stripe(Stripe),
}

/// Rows on their way to a thread, as they are stored.
struct Batch {
    numbers: Vec<u64>,
    rows: Numbers,
}

/// Consecutive rows of a matrix, which the thread that compares them reads.
struct Stripe {
    matrix: Arc<MatrixRows>,
    rows: Range<u64>,
    /// The number of the matrix' first row in the output.
    first: u64,
}

/// Takes a row: its number and its stored vector.
pub(super) type TakeStored<'a> = dyn FnMut(u64, RowVector<'_>) -> Result<()> + 'a;

/// Hands rows to the threads that compare them.
pub(super) struct RowFeed {
    sender: Sender<SearchWork>,
    /// Room is used again: the first touch of fresh memory costs as much as a comparison.
    emptied: Receiver<Batch>,
    batch: Option<Batch>,
    /// How many rows there were.
    rows: u64,
}

impl RowFeed {
    /// A row as it is stored, with its number in the output.
    pub fn row(&mut self, number: u64, row: RowVector<'_>) -> Result<()> {
        self.rows += 1;
        let own = self.batch.get_or_insert_with(|| {
            self.emptied.try_recv().unwrap_or_else(|_| Batch {
                numbers: Vec::new(),
                rows: row.no_rows(),
            })
        });
        own.numbers.push(number);
        own.rows.push(row);
        let is_full =
            own.numbers.len() >= BATCH_ROWS || own.rows.bytes() >= BATCH_NUMBERS * size_of::<f32>();
        match self.batch.take_if(|_| is_full) {
            Some(full) => self.send(SearchWork::Rows(full)),
            None => Ok(()),
        }
    }

    /// All rows of a matrix, the first of which has that number in the output.
    pub fn matrix(&mut self, matrix: MatrixRows, first: u64, cancel: &CancelToken) -> Result<()> {
        self.rows += matrix.rows();
        let matrix = Arc::new(matrix);
        let most = (STRIPE_NUMBERS / matrix.width().max(1)).max(1) as u64;
        let mut start = 0;
        while start < matrix.rows() {
            if cancel.is_cancelled() {
                return Err(Error::interrupted());
            }
            let end = matrix.rows().min(start + most);
            self.send(SearchWork::Stripe(Stripe {
                matrix: Arc::clone(&matrix),
                rows: start..end,
                first,
            }))?;
            start = end;
        }
        Ok(())
    }

    /// The last rows; how many there were.
    fn end(mut self) -> Result<u64> {
        if let Some(last) = self.batch.take() {
            self.send(SearchWork::Rows(last))?;
        }
        Ok(self.rows)
    }

    fn send(&self, work: SearchWork) -> Result<()> {
        let stopped = |_| Error::internal("the threads of a search have ended");
        self.sender.send(work).map_err(stopped)
    }
}

/// A thread that compares.
struct Comparer<'a> {
    /// Made ready for many comparisons.
    queries: &'a Numbers,
    decoder: &'a Decoder,
    found: NearestRows,
    /// The row that is left out.
    besides: Option<u64>,
    room: Vec<f32>,
    bytes: Vec<u8>,
    values: Vec<f32>,
}

impl Comparer<'_> {
    fn row(&mut self, row: u64, vector: RowVector<'_>) {
        if self.besides == Some(row) {
            return;
        }
        let vector = match self.decoder {
            Decoder::Floats => vector,
            decoder => {
                self.room.clear();
                vector.rewritten(&mut self.room, |stored, out| decoder.decode(stored, out))
            }
        };
        self.found.compare(row, vector, self.queries);
    }

    fn stripe(&mut self, stripe: &Stripe) -> Result<()> {
        let mut values = std::mem::take(&mut self.values);
        let matrix = &stripe.matrix;
        matrix.read(stripe.rows.clone(), &mut self.bytes, &mut values)?;
        if matrix.dtype() == Dtype::Int8 {
            count_from_zero(&mut values);
        }
        let numbers = stripe.first + stripe.rows.start..;
        for (number, row) in numbers.zip(values.chunks_exact(matrix.width())) {
            self.row(number, RowVector::of_vector(row));
        }
        self.values = values;
        Ok(())
    }

    /// Compares what comes; room of batches goes back.
    fn run(mut self, work: Receiver<SearchWork>, done: &Sender<Batch>) -> Result<NearestRows> {
        for work in work {
            match work {
                SearchWork::Rows(mut batch) => {
                    for (row, vector) in batch.numbers.iter().zip(batch.rows.iter()) {
                        self.row(*row, vector);
                    }
                    batch.numbers.clear();
                    batch.rows.clear();
                    let _ = done.try_send(batch);
                }
                SearchWork::Stripe(stripe) => self.stripe(&stripe)?,
            }
        }
        Ok(self.found)
    }
}

/// Elements of int8 as those of uint8.
pub(super) fn count_from_zero(elements: &mut [f32]) {
    for element in elements {
        *element += 128.0;
    }
}

/// The `most` nearest rows to each query, best first, of those that `read` feeds, but for `besides`; and how many rows there
/// were.
///
/// # Errors
/// As `read`; or if a matrix cannot be read.
pub(super) fn nearest(
    queries: &Numbers,
    decoder: &Decoder,
    most: usize,
    besides: Option<u64>,
    read: impl FnOnce(&mut RowFeed) -> Result<()>,
) -> Result<(Vec<Vec<Neighbour>>, u64)> {
    let prepared = queries.as_queries();
    let threads = usable_cores();
    let (sender, receiver) = bounded::<SearchWork>(2 * threads);
    let (done, emptied) = bounded::<Batch>(3 * threads);
    let mut found = NearestRows::new(queries.len(), most);
    let rows = std::thread::scope(|scope| {
        let mut workers = Vec::with_capacity(threads);
        for _ in 0..threads {
            let (receiver, done) = (receiver.clone(), done.clone());
            let comparer = Comparer {
                queries: &prepared,
                decoder,
                found: NearestRows::new(queries.len(), most),
                besides,
                room: Vec::new(),
                bytes: Vec::new(),
                values: Vec::new(),
            };
            let run = move || comparer.run(receiver, &done);
            workers.push(spawn_scoped(scope, "search", run)?);
        }
        drop(receiver);
        let mut feed = RowFeed {
            sender,
            emptied,
            batch: None,
            rows: 0,
        };
        let read = read(&mut feed);
        let rows = read.and_then(|()| feed.end());
        // A thread's own error before the one that it has ended.
        for worker in workers {
            let own = worker.join();
            found.merge(own.map_err(|panic| Error::internal(panic_message(&*panic)))??);
        }
        rows
    })?;
    Ok((found.sorted(), rows))
}

//! The nearest rows to each of some queries, found by several threads.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use embedctl_common::vectors::{Numbers, RowVector};
use embedctl_records::quantize::Dtype;

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

/// A row that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    /// The number of the row in the output, from 0.
    pub row: u64,
    /// Its cosine, dot product, or sum of greatest dot products.
    pub score: f32,
}

/// The order of hits: the higher score first, of equal ones the earlier row.
fn order(one: &Neighbour, other: &Neighbour) -> Ordering {
    let by_score = other.score.total_cmp(&one.score);
    by_score.then(one.row.cmp(&other.row))
}

/// A neighbour in a heap, whose greatest is the one to go first.
struct Ranked(Neighbour);

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        order(&self.0, &other.0)
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// The best rows so far.
struct Best {
    most: usize,
    rows: BinaryHeap<Ranked>,
}

impl Best {
    fn new(most: usize) -> Self {
        Self {
            most,
            rows: BinaryHeap::new(),
        }
    }

    /// A row whose score is not a number is none.
    fn add(&mut self, row: Neighbour) {
        if row.score.is_nan() {
            return;
        }
        if self.rows.len() < self.most {
            self.rows.push(Ranked(row));
        } else if let Some(mut last) = self.rows.peek_mut()
            && order(&row, &last.0).is_lt()
        {
            *last = Ranked(row);
        }
    }
}

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
    best: Vec<Best>,
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
        let best = &mut self.best;
        let take = &mut |query: usize, score| best[query].add(Neighbour { row, score });
        let vector = match self.decoder {
            Decoder::Floats => vector,
            decoder => {
                self.room.clear();
                vector.rewritten(&mut self.room, |stored, out| decoder.decode(stored, out))
            }
        };
        vector.compare(self.queries, take);
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
    fn run(mut self, work: Receiver<SearchWork>, done: &Sender<Batch>) -> Result<Vec<Best>> {
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
        Ok(self.best)
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
    let mut best: Vec<Vec<Neighbour>> = vec![Vec::new(); queries.len()];
    let rows = std::thread::scope(|scope| {
        let mut workers = Vec::with_capacity(threads);
        for _ in 0..threads {
            let (receiver, done) = (receiver.clone(), done.clone());
            let comparer = Comparer {
                queries: &prepared,
                decoder,
                best: (0..queries.len()).map(|_| Best::new(most)).collect(),
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
            let found = worker.join();
            let found = found.map_err(|panic| Error::internal(panic_message(&*panic)))??;
            for (all, own) in best.iter_mut().zip(found) {
                all.extend(own.rows.into_iter().map(|ranked| ranked.0));
            }
        }
        rows
    })?;
    for rows in &mut best {
        rows.sort_by(order);
        rows.truncate(most);
    }
    Ok((best, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scores_are_in_the_order_of_rows_and_what_is_no_number_is_left_out() {
        let mut best = Best::new(3);
        for (row, score) in [
            (9, 1.0),
            (2, 0.5),
            (7, 1.0),
            (4, f32::NAN),
            (1, 0.5),
            (3, 1.0),
        ] {
            best.add(Neighbour { row, score });
        }
        let mut rows: Vec<Neighbour> = best.rows.into_iter().map(|ranked| ranked.0).collect();
        rows.sort_by(order);
        let rows: Vec<u64> = rows.iter().map(|one| one.row).collect();
        assert_eq!(rows, [3, 7, 9]);
    }
}

//! A window on its way from the tokenizer to the ledger, and its portions.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use crossbeam_channel::{Receiver, never};

use super::assembly::{followed_by, with_nulls};
use super::distinct::Distinct;
use super::reuse::with_found;
use crate::batch::TokenRows;
use crate::engine::row_worker::Finished;
use crate::error::Result;
use crate::record::{Texts, Window};
use crate::reuse::Found;
use crate::tokenize::{SharedRows, Span};

/// A window on its way through the workers, which know its distinct texts alone.
pub(super) struct InFlight {
    /// Its texts are records, or their chunks.
    pub(super) window: Window,
    /// The record of each chunk, if records are cut into chunks.
    pub(super) spans: Option<Vec<Span>>,
    /// The texts of the records, where the window's are chunks.
    pub(super) records: Option<Texts>,
    pub(super) distinct: Distinct,
    /// Vectors that an earlier output has of the distinct texts.
    pub(super) found: Found,
    /// Tokens of the distinct texts; texts found in an earlier output have none.
    pub(super) tokens: Arc<TokenRows>,
    /// With late chunking, the chunks of each row: distinct texts are rows then.
    pub(super) shared: Option<Arc<SharedRows>>,
    /// What is settled together, in order.
    pub(super) portions: Vec<Portion>,
    /// Batches that were run, with the numbers of their portions.
    pub(super) done: Receiver<(usize, Finished)>,
    /// See [`InFlight::columns_of_all`].
    columns_of_all: OnceCell<RecordBatch>,
}

impl InFlight {
    /// A window without batches yet; `tokens` are those of the distinct texts that were not found.
    pub(super) fn new(
        window: Window,
        chunks: Option<(Vec<Span>, Texts)>,
        distinct: Distinct,
        found: Found,
        (tokens, shared): (TokenRows, Option<Arc<SharedRows>>),
    ) -> Self {
        let (spans, records) = chunks.unzip();
        Self {
            tokens: Arc::new(with_found(&found, distinct.len(), tokens)),
            shared,
            window,
            spans,
            records,
            distinct,
            found,
            portions: Vec::new(),
            done: never(),
            columns_of_all: OnceCell::new(),
        }
    }

    /// How many vectors the distinct text of that number gives: one, or those of the chunks that share its row.
    pub(super) fn vectors_of(&self, number: usize) -> u64 {
        let shared = self.shared.as_ref();
        shared.map_or(1, |shared| shared.chunks(number).len() as u64)
    }

    /// How many texts the record of that number is, the first of them being number `text`.
    pub(super) fn texts_of(&self, record: usize, text: usize) -> usize {
        let Some(spans) = &self.spans else {
            return 1;
        };
        let of_record = |span: &&Span| span.text as usize == record;
        spans[text..].iter().take_while(of_record).count()
    }

    /// The texts of a portion, by their numbers.
    pub(super) fn texts(&self, portion: &Portion) -> Range<usize> {
        let Range { start, end } = portion.records;
        match &self.spans {
            None => start..end,
            Some(spans) => {
                let first = |record| spans.partition_point(|span| (span.text as usize) < record);
                first(start)..first(end)
            }
        }
    }

    /// The window's columns, with the rows of rejected records behind those of texts.
    pub(super) fn columns_of_all(&self) -> Result<&RecordBatch> {
        if let Some(columns) = self.columns_of_all.get() {
            return Ok(columns);
        }
        let window = &self.window;
        let columns = match &window.rejected {
            Some(rejected) => followed_by(&window.columns, rejected)?,
            None => with_nulls(&window.columns, window.rejects.len())?,
        };
        Ok(self.columns_of_all.get_or_init(|| columns))
    }
}

/// Consecutive records of a window, which are settled together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Portion {
    /// The records that are texts, by their numbers among those of the window.
    pub(super) records: Range<usize>,
    /// The records that the reader has rejected, by their numbers among those of the window.
    pub(super) rejects: Range<usize>,
    /// The distinct texts that run for it: those that no portion before it has run.
    pub(super) runs: Vec<u32>,
    /// Its batches.
    pub(super) batches: usize,
    /// Whether it ends where the window ends.
    pub(super) is_last: bool,
}

impl Portion {
    /// Number of the record behind it, among all records of the window.
    pub(super) fn end(&self) -> usize {
        self.records.end + self.rejects.end
    }

    /// Number of its first record, among all records of the window.
    pub(super) fn start(&self) -> usize {
        self.records.start + self.rejects.start
    }
}

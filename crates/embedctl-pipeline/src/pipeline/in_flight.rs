//! A window on its way from the tokenizer to the ledger: its distinct texts, and its portions.
//!
//! Equal texts of a window are one text: tokenized once, run once, and its vector copied to every row. With late chunking
//! the rows that chunks share have numbers, and those of equal whole texts run once.
//!
//! A *portion* is consecutive records whose vectors a slow model computes within seconds. Batches are cut, run and settled
//! portion by portion, so that an interrupt costs seconds of work even if a window takes hours. What a portion holds
//! depends on the model and the texts, never on the clock: every run cuts the same batches.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use crossbeam_channel::{Receiver, never};

use super::assembly::{followed_by, with_nulls};
use crate::batch::TokenRows;
use crate::engine::Engine;
use crate::engine::halving::Finished;
use crate::error::Result;
use crate::record::{Texts, Window};
use crate::reuse::Found;
use crate::tokenize::chunks::{SharedRows, Span};

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
            None => with_nulls(&window.columns, window.rejects().count())?,
        };
        Ok(self.columns_of_all.get_or_init(|| columns))
    }
}

/// Consecutive records of a window, which are settled together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Portion {
    /// Its records, by their numbers among those of the window.
    pub(super) slots: Range<usize>,
    /// Those that are texts, by their numbers among such of the window.
    pub(super) records: Range<usize>,
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
        self.slots.end
    }

    /// Number of its first record, among all records of the window.
    pub(super) fn start(&self) -> usize {
        self.slots.start
    }

    /// How many records of the window that the reader has rejected come before it.
    pub(super) fn rejects_before(&self) -> usize {
        self.slots.start - self.records.start
    }
}

/// Operations of a portion, about: some seconds of a few cores, and of a device.
const OPERATIONS: f64 = 1e12;
const OPERATIONS_OF_DEVICE: f64 = 3e13;

/// How much more that is where rows are padded, and sorting many of them by length saves time.
const PADDED: f64 = 3.0;

/// Batches of a portion at least: enough to sort rows by length.
const BATCHES: usize = 16;

/// How much a portion holds.
pub(super) struct PortionLimits {
    operations: f64,
    tokens: usize,
    /// Operations of a row with so many tokens.
    cost: Box<dyn Fn(usize) -> f64 + Send>,
}

impl PortionLimits {
    /// For an engine whose batches have `tokens` tokens, and a model that takes `cost` operations for a row of so many
    /// tokens.
    pub(super) fn new(
        engine: &dyn Engine,
        tokens: usize,
        cost: impl Fn(usize) -> f64 + Send + 'static,
    ) -> Self {
        let operations = match (engine.info().provider.is_on_worker(), engine.is_ragged()) {
            (true, true) => OPERATIONS,
            (true, false) => OPERATIONS * PADDED,
            (false, _) => OPERATIONS_OF_DEVICE,
        };
        Self {
            operations,
            tokens: tokens.saturating_mul(BATCHES),
            cost: Box::new(cost),
        }
    }

    /// Whether a portion is full that has so many tokens and takes that many operations.
    fn are_reached(&self, tokens: usize, operations: f64) -> bool {
        operations >= self.operations && tokens >= self.tokens
    }
}

/// Cuts a window into portions, without batches yet. `limits`: `None` for a window that must stay whole.
pub(super) fn cut_portions(in_flight: &InFlight, limits: Option<&PortionLimits>) -> Vec<Portion> {
    let window = &in_flight.window;
    let total = window.records();
    let mark = window.mark.as_ref();
    let missing: Vec<Range<usize>> = match mark {
        None => std::iter::once(0..total).collect(),
        Some(mark) => {
            let inside = |record: u64| usize::try_from(record - mark.start).unwrap_or(total);
            let ranges = mark.missing.iter();
            ranges
                .map(|range| inside(range.start)..inside(range.end))
                .collect()
        }
    };
    let distinct: Vec<u32> = (in_flight.distinct.of_rows())
        .map(|number| u32::try_from(number).expect("a window has fewer than 2^32 texts"))
        .collect();
    let mut seen = vec![false; in_flight.distinct.len()];
    let mut portions = Vec::new();
    // Its records, those of them that are texts, and the texts that these became, which come before the next.
    let (mut slot, mut record, mut text) = (0, 0, 0);
    for range in missing {
        let (mut portion, mut tokens, mut operations) = (Portion::default(), 0, 0.0);
        let mut begins = true;
        while slot < range.end {
            let is_text = window.slots[slot].is_text();
            let own_texts = match is_text {
                true => in_flight.texts_of(record, text),
                false => 0,
            };
            if slot >= range.start {
                let is_full = limits.is_some_and(|it| it.are_reached(tokens, operations));
                if begins || (is_full && is_text) {
                    if !begins {
                        portions.push(std::mem::take(&mut portion));
                    }
                    (tokens, operations, begins) = (0, 0.0, false);
                    portion.slots = slot..slot;
                    portion.records = record..record;
                }
                for &number in &distinct[text..text + own_texts] {
                    if !std::mem::replace(&mut seen[number as usize], true) {
                        let length = in_flight.tokens.get(number as usize).len();
                        tokens += length;
                        operations += limits.map_or(0.0, |limits| (limits.cost)(length));
                        portion.runs.push(number);
                    }
                }
            }
            text += own_texts;
            slot += 1;
            record += usize::from(is_text);
            portion.slots.end = slot;
            portion.records.end = record;
        }
        if !begins {
            portion.is_last = portion.end() == total;
            portions.push(portion);
        }
    }
    // An answered batch without a row is written, too.
    if portions.is_empty() && mark.is_none() {
        portions.push(Portion {
            is_last: true,
            ..Portion::default()
        });
    }
    portions
}

/// The distinct texts of a window, numbered in the order of their first rows.
pub(crate) struct Distinct {
    /// The first row of each distinct text.
    firsts: Vec<u32>,
    /// How many rows hold it.
    copies: Vec<u32>,
    /// Which distinct text each row holds.
    of_row: Vec<u32>,
}

impl Distinct {
    /// Finds them.
    pub(crate) fn new(texts: &Texts) -> Self {
        let rows = u32::try_from(texts.len()).expect("a window has fewer than 2^32 rows");
        let mut numbers: HashMap<&str, u32, ahash::RandomState> =
            HashMap::with_capacity_and_hasher(texts.len(), ahash::RandomState::default());
        let mut distinct = Self {
            firsts: Vec::with_capacity(texts.len()),
            copies: Vec::with_capacity(texts.len()),
            of_row: Vec::with_capacity(texts.len()),
        };
        for (row, text) in (0..rows).zip(texts.iter()) {
            let next = u32::try_from(distinct.firsts.len()).expect("no more texts than rows");
            let number = *numbers.entry(text).or_insert(next);
            if number == next {
                distinct.firsts.push(row);
                distinct.copies.push(0);
            }
            distinct.copies[number as usize] += 1;
            distinct.of_row.push(number);
        }
        distinct
    }

    /// Chunks that share rows: each has the number of its row, or that of an equal text's row. `texts` are the whole
    /// texts, and `spans` the places of the chunks in them.
    pub(crate) fn of_shared(shared: &SharedRows, spans: &[Span], texts: &Texts) -> Self {
        let whole = Self::new(texts);
        let rows: Vec<u32> = (shared.of_chunks())
            .map(|(row, _)| u32::try_from(row).expect("a window has fewer than 2^32 rows"))
            .collect();
        // The first chunk of each text.
        let mut first_chunks = vec![0; texts.len()];
        for (chunk, span) in spans.iter().enumerate().filter(|(_, span)| span.part == 0) {
            first_chunks[span.text as usize] = chunk;
        }
        let numbers: Vec<usize> = whole.of_rows().collect();
        let of_row: Vec<u32> = (spans.iter())
            .map(|span| {
                let equal = whole.first(numbers[span.text as usize]);
                rows[first_chunks[equal] + span.part as usize]
            })
            .collect();
        let count = rows.last().map_or(0, |last| *last as usize + 1);
        let mut distinct = Self {
            firsts: vec![0; count],
            copies: vec![0; count],
            of_row,
        };
        for (chunk, &row) in (0..).zip(&distinct.of_row) {
            let row = row as usize;
            if distinct.copies[row] == 0 {
                distinct.firsts[row] = chunk;
            }
            distinct.copies[row] += 1;
        }
        distinct
    }

    /// The tokens of the distinct texts that are wanted, of those of all rows.
    pub(super) fn of_texts(&self, rows: &TokenRows, wanted: impl Fn(usize) -> bool) -> TokenRows {
        let mut tokens = TokenRows::default();
        for number in (0..self.len()).filter(|&number| wanted(number)) {
            tokens.push_row(rows, self.first(number));
        }
        tokens
    }

    /// How many distinct texts there are.
    pub(crate) fn len(&self) -> usize {
        self.firsts.len()
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> usize {
        self.of_row.len()
    }

    /// The first row that holds distinct text `number`.
    pub(crate) fn first(&self, number: usize) -> usize {
        self.firsts[number] as usize
    }

    /// How many rows hold distinct text `number`.
    pub(super) fn copies(&self, number: usize) -> u64 {
        u64::from(self.copies[number])
    }

    /// Which distinct text each row holds, in the rows' order.
    pub(crate) fn of_rows(&self) -> impl ExactSizeIterator<Item = usize> {
        self.of_row.iter().map(|&number| number as usize)
    }
}

/// The tokens of all texts, `tokens` being those of the texts that were not found: the others have none.
fn with_found(found: &Found, texts: usize, tokens: TokenRows) -> TokenRows {
    if tokens.len() == texts {
        return tokens;
    }
    let mut all = TokenRows::default();
    let mut next = 0;
    for text in 0..texts {
        if found.get(text).is_some() {
            all.push([], 0);
        } else {
            all.push_row(&tokens, next);
            next += 1;
        }
    }
    all
}

//! Gathering records until a window is full.

use std::borrow::Cow;
use std::collections::BTreeMap;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use super::cells::Cell;
use super::columns::Columns;
use crate::error::{Error, Result};
use crate::record::{Origin, Reject, Texts, Window};

/// Records of the first window of a run that begins small: enough for every worker.
const FIRST_ROWS: usize = 64;

/// One record as a format reads it.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub text: Cow<'a, str>,
    pub id: Cell<'a>,
    pub kept: Vec<Cell<'a>>,
}

/// The window that is being filled.
pub(super) struct Filling {
    pub columns: Columns,
    texts: Texts,
    origins: Vec<Origin>,
    rejects: Vec<Reject>,
    /// The starts of the raw records, while the types of columns are undecided: any may be rejected yet.
    raw: Vec<Box<[u8]>>,
    bytes: usize,
    /// Records of this window at most, and of any.
    rows: usize,
    most_rows: usize,
    most_bytes: usize,
}

impl Filling {
    pub(super) fn new(columns: Columns, most_rows: usize, most_bytes: usize) -> Self {
        Self {
            columns,
            texts: Texts::default(),
            origins: Vec::new(),
            rejects: Vec::new(),
            raw: Vec::new(),
            bytes: 0,
            rows: most_rows,
            most_rows,
            most_bytes,
        }
    }

    /// See [`super::RecordReader::begin_small`].
    pub(super) fn begin_small(&mut self) {
        self.rows = FIRST_ROWS.min(self.most_rows);
    }

    /// How many records were gathered, rejected ones counted.
    pub(super) fn records(&self) -> usize {
        self.origins.len() + self.rejects.len()
    }

    /// Whether it is time to close the window.
    pub(super) fn is_full(&self) -> bool {
        self.records() > 0 && (self.records() >= self.rows || self.bytes >= self.most_bytes)
    }

    /// Takes a record; `raw` is the line that it was read from.
    pub(super) fn accept(&mut self, origin: Origin, record: &Record<'_>, raw: &[u8]) {
        if self.columns.undecided() {
            self.raw.push(raw_start(raw).into());
        }
        let kept: usize = record.kept.iter().map(Cell::bytes).sum();
        // A null takes room in its column, too.
        let columns = record.kept.len() * size_of::<u64>();
        self.bytes += record.text.len() + record.id.bytes() + kept + columns;
        self.texts.push(&record.text);
        self.origins.push(origin);
        self.columns.push(&record.id, &record.kept);
    }

    /// Takes a record that cannot be embedded.
    pub(super) fn reject(&mut self, origin: Origin, reason: String, raw: &[u8]) {
        let raw = raw_start(raw).to_vec();
        self.bytes += reason.len() + raw.len();
        self.rejects.push(Reject {
            origin,
            reason,
            raw,
        });
    }

    /// Closes the window and starts the next.
    pub(super) fn close(&mut self, consumed: u64) -> Result<Window> {
        // Without any text there is nothing to decide by: the next window counts as the first.
        let misfits = if self.columns.undecided() && !self.origins.is_empty() {
            self.columns.decide()
        } else {
            BTreeMap::new()
        };
        self.bytes = 0;
        self.rows = self.rows.saturating_mul(2).min(self.most_rows);
        let raw = std::mem::take(&mut self.raw);
        let window = Window {
            columns: self.columns.finish()?,
            texts: std::mem::take(&mut self.texts),
            origins: std::mem::take(&mut self.origins),
            rejects: std::mem::take(&mut self.rejects),
            consumed,
            warnings: Vec::new(),
            mark: None,
        };
        without(window, misfits, &raw)
    }
}

fn raw_start(raw: &[u8]) -> &[u8] {
    &raw[..raw.len().min(Reject::RAW_BYTES)]
}

/// Makes rejects of some of a window's rows.
fn without(
    mut window: Window,
    rejected: BTreeMap<usize, String>,
    raw: &[Box<[u8]>],
) -> Result<Window> {
    if rejected.is_empty() {
        return Ok(window);
    }
    let stays: Vec<bool> = (0..window.origins.len())
        .map(|row| !rejected.contains_key(&row))
        .collect();
    let rows = || (0..stays.len()).filter(|&row| stays[row]);
    window.texts = rows().map(|row| window.texts.get(row)).collect();
    for (row, reason) in rejected {
        window.rejects.push(Reject {
            origin: window.origins[row],
            reason,
            raw: raw[row].to_vec(),
        });
    }
    let place = |reject: &Reject| (reject.origin.source, reject.origin.line);
    window.rejects.sort_by_key(place);
    window.origins = rows().map(|row| window.origins[row]).collect();
    window.columns = filter(&window.columns, stays)?;
    Ok(window)
}

fn filter(columns: &RecordBatch, stays: Vec<bool>) -> Result<RecordBatch> {
    filter_record_batch(columns, &BooleanArray::from(stays))
        .map_err(|error| Error::internal(format!("columns of the input: {error}")))
}

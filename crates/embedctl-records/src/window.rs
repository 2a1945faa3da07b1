//! Gathering records until a window is full: one by one, or as pieces of a table.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::cells::Cell;
use crate::columns::InputColumns;
use crate::position::Position;
use crate::record::{Origin, RecordFields, Reject, Slot, Texts, Window};
use crate::unsound;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use embedctl_common::error::{Cause, Result};

/// Records of the first window of a run that begins small: enough for every worker.
const FIRST_ROWS: usize = 64;

/// One record as a format reads it.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub text: Cow<'a, str>,
    pub id: Cell<'a>,
    pub kept: Vec<Cell<'a>>,
}

/// The known fields of a record that cannot be embedded.
#[derive(Debug)]
pub(crate) struct RejectedFields<'a> {
    pub id: Cell<'a>,
    pub kept: Vec<Cell<'a>>,
}

impl RejectedFields<'_> {
    /// Nothing, in so many columns.
    pub(crate) fn nothing(kept: usize) -> Self {
        Self {
            id: Cell::Null,
            kept: vec![Cell::Null; kept],
        }
    }
}

/// The window that is being filled.
pub struct OpenWindow {
    /// The columns of its records.
    pub columns: InputColumns,
    /// Of tables: the pieces of this window's columns, in order.
    pieces: Vec<RecordBatch>,
    /// A record batch that is a window of its own, as it came.
    whole: Option<RecordBatch>,
    /// Records that are wanted yet, those of this window counted; `None`: all.
    pub left: Option<u64>,
    /// Warnings that go with this window.
    pub warnings: Vec<String>,
    /// Whether rejected records have rows among the columns, too.
    pub keeps_rejected: bool,
    slots: Vec<Slot>,
    texts: Texts,
    /// The starts of the raw records, and their fields, while the types of columns are undecided: any may be rejected yet.
    held: Vec<(Box<[u8]>, RecordFields)>,
    bytes: usize,
    /// Records of this window at most, and of any.
    rows: usize,
    most_rows: usize,
    most_bytes: usize,
}

impl OpenWindow {
    /// Without any record; it is full with so many records, or so many bytes.
    #[must_use]
    pub fn new(columns: InputColumns, most_rows: usize, most_bytes: usize) -> Self {
        Self {
            columns,
            pieces: Vec::new(),
            whole: None,
            left: None,
            warnings: Vec::new(),
            keeps_rejected: false,
            slots: Vec::new(),
            texts: Texts::default(),
            held: Vec::new(),
            bytes: 0,
            rows: most_rows,
            most_rows,
            most_bytes,
        }
    }

    /// Begins with small windows, each next one up to twice as large.
    pub fn begin_small(&mut self) {
        self.rows = FIRST_ROWS.min(self.most_rows);
    }

    /// How many records were gathered, rejected ones counted.
    pub(crate) fn records(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is nothing to make a window of.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records() == 0 && self.whole.is_none()
    }

    /// Whether it is time to close the window.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.whole.is_some()
            || self.records() > 0
                && (self.records() >= self.rows() || self.bytes >= self.most_bytes)
    }

    /// Records of this window at most.
    fn rows(&self) -> usize {
        match self.left {
            Some(left) => self.rows.min(usize::try_from(left).unwrap_or(usize::MAX)),
            None => self.rows,
        }
    }

    /// `rows`, or as many as are wanted yet.
    #[must_use]
    pub fn at_most(&self, rows: usize) -> usize {
        let left = self
            .left
            .map_or(u64::MAX, |left| left.saturating_sub(self.records() as u64));
        rows.min(usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// Whether as many records were read as are wanted.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.left.is_some_and(|left| self.records() as u64 >= left)
    }

    /// How many more rows of these sizes it takes to fill the window; at least one where there is any.
    pub fn room(&self, sizes: impl Iterator<Item = usize>) -> usize {
        let mut bytes = self.bytes;
        let fits = |size: &usize| {
            let room = bytes < self.most_bytes;
            bytes += size;
            room
        };
        let rows = self.rows().saturating_sub(self.records());
        sizes.take(rows).take_while(fits).count()
    }

    /// Takes consecutive rows of a table, the first of them at `origin`.
    ///
    /// `texts`: the texts in order; `Err`: why the row is rejected, and what it holds. `columns`: as many rows, in the schema of
    /// the window's columns, which hold about so many `bytes`.
    ///
    /// # Errors
    /// Only on an internal error.
    pub fn accept_rows<'a>(
        &mut self,
        mut origin: Origin,
        texts: impl ExactSizeIterator<Item = Result<Cow<'a, str>, (Cause, RecordFields)>>,
        columns: RecordBatch,
        bytes: usize,
    ) -> Result<()> {
        self.bytes += bytes;
        let mut stays = Vec::with_capacity(texts.len());
        for text in texts {
            stays.push(text.is_ok());
            match text {
                Ok(text) => {
                    self.bytes += text.len();
                    self.texts.push(&text);
                    self.slots.push(Slot::Text(origin));
                }
                Err((cause, fields)) => self.refuse(origin, cause, b"", fields),
            }
            origin.line += 1;
            origin.offset += 1;
        }
        self.pieces.push(match self.keeps_rejected {
            true => columns,
            false => filter(columns, stays)?,
        });
        Ok(())
    }

    /// Makes the window that of one record batch, whatever its size.
    pub fn close_with(&mut self, whole: RecordBatch) {
        self.whole = Some(whole);
    }

    /// Takes a record; `raw` is the line that it was read from, and `fields` are its own.
    pub(crate) fn accept(
        &mut self,
        origin: Origin,
        record: &Record<'_>,
        raw: &[u8],
        fields: impl FnOnce(&InputColumns) -> RecordFields,
    ) {
        if self.columns.undecided() {
            let fields = fields(&self.columns);
            self.bytes += fields.members().len();
            self.held.push((raw_start(raw).into(), fields));
        }
        let kept: usize = record.kept.iter().map(Cell::bytes).sum();
        // A null takes room in its column, too.
        let columns = record.kept.len() * size_of::<u64>();
        self.bytes += record.text.len() + record.id.bytes() + kept + columns;
        self.texts.push(&record.text);
        self.slots.push(Slot::Text(origin));
        self.columns.push(origin, &record.id, &record.kept);
    }

    /// Takes a record that cannot be embedded, with its fields, as far as there are any; `known` is what is known of its
    /// columns.
    pub(crate) fn reject<'r>(
        &mut self,
        origin: Origin,
        cause: Cause,
        raw: &[u8],
        known: impl FnOnce(&InputColumns) -> RejectedFields<'r>,
        fields: impl FnOnce(&InputColumns) -> RecordFields,
    ) {
        if self.keeps_rejected {
            let known = known(&self.columns);
            self.bytes += known.id.bytes() + known.kept.iter().map(Cell::bytes).sum::<usize>();
            self.columns.push(origin, &known.id, &known.kept);
        }
        let fields = fields(&self.columns);
        self.refuse(origin, cause, raw, fields);
    }

    fn refuse(&mut self, origin: Origin, cause: Cause, raw: &[u8], fields: RecordFields) {
        let raw = raw_start(raw).to_vec();
        let remedy = cause.remedy.as_ref().map_or(0, String::len);
        self.bytes += cause.reason.len() + remedy + raw.len() + fields.members().len();
        self.slots.push(Slot::Reject(Box::new(Reject {
            origin,
            cause,
            raw,
            fields,
        })));
    }

    /// Closes the window and starts the next.
    ///
    /// # Errors
    /// Only on an internal error.
    pub fn close(&mut self, consumed: u64, position: Position) -> Result<Window> {
        let mut slots = std::mem::take(&mut self.slots);
        let mut texts = std::mem::take(&mut self.texts);
        let held = std::mem::take(&mut self.held);
        let keeps_rejected = self.keeps_rejected;
        // Whether a record that is a text, or was one, has a row among the columns.
        let has_row = |is_text: bool| is_text || keeps_rejected;
        // Without any row there is nothing to decide by: the next window counts as the first.
        let has_rows = slots.iter().any(|slot| has_row(slot.is_text()));
        let misfits = match self.columns.undecided() && has_rows {
            true => self.columns.decide(),
            false => BTreeMap::new(),
        };
        if has_rows {
            self.columns.fix();
        }
        let were_texts: Vec<bool> = slots.iter().map(Slot::is_text).collect();
        if !misfits.is_empty() {
            reject_misfits(&mut slots, misfits, held, has_row);
            let own = were_texts.iter().zip(&slots).filter(|(was, _)| **was);
            let own = own.zip(texts.iter());
            texts = own
                .filter(|((_, slot), _)| slot.is_text())
                .map(|(_, text)| text)
                .collect();
        }
        let rows = were_texts.iter().zip(&slots);
        let rows = rows.filter(|(was_text, _)| has_row(**was_text));
        let stays: Vec<bool> = rows.map(|(_, slot)| slot.is_text()).collect();
        let records = slots.len() as u64;
        self.left = self.left.map(|left| left.saturating_sub(records));
        self.bytes = 0;
        self.rows = self.rows.saturating_mul(2).min(self.most_rows);
        let columns = match std::mem::take(&mut self.pieces) {
            pieces if pieces.is_empty() => self.columns.finish()?,
            pieces if pieces.len() == 1 => pieces.into_iter().next().expect("there is one"),
            pieces => concat_batches(&self.columns.schema(), &pieces).map_err(unsound)?,
        };
        let rejected = match self.keeps_rejected {
            true => {
                let rejected = stays.iter().map(|stays| !stays).collect();
                Some(filter(columns.clone(), rejected)?)
            }
            false => None,
        };
        Ok(Window {
            slots,
            texts,
            columns: filter(columns, stays)?,
            rejected,
            consumed,
            position,
            batch: self.whole.take(),
            warnings: std::mem::take(&mut self.warnings),
            has_id_field: self.columns.has_found_ids(),
            mark: None,
        })
    }
}

fn raw_start(raw: &[u8]) -> &[u8] {
    &raw[..raw.len().min(Reject::RAW_BYTES)]
}

/// Makes rejects of the texts with a value that does not fit into its column; `misfits` has them by their rows, and `held`
/// each text's record.
fn reject_misfits(
    slots: &mut [Slot],
    mut misfits: BTreeMap<usize, Cause>,
    held: Vec<(Box<[u8]>, RecordFields)>,
    has_row: impl Fn(bool) -> bool,
) {
    let rows = slots.iter_mut().filter(|slot| has_row(slot.is_text()));
    let mut held = held.into_iter();
    for (row, slot) in rows.enumerate() {
        // Records that were rejected before are not rejected again.
        let Slot::Text(origin) = *slot else { continue };
        let record = held.next();
        if let Some(cause) = misfits.remove(&row) {
            let (raw, fields) =
                record.expect("texts are held while the types of columns are undecided");
            *slot = Slot::Reject(Box::new(Reject {
                origin,
                cause,
                raw: raw.into(),
                fields,
            }));
        }
    }
}

fn filter(columns: RecordBatch, stays: Vec<bool>) -> Result<RecordBatch> {
    if !stays.contains(&false) {
        return Ok(columns);
    }
    filter_record_batch(&columns, &BooleanArray::from(stays)).map_err(unsound)
}

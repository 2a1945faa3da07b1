//! The data of the pipeline: windows of records on the way in, rows with vectors on the way out.
//!
//! A *record* is what the input holds (a line of text, a JSON object). A *row* is what the output holds: a record that
//! was accepted, or a chunk of one ([`RowRef`] says which).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::marks::WindowSpan;
use crate::position::Position;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::filter_record_batch;
use embedctl_common::error::{Cause, Error, Place, Result};

pub use embedctl_common::Texts;
pub use embedctl_vectors::{Numbers, RowParts, RowVector, RowVectors};

/// Where a record was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Index into the list of sources, in the order in which they were given.
    pub source: u32,
    /// Line number in that source, counted from 1 (a record's first line); in a table the row's number.
    pub line: u64,
    /// Byte offset of the record's first byte in the (decompressed) source; in a table the row's number, from 0.
    pub offset: u64,
}

impl Origin {
    /// The place in one of the sources with these names, for messages.
    #[must_use]
    pub fn place(&self, names: &SourceNames) -> Place {
        let name = names.get(self.source as usize);
        Place::file(name.map_or("input", String::as_str)).line(self.line)
    }
}

/// A record that cannot be embedded, and why.
#[derive(Debug, Clone)]
pub struct Reject {
    /// Where it stands.
    pub origin: Origin,
    /// The reason and the remedy.
    pub cause: Cause,
    /// The first bytes of the raw record ([`Reject::RAW_BYTES`] at most).
    pub raw: Vec<u8>,
    /// The record itself, as far as it could be read.
    pub fields: RecordFields,
}

impl Reject {
    /// How many raw bytes of a rejected record are kept.
    pub const RAW_BYTES: usize = 512;
}

/// The fields of a record that the run reads (id, text and kept ones), as members of a JSON object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFields {
    names: HashSet<String>,
    json: Vec<u8>,
}

impl RecordFields {
    /// Adds the field `name`, unless it is there already; `write` appends its value in JSON.
    pub fn add(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        if self.has(name) {
            return;
        }
        if !self.json.is_empty() {
            self.json.push(b',');
        }
        push(&mut self.json, name);
        self.json.push(b':');
        write(&mut self.json);
        self.names.insert(name.to_owned());
    }

    /// Adds a field that holds a string.
    pub fn add_text(&mut self, name: &str, text: &str) {
        self.add(name, |out| push(out, text));
    }

    /// Whether the record has a field of that name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The field's value in JSON, if the record has it.
    #[must_use]
    pub fn json(&self, name: &str) -> Option<String> {
        let whole = [b"{", self.json.as_slice(), b"}"].concat();
        // As it was written: a decimal has more digits than a float holds.
        let fields: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(&whole).ok()?;
        fields.get(name).map(|value| value.get().to_owned())
    }

    /// The members, separated by commas.
    #[must_use]
    pub fn members(&self) -> &[u8] {
        &self.json
    }
}

/// Appends a string in JSON.
fn push(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a Vec takes every byte, and a string always encodes");
}

/// A record of a window: a text, or why it is none.
#[derive(Debug, Clone)]
pub enum Slot {
    /// The next of the window's texts, which was read there.
    Text(Origin),
    /// A record that cannot be embedded.
    Reject(Box<Reject>),
}

impl Slot {
    /// Where it was read.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match self {
            Self::Text(origin) => *origin,
            Self::Reject(reject) => reject.origin,
        }
    }

    /// Whether it is a text.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    /// Why it is none; `None` for a text.
    #[must_use]
    pub fn reject(&self) -> Option<&Reject> {
        match self {
            Self::Text(_) => None,
            Self::Reject(reject) => Some(reject),
        }
    }
}

/// Consecutive records of the input, as many as fit the window's limits.
#[derive(Debug)]
pub struct Window {
    /// Its records, in input order.
    pub slots: Vec<Slot>,
    /// The texts of its slots.
    pub texts: Texts,
    /// Column `id` first, then the kept fields; as many rows as `texts`.
    pub columns: RecordBatch,
    /// After `RecordReader::keep_rejected`: what is known of each rejected record, in the
    /// schema of `columns`.
    pub rejected: Option<RecordBatch>,
    /// Bytes of the sources (compressed, where they are) consumed at the end of this window.
    pub consumed: u64,
    /// Where the record behind this window stands.
    pub position: Position,
    /// Where batches are windows ([`crate::options::BatchWindows`]): the record batch that this window was, with all
    /// of its columns, and a row for each of its texts and rejects, in their order.
    pub batch: Option<RecordBatch>,
    /// Notes for the user about the input.
    pub warnings: Vec<String>,
    /// Whether a record so far, or the header or schema of a table, had the field of ids.
    pub has_id_field: bool,
    /// Its position in the input, for a job that may resume after it.
    pub mark: Option<WindowSpan>,
}

impl Window {
    /// How many records it holds, rejected ones counted.
    #[must_use]
    pub fn records(&self) -> usize {
        self.slots.len()
    }

    /// Where each text was read.
    pub fn origins(&self) -> impl Iterator<Item = Origin> {
        let texts = self.slots.iter().filter(|slot| slot.is_text());
        texts.map(Slot::origin)
    }

    /// Its rejected records.
    pub fn rejects(&self) -> impl Iterator<Item = &Reject> {
        self.slots.iter().filter_map(Slot::reject)
    }

    /// How many of the first `records` records are texts.
    #[must_use]
    pub fn texts_before(&self, records: usize) -> usize {
        let before = &self.slots[..records.min(self.slots.len())];
        before.iter().filter(|slot| slot.is_text()).count()
    }

    /// Leaves out the records for which `stays` (as long as there are records) says no, with what belongs to them.
    ///
    /// # Errors
    /// Only on an internal error.
    pub fn retain(&mut self, stays: &[bool]) -> Result<()> {
        let filter = |columns: &RecordBatch, stays: Vec<bool>| {
            filter_record_batch(columns, &BooleanArray::from(stays))
                .map_err(|error| Error::internal(format!("leaving out records: {error}")))
        };
        let of_kind = |texts: bool| -> Vec<bool> {
            let slots = self.slots.iter().zip(stays);
            let own = slots.filter(|(slot, _)| slot.is_text() == texts);
            own.map(|(_, stays)| *stays).collect()
        };
        let texts = of_kind(true);
        if let Some(batch) = &self.batch {
            self.batch = Some(filter(batch, stays.to_vec())?);
        }
        if let Some(rejected) = &self.rejected {
            self.rejected = Some(filter(rejected, of_kind(false))?);
        }
        let left = self.texts.iter().zip(&texts).filter(|(_, stays)| **stays);
        self.texts = left.map(|(text, _)| text).collect();
        self.columns = filter(&self.columns, texts)?;
        let mut each = stays.iter();
        self.slots.retain(|_| each.next() == Some(&true));
        Ok(())
    }
}

/// Metadata (key and value) of a kept column of strings that are JSON values as they were written.
pub const JSON_COLUMN: (&str, &str) = ("embedctl.type", "json");

/// Which input row an output row came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRef {
    /// Number of the record among all records read (rejected ones counted), from 0.
    pub record: u64,
    /// Number of the part within that record, from 0.
    pub part: u32,
}

/// Rows ready to be written.
#[derive(Debug)]
pub struct Rows {
    /// Column `id` first, then the kept fields.
    pub columns: RecordBatch,
    /// Where each row's record was read.
    pub origins: Vec<Origin>,
    /// Which record each row came from.
    pub refs: Vec<RowRef>,
    /// Vectors; those of several widths stand one after another in a row.
    pub vectors: RowVectors,
    /// Width of a row's vectors in full, all together.
    pub dimensions: usize,
    /// Which rows have no vector, and zeros or no entries in its place: they are null in it. `None`: all have one.
    pub missing: Option<NullBuffer>,
}

impl Rows {
    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.refs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.refs.is_empty()
    }

    /// Whether row `index` has no vector.
    #[must_use]
    pub fn is_missing(&self, index: usize) -> bool {
        (self.missing.as_ref()).is_some_and(|missing| missing.is_null(index))
    }

    /// The vector of row `index`.
    #[must_use]
    pub fn vector(&self, index: usize) -> RowParts<'_> {
        self.vectors.get(index)
    }
}

/// The sources' names as shown in messages, rejects and sidecars.
pub type SourceNames = Arc<[String]>;

//! The columns of a window: `id` and the kept fields, in arrow's arrays.
//!
//! The first window decides the type of a kept field that has none: until it closes, values are held as they are
//! written, and values that don't fit are rejected then. In a table the schema decides at once.

mod begin;
mod ids;
mod tables;

pub use tables::is_json;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::cells::{self, Basis, Builder, Cell, KeptColumn};
use crate::fields::KeepType;
use crate::fit;
use crate::places::PlaceColumns;
use crate::record::Origin;
use crate::unsound;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use begin::of_text;
use embedctl_common::error::{Cause, Result};
use embedctl_common::setting::KEEP;
use ids::InferredIds;

/// Fields that a warning names one by one.
const NAMED: usize = 20;

/// Gathers columns row by row, and knows what type each has.
pub struct InputColumns {
    id: KeptColumn,
    kept: Vec<KeptColumn>,
    /// Their names.
    known: HashSet<String>,
    /// Name of the field that is the text, where one is.
    text: Option<String>,
    /// Name of the field that is the id, where one is.
    id_field: Option<String>,
    /// Whether a source has that field.
    found_ids: bool,
    /// What the ids of the first window are so far, where they decide the column's type.
    inferred: Option<InferredIds>,
    /// Whether ids decide it, or have.
    infers_ids: bool,
    /// Whether the types are those of a window that was closed, or of a table.
    fixed: bool,
    /// Whether every field is kept.
    all: bool,
    /// The columns that a record's place decides.
    places: PlaceColumns,
    schema: SchemaRef,
}

impl InputColumns {
    /// Whether records have ids.
    pub(crate) fn has_ids(&self) -> bool {
        self.id_field.is_some()
    }

    /// Whether a source so far has the field of ids.
    pub(crate) fn has_found_ids(&self) -> bool {
        self.found_ids
    }

    /// Takes down whether a source has the field of ids.
    pub fn find_ids(&mut self, found: bool) {
        self.found_ids |= found;
    }

    /// Whether the ids of the window at hand decide the type of all ids.
    #[must_use]
    pub fn infers_ids(&self) -> bool {
        self.inferred.is_some()
    }

    /// Whether the types depend on what was read.
    #[must_use]
    pub fn are_inferred(&self) -> bool {
        !self.kept.is_empty() || self.infers_ids
    }

    /// Names of the kept columns.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(|column| column.name.as_str())
    }

    /// The columns that a record's place decides.
    #[must_use]
    pub fn of_places(&self) -> &PlaceColumns {
        &self.places
    }

    /// Whether every field is kept.
    pub(crate) fn keeps_all(&self) -> bool {
        self.all
    }

    /// Where every field is kept: adds columns for `fields`, but for the one that ids are read from. After the
    /// first window fields that have no column are left out, and a warning says so.
    ///
    /// # Errors
    /// If a field is called as a column of the output's own.
    pub fn expand<'n>(
        &mut self,
        fields: impl Iterator<Item = &'n str>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Cause> {
        if !self.all {
            return Ok(());
        }
        let (mut left_out, mut more) = (Vec::new(), 0_usize);
        let kept = self.kept.len();
        let id_field = self.id_field.clone();
        for name in fields.filter(|name| Some(*name) != id_field.as_deref()) {
            // A partition's column holds the values of a field of its name, too: others are refused.
            if self.known.contains(name) || self.places.is_partition(name) {
                continue;
            }
            if self.fixed {
                match left_out.len() < NAMED {
                    true => left_out.push(format!("`{name}`")),
                    false => more += 1,
                }
                continue;
            }
            if self.places.has(name) {
                return Err(Cause::of(format!(
                    "`{KEEP} '*'` finds a field `{name}`, but the output has a column of its own by that name"
                ))
                .with("rename the field, or name the fields to be kept one by one"));
            }
            let mut column = KeptColumn::new(name, of_text(self.text.as_deref(), name));
            (0..self.id.builder.len()).for_each(|_| column.builder.push(&Cell::Null));
            self.kept.push(column);
            self.known.insert(name.to_owned());
            // The column of ids gives way to a field of its name.
            if name == self.id.name {
                self.rename_ids();
            }
        }
        if more > 0 {
            left_out.push(format!("and {more} more"));
        }
        if !left_out.is_empty() {
            warnings.push(format!(
                "fields that were not in the first records are not kept by `{KEEP} '*'`: {}; name them with \
                 `{KEEP}` where they are wanted",
                left_out.join(", ")
            ));
        }
        if self.kept.len() > kept {
            self.renew();
        }
        Ok(())
    }

    /// `id` and the kept fields; a field whose type is not decided yet is a string.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// How many kept columns there are.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Whether a kept field waits for the first window to decide, or one that is yet to come may.
    #[must_use]
    pub fn undecided(&self) -> bool {
        !self.fixed && (self.all || self.kept.iter().any(|column| column.kind.is_none()))
    }

    /// The cell of the kept column `index` for a value as it is written.
    ///
    /// # Errors
    /// The reason for which the value cannot stand in this column.
    pub(crate) fn cell<'a>(&self, index: usize, raw: Option<&'a str>) -> Result<Cell<'a>, Cause> {
        self.kept[index].cell(raw)
    }

    /// The cell of the kept column `index` for a field of plain text.
    ///
    /// # Errors
    /// As [`InputColumns::cell`].
    pub(crate) fn text_cell<'a>(&self, index: usize, text: &'a str) -> Result<Cell<'a>, Cause> {
        self.kept[index].text_cell(text)
    }

    /// Whether that is the name of the field that is the text.
    pub(crate) fn is_text(&self, name: &str) -> bool {
        self.text.as_deref() == Some(name)
    }

    /// The cells of the kept columns for a line that is all text: the text's column holds it, the others are null.
    ///
    /// # Errors
    /// As [`InputColumns::cell`].
    pub(crate) fn line_cells<'a>(&self, line: &'a str) -> Result<Vec<Cell<'a>>, Cause> {
        let cells = self.kept.iter().map(|column| match self.text.as_ref() {
            Some(text) if *text == column.name => column.text_cell(line),
            _ => Ok(Cell::Null),
        });
        cells.collect()
    }

    /// The columns that places decide, for `count` rows from `origin` on.
    #[must_use]
    pub fn places(&self, origin: Origin, count: usize) -> Vec<ArrayRef> {
        self.places.of_rows(origin, count)
    }

    /// Appends one row; `kept` comes from [`InputColumns::cell`].
    pub(crate) fn push(&mut self, origin: Origin, id: &Cell<'_>, kept: &[Cell<'_>]) {
        self.push_id(id);
        self.places.push(origin);
        for (column, cell) in self.kept.iter_mut().zip(kept) {
            column.builder.push(cell);
        }
    }

    /// Decides the types that are not decided yet from the rows at hand. Returns the rows that don't
    /// fit, with the reasons; they hold null.
    pub(crate) fn decide(&mut self) -> BTreeMap<usize, Cause> {
        let mut misfits = BTreeMap::new();
        for column in &mut self.kept {
            let Builder::Undecided(values) = &mut column.builder else {
                continue;
            };
            let values = std::mem::take(values);
            let (kind, basis) = match cells::decide(values.iter().flatten().map(AsRef::as_ref)) {
                Some(kind) => (kind, Basis::Values),
                None => (KeepType::String, Basis::Nulls),
            };
            let mut builder = Builder::new(Some(kind));
            for (row, value) in values.iter().enumerate() {
                let cell = cells::convert(&column.name, kind, basis, value.as_deref());
                builder.push(cell.as_ref().unwrap_or(&Cell::Null));
                if let Err(reason) = cell {
                    misfits.entry(row).or_insert(reason);
                }
            }
            column.kind = Some((kind, basis));
            column.builder = builder;
        }
        self.renew();
        misfits
    }

    /// Whether the types are those of a window that was closed, or of a table.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// From now on the types stay as they are.
    pub(crate) fn fix(&mut self) {
        self.decide_ids();
        self.fixed = true;
    }

    /// The rows gathered so far; starts anew.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(1 + self.kept.len());
        for column in std::iter::once(&mut self.id).chain(&mut self.kept) {
            let array = column.builder.finish();
            arrays.push(match &column.field {
                Some(field) => fit::fit(&array, field.data_type())?,
                None => array,
            });
        }
        arrays.extend(self.places.finish());
        RecordBatch::try_new(self.schema(), arrays).map_err(unsound)
    }
}

//! The columns of a window: `id` and the kept fields, in arrow's arrays.
//!
//! A kept field without a type holds its values as they are written until the first window closes;
//! then they decide, and those that don't fit are rejected late.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, RecordBatch, StringBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::cells::{self, Basis, Cell};
use super::fields::{IdType, Keep, KeepType};
use crate::error::{Error, Result};
use crate::record::JSON_COLUMN;

/// Gathers columns row by row.
pub(super) struct Columns {
    id: Builder,
    kept: Vec<Column>,
    schema: SchemaRef,
}

struct Column {
    name: String,
    /// `None`: the first window has not decided yet.
    kind: Option<(KeepType, Basis)>,
    builder: Builder,
}

enum Builder {
    String(StringBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Bool(BooleanBuilder),
    Undecided(Vec<Option<Box<str>>>),
}

impl Columns {
    /// Columns without any row. `text_field` is a string whatever the records hold.
    pub(super) fn new(id_type: IdType, keep: &[Keep], text_field: &str) -> Self {
        let kept: Vec<Column> = keep
            .iter()
            .map(|keep| {
                let text = (keep.name == text_field).then_some((KeepType::String, Basis::Values));
                let kind = keep.kind.map(|kind| (kind, Basis::Declared)).or(text);
                Column {
                    name: keep.name.clone(),
                    kind,
                    builder: Builder::new(kind.map(|kind| kind.0)),
                }
            })
            .collect();
        let id = Builder::new(Some(match id_type {
            IdType::String => KeepType::String,
            IdType::Int => KeepType::Int,
        }));
        let schema = schema(&id, &kept);
        Self { id, kept, schema }
    }

    /// `id` and the kept fields; a field whose type is not decided yet is a string.
    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// How many kept columns there are.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Whether a kept field waits for the first window to decide.
    pub(super) fn undecided(&self) -> bool {
        self.kept.iter().any(|column| column.kind.is_none())
    }

    /// What the kept column of number `index` will hold for a value as it is written.
    ///
    /// # Errors
    /// The reason for which the value cannot stand in this column.
    pub(super) fn cell<'a>(&self, index: usize, raw: Option<&'a str>) -> Result<Cell<'a>, String> {
        let column = &self.kept[index];
        match column.kind {
            Some((kind, basis)) => cells::convert(&column.name, kind, basis, raw),
            None => Ok(raw.map_or(Cell::Null, Cell::Json)),
        }
    }

    /// Appends one row; `kept` comes from [`Columns::cell`].
    pub(super) fn push(&mut self, id: &Cell<'_>, kept: &[Cell<'_>]) {
        self.id.push(id);
        for (column, cell) in self.kept.iter_mut().zip(kept) {
            column.builder.push(cell);
        }
    }

    /// Decides the types that are not decided yet from the rows at hand. Returns the rows that don't
    /// fit, with the reasons; they hold null.
    pub(super) fn decide(&mut self) -> BTreeMap<usize, String> {
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
        self.schema = schema(&self.id, &self.kept);
        misfits
    }

    /// The rows gathered so far; starts anew.
    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        let mut arrays = vec![self.id.finish()];
        arrays.extend(self.kept.iter_mut().map(|column| column.builder.finish()));
        RecordBatch::try_new(self.schema(), arrays)
            .map_err(|error| Error::internal(format!("columns of the input: {error}")))
    }
}

fn schema(id: &Builder, kept: &[Column]) -> SchemaRef {
    let mut fields = vec![Field::new("id", id.data_type(), true)];
    fields.extend(kept.iter().map(|column| {
        let field = Field::new(&column.name, column.builder.data_type(), true);
        if matches!(column.kind, Some((KeepType::Json, _))) {
            let (key, value) = JSON_COLUMN;
            return field.with_metadata([(key.to_owned(), value.to_owned())]);
        }
        field
    }));
    Arc::new(Schema::new(fields))
}

impl Builder {
    fn new(kind: Option<KeepType>) -> Self {
        match kind {
            None => Self::Undecided(Vec::new()),
            Some(KeepType::String | KeepType::Json) => Self::String(StringBuilder::new()),
            Some(KeepType::Int) => Self::Int(Int64Builder::new()),
            Some(KeepType::Float) => Self::Float(Float64Builder::new()),
            Some(KeepType::Bool) => Self::Bool(BooleanBuilder::new()),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::String(_) | Self::Undecided(_) => DataType::Utf8,
            Self::Int(_) => DataType::Int64,
            Self::Float(_) => DataType::Float64,
            Self::Bool(_) => DataType::Boolean,
        }
    }

    /// Appends a cell of this column's type, or null.
    fn push(&mut self, cell: &Cell<'_>) {
        match (self, cell) {
            (Self::String(builder), Cell::String(text)) => builder.append_value(text),
            (Self::String(builder), Cell::Json(raw)) => builder.append_value(raw),
            (Self::Int(builder), Cell::Int(number)) => builder.append_value(*number),
            (Self::Float(builder), Cell::Float(number)) => builder.append_value(*number),
            (Self::Bool(builder), Cell::Bool(value)) => builder.append_value(*value),
            (Self::Undecided(values), Cell::Json(raw)) => values.push(Some((*raw).into())),
            (Self::String(builder), Cell::Null) => builder.append_null(),
            (Self::Int(builder), Cell::Null) => builder.append_null(),
            (Self::Float(builder), Cell::Null) => builder.append_null(),
            (Self::Bool(builder), Cell::Null) => builder.append_null(),
            (Self::Undecided(values), Cell::Null) => values.push(None),
            (_, cell) => unreachable!("{cell:?} was made for another column"),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::String(builder) => Arc::new(builder.finish()),
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::Float(builder) => Arc::new(builder.finish()),
            Self::Bool(builder) => Arc::new(builder.finish()),
            // Only a window without any row closes while types are undecided.
            Self::Undecided(_) => Arc::new(StringBuilder::new().finish()),
        }
    }
}

//! One kept column, and its rows as they are gathered.

use std::sync::Arc;

use super::cells::{self, Basis, Cell};
use super::fields::KeepType;
use super::fit;
use crate::record::JSON_COLUMN;
use arrow::array::{
    ArrayBuilder, ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder,
};
use arrow::datatypes::{DataType, Field, FieldRef};
use embedctl_common::error::{Cause, Result};
use embedctl_common::setting::KEEP;

/// A kept column.
pub(crate) struct KeptColumn {
    pub name: String,
    /// How records of lines are read; `None`: the first window has not decided yet.
    pub kind: Option<(KeepType, Basis)>,
    /// As a table has it.
    pub field: Option<FieldRef>,
    pub builder: Builder,
}

/// Gathers values of one type; or of none yet, as they are written.
pub(crate) enum Builder {
    String(StringBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Bool(BooleanBuilder),
    Undecided(Vec<Option<Box<str>>>),
}

impl Builder {
    pub(crate) fn new(kind: Option<KeepType>) -> Self {
        match kind {
            None => Self::Undecided(Vec::new()),
            Some(KeepType::String | KeepType::Json) => Self::String(StringBuilder::new()),
            Some(KeepType::Int) => Self::Int(Int64Builder::new()),
            Some(KeepType::Float) => Self::Float(Float64Builder::new()),
            Some(KeepType::Bool) => Self::Bool(BooleanBuilder::new()),
        }
    }

    /// How many values were pushed.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::String(builder) => builder.len(),
            Self::Int(builder) => builder.len(),
            Self::Float(builder) => builder.len(),
            Self::Bool(builder) => builder.len(),
            Self::Undecided(values) => values.len(),
        }
    }

    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Self::String(_) | Self::Undecided(_) => DataType::Utf8,
            Self::Int(_) => DataType::Int64,
            Self::Float(_) => DataType::Float64,
            Self::Bool(_) => DataType::Boolean,
        }
    }

    /// Appends a cell of this column's type, or null.
    pub(crate) fn push(&mut self, cell: &Cell<'_>) {
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

    pub(crate) fn finish(&mut self) -> ArrayRef {
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

impl KeptColumn {
    /// Without any row.
    pub(crate) fn new(name: &str, kind: Option<(KeepType, Basis)>) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            field: None,
            builder: Builder::new(kind.map(|kind| kind.0)),
        }
    }

    /// Its name and type.
    pub(crate) fn field(&self) -> FieldRef {
        if let Some(field) = &self.field {
            return Arc::clone(field);
        }
        let field = Field::new(&self.name, self.builder.data_type(), true);
        Arc::new(if matches!(self.kind, Some((KeepType::Json, _))) {
            let (key, value) = JSON_COLUMN;
            field.with_metadata([(key.to_owned(), value.to_owned())])
        } else {
            field
        })
    }

    /// The cell for a value as it is written.
    ///
    /// # Errors
    /// The reason for which the value cannot stand in this column.
    pub(crate) fn cell<'a>(&self, raw: Option<&'a str>) -> Result<Cell<'a>, Cause> {
        let name = &self.name;
        let Some((kind, basis)) = self.kind else {
            return Ok(raw.map_or(Cell::Null, Cell::Json));
        };
        let cell = cells::convert(name, kind, basis, raw)?;
        match (&cell, &self.field) {
            (Cell::Int(number), Some(field)) if !fit::holds(field.data_type(), *number) => {
                let to = field.data_type();
                Err(Cause::of(format!(
                    "the kept field `{name}` ({number}) does not fit into {to}, the type of what was read before"
                ))
                .with(format!("use `{KEEP} {name}:int`")))
            }
            _ => Ok(cell),
        }
    }

    /// The cell for a field of plain text.
    ///
    /// # Errors
    /// As [`KeptColumn::cell`].
    pub(crate) fn text_cell<'a>(&self, text: &'a str) -> Result<Cell<'a>, Cause> {
        let kind = self.kind.map_or(KeepType::String, |(kind, _)| kind);
        cells::of_text(&self.name, kind, text)
    }
}

//! The columns of a window: `id` and the kept fields, in arrow's arrays.
//!
//! A kept field without a type holds its values as they are written until the first window closes;
//! then they decide, and those that don't fit are rejected late. A table decides at once, by its schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, RecordBatch, StringBuilder,
};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use super::cells::{self, Basis, Cell};
use super::columnar;
use super::fields::{IdType, Keep, KeepType};
use crate::error::{Error, Result};
use crate::record::JSON_COLUMN;

/// Gathers columns row by row, and knows what type each has.
pub(super) struct Columns {
    id: Builder,
    kept: Vec<Column>,
    /// Whether the types are those of a window that was closed, or of a table.
    fixed: bool,
    schema: SchemaRef,
}

struct Column {
    name: String,
    /// How records of lines are read; `None`: the first window has not decided yet.
    kind: Option<(KeepType, Basis)>,
    /// As a table has it.
    field: Option<FieldRef>,
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
                    field: None,
                    builder: Builder::new(kind.map(|kind| kind.0)),
                }
            })
            .collect();
        let id = Builder::new(Some(match id_type {
            IdType::String => KeepType::String,
            IdType::Int => KeepType::Int,
        }));
        let schema = schema(&id, &kept);
        Self {
            id,
            kept,
            fixed: false,
            schema,
        }
    }

    /// `id` and the kept fields; a field whose type is not decided yet is a string.
    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Takes the types of a table's columns (in the order of the kept ones; `None` where it lacks one), or
    /// finds whether they can follow those that are decided already.
    ///
    /// # Errors
    /// The reason for which the table's column cannot stand in this one, and the remedy.
    pub(super) fn adopt(&mut self, found: &[Option<FieldRef>]) -> Result<(), String> {
        for (column, found) in self.kept.iter_mut().zip(found) {
            let Some(found) = found else { continue };
            let (name, from) = (&column.name, found.data_type());
            match column.kind {
                Some((kind, Basis::Declared)) => {
                    if !columnar::takes(kind, from) {
                        return Err(format!(
                            "the column `{name}` has the type {from}, which `--keep {name}:{kind}` does not take; \
                             leave the type out (`--keep {name}`), and it is kept as it is"
                        ));
                    }
                }
                _ if self.fixed => {
                    let field = column.field();
                    let to = field.data_type();
                    if !columnar::follows(from, to) || is_json(&field) != is_json(found) {
                        return Err(format!(
                            "the column `{name}` has the type {from}, but what was read before made it {to}; give \
                             it one type for all inputs, for example `--keep {name}:string`"
                        ));
                    }
                }
                _ => {
                    let field = found.as_ref().clone().with_name(name).with_nullable(true);
                    column.kind = lines_kind(&field).map(|kind| (kind, Basis::Values));
                    column.field = Some(Arc::new(field));
                    column.builder = Builder::new(column.kind.map(|kind| kind.0));
                }
            }
        }
        self.fixed = true;
        self.schema = schema(&self.id, &self.kept);
        Ok(())
    }

    /// Fails where records of lines cannot fill a column that a table has decided.
    ///
    /// # Errors
    /// The reason and the remedy.
    pub(super) fn check_lines(&self) -> Result<(), String> {
        let alien = |column: &&Column| column.kind.is_none() && column.field.is_some();
        match self.kept.iter().find(alien) {
            None => Ok(()),
            Some(column) => Err(format!(
                "the kept column `{name}` has the type {kind} in what was read before, which lines cannot hold; \
                 use `--keep {name}:string`, or embed this input on its own",
                name = column.name,
                kind = column.field().data_type()
            )),
        }
    }

    /// How many kept columns there are.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Whether a kept field waits for the first window to decide.
    pub(super) fn undecided(&self) -> bool {
        !self.fixed && self.kept.iter().any(|column| column.kind.is_none())
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

    /// Whether the types are those of a window that was closed, or of a table.
    pub(super) fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// From now on the types stay as they are.
    pub(super) fn fix(&mut self) {
        self.fixed = true;
    }

    /// The rows gathered so far; starts anew.
    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        let mut arrays = vec![self.id.finish()];
        for column in &mut self.kept {
            let array = column.builder.finish();
            arrays.push(match &column.field {
                Some(field) => columnar::fit(&array, field.data_type())?,
                None => array,
            });
        }
        RecordBatch::try_new(self.schema(), arrays)
            .map_err(|error| Error::internal(format!("columns of the input: {error}")))
    }
}

fn schema(id: &Builder, kept: &[Column]) -> SchemaRef {
    let id = Arc::new(Field::new("id", id.data_type(), true));
    let fields = [id].into_iter().chain(kept.iter().map(Column::field));
    Arc::new(Schema::new(fields.collect::<Fields>()))
}

/// Whether a column's strings are JSON values as they were written.
pub(super) fn is_json(field: &Field) -> bool {
    let kind = field.metadata().get(JSON_COLUMN.0);
    kind.is_some_and(|kind| kind == JSON_COLUMN.1)
}

/// How records of lines fill a table's column; `None` where they cannot.
fn lines_kind(field: &Field) -> Option<KeepType> {
    Some(match field.data_type() {
        _ if is_json(field) => KeepType::Json,
        kind if columnar::is_text(kind) => KeepType::String,
        DataType::Boolean => KeepType::Bool,
        kind if kind.is_integer() => KeepType::Int,
        DataType::Float64 => KeepType::Float,
        _ => return None,
    })
}

impl Column {
    /// Its name and type.
    fn field(&self) -> FieldRef {
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

//! The columns of a window: `id` and the kept fields, in arrow's arrays.
//!
//! A kept field without a type holds its values as they are written until the first window closes;
//! then they decide, and those that don't fit are rejected late. A table decides at once, by its schema.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::builder::{Builder, KeptColumn};
use super::cells::{self, Basis, Cell};
use super::fields::{IdType, KeepType};
use super::fit;
use super::options::InputOptions;
use super::texts::is_text;
use crate::record::{JSON_COLUMN, Origin, SourceNames};
use arrow::array::{ArrayRef, Int64Array, Int64Builder, RecordBatch, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::setting::KEEP;

/// Fields that a warning names one by one.
const NAMED: usize = 20;

/// Gathers columns row by row, and knows what type each has.
pub(crate) struct InputColumns {
    id: Builder,
    kept: Vec<KeptColumn>,
    /// Their names.
    known: HashSet<String>,
    /// Name of the field that is the text, where one is.
    text: Option<String>,
    /// Whether the types are those of a window that was closed, or of a table.
    fixed: bool,
    /// Whether every field is kept.
    all: bool,
    /// The columns `file` and `line`.
    places: Option<Places>,
    schema: SchemaRef,
}

/// Where each record stood.
struct Places {
    names: SourceNames,
    files: StringBuilder,
    lines: Int64Builder,
}

impl InputColumns {
    /// Columns without any row.
    pub(crate) fn new(options: &InputOptions, names: &SourceNames) -> Self {
        let text = match options.text_template {
            None => Some(options.text_field.clone()),
            Some(_) => None,
        };
        let kept: Vec<KeptColumn> = options
            .kept()
            .map(|keep| {
                let kind = keep.kind.map(|kind| (kind, Basis::Declared));
                KeptColumn::new(
                    &keep.name,
                    kind.or_else(|| of_text(text.as_deref(), &keep.name)),
                )
            })
            .collect();
        let id = Builder::new(Some(match options.id_type {
            IdType::String => KeepType::String,
            IdType::Int => KeepType::Int,
        }));
        let mut columns = Self {
            id,
            known: kept.iter().map(|column| column.name.clone()).collect(),
            kept,
            text,
            fixed: false,
            all: options.keeps_all(),
            places: options.source_columns.then(|| Places {
                names: Arc::clone(names),
                files: StringBuilder::new(),
                lines: Int64Builder::new(),
            }),
            schema: Arc::new(Schema::empty()),
        };
        columns.renew();
        columns
    }

    /// Names of the kept columns.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(|column| column.name.as_str())
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
    pub(crate) fn expand<'n>(
        &mut self,
        fields: impl Iterator<Item = &'n str>,
        id_field: &str,
        warnings: &mut Vec<String>,
    ) -> Result<(), Cause> {
        if !self.all {
            return Ok(());
        }
        let (mut left_out, mut more) = (Vec::new(), 0_usize);
        let kept = self.kept.len();
        for name in fields.filter(|name| *name != id_field) {
            if self.known.contains(name) {
                continue;
            }
            if self.fixed {
                match left_out.len() < NAMED {
                    true => left_out.push(format!("`{name}`")),
                    false => more += 1,
                }
                continue;
            }
            let own = ["id", "embedding"].contains(&name)
                || (self.places.is_some() && ["file", "line"].contains(&name));
            if own {
                return Err(Cause::of(format!(
                    "`{KEEP} '*'` finds a field `{name}`, and the output has a column of its own by that name"
                ))
                .with("rename the field, or name the fields to be kept one by one"));
            }
            let mut column = KeptColumn::new(name, of_text(self.text.as_deref(), name));
            (0..self.id.len()).for_each(|_| column.builder.push(&Cell::Null));
            self.kept.push(column);
            self.known.insert(name.to_owned());
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

    /// Makes the schema anew.
    fn renew(&mut self) {
        self.schema = schema(&self.id, &self.kept, self.places.is_some());
    }

    /// `id` and the kept fields; a field whose type is not decided yet is a string.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Takes the types of a table's columns (in the order of the kept ones; `None` where it lacks one), or
    /// checks that they can follow the types that are decided already.
    ///
    /// # Errors
    /// The reason for which the table's column cannot stand in this one, and the remedy.
    pub(crate) fn adopt(&mut self, found: &[Option<FieldRef>]) -> Result<(), Cause> {
        for (column, found) in self.kept.iter_mut().zip(found) {
            let Some(found) = found else { continue };
            let (name, from) = (&column.name, found.data_type());
            match column.kind {
                Some((kind, Basis::Declared)) => {
                    if !fit::takes(kind, from) {
                        return Err(Cause::of(format!(
                            "the column `{name}` has the type {from}, which `{KEEP} {name}:{kind}` does not take"
                        ))
                        .with(format!(
                            "leave the type out (`{KEEP} {name}`), and it is kept as it is"
                        )));
                    }
                }
                _ if self.fixed => {
                    let field = column.field();
                    let to = field.data_type();
                    if !fit::follows(from, to) || is_json(&field) != is_json(found) {
                        return Err(Cause::of(format!(
                            "the column `{name}` has the type {from}, but what was read before made it {to}"
                        ))
                        .with(format!(
                            "give it one type for all inputs, for example `{KEEP} {name}:string`"
                        )));
                    }
                }
                _ => {
                    let field = found.as_ref().clone().with_name(name).with_nullable(true);
                    let field = field.with_data_type(fit::of_several(from));
                    column.kind = lines_kind(&field).map(|kind| (kind, Basis::Values));
                    column.field = Some(Arc::new(field));
                    column.builder = Builder::new(column.kind.map(|kind| kind.0));
                }
            }
        }
        self.fixed = true;
        self.renew();
        Ok(())
    }

    /// Takes the types of another run, in a schema as [`InputColumns::schema`] gives it.
    ///
    /// # Errors
    /// If the options have not made that schema.
    pub(crate) fn go_on(&mut self, schema: &Schema) -> Result<(), Cause> {
        let places = if self.places.is_some() { 2 } else { 0 };
        let kept = schema.fields().iter().skip(1);
        let kept = kept.take(schema.fields().len().saturating_sub(1 + places));
        self.expand(
            kept.clone().map(|field| field.name().as_str()),
            "",
            &mut Vec::new(),
        )?;
        self.adopt(&kept.cloned().map(Some).collect::<Vec<_>>())
    }

    /// Fails where records of lines cannot fill a column that a table has decided.
    ///
    /// # Errors
    /// The reason and the remedy.
    pub(crate) fn check_lines(&self) -> Result<(), Cause> {
        let alien = |column: &&KeptColumn| column.kind.is_none() && column.field.is_some();
        match self.kept.iter().find(alien) {
            None => Ok(()),
            Some(column) => Err(Cause::of(format!(
                "the kept column `{}` has the type {} in what was read before, which lines cannot hold",
                column.name,
                column.field().data_type()
            ))
            .with(format!(
                "use `{KEEP} {}:string`, or embed this input on its own",
                column.name
            ))),
        }
    }

    /// How many kept columns there are.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Whether a kept field waits for the first window to decide, or one that is yet to come may.
    pub(crate) fn undecided(&self) -> bool {
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

    /// The columns `file` and `line` for `count` rows from `origin` on; none where they are not wanted.
    pub(crate) fn places(&self, origin: Origin, count: usize) -> Vec<ArrayRef> {
        let Some(places) = &self.places else {
            return Vec::new();
        };
        let file = place_name(&places.names, origin);
        let files = StringArray::from_iter_values(std::iter::repeat_n(file, count));
        let lines = (0..count as u64).map(|row| line_number(origin.line + row));
        vec![
            Arc::new(files),
            Arc::new(Int64Array::from_iter_values(lines)),
        ]
    }

    /// Appends one row; `kept` comes from [`InputColumns::cell`].
    pub(crate) fn push(&mut self, origin: Origin, id: &Cell<'_>, kept: &[Cell<'_>]) {
        self.id.push(id);
        if let Some(places) = &mut self.places {
            let file = place_name(&places.names, origin);
            places.files.append_value(file);
            places.lines.append_value(line_number(origin.line));
        }
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
    pub(crate) fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// From now on the types stay as they are.
    pub(crate) fn fix(&mut self) {
        self.fixed = true;
    }

    /// The rows gathered so far; starts anew.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        let mut arrays = vec![self.id.finish()];
        for column in &mut self.kept {
            let array = column.builder.finish();
            arrays.push(match &column.field {
                Some(field) => fit::fit(&array, field.data_type())?,
                None => array,
            });
        }
        if let Some(places) = &mut self.places {
            arrays.push(Arc::new(places.files.finish()));
            arrays.push(Arc::new(places.lines.finish()));
        }
        RecordBatch::try_new(self.schema(), arrays).map_err(unsound)
    }
}

/// The error for columns that do not go together.
pub(crate) fn unsound(error: ArrowError) -> Error {
    Error::internal(format!("columns of the input: {error}"))
}

fn schema(id: &Builder, kept: &[KeptColumn], places: bool) -> SchemaRef {
    let own = |name, kind| Arc::new(Field::new(name, kind, true));
    let places = places.then(|| [own("file", DataType::Utf8), own("line", DataType::Int64)]);
    let fields = [own("id", id.data_type())]
        .into_iter()
        .chain(kept.iter().map(KeptColumn::field))
        .chain(places.into_iter().flatten());
    Arc::new(Schema::new(fields.collect::<Fields>()))
}

/// Whether a column's strings are JSON values as they were written.
pub(crate) fn is_json(field: &Field) -> bool {
    let kind = field.metadata().get(JSON_COLUMN.0);
    kind.is_some_and(|kind| kind == JSON_COLUMN.1)
}

/// How records of lines fill a table's column; `None` where they cannot.
fn lines_kind(field: &Field) -> Option<KeepType> {
    Some(match field.data_type() {
        DataType::Null => return None,
        _ if is_json(field) => KeepType::Json,
        kind if is_text(kind) => KeepType::String,
        DataType::Boolean => KeepType::Bool,
        kind if kind.is_integer() => KeepType::Int,
        DataType::Float64 => KeepType::Float,
        _ => return None,
    })
}

/// A text is a string whatever the records hold.
fn of_text(text: Option<&str>, name: &str) -> Option<(KeepType, Basis)> {
    (text == Some(name)).then_some((KeepType::String, Basis::Values))
}

fn line_number(line: u64) -> i64 {
    i64::try_from(line).expect("no source has 2^63 lines")
}

fn place_name(names: &SourceNames, origin: Origin) -> &str {
    let name = names.get(origin.source as usize);
    name.map_or("", String::as_str)
}

//! The columns of a window: `id` and the kept fields, in arrow's arrays.
//!
//! The first window decides the type of a kept field that has none: until it closes, values are held as they are
//! written, and values that don't fit are rejected then. In a table the schema decides at once.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::cells::{self, Basis, Builder, Cell, KeptColumn};
use crate::fields::{IdType, KeepType};
use crate::fit;
use crate::options::{ID, InputOptions};
use crate::places::PlaceColumns;
use crate::record::{JSON_COLUMN, Origin};
use crate::texts::is_text;
use crate::unsound;
use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use embedctl_common::error::{Cause, Result};
use embedctl_common::setting::{ID_TYPE, KEEP};

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

/// What the ids of a window are.
#[derive(Debug, Clone, Copy, Default)]
struct InferredIds {
    /// Integers of 64 bits.
    integers: usize,
    /// Anything else but null.
    others: usize,
}

impl InputColumns {
    /// Columns without any row.
    pub fn new(options: &InputOptions, places: PlaceColumns) -> Self {
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
        let id = KeptColumn::new(
            ID,
            Some(match options.id_type {
                IdType::Kept => (KeepType::String, Basis::Values),
                IdType::String => (KeepType::String, Basis::Declared),
                IdType::Int => (KeepType::Int, Basis::Declared),
            }),
        );
        let mut columns = Self {
            id,
            known: kept.iter().map(|column| column.name.clone()).collect(),
            kept,
            text,
            id_field: options.id_field.clone(),
            found_ids: false,
            inferred: options.infers_ids().then(InferredIds::default),
            infers_ids: options.infers_ids(),
            fixed: false,
            all: options.keeps_all(),
            places,
            schema: Arc::new(Schema::empty()),
        };
        if columns.known.contains(ID) || columns.places.has(ID) {
            columns.rename_ids();
        }
        columns.renew();
        columns
    }

    /// Leaves the name `id` to a kept field: the column of ids is called as the field that they are read from.
    fn rename_ids(&mut self) {
        let mut name = self.id_field.clone().unwrap_or_default();
        while self.known.contains(&name) || self.places.has(&name) || name == ID {
            name.push('_');
        }
        self.id.field = self
            .id
            .field
            .take()
            .map(|field| Arc::new(field.as_ref().clone().with_name(&name)));
        self.id.name = name;
    }

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

    /// Whether records of lines give integers as ids; otherwise strings.
    pub(crate) fn has_int_ids(&self) -> bool {
        matches!(self.id.kind, Some((KeepType::Int, _)))
    }

    /// Whether ids are strings because the user says so: then numbers of any kind are, as they are written.
    pub(crate) fn wants_text_ids(&self) -> bool {
        matches!(self.id.kind, Some((KeepType::String, Basis::Declared)))
    }

    /// Whether the ids of the window at hand decide the type of all ids.
    #[must_use]
    pub fn infers_ids(&self) -> bool {
        self.inferred.is_some()
    }

    /// Why ids are integers, if they are.
    pub(crate) fn reason_of_int_ids(&self) -> String {
        match self.id.kind {
            Some((_, Basis::Declared)) => format!("ids are integers here (`{ID_TYPE}`)"),
            _ => "the ids before it are integers".to_owned(),
        }
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

    /// Makes the schema anew.
    fn renew(&mut self) {
        self.schema = schema(&self.id, &self.kept, &self.places);
    }

    /// `id` and the kept fields; a field whose type is not decided yet is a string.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Takes the types of a table's columns (in the order of the kept ones; `None` where it lacks one), or
    /// checks that they can follow the types that are decided already.
    ///
    /// # Errors
    /// The reason for which the table's column cannot stand in this one, and the remedy.
    pub fn adopt(
        &mut self,
        id: Option<&FieldRef>,
        found: &[Option<FieldRef>],
    ) -> Result<(), Cause> {
        if let Some(id) = id {
            self.adopt_id(id)?;
            self.inferred = None;
        }
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

    /// Takes the type of a table's ids, unless one is named, or checks that they can follow.
    fn adopt_id(&mut self, found: &FieldRef) -> Result<(), Cause> {
        let (_, basis) = self.id.kind.unwrap_or((KeepType::String, Basis::Values));
        let kind = id_type(found.data_type());
        if basis == Basis::Declared {
            return Ok(());
        }
        let now = self.id.field();
        if self.fixed {
            // Of strings, integers are their digits.
            let are_digits = *now.data_type() == DataType::Utf8 && kind.is_integer();
            if *now.data_type() == kind || are_digits || *found.data_type() == DataType::Null {
                return Ok(());
            }
            return Err(Cause::of(format!(
                "its ids have the type {kind}, but those that were read before have the type {}",
                now.data_type()
            ))
            .with(format!("give all ids one type, such as `{ID_TYPE} string`")));
        }
        let field = found
            .as_ref()
            .clone()
            .with_name(&self.id.name)
            .with_nullable(true);
        let field = field.with_data_type(kind);
        // Ids of lines cannot stand beside those of any other type.
        let kind = lines_kind(&field).filter(|_| *field.data_type() != DataType::UInt64);
        self.id.kind = kind.map(|kind| (kind, Basis::Values));
        self.id.builder = Builder::new(Some(kind.unwrap_or(KeepType::String)));
        self.id.field = Some(Arc::new(field));
        Ok(())
    }

    /// Takes the types of another run, in a schema as [`InputColumns::schema`] gives it.
    ///
    /// # Errors
    /// If the options have not made that schema.
    pub fn go_on(&mut self, schema: &Schema) -> Result<(), Cause> {
        let places = self.places.fields().count();
        let id = schema.fields().first().cloned();
        let kept = schema.fields().iter().skip(1);
        let kept = kept.take(schema.fields().len().saturating_sub(1 + places));
        self.expand(
            kept.clone().map(|field| field.name().as_str()),
            &mut Vec::new(),
        )?;
        self.adopt(id.as_ref(), &kept.cloned().map(Some).collect::<Vec<_>>())
    }

    /// Fails where records of lines cannot fill a column that a table has decided.
    ///
    /// # Errors
    /// The reason and the remedy.
    pub fn check_lines(&self) -> Result<(), Cause> {
        let alien = |column: &&KeptColumn| column.kind.is_none() && column.field.is_some();
        if self.id.kind.is_none() {
            return Err(Cause::of(format!(
                "ids have the type {} in what was read before, which lines cannot hold",
                self.id.field().data_type()
            ))
            .with(format!(
                "use `{ID_TYPE} string`, or embed this input on its own"
            )));
        }
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

    /// Appends an id. While ids decide their column's type, integers are gathered as their digits.
    fn push_id(&mut self, id: &Cell<'_>) {
        let Some(inferred) = &mut self.inferred else {
            return self.id.builder.push(id);
        };
        match id {
            Cell::Int(number) => {
                inferred.integers += 1;
                let digits = Cell::String(number.to_string().into());
                self.id.builder.push(&digits);
            }
            id => {
                inferred.others += usize::from(*id != Cell::Null);
                self.id.builder.push(id);
            }
        }
    }

    /// Makes the column of ids one of integers, if all of the first window are.
    fn decide_ids(&mut self) {
        let are_integers = |ids: &InferredIds| ids.others == 0 && ids.integers > 0;
        if self.inferred.take().filter(are_integers).is_none() {
            return;
        }
        let digits = self.id.builder.finish();
        let digits = digits.as_string::<i32>();
        let mut integers = Builder::new(Some(KeepType::Int));
        for id in digits {
            let integer = id.and_then(|digits| digits.parse().ok());
            integers.push(&integer.map_or(Cell::Null, Cell::Int));
        }
        self.id.kind = Some((KeepType::Int, Basis::Values));
        self.id.builder = integers;
        self.renew();
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

fn schema(id: &KeptColumn, kept: &[KeptColumn], places: &PlaceColumns) -> SchemaRef {
    let fields = std::iter::once(id)
        .chain(kept)
        .map(KeptColumn::field)
        .chain(places.fields());
    Arc::new(Schema::new(fields.collect::<Fields>()))
}

/// Whether a column's strings are JSON values as they were written.
#[must_use]
pub fn is_json(field: &Field) -> bool {
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

/// The type of ids that a table has in that type: its own, but strings and integers of several widths are of one.
pub(crate) fn id_type(found: &DataType) -> DataType {
    match found {
        DataType::Dictionary(_, values) => id_type(values),
        kind if is_text(kind) => DataType::Utf8,
        kind if kind.is_integer() && *kind != DataType::UInt64 => DataType::Int64,
        kind => kind.clone(),
    }
}

/// A text is a string whatever the records hold.
fn of_text(text: Option<&str>, name: &str) -> Option<(KeepType, Basis)> {
    (text == Some(name)).then_some((KeepType::String, Basis::Values))
}

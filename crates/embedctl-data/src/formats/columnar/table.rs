//! The asked columns of a table (text, id, kept), and their values in a batch.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::checks::{check_id, check_once, missing, text_column};
use super::select::{ColumnNames, TableColumn, find};
use super::sizes::RowSizes;
use crate::reading::source::Planned;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, StringViewArray, new_null_array};
use arrow::compute::nullif;
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::setting::{ID_FIELD, ID_TYPE, KEEP};
use embedctl_records::columns::{InputColumns, is_json};
use embedctl_records::fault::{no_text, too_long};
use embedctl_records::fit::{fit, misfits, not_json, rounded};
use embedctl_records::json_values::add_value;
use embedctl_records::options::InputOptions;
use embedctl_records::record::{Origin, RecordFields};
use embedctl_records::retype::exact_cast;
use embedctl_records::texts::{string, strings};
use embedctl_records::{json, unsound};

/// Bytes of rows that are prepared together although they take less memory: 64 MiB of values are no danger.
const TOGETHER: usize = 64 << 20;

/// The asked columns of one table.
pub(crate) struct RequestedColumns {
    source: Arc<Planned>,
    options: Arc<InputOptions>,
    /// One, or those of the template.
    texts: Vec<TableColumn>,
    /// `None`: there is none, and ids are null.
    id: Option<TableColumn>,
    /// The columns that are called like a partition.
    partitions: Vec<Option<TableColumn>>,
    kept: Vec<Option<TableColumn>>,
}

/// A batch, ready to be cut into pieces of windows.
pub(crate) struct Prepared {
    texts: Vec<StringViewArray>,
    options: Arc<InputOptions>,
    /// Rows that cannot be embedded for their other columns' sake, and why.
    causes: BTreeMap<usize, Cause>,
    rows: usize,
    /// The window's columns, without `file` and `line`.
    arrays: Vec<ArrayRef>,
    /// Id, texts and kept columns as the table has them, under the names that were asked for.
    found: Vec<(String, FieldRef, ArrayRef)>,
    /// Bytes that a row's columns hold on average, about.
    pub kept_bytes: usize,
}

impl RequestedColumns {
    /// Finds the asked columns in a table of that schema, and gives the window's columns their types.
    ///
    /// # Errors
    /// If one is missing, is there twice, or has a type that cannot stand there.
    pub(crate) fn new(
        source: &Arc<Planned>,
        options: &Arc<InputOptions>,
        schema: &SchemaRef,
        columns: &mut InputColumns,
        warnings: &mut Vec<String>,
    ) -> Result<Self> {
        let mut table = Self {
            source: Arc::clone(source),
            options: Arc::clone(options),
            texts: Vec::new(),
            id: None,
            partitions: Vec::new(),
            kept: Vec::new(),
        };
        table.begin(schema, columns, warnings)?;
        Ok(table)
    }

    /// As [`RequestedColumns::new`], for another stream of the same source.
    ///
    /// # Errors
    /// As [`RequestedColumns::new`].
    pub(crate) fn begin(
        &mut self,
        schema: &SchemaRef,
        columns: &mut InputColumns,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let (source, options) = (&self.source, &self.options);
        let names = ColumnNames::of(schema);
        let (option, texts) = options.texts();
        let texts = texts
            .iter()
            .map(|name| text_column(source, option, name, (schema, &names)));
        self.texts = texts.collect::<Result<_>>()?;
        // A batch that stays as it is needs no ids.
        let wants_id = !options.batches.are_whole() || options.names_id();
        let id_field = options.id_field.as_deref().filter(|_| wants_id);
        self.id = id_field.and_then(|name| find(&names, name));
        match (&self.id, id_field) {
            (None, Some(name)) if options.names_id() => {
                return Err(missing(source, schema, ID_FIELD, name));
            }
            (None, _) => {}
            (Some(id), _) => check_id(source, options, &names, id)?,
        }
        columns.find_ids(self.id.is_some());
        let partitions = columns.of_places().partitions();
        let partitions = partitions.map(|name| {
            check_once(source, &names, name)?;
            Ok(find(&names, name))
        });
        self.partitions = partitions.collect::<Result<_>>()?;
        self.kept = Vec::new();
        let fields = schema.fields().iter().map(|field| field.name().as_str());
        columns
            .expand(fields, warnings)
            .map_err(|cause| source.facts.usage(cause))?;
        for name in columns.names() {
            let found = find(&names, name);
            if found.is_none() {
                if !columns.is_fixed() {
                    return Err(missing(source, schema, KEEP, name));
                }
                warnings.push(format!(
                    "{}: there is no column `{name}`, so it is null in its rows",
                    source.facts.name
                ));
            }
            check_once(source, &names, name)?;
            self.kept.push(found);
        }
        let field =
            |column: &Option<TableColumn>| column.as_ref().map(|found| Arc::clone(&found.field));
        let fields: Vec<_> = self.kept.iter().map(field).collect();
        let id = self.id.as_ref().map(|id| &id.field);
        columns
            .adopt(id, &fields)
            .map_err(|cause| source.facts.usage(cause))
    }

    /// The columns to be read, by their paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &[String]> {
        let others = self.partitions.iter().chain(&self.kept).flatten();
        let asked = self.texts.iter().chain(&self.id).chain(others);
        asked.map(|column| column.path.as_slice())
    }

    /// How many rows of a batch are prepared together: all of them, unless they hold much more than their memory, as
    /// where a long value of a dictionary stands in each.
    pub(crate) fn fitting(&self, batch: &RecordBatch) -> Result<usize> {
        let rows = batch.num_rows();
        let schema = batch.schema();
        let names = ColumnNames::of(&schema);
        let found = self.carried().map(|column| column.values(batch, &names));
        let found = found.collect::<Result<Vec<_>>>()?;
        let memory: usize = found.iter().map(size).sum();
        let sizes = RowSizes::of(found.iter());
        if sizes.sum(0..rows) <= TOGETHER.max(memory.saturating_mul(4)) {
            return Ok(rows);
        }
        let limit = self.options.max_record_bytes;
        let mut sum = 0;
        // A longer row is not carried.
        let most = (0..rows).position(|row| {
            let size = sizes.sum(row..row + 1);
            sum += if size > limit { 0 } else { size };
            sum > TOGETHER
        });
        Ok(most.unwrap_or(rows).max(1))
    }

    /// The columns whose values go into the output.
    fn carried(&self) -> impl Iterator<Item = &TableColumn> {
        self.id.iter().chain(self.kept.iter().flatten())
    }

    /// Takes the asked columns out of a batch.
    ///
    /// # Errors
    /// Only on an internal error.
    pub(crate) fn prepare(&self, batch: &RecordBatch, columns: &InputColumns) -> Result<Prepared> {
        let rows = batch.num_rows();
        let schema = columns.schema();
        let mut arrays = Vec::with_capacity(schema.fields().len());
        let (carried, mut causes) = self.carried_values(batch)?;
        let mut values = carried.iter();
        let declared: HashSet<&str> = (self.options.kept())
            .filter_map(|keep| keep.kind.is_some().then_some(keep.name.as_str()))
            .collect();
        let asked = [&self.id].into_iter().chain(&self.kept);
        for (field, column) in schema.fields().iter().zip(asked) {
            let to = field.data_type();
            let Some(column) = column else {
                arrays.push(new_null_array(to, rows));
                continue;
            };
            let found = values
                .next()
                .ok_or_else(|| Error::internal("a column is missing"))?;
            let array = fit(found, to)?;
            // Requested floats are given; the type of an earlier file must not cost a later one its digits.
            let asked = declared.contains(field.name().as_str());
            let rounded = match asked {
                true => Vec::new(),
                false => rounded(found, &array)?,
            };
            for row in misfits(found, &array)?.into_iter().chain(rounded) {
                let cause = || self.misfit(column, field.name(), to, found, row);
                causes.entry(row).or_insert_with(cause);
            }
            if is_json(field) && !is_json(&column.field) {
                for row in not_json(&array)? {
                    let name = field.name();
                    let cause = Cause::of(format!(
                        "the column `{name}` holds a value that is not JSON"
                    ))
                    .with(format!("keep it as a string (`{KEEP} {name}`)"));
                    causes.entry(row).or_insert(cause);
                }
            }
            arrays.push(array);
        }
        let bytes: usize = arrays.iter().map(size).sum();
        let (_, texts) = self.options.texts();
        let id = self.id.iter().zip(&self.options.id_field);
        let id = id.map(|(_, name)| name.as_str());
        let kept = columns.names().zip(&self.kept);
        let kept = kept.filter_map(|(name, column)| column.as_ref().map(|_| name));
        let named = id.chain(kept).zip(self.carried()).zip(&carried);
        let mut found: Vec<_> = named
            .map(|((name, column), array)| {
                (
                    name.to_owned(),
                    Arc::clone(&column.field),
                    Arc::clone(array),
                )
            })
            .collect();
        // In the order of messages: the id, the texts, the kept columns.
        let after_id = usize::from(self.id.is_some());
        let held = batch.schema();
        let held = ColumnNames::of(&held);
        let of_texts = texts.iter().zip(&self.texts).map(|(name, column)| {
            let field = Arc::clone(&column.field);
            Ok((name.clone(), field, column.values(batch, &held)?))
        });
        let of_texts = of_texts.collect::<Result<Vec<_>>>()?;
        found.splice(after_id..after_id, of_texts);
        for (index, column) in self.partitions.iter().enumerate() {
            if let Some(column) = column {
                let own = column.values(batch, &held)?;
                let clashes = columns
                    .of_places()
                    .clashes(index, self.source.facts.index, &own)?;
                for (row, cause) in clashes {
                    causes.entry(row).or_insert(cause);
                }
            }
        }
        let texts = self.texts.iter().map(|column| {
            let array = column.values(batch, &held)?;
            strings(&array)
        });
        Ok(Prepared {
            texts: texts.collect::<Result<_>>()?,
            options: Arc::clone(&self.options),
            causes,
            rows,
            arrays,
            found,
            kept_bytes: bytes / rows.max(1),
        })
    }

    /// The values of the carried columns, as the table has them, and the rows that are longer than a record may be: they
    /// hold null.
    fn carried_values(
        &self,
        batch: &RecordBatch,
    ) -> Result<(Vec<ArrayRef>, BTreeMap<usize, Cause>)> {
        let rows = batch.num_rows();
        let schema = batch.schema();
        let names = ColumnNames::of(&schema);
        let found = self.carried().map(|column| column.values(batch, &names));
        let mut found = found.collect::<Result<Vec<_>>>()?;
        let limit = self.options.max_record_bytes;
        let beyond = RowSizes::of(found.iter()).beyond(limit, rows);
        if !beyond.is_empty() {
            let mut mask = vec![false; rows];
            beyond.iter().for_each(|(row, _)| mask[*row] = true);
            let mask = BooleanArray::from(mask);
            for array in &mut found {
                // A union has no nulls of its own.
                if let Ok(cleared) = nullif(array, &mask) {
                    *array = cleared;
                }
            }
        }
        let causes = beyond.into_iter().map(|(row, size)| {
            let what = "record with its kept columns";
            (row, too_long(what, size as u64, limit))
        });
        let causes = causes.collect();
        // Strings were read as views, so that one value of a dictionary is not copied for every row.
        let declared = found.into_iter().zip(self.carried());
        let declared = declared.map(|(array, column)| match column.field.data_type() {
            kind if kind == array.data_type() => Ok(array),
            kind => exact_cast(&array, kind).map_err(unsound),
        });
        Ok((declared.collect::<Result<_>>()?, causes))
    }

    fn misfit(
        &self,
        column: &TableColumn,
        name: &str,
        to: &DataType,
        found: &ArrayRef,
        row: usize,
    ) -> Cause {
        let texts = strings(&found.slice(row, 1)).ok();
        let text = texts.as_ref().and_then(|texts| string(texts, 0));
        let value = text.map_or_else(String::new, |text| format!(" ({})", json::excerpt(text)));
        if self.id.as_ref().is_some_and(|id| std::ptr::eq(id, column)) {
            let name = self.options.id_field.as_deref().unwrap_or_default();
            let what = match found.data_type().is_floating() {
                true => "not a whole number",
                false => "beyond 64 bits",
            };
            return Cause::of(format!("the id `{name}` is {what}{value}"))
                .with(format!("use `{ID_TYPE} string`"));
        }
        Cause::of(format!(
            "the kept column `{name}` holds a value that is no {to}{value}"
        ))
        .with(format!("use `{KEEP} {name}:string`"))
    }
}

impl Prepared {
    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// `count` rows from `first` on, as the window's columns; `origin` is that of the first row.
    pub(crate) fn columns(
        &self,
        columns: &InputColumns,
        first: usize,
        count: usize,
        origin: Origin,
    ) -> Result<RecordBatch> {
        let arrays = self.arrays.iter().map(|array| array.slice(first, count));
        let arrays = arrays.chain(columns.places(origin, count)).collect();
        RecordBatch::try_new(columns.schema(), arrays).map_err(unsound)
    }

    /// Bytes of a row: its text and its columns, about.
    pub(crate) fn size(&self, row: usize) -> usize {
        let texts = self
            .texts
            .iter()
            .map(|text| string(text, row).map_or(0, str::len));
        texts.sum::<usize>() + self.kept_bytes
    }

    /// The asked fields of a row, as they stand in the table.
    pub(super) fn fields(&self, row: usize) -> RecordFields {
        let mut fields = RecordFields::default();
        for (name, field, array) in &self.found {
            add_value(&mut fields, name, field, array, row);
        }
        fields
    }

    /// The text of a row, or why there is none to embed; `number` is that of the row in its table, from 1.
    pub(crate) fn text(&self, row: usize, number: u64) -> Result<Cow<'_, str>, Cause> {
        if let Some(cause) = self.causes.get(&row) {
            return Err(cause.clone());
        }
        let limit = self.options.max_record_bytes;
        let text = match &self.options.text_template {
            Some(template) => {
                let values = self
                    .texts
                    .iter()
                    .map(|text| string(text, row).map(Cow::Borrowed));
                Cow::Owned(template.text(values)?)
            }
            None => Cow::Borrowed(string(&self.texts[0], row).ok_or_else(|| {
                let which = match self.options.batches.are_whole() {
                    // The sender of batches numbers rows in its own way.
                    true => "the row".to_owned(),
                    false => format!("row {number}"),
                };
                no_text(&which, &self.options.text_field)
            })?),
        };
        if text.len() > limit {
            return Err(too_long("text", text.len() as u64, limit));
        }
        Ok(text)
    }
}

/// Bytes of a slice of a column, about: shared buffers count by their share of rows.
fn size(array: &ArrayRef) -> usize {
    array
        .to_data()
        .get_slice_memory_size()
        .unwrap_or_else(|_| array.get_buffer_memory_size())
}

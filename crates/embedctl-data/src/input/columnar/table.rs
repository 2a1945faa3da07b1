//! The asked columns of a table (text, id, kept), and their values in a batch.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::select::{TableColumn, find, is_ambiguous};
use crate::input::columns::{InputColumns, is_json, unsound};
use crate::input::fields::{IdType, KeepType};
use crate::input::fit::{fit, misfits, not_json, rounded, takes};
use crate::input::json;
use crate::input::options::InputOptions;
use crate::input::parse::{no_text, too_long};
use crate::input::source::Planned;
use crate::input::texts::{is_text, string, strings};
use crate::json_values::add_value;
use crate::record::{Origin, RecordFields};
use arrow::array::{Array, ArrayRef, RecordBatch, StringViewArray, new_null_array};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::setting::{ID_FIELD, ID_TYPE, KEEP, Setting, TEXT_FIELD};

/// The asked columns of one table.
pub(crate) struct AskedColumns {
    source: Arc<Planned>,
    options: Arc<InputOptions>,
    /// One, or those of the template.
    texts: Vec<TableColumn>,
    /// `None`: there is none, and ids are null.
    id: Option<TableColumn>,
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

impl AskedColumns {
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
            kept: Vec::new(),
        };
        table.begin(schema, columns, warnings)?;
        Ok(table)
    }

    /// As [`AskedColumns::new`], for another stream of the same source.
    ///
    /// # Errors
    /// As [`AskedColumns::new`].
    pub(crate) fn begin(
        &mut self,
        schema: &SchemaRef,
        columns: &mut InputColumns,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let (source, options) = (&self.source, &self.options);
        let (option, texts) = options.texts();
        let texts = texts
            .iter()
            .map(|name| text_column(source, option, name, schema));
        self.texts = texts.collect::<Result<_>>()?;
        // A batch that stays as it is needs no ids.
        let wants_id = !options.window_per_batch || options.names_id();
        self.id = find(schema, &options.id_field).filter(|_| wants_id);
        match &self.id {
            None if options.names_id() => {
                return Err(missing(source, schema, ID_FIELD, &options.id_field));
            }
            None => {}
            Some(id) => check_id(source, options, schema, id)?,
        }
        self.kept = Vec::new();
        let fields = schema.fields().iter().map(|field| field.name().as_str());
        columns
            .expand(fields, &options.id_field, warnings)
            .map_err(|cause| source.usage(cause))?;
        for name in columns.names() {
            let found = find(schema, name);
            if found.is_none() {
                if !columns.is_fixed() {
                    return Err(missing(source, schema, KEEP, name));
                }
                warnings.push(format!(
                    "{}: there is no column `{name}`, so it is null in its rows",
                    source.name
                ));
            }
            check_once(source, schema, name)?;
            self.kept.push(found);
        }
        let field =
            |column: &Option<TableColumn>| column.as_ref().map(|found| Arc::clone(&found.field));
        let fields: Vec<_> = self.kept.iter().map(field).collect();
        let id = self.id.as_ref().map(|id| &id.field);
        columns
            .adopt(id, &fields)
            .map_err(|cause| source.usage(cause))
    }

    /// The columns to be read, by their paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &[String]> {
        let kept = self.kept.iter().flatten();
        let asked = self.texts.iter().chain(&self.id).chain(kept);
        asked.map(|column| column.path.as_slice())
    }

    /// The name of the text's column at the top, where nothing else is made of it.
    pub(crate) fn text_alone(&self) -> Option<&str> {
        let [text] = self.texts.as_slice() else {
            return None;
        };
        let [name] = text.path.as_slice() else {
            return None;
        };
        let mut paths = self.paths().filter(|path| path.first() == Some(name));
        (paths.next().is_some() && paths.next().is_none()).then_some(name)
    }

    /// Takes the asked columns out of a batch.
    ///
    /// # Errors
    /// Only on an internal error.
    pub(crate) fn prepare(&self, batch: &RecordBatch, columns: &InputColumns) -> Result<Prepared> {
        let rows = batch.num_rows();
        let schema = columns.schema();
        let mut causes = BTreeMap::new();
        let mut arrays = Vec::with_capacity(schema.fields().len());
        let asked = [&self.id].into_iter().chain(&self.kept);
        for (field, column) in schema.fields().iter().zip(asked) {
            let to = field.data_type();
            let Some(column) = column else {
                arrays.push(new_null_array(to, rows));
                continue;
            };
            let found = column.of(batch)?;
            let array = fit(&found, to)?;
            // Requested floats are given; the type of an earlier file must not cost a later one its digits.
            let asked = self
                .options
                .kept()
                .any(|keep| keep.name == *field.name() && keep.kind.is_some());
            let rounded = match asked {
                true => Vec::new(),
                false => rounded(&found, &array)?,
            };
            for row in misfits(&found, &array)?.into_iter().chain(rounded) {
                let cause = || self.misfit(column, field.name(), to, &found, row);
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
        let id = self
            .id
            .iter()
            .map(|id| (self.options.id_field.as_str(), id));
        let texts = texts.iter().map(String::as_str).zip(&self.texts);
        let kept = columns.names().zip(&self.kept);
        let kept = kept.filter_map(|(name, column)| Some((name, column.as_ref()?)));
        let asked = id.chain(texts).chain(kept).map(|(name, column)| {
            let field = Arc::clone(&column.field);
            Ok((name.to_owned(), field, column.of(batch)?))
        });
        let found = asked.collect::<Result<_>>()?;
        let texts = self.texts.iter().map(|column| {
            let array = column.of(batch)?;
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
            let name = &self.options.id_field;
            return Cause::of(format!("the id `{name}` is beyond 64 bits{value}"))
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

    /// The text of a row, or why there is none to embed.
    pub(crate) fn text(&self, row: usize) -> Result<Cow<'_, str>, Cause> {
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
            None => Cow::Borrowed(
                string(&self.texts[0], row).ok_or_else(|| no_text(&self.options.text_field))?,
            ),
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

fn text_column(
    source: &Planned,
    option: Setting,
    name: &str,
    schema: &SchemaRef,
) -> Result<TableColumn> {
    check_once(source, schema, name)?;
    let Some(column) = find(schema, name) else {
        return Err(missing(source, schema, option, name));
    };
    let kind = column.field.data_type();
    let takes = match option {
        TEXT_FIELD => is_text(kind),
        // Of several fields some may be numbers.
        _ => takes(KeepType::String, kind),
    };
    if takes {
        return Ok(column);
    }
    Err(source
        .usage(format!(
            "the column `{name}` has the type {kind}, and texts are strings"
        ))
        .with_remedy(format!(
            "name the column that holds the text with `{option}`{}",
            text_columns(schema)
        )))
}

fn check_id(
    source: &Planned,
    options: &InputOptions,
    schema: &SchemaRef,
    id: &TableColumn,
) -> Result<()> {
    let name = &options.id_field;
    check_once(source, schema, name)?;
    let kind = match id.field.data_type() {
        DataType::Dictionary(_, values) => values,
        kind => kind,
    };
    let (takes, remedy) = match options.id_type {
        _ if kind.is_integer() || *kind == DataType::Null => return Ok(()),
        IdType::String | IdType::Kept if is_text(kind) => return Ok(()),
        IdType::Kept if is_id(kind) => return Ok(()),
        IdType::Kept => (
            "ids are strings, integers, decimals, dates, times or bytes".to_owned(),
            format!(
                "name another column with `{ID_FIELD}`, and carry this one through with `{KEEP}`"
            ),
        ),
        IdType::String => (
            "ids are strings or integers".to_owned(),
            format!(
                "name another column with `{ID_FIELD}`, and carry this one through with `{KEEP}`"
            ),
        ),
        IdType::Int => (
            format!("`{ID_TYPE} int` takes integers alone"),
            match is_text(kind) {
                true => format!("use `{ID_TYPE} string`"),
                false => format!("name another column with `{ID_FIELD}`"),
            },
        ),
    };
    Err(source
        .usage(format!("the id `{name}` has the type {kind}, but {takes}"))
        .with_remedy(remedy))
}

/// Whether values of that type can be ids beside strings and integers.
fn is_id(kind: &DataType) -> bool {
    kind.is_decimal()
        || kind.is_temporal()
        || kind.is_binary()
        || matches!(kind, DataType::FixedSizeBinary(_))
}

fn check_once(source: &Planned, schema: &SchemaRef, name: &str) -> Result<()> {
    if !is_ambiguous(schema, name) {
        return Ok(());
    }
    Err(source
        .usage(format!("there are several columns called `{name}`"))
        .with_remedy("rename all but one of them"))
}

fn missing(source: &Planned, schema: &SchemaRef, option: Setting, name: &str) -> Error {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    source.missing(option, name, names)
}

/// The columns that could hold texts, for messages.
fn text_columns(schema: &SchemaRef) -> String {
    let fields = schema.fields().iter();
    let texts = fields.filter(|field| is_text(field.data_type()));
    let names: Vec<_> = texts.map(|field| format!("`{}`", field.name())).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(" (strings are in {})", names.join(", "))
}

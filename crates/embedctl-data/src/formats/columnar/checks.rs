//! Checks that the columns of a table have types that their use allows.

use super::select::{ColumnNames, TableColumn, find};
use crate::reading::source::Planned;
use arrow::datatypes::{DataType, SchemaRef};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{ID_FIELD, ID_TYPE, KEEP, Setting, TEXT_FIELD};
use embedctl_records::fields::{IdType, KeepType};
use embedctl_records::fit::takes;
use embedctl_records::options::InputOptions;
use embedctl_records::texts::is_text;

/// The column that is a text, or a field of one.
///
/// # Errors
/// If it is missing, is there twice, or holds no strings.
pub(super) fn text_column(
    source: &Planned,
    option: Setting,
    name: &str,
    (schema, names): (&SchemaRef, &ColumnNames<'_>),
) -> Result<TableColumn> {
    check_once(source, names, name)?;
    let Some(column) = find(names, name) else {
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
        .facts
        .usage(format!(
            "the column `{name}` has the type {kind}, but texts are strings"
        ))
        .with_remedy(format!(
            "name the column that holds the text with `{option}`{}",
            text_columns(schema)
        )))
}

/// Checks that ids can be read from a column.
///
/// # Errors
/// If it is there twice, or has another type.
pub(super) fn check_id(
    source: &Planned,
    options: &InputOptions,
    names: &ColumnNames<'_>,
    id: &TableColumn,
) -> Result<()> {
    let name = options.id_field.as_deref().unwrap_or_default();
    check_once(source, names, name)?;
    let kind = match id.field.data_type() {
        DataType::Dictionary(_, values) => values,
        kind => kind,
    };
    let (takes, remedy) = match options.id_type {
        _ if kind.is_integer() || *kind == DataType::Null => return Ok(()),
        IdType::String | IdType::Kept if is_text(kind) => return Ok(()),
        IdType::Kept if is_id(kind) => return Ok(()),
        IdType::String | IdType::Int if kind.is_floating() => return Ok(()),
        IdType::Kept if kind.is_floating() => (
            "ids are strings, integers, decimals, dates, times or bytes".to_owned(),
            format!("use `{ID_TYPE} int` if they are whole numbers, or `{ID_TYPE} string`"),
        ),
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
        .facts
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

/// Checks that one column alone has this name.
///
/// # Errors
/// If there are more.
pub(super) fn check_once(source: &Planned, names: &ColumnNames<'_>, name: &str) -> Result<()> {
    if !names.is_ambiguous(name) {
        return Ok(());
    }
    Err(source
        .facts
        .usage(format!("there are several columns called `{name}`"))
        .with_remedy("rename all but one of them"))
}

/// The error for a column that is not there.
pub(super) fn missing(source: &Planned, schema: &SchemaRef, option: Setting, name: &str) -> Error {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    source.facts.missing(option, name, names)
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

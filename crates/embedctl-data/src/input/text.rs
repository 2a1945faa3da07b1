//! Text: a line is a record, its number the id.

use std::borrow::Cow;

use super::cells::Cell;
use super::columns::Columns;
use super::fields::IdType;
use super::window::Record;
use embedctl_common::error::Cause;

/// The record of line `number`.
///
/// # Errors
/// If a type was named that the text does not have: the reason.
pub(super) fn record<'a>(
    text: &'a str,
    number: u64,
    id_type: IdType,
    columns: &Columns,
) -> Result<Record<'a>, Cause> {
    Ok(Record {
        text: Cow::Borrowed(text),
        id: id(number, id_type),
        kept: columns.line_cells(text)?,
    })
}

/// The id of line `number`.
pub(super) fn id(number: u64, id_type: IdType) -> Cell<'static> {
    match id_type {
        IdType::String => Cell::String(Cow::Owned(number.to_string())),
        IdType::Int => Cell::Int(i64::try_from(number).expect("no source has 2^63 lines")),
    }
}

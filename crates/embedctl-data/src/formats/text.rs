//! Text: a line is a record, its number the id.

use std::borrow::Cow;

use super::input::InputSpec;
use crate::reading::cells::Cell;
use crate::reading::columns::InputColumns;
use crate::reading::window::Record;
use embedctl_common::error::{Cause, Result};

/// The format.
pub(super) struct TextInput;

impl InputSpec for TextInput {}

/// The record of line `number`.
///
/// # Errors
/// If a type was named that the text does not have: the reason.
pub(crate) fn record<'a>(
    text: &'a str,
    number: u64,
    columns: &InputColumns,
) -> Result<Record<'a>, Cause> {
    Ok(Record {
        text: Cow::Borrowed(text),
        id: id(number, columns),
        kept: columns.line_cells(text)?,
    })
}

/// The id of line `number`.
pub(crate) fn id(number: u64, columns: &InputColumns) -> Cell<'static> {
    match columns.has_int_ids() {
        false => Cell::String(Cow::Owned(number.to_string())),
        true => Cell::Int(i64::try_from(number).expect("no source has 2^63 lines")),
    }
}

//! Text: a line is a record, its number the id.

use std::borrow::Cow;

use super::input::{InputFacts, InputSpec};
use crate::input::cells::Cell;
use crate::input::columns::InputColumns;
use crate::input::window::Record;
use embedctl_common::error::{Cause, Result};

/// The format.
pub(super) struct TextInput;

impl InputSpec for TextInput {
    fn facts(&self) -> InputFacts {
        InputFacts {
            endings: &["txt"],
            about: "A line is a record",
            ..InputFacts::DEFAULT
        }
    }
}

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

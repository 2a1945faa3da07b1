//! Text: a line is a record, its number the id; or a file is a record, its name the id.

use std::borrow::Cow;

use crate::reading::cells::Cell;
use crate::reading::columns::InputColumns;
use crate::reading::format::InputFormat;
use crate::reading::source::Planned;
use crate::reading::window::Record;
use embedctl_common::error::{Cause, Result};

/// The record of line `number`, or of the whole source.
///
/// # Errors
/// If a type was named that the text does not have: the reason.
pub(crate) fn record<'a>(
    text: &'a str,
    source: &Planned,
    number: u64,
    columns: &InputColumns,
) -> Result<Record<'a>, Cause> {
    let places = columns.of_places();
    for (index, name) in places.partitions().enumerate() {
        if columns.is_text(name) {
            places.check(index, source.index, text)?;
        }
    }
    Ok(Record {
        text: Cow::Borrowed(text),
        id: id(source, number, columns),
        kept: columns.line_cells(text)?,
    })
}

/// The id of line `number`, or of the whole source.
pub(crate) fn id(source: &Planned, number: u64, columns: &InputColumns) -> Cell<'static> {
    if !columns.has_ids() {
        return Cell::Null;
    }
    if source.format == InputFormat::File {
        return Cell::String(Cow::Owned(source.name.clone()));
    }
    match columns.has_int_ids() {
        false => Cell::String(Cow::Owned(number.to_string())),
        true => Cell::Int(i64::try_from(number).expect("no source has 2^63 lines")),
    }
}

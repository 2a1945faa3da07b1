//! Text: a line is a record, its number the id.

use std::borrow::Cow;

use super::cells::Cell;
use super::fields::IdType;
use super::window::Record;

/// The record of line `number`. The one field that can be kept from text is the text itself: each of
/// the `kept` columns holds it.
pub(super) fn record(text: &str, number: u64, id_type: IdType, kept: usize) -> Record<'_> {
    Record {
        text: Cow::Borrowed(text),
        id: id(number, id_type),
        kept: vec![Cell::String(Cow::Borrowed(text)); kept],
    }
}

/// The id of line `number`.
pub(super) fn id(number: u64, id_type: IdType) -> Cell<'static> {
    match id_type {
        IdType::String => Cell::String(Cow::Owned(number.to_string())),
        IdType::Int => Cell::Int(i64::try_from(number).expect("no source has 2^63 lines")),
    }
}

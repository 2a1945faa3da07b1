//! Text: a line is a record, its number the id.

use std::borrow::Cow;
use std::sync::Arc;

use super::input::{InputFacts, InputSpec};
use crate::input::cells::Cell;
use crate::input::columns::InputColumns;
use crate::input::fields::IdType;
use crate::input::options::InputOptions;
use crate::input::reader::Reader;
use crate::input::rows::RowReader;
use crate::input::source::{From, Planned};
use crate::input::window::{Filling, Record};
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

    fn open(
        &self,
        source: &Arc<Planned>,
        options: &Arc<InputOptions>,
        from: &mut From<'_>,
        filling: &mut Filling,
    ) -> Result<Option<Box<dyn Reader>>> {
        Ok(Some(Box::new(RowReader::open(
            source, options, from, filling,
        )?)))
    }
}

/// The record of line `number`.
///
/// # Errors
/// If a type was named that the text does not have: the reason.
pub(crate) fn record<'a>(
    text: &'a str,
    number: u64,
    id_type: IdType,
    columns: &InputColumns,
) -> Result<Record<'a>, Cause> {
    Ok(Record {
        text: Cow::Borrowed(text),
        id: id(number, id_type),
        kept: columns.line_cells(text)?,
    })
}

/// The id of line `number`.
pub(crate) fn id(number: u64, id_type: IdType) -> Cell<'static> {
    match id_type {
        IdType::String => Cell::String(Cow::Owned(number.to_string())),
        IdType::Int => Cell::Int(i64::try_from(number).expect("no source has 2^63 lines")),
    }
}

//! From a table's type to a window's: as it is, unless `--keep NAME:TYPE`, another file or the id says
//! otherwise.

use arrow::array::{Array, ArrayRef};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;

use super::fields::KeepType;
use super::texts::{Strings, is_text, unpacked};
use crate::error::{Error, Result};

/// Whether `--keep NAME:TYPE` takes a column of this type.
pub(super) fn takes(wanted: KeepType, from: &DataType) -> bool {
    if let DataType::Dictionary(_, values) = from {
        return takes(wanted, values);
    }
    let text = is_text(from);
    match wanted {
        KeepType::String => text || from.is_primitive() || *from == DataType::Boolean,
        KeepType::Int => text || from.is_integer(),
        KeepType::Float => text || from.is_integer() || from.is_floating() || from.is_decimal(),
        KeepType::Bool => text || *from == DataType::Boolean,
        KeepType::Json => text,
    }
}

/// Whether values of `from` can follow values of `to` in one column, each as it is.
pub(super) fn follows(from: &DataType, to: &DataType) -> bool {
    if from == to || *from == DataType::Null {
        return true;
    }
    match (from, to) {
        (DataType::Dictionary(_, from), to) => follows(from, to),
        (from, DataType::Dictionary(_, to)) => is_text(from) && is_text(to),
        _ if is_text(from) && is_text(to) => true,
        (from, to) if from.is_integer() => to.is_integer() || *to == DataType::Float64,
        (DataType::Float16, DataType::Float32 | DataType::Float64)
        | (DataType::Float32, DataType::Float64) => true,
        _ => false,
    }
}

/// `array` as a column of type `to`. What doesn't fit is null there: see [`misfits`].
pub(super) fn fit(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(ArrayRef::clone(array));
    }
    let options = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    let internal = |error: arrow::error::ArrowError| Error::internal(error.to_string());
    let plain = match to {
        DataType::Dictionary(..) => ArrayRef::clone(array),
        _ => unpacked(array)?,
    };
    cast_with_options(&plain, to, &options).map_err(internal)
}

/// The rows that have a value in `before` and none in `after`.
pub(super) fn misfits<'a>(
    before: &'a ArrayRef,
    after: &'a ArrayRef,
) -> impl Iterator<Item = usize> + 'a {
    let lost = after.null_count() > before.logical_null_count();
    let rows = if lost { 0..after.len() } else { 0..0 };
    let nulls = before.logical_nulls();
    rows.filter(move |&row| {
        after.is_null(row) && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    })
}

/// Rows whose string is no JSON.
pub(super) fn not_json(array: &ArrayRef) -> Result<Vec<usize>> {
    let strings = Strings::new(array)?;
    let wrong = |row: &usize| {
        strings
            .get(*row)
            .is_some_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_err())
    };
    Ok((0..array.len()).filter(wrong).collect())
}

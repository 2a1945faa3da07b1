//! Strings of a table's column, whichever of arrow's types holds them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::DataType;

use crate::retype::exact_cast;
use crate::unsound;
use crate::value_text::value_text;
use embedctl_common::error::{Error, Result};

/// Whether a column of this type holds strings and nothing else: plain, or in a dictionary.
#[must_use]
pub fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// The strings of a column for which [`is_text`] holds, or the texts of any other's values; null where a value has none.
///
/// # Errors
/// Only on an internal error.
pub fn strings(array: &ArrayRef) -> Result<StringViewArray> {
    if is_text(array.data_type()) {
        let views = exact_cast(array, &DataType::Utf8View).map_err(unsound)?;
        return Ok(views.as_string_view().clone());
    }
    let array = unpacked(array)?;
    let text = value_text(&array)
        .ok_or_else(|| Error::internal(format!("{} as strings", array.data_type())))?;
    let texts = (0..array.len()).map(|row| array.is_valid(row).then(|| text(row)).flatten());
    Ok(texts.collect())
}

/// The string of a row; `None` where it is null.
#[must_use]
pub fn string(strings: &StringViewArray, row: usize) -> Option<&str> {
    strings.is_valid(row).then(|| strings.value(row))
}

/// A dictionary's values in the order of its rows, strings as views: no copy of each for every row. Anything else as it
/// is.
///
/// # Errors
/// Only on an internal error.
pub fn unpacked(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) => {
            let to = match is_text(values) {
                true => &DataType::Utf8View,
                false => values,
            };
            unpacked(&exact_cast(array, to).map_err(unsound)?)
        }
        _ => Ok(Arc::clone(array)),
    }
}

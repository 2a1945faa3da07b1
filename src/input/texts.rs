//! Strings of a table's column, whichever of arrow's types holds them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, LargeStringArray, StringArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use crate::error::{Error, Result};

/// A column of strings.
pub(super) enum Strings {
    Small(StringArray),
    Large(LargeStringArray),
    View(StringViewArray),
}

/// Whether a column of this type holds strings and nothing else: plain, or in a dictionary.
pub(super) fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

impl Strings {
    /// The strings of a column for which [`is_text`] holds, or of any that can be cast to strings.
    pub(super) fn new(array: &ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Utf8 => Self::Small(array.as_string().clone()),
            DataType::LargeUtf8 => Self::Large(array.as_string().clone()),
            DataType::Utf8View => Self::View(array.as_string_view().clone()),
            _ => {
                let plain = unpacked(array)?;
                let view = cast(&plain, &DataType::Utf8View);
                let view = view.map_err(|error| Error::internal(error.to_string()))?;
                Self::View(view.as_string_view().clone())
            }
        })
    }

    /// The string of row `row`; `None` where it is null.
    pub(super) fn get(&self, row: usize) -> Option<&str> {
        match self {
            Self::Small(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Large(array) => array.is_valid(row).then(|| array.value(row)),
            Self::View(array) => array.is_valid(row).then(|| array.value(row)),
        }
    }
}

/// A dictionary's values in the order of its rows; anything else as it is.
pub(super) fn unpacked(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) => {
            // Views of the values: no copy of each for every row.
            let plain = match values.as_ref() {
                DataType::Utf8 | DataType::LargeUtf8 => &DataType::Utf8View,
                other => other,
            };
            cast(array, plain).map_err(|error| Error::internal(error.to_string()))
        }
        _ => Ok(Arc::clone(array)),
    }
}

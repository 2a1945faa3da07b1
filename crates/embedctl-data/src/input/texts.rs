//! Strings of a table's column, whichever of arrow's types holds them.

use std::sync::Arc;

use crate::arrow::array::{
    Array, ArrayRef, AsArray, LargeStringArray, StringArray, StringViewArray,
};
use crate::arrow::compute::take;
use crate::arrow::datatypes::DataType;
use crate::arrow::error::ArrowError;
use crate::arrow::shown;
use embedctl_common::error::{Error, Result};

use super::columns::unsound;

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
    /// The strings of a column for which [`is_text`] holds, or the texts of any other's values.
    pub(super) fn new(array: &ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Utf8 => Self::Small(array.as_string().clone()),
            DataType::LargeUtf8 => Self::Large(array.as_string().clone()),
            DataType::Utf8View => Self::View(array.as_string_view().clone()),
            DataType::Null => Self::View(StringViewArray::new_null(array.len())),
            _ => {
                let plain = unpacked(array).map_err(unsound)?;
                Self::View(match plain.as_string_view_opt() {
                    Some(view) => view.clone(),
                    None => written(&plain)?,
                })
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

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        let rows = match self {
            Self::Small(array) => array.len(),
            Self::Large(array) => array.len(),
            Self::View(array) => array.len(),
        };
        (0..rows).map(|row| self.get(row))
    }
}

/// A dictionary's values in the order of its rows, strings as views: no copy of each for every row. Anything else as it
/// is.
pub(super) fn unpacked(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let Some(dictionary) = array.as_any_dictionary_opt() else {
        return Ok(Arc::clone(array));
    };
    let values = dictionary.values();
    let values = match values.data_type() {
        DataType::Utf8 => Arc::new(StringViewArray::from(values.as_string::<i32>())),
        DataType::LargeUtf8 => Arc::new(StringViewArray::from(values.as_string::<i64>())),
        _ => unpacked(values)?,
    };
    take(&values, dictionary.keys(), None)
}

/// Each value as it is shown; null where it cannot be.
fn written(array: &ArrayRef) -> Result<StringViewArray> {
    let value =
        shown(array).ok_or_else(|| Error::internal(format!("{} as strings", array.data_type())))?;
    let texts = (0..array.len()).map(|row| array.is_valid(row).then(|| value(row)).flatten());
    Ok(texts.collect())
}

//! From a table's type to a window's: as it is, unless `--keep NAME:TYPE`, another file or the id says
//! otherwise.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Float64Array, Int64Array,
    PrimitiveArray, downcast_integer, new_null_array,
};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{and, cast, is_not_null, is_null};
use arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};

use crate::fields::KeepType;
use crate::json::whole_number;
use crate::retype::{self, exact_cast};
use crate::texts::{is_text, string, strings, unpacked};
use crate::unsound;
use embedctl_common::error::{Error, Result};

/// Whether `--keep NAME:TYPE` takes a column of this type.
#[must_use]
pub fn takes(wanted: KeepType, from: &DataType) -> bool {
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
pub(crate) fn follows(from: &DataType, to: &DataType) -> bool {
    if of_several(from) == *to || *from == DataType::Null {
        return true;
    }
    match (from, to) {
        (_, DataType::Null) => false,
        (DataType::Dictionary(_, from), to) => follows(from, to),
        (from, DataType::Dictionary(_, to)) => is_text(from) && is_text(to),
        _ if is_text(from) && is_text(to) => true,
        (from, to) if from.is_integer() => to.is_integer() || *to == DataType::Float64,
        (DataType::Float16, DataType::Float32 | DataType::Float64)
        | (DataType::Float32, DataType::Float64) => true,
        _ => false,
    }
}

/// The type of a column that holds values of `from` from several tables and batches.
pub(crate) fn of_several(from: &DataType) -> DataType {
    retype::of_type(from, retype::wide_keys)
}

/// Whether a column of type `to` holds this integer, where it holds integers.
pub(crate) fn holds(to: &DataType, number: i64) -> bool {
    macro_rules! whole {
        ($type:ty) => {
            <$type as ArrowPrimitiveType>::Native::try_from(number).is_ok()
        };
    }
    downcast_integer! {
        to => (whole),
        _ => true
    }
}

/// `array` as a column of type `to`. Values that don't fit are null there: see [`misfits`].
///
/// Arrow casts between numbers and between strings. Texts are parsed here, since arrow also takes ` 5`, `tru` and `inf`;
/// so are decimals, which arrow rounds twice on their way to a float.
///
/// # Errors
/// If `to` is not a type that [`takes`] and [`follows`] lead to.
pub fn fit(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if of_several(array.data_type()) == *to {
        return exact_cast(array, to).map_err(unsound);
    }
    let array = &unpacked(array)?;
    let kind = array.data_type();
    macro_rules! whole {
        ($type:ty) => {{
            let texts = strings(array)?;
            let parsed = texts.iter().map(|text| text?.parse().ok());
            let parsed = Arc::new(parsed.collect::<PrimitiveArray<$type>>());
            cast(&(parsed as ArrayRef), to).map_err(unsound)?
        }};
    }
    Ok(match to {
        _ if *kind == DataType::Null => new_null_array(to, array.len()),
        to if is_text(to) => {
            let texts: ArrayRef = Arc::new(strings(array)?);
            exact_cast(&texts, to).map_err(unsound)?
        }
        DataType::Boolean if is_text(kind) => {
            let texts = strings(array)?;
            Arc::new(
                (texts.iter())
                    .map(|text| truth(text?))
                    .collect::<BooleanArray>(),
            )
        }
        DataType::Float64 if is_text(kind) || kind.is_decimal() => {
            let texts = strings(array)?;
            let number = |text: &str| text.parse().ok().filter(|it: &f64| it.is_finite());
            let parsed = texts.iter().map(|text| number(text?));
            Arc::new(parsed.collect::<Float64Array>())
        }
        // Ids alone: a number with a fraction is none.
        DataType::Int64 if kind.is_floating() => {
            let numbers = cast(array, &DataType::Float64).map_err(unsound)?;
            let numbers = numbers.as_primitive::<Float64Type>().iter();
            Arc::new(
                numbers
                    .map(|number| whole_number(number?))
                    .collect::<Int64Array>(),
            )
        }
        // What another type of integers has no room for is null there.
        to if is_text(kind) && to.is_signed_integer() => whole!(Int64Type),
        to if is_text(kind) && to.is_unsigned_integer() => whole!(UInt64Type),
        to if follows(kind, to) => cast(array, to).map_err(unsound)?,
        to => return Err(no_way(kind, to)),
    })
}

fn no_way(from: &DataType, to: &DataType) -> Error {
    Error::internal(format!("a column of {from} as one of {to}"))
}

/// The words that stand for truth in tables elsewhere, too.
fn truth(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// The rows that have a value in `before` and none in `after`.
///
/// # Errors
/// Only on an internal error.
pub fn misfits(before: &ArrayRef, after: &ArrayRef) -> Result<Vec<usize>> {
    if after.logical_null_count() <= before.logical_null_count() {
        return Ok(Vec::new());
    }
    let lost = is_not_null(before).and_then(|there| and(&there, &is_null(after)?));
    Ok(rows(&lost.map_err(unsound)?))
}

/// The rows whose integers a column of floats holds rounded.
///
/// # Errors
/// Only on an internal error.
pub fn rounded(before: &ArrayRef, after: &ArrayRef) -> Result<Vec<usize>> {
    let before = unpacked(before)?;
    if !before.data_type().is_integer() || *after.data_type() != DataType::Float64 {
        return Ok(Vec::new());
    }
    let back = cast(after, before.data_type());
    let changed = back.and_then(|back| distinct(&before, &back));
    Ok(rows(&changed.map_err(unsound)?))
}

fn rows(those: &BooleanArray) -> Vec<usize> {
    those.values().set_indices().collect()
}

/// Rows whose string is no JSON.
///
/// # Errors
/// Only on an internal error.
pub fn not_json(array: &ArrayRef) -> Result<Vec<usize>> {
    let strings = strings(array)?;
    let wrong = |row: &usize| {
        string(&strings, *row)
            .is_some_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_err())
    };
    Ok((0..array.len()).filter(wrong).collect())
}

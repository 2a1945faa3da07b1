//! From a table's type to a window's: as it is, unless `--keep NAME:TYPE`, another file or the id says
//! otherwise.

use std::collections::HashMap;
use std::sync::Arc;

use half::f16;

use super::columns::unsound;
use crate::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float16Array, Float64Array, Int64Array,
    LargeStringArray, PrimitiveArray, StringArray, StringViewArray, downcast_integer, make_array,
    new_null_array,
};
use crate::arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use crate::arrow::retype;

use super::fields::KeepType;
use super::texts::{Strings, is_text, unpacked};
use embedctl_common::error::{Error, Result};

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

/// The type of a column that holds values of `from`, of which several tables and batches come together.
pub(super) fn of_several(from: &DataType) -> DataType {
    retype::of_type(from, retype::wide_keys)
}

/// Whether a column of type `to` holds this integer, where it holds integers.
pub(super) fn holds(to: &DataType, number: i64) -> bool {
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

/// `array` as a column of type `to`. What doesn't fit is null there: see [`misfits`].
///
/// # Errors
/// If `to` is not a type that [`takes`] and [`follows`] lead to.
pub(super) fn fit(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    if of_several(array.data_type()) == *to {
        let wide = retype::retyped(array.to_data(), to).map_err(unsound)?;
        return Ok(make_array(wide));
    }
    let array = &unpacked(array).map_err(unsound)?;
    let kind = array.data_type();
    if kind == to {
        return Ok(Arc::clone(array));
    }
    macro_rules! whole {
        ($type:ty) => {{
            let fitting = integers(array)?.map(|value| value?.try_into().ok());
            Arc::new(fitting.collect::<PrimitiveArray<$type>>())
        }};
    }
    let texts = || Strings::new(array);
    Ok(downcast_integer! {
        to => (whole),
        _ if *kind == DataType::Null => new_null_array(to, array.len()),
        DataType::Float32 => Arc::new(halves(array).unary::<_, Float32Type>(f16::to_f32)),
        DataType::Float64 => match kind {
            DataType::Float16 => Arc::new(halves(array).unary::<_, Float64Type>(f16::to_f64)),
            DataType::Float32 => {
                let narrow = array.as_primitive::<Float32Type>();
                Arc::new(narrow.unary::<_, Float64Type>(f64::from))
            }
            kind if kind.is_integer() => {
                let wide = integers(array)?.map(|value| value.map(|value| value as f64));
                Arc::new(wide.collect::<Float64Array>())
            }
            _ => {
                let texts = texts()?;
                let number = |text: &str| text.parse().ok().filter(|it: &f64| it.is_finite());
                let parsed = texts.iter().map(|text| number(text?));
                Arc::new(parsed.collect::<Float64Array>())
            }
        },
        DataType::Boolean => Arc::new((texts()?.iter()).map(|text| truth(text?)).collect::<BooleanArray>()),
        DataType::Utf8 => Arc::new(texts()?.iter().collect::<StringArray>()),
        DataType::LargeUtf8 => Arc::new(texts()?.iter().collect::<LargeStringArray>()),
        DataType::Utf8View => Arc::new(texts()?.iter().collect::<StringViewArray>()),
        DataType::Dictionary(keys, values) => {
            let (texts, mut numbers) = (texts()?, HashMap::new());
            let mut distinct = Vec::new();
            let found = texts.iter().map(|text| {
                let number = numbers.entry(text?).or_insert_with(|| {
                    distinct.push(text);
                    distinct.len() as i64 - 1
                });
                Some(*number)
            });
            let found: ArrayRef = Arc::new(found.collect::<Int64Array>());
            let distinct: ArrayRef = Arc::new(StringViewArray::from(distinct));
            let values = fit(&distinct, values)?.to_data();
            let keys = fit(&found, keys)?.to_data().into_builder();
            let both = keys.data_type(to.clone()).add_child_data(values).build();
            make_array(both.map_err(unsound)?)
        }
        _ => return Err(Error::internal(format!("a column of {kind} as one of {to}"))),
    })
}

/// The words that stand for truth in tables elsewhere, too.
fn truth(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// The integers that the values are, or that their texts are.
fn integers(array: &ArrayRef) -> Result<impl Iterator<Item = Option<i128>>> {
    type Value<'a> = Box<dyn Fn(usize) -> Option<i128> + 'a>;
    macro_rules! own {
        ($type:ty) => {{
            let array = array.as_primitive::<$type>();
            Box::new(|row| array.is_valid(row).then(|| array.value(row).into())) as Value<'_>
        }};
    }
    let value = downcast_integer! {
        array.data_type() => (own),
        _ => {
            let texts = Strings::new(array)?;
            Box::new(move |row| texts.get(row)?.parse().ok())
        }
    };
    Ok((0..array.len()).map(value))
}

fn halves(array: &ArrayRef) -> &Float16Array {
    array.as_primitive()
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

/// The rows whose integers a column of floats holds rounded.
pub(super) fn rounded(before: &ArrayRef, after: &ArrayRef) -> Result<Vec<usize>> {
    let before = unpacked(before).map_err(unsound)?;
    let (true, Some(floats)) = (
        before.data_type().is_integer(),
        after.as_primitive_opt::<Float64Type>(),
    ) else {
        return Ok(Vec::new());
    };
    let both = integers(&before)?.zip(floats.iter()).enumerate();
    let rounded = both.filter(|(_, (whole, float))| *whole != float.map(|float| float as i128));
    Ok(rounded.map(|(row, _)| row).collect())
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

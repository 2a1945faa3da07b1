//! Columns in other types than they came in, where theirs would not do: through lists, structs and maps.

use std::sync::Arc;

use super::array::{
    AnyDictionaryArray, Array, ArrayData, ArrayRef, AsArray, DictionaryArray, Int32Array,
    RecordBatch, make_array,
};
use super::compute::take;
use super::datatypes::*;
use super::error::ArrowError;

/// Says what takes a type's place; `None` for those that stay.
pub(crate) type Replace = fn(&DataType) -> Option<DataType>;

/// A dictionary's values in its place.
pub(crate) fn without_dictionary(kind: &DataType) -> Option<DataType> {
    match kind {
        DataType::Dictionary(_, values) => Some(DataType::clone(values)),
        _ => None,
    }
}

/// A dictionary with keys of 32 bits in place of one with fewer: of several such, all values have room in one.
pub(crate) fn wide_keys(kind: &DataType) -> Option<DataType> {
    match kind {
        DataType::Dictionary(keys, values) if keys.primitive_width() < Some(4) => Some(
            DataType::Dictionary(Box::new(DataType::Int32), values.clone()),
        ),
        _ => None,
    }
}

/// Of times that Parquet has no type for, and that other readers would take for numbers, the nearest that it has:
/// milliseconds for seconds, days for milliseconds that stand for days.
pub(crate) fn parquet_times(kind: &DataType) -> Option<DataType> {
    match kind {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            Some(DataType::Timestamp(TimeUnit::Millisecond, zone.clone()))
        }
        DataType::Time32(TimeUnit::Second) => Some(DataType::Time32(TimeUnit::Millisecond)),
        DataType::Date64 => Some(DataType::Date32),
        DataType::Dictionary(_, values) => parquet_times(values),
        _ => None,
    }
}

/// The rows in the types of [`schema`].
pub(crate) fn batch(batch: &RecordBatch, replace: Replace) -> Result<RecordBatch, ArrowError> {
    let schema = schema(batch.schema_ref(), replace);
    let columns = batch.columns().iter().zip(schema.fields());
    let columns: Vec<ArrayRef> = columns
        .map(
            |(array, field)| match array.data_type() == field.data_type() {
                true => Ok(Arc::clone(array)),
                false => retyped(array.to_data(), field.data_type())
                    .map(make_array)
                    .map_err(|error| of_column(field.name(), error)),
            },
        )
        .collect::<Result<_, _>>()?;
    RecordBatch::try_new(schema, columns)
}

/// The error with the column's name, where its values are the reason.
fn of_column(name: &str, error: ArrowError) -> ArrowError {
    match error {
        ArrowError::InvalidArgumentError(reason) => {
            ArrowError::InvalidArgumentError(format!("{name}: {reason}"))
        }
        other => other,
    }
}

/// The same values in the type that [`of_type`] has for theirs.
pub(crate) fn retyped(data: ArrayData, kind: &DataType) -> Result<ArrayData, ArrowError> {
    if data.data_type() == kind {
        return Ok(data);
    }
    if let Some(packed) = make_array(data.clone()).as_any_dictionary_opt() {
        if wide_keys(data.data_type()).as_ref() == Some(kind) {
            return Ok(with_wide_keys(packed).into_data());
        }
        return retyped(take(packed.values(), packed.keys(), None)?.to_data(), kind);
    }
    if let Some(times) = times(&data, kind) {
        return times;
    }
    let inner: Vec<&FieldRef> = match kind {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            vec![item]
        }
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::Map(entries, _) => vec![entries],
        _ => Vec::new(),
    };
    let inner = data.child_data().iter().zip(inner);
    let inner = inner.map(|(data, field)| retyped(data.clone(), field.data_type()));
    let inner = inner.collect::<Result<_, _>>()?;
    let builder = data.into_builder().data_type(kind.clone());
    builder.child_data(inner).build()
}

/// The same dictionary, of the type that [`wide_keys`] has for its own.
fn with_wide_keys(packed: &dyn AnyDictionaryArray) -> DictionaryArray<Int32Type> {
    let keys = match packed.values().is_empty() {
        true => Int32Array::new_null(packed.len()),
        false => {
            let keys = packed.normalized_keys().into_iter();
            let keys = keys.map(|key| i32::try_from(key).expect("narrower keys"));
            Int32Array::new(keys.collect(), packed.nulls().cloned())
        }
    };
    DictionaryArray::new(keys, Arc::clone(packed.values()))
}

/// Times in the unit that [`parquet_times`] has for theirs; `None` of all else.
fn times(data: &ArrayData, kind: &DataType) -> Option<Result<ArrayData, ArrowError>> {
    use DataType::{Date32, Date64, Time32, Timestamp};
    use TimeUnit::{Millisecond, Second};
    const DAY: i64 = 86_400_000;
    let array = make_array(data.clone());
    let beyond = |value: i64| {
        let reason = format!("a time of {value} is beyond what milliseconds or days count to");
        ArrowError::InvalidArgumentError(reason)
    };
    Some(match (data.data_type(), kind) {
        (Timestamp(Second, _), Timestamp(Millisecond, zone)) => {
            let times = array.as_primitive::<TimestampSecondType>();
            let times = times.try_unary::<_, TimestampMillisecondType, _>(|seconds| {
                seconds.checked_mul(1_000).ok_or_else(|| beyond(seconds))
            });
            times.map(|times| times.with_timezone_opt(zone.clone()).into_data())
        }
        (Time32(Second), Time32(Millisecond)) => {
            let times = array.as_primitive::<Time32SecondType>();
            let times = times.try_unary::<_, Time32MillisecondType, _>(|seconds| {
                seconds
                    .checked_mul(1_000)
                    .ok_or_else(|| beyond(seconds.into()))
            });
            times.map(Array::into_data)
        }
        (Date64, Date32) => {
            let times = array.as_primitive::<Date64Type>();
            let days = times.try_unary::<_, Date32Type, _>(|time| {
                time.div_euclid(DAY).try_into().map_err(|_| beyond(time))
            });
            days.map(Array::into_data)
        }
        _ => return None,
    })
}

/// The schema with some types replaced; itself where there are none such.
pub(crate) fn schema(schema: &SchemaRef, replace: Replace) -> SchemaRef {
    let fields: Vec<FieldRef> = (schema.fields().iter())
        .map(|field| of_field(field, replace))
        .collect();
    if schema.fields()[..] == fields[..] {
        return Arc::clone(schema);
    }
    let metadata = schema.metadata().clone();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

fn of_field(field: &FieldRef, replace: Replace) -> FieldRef {
    let kind = of_type(field.data_type(), replace);
    Arc::new(Field::clone(field).with_data_type(kind))
}

/// The type that takes the place of `kind`, outside and inside.
pub(crate) fn of_type(kind: &DataType, replace: Replace) -> DataType {
    if let Some(other) = replace(kind) {
        return of_type(&other, replace);
    }
    match kind {
        DataType::List(item) => DataType::List(of_field(item, replace)),
        DataType::LargeList(item) => DataType::LargeList(of_field(item, replace)),
        DataType::FixedSizeList(item, size) => {
            DataType::FixedSizeList(of_field(item, replace), *size)
        }
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|it| of_field(it, replace)).collect())
        }
        DataType::Map(entries, sorted) => DataType::Map(of_field(entries, replace), *sorted),
        other => other.clone(),
    }
}

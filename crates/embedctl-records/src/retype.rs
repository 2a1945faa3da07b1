//! Columns in other types than they came in, where theirs would not do: through lists, structs and maps.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::*;
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;

/// The type that replaces another; `None` for types that stay.
pub(crate) type Replace = fn(&DataType) -> Option<DataType>;

/// A dictionary's values in its place.
#[must_use]
pub fn without_dictionary(kind: &DataType) -> Option<DataType> {
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

/// The nearest type of Parquet's for times that it has none for, and that other readers would take for numbers:
/// milliseconds for seconds, days for milliseconds that stand for days.
#[must_use]
pub fn parquet_times(kind: &DataType) -> Option<DataType> {
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

/// `Date64` as a timestamp, also from a dictionary.
fn timestamp_for_date64(kind: &DataType) -> Option<DataType> {
    match kind {
        DataType::Date64 => Some(DataType::Timestamp(TimeUnit::Millisecond, None)),
        DataType::Dictionary(_, values) => timestamp_for_date64(values),
        _ => None,
    }
}

/// The rows in the types of [`schema`].
///
/// # Errors
/// As [`exact_cast`].
pub fn batch(batch: &RecordBatch, replace: Replace) -> Result<RecordBatch, ArrowError> {
    cast_batch(batch, schema(batch.schema_ref(), replace))
}

/// The rows in the types of [`parquet_times`].
///
/// # Errors
/// As [`exact_cast`].
pub fn batch_for_parquet(given: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = schema(given.schema_ref(), parquet_times);
    // The days of timestamps begin at midnight; arrow rounds a `Date64` towards 1970.
    cast_batch(&batch(given, timestamp_for_date64)?, schema)
}

fn cast_batch(batch: &RecordBatch, schema: SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| {
        let of_column = |error| ArrowError::CastError(format!("{}: {error}", field.name()));
        exact_cast(array, field.data_type()).map_err(of_column)
    });
    let columns = columns.collect::<Result<_, _>>()?;
    // Rows may be without any column.
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &rows)
}

/// The same values in another type.
///
/// # Errors
/// If that type has no room for one of them: none becomes null.
pub fn exact_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    const EXACT: CastOptions<'static> = CastOptions {
        safe: false,
        format_options: FormatOptions::new(),
    };
    cast_with_options(array, to, &EXACT)
}

/// The schema with some types replaced; itself where there are none such.
pub fn schema(schema: &SchemaRef, replace: Replace) -> SchemaRef {
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
pub fn of_type(kind: &DataType, replace: Replace) -> DataType {
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Array, Date32Array, Date64Array, DictionaryArray, Int8Array, ListArray, StringArray,
        UInt64Array,
    };
    use arrow::buffer::OffsetBuffer;

    #[test]
    fn dates_keep_their_time_of_day_or_become_its_day() {
        const DAY: i64 = 86_400_000;
        let dates = Date64Array::from(vec![Some(-1), None, Some(DAY + 1)]);
        let keys = Int8Array::from(vec![Some(2), None, Some(0)]);
        let packed: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(dates)));
        let given = RecordBatch::try_from_iter([("date", packed)]).unwrap();
        let plain = batch(&given, without_dictionary).unwrap();
        let expected = Date64Array::from(vec![Some(DAY + 1), None, Some(-1)]);
        assert_eq!(plain["date"].as_ref(), &expected as &dyn Array);
        let expected = Date32Array::from(vec![Some(1), None, Some(-1)]);
        for given in [given, plain] {
            let days = batch_for_parquet(&given).unwrap();
            assert_eq!(days["date"].as_ref(), &expected as &dyn Array);
        }
    }

    #[test]
    fn dictionaries_in_lists_are_unpacked_or_widened() {
        let words: DictionaryArray<Int8Type> = [Some("a"), None, Some("a")].into_iter().collect();
        let lists = |words: ArrayRef| {
            let field = Arc::new(Field::new_list_field(words.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths([2, 0, 1]);
            Arc::new(ListArray::new(field, offsets, words, None)) as ArrayRef
        };
        let packed = lists(Arc::new(words));
        let plain = StringArray::from(vec![Some("a"), None, Some("a")]);
        let plain = lists(Arc::new(plain));
        let kind = of_type(packed.data_type(), without_dictionary);
        assert_eq!(&exact_cast(&packed, &kind).unwrap(), &plain);
        let wide = of_type(packed.data_type(), wide_keys);
        let wide = exact_cast(&packed, &wide).unwrap();
        assert_eq!(&exact_cast(&wide, &kind).unwrap(), &plain);
    }

    #[test]
    fn a_value_without_room_is_an_error_and_not_null() {
        let arrays: [ArrayRef; 2] = [
            Arc::new(UInt64Array::from(vec![u64::MAX])),
            Arc::new(StringArray::from(vec!["x"])),
        ];
        for array in arrays {
            assert!(exact_cast(&array, &DataType::Int64).is_err());
        }
    }
}

//! Values of Arrow's types as JSON: times are strings by ISO 8601, decimals are numbers, bytes are hexadecimal, structs
//! and maps objects. NaN and the infinities are null.

use serde::Serialize;

use crate::arrow::array::{
    Array, ArrayRef, AsArray, ListLikeArray, MapArray, RunArray, StringArray, downcast_integer,
};
use crate::arrow::datatypes::*;
use crate::arrow::shown;
use crate::record::{JSON_COLUMN, RecordFields};
use embedctl_common::hash::hex;

/// A column by how it is written.
pub(crate) enum Values<'a> {
    /// Texts that are JSON already.
    Json(&'a StringArray),
    /// Any of Arrow's types.
    Other(Append<'a>),
}

/// Whether a column's strings are JSON.
pub(crate) fn is_json(field: &Field) -> bool {
    let kind = field.metadata().get(JSON_COLUMN.0);
    field.data_type() == &DataType::Utf8 && kind.is_some_and(|kind| kind == JSON_COLUMN.1)
}

impl<'a> Values<'a> {
    /// How the values of a column are written; `None` where JSON has no form for its type.
    pub(crate) fn of(field: &Field, array: &'a ArrayRef) -> Option<Self> {
        match is_json(field) {
            true => Some(Self::Json(array.as_string())),
            false => values(array).map(Self::Other),
        }
    }

    /// Appends the value of one row.
    pub(crate) fn write(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            // A line break can only stand between tokens here, and a row is a line.
            Self::Json(array) if array.is_valid(row) => {
                out.extend(array.value(row).bytes().map(|byte| match byte {
                    b'\n' | b'\r' => b' ',
                    byte => byte,
                }));
            }
            Self::Json(_) => out.extend_from_slice(b"null"),
            Self::Other(append) => append(row, out),
        }
    }
}

/// Adds a value of a column to a record's fields; nothing where JSON has no form for its type.
pub(crate) fn add_value(
    fields: &mut RecordFields,
    name: &str,
    field: &Field,
    column: &ArrayRef,
    row: usize,
) {
    if let Some(values) = Values::of(field, column) {
        fields.add(name, |out| values.write(row, out));
    }
}

/// Appends the value of a row.
pub(crate) type Append<'a> = Box<dyn Fn(usize, &mut Vec<u8>) + 'a>;

/// How the values of an array are written, nulls too; `None` where JSON has no form for its type.
pub(crate) fn values(array: &dyn Array) -> Option<Append<'_>> {
    let value = present(array)?;
    let nulls = array.logical_nulls();
    Some(Box::new(move |row, out| {
        match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            true => out.extend_from_slice(b"null"),
            false => value(row, out),
        }
    }))
}

/// As [`values`], of rows that are not null.
fn present(array: &dyn Array) -> Option<Append<'_>> {
    macro_rules! of {
        ($values:expr) => {{
            let values = $values;
            Box::new(move |row, out: &mut Vec<u8>| push(out, &values.value(row)))
        }};
    }
    macro_rules! number {
        ($type:ty) => {
            of!(array.as_primitive::<$type>())
        };
    }
    macro_rules! bytes {
        ($values:expr) => {{
            let values = $values;
            Box::new(move |row, out: &mut Vec<u8>| push(out, &hex(values.value(row))))
        }};
    }
    Some(downcast_integer! {
        array.data_type() => (number),
        DataType::Null => Box::new(|_, _| ()),
        DataType::Float16 => {
            let halves = array.as_primitive::<Float16Type>();
            Box::new(|row, out| push(out, &halves.value(row).to_f32()))
        }
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Boolean => of!(array.as_boolean()),
        DataType::Utf8 => of!(array.as_string::<i32>()),
        DataType::LargeUtf8 => of!(array.as_string::<i64>()),
        DataType::Utf8View => of!(array.as_string_view()),
        DataType::Binary => bytes!(array.as_binary::<i32>()),
        DataType::LargeBinary => bytes!(array.as_binary::<i64>()),
        DataType::BinaryView => bytes!(array.as_binary_view()),
        DataType::FixedSizeBinary(_) => bytes!(array.as_fixed_size_binary()),
        DataType::List(_) => list(array.as_list::<i32>())?,
        DataType::LargeList(_) => list(array.as_list::<i64>())?,
        DataType::ListView(_) => list(array.as_list_view::<i32>())?,
        DataType::LargeListView(_) => list(array.as_list_view::<i64>())?,
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list())?,
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let columns = columns.map(|(field, column)| Some((key(field.name()), values(column)?)));
            let columns = columns.collect::<Option<Vec<_>>>()?;
            Box::new(move |row, out| {
                joined(columns.iter(), b"{}", out, |(key, value), out| {
                    out.extend_from_slice(key);
                    value(row, out);
                });
            })
        }
        DataType::Map(..) => map(array.as_map())?,
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let value = values(dictionary.values())?;
            // Without any value all rows are null.
            let keys = match dictionary.values().is_empty() {
                true => Vec::new(),
                false => dictionary.normalized_keys(),
            };
            Box::new(move |row, out| value(keys[row], out))
        }
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => runs(array.as_run::<Int16Type>())?,
            DataType::Int32 => runs(array.as_run::<Int32Type>())?,
            _ => runs(array.as_run::<Int64Type>())?,
        },
        kind => {
            let (text, raw) = (shown(array)?, kind.is_decimal());
            Box::new(move |row, out| match text(row) {
                Some(number) if raw => out.extend_from_slice(number.as_bytes()),
                text => push(out, &text),
            })
        }
    })
}

fn list<L: ListLikeArray>(lists: &L) -> Option<Append<'_>> {
    let value = values(lists.values())?;
    Some(Box::new(move |row, out| {
        joined(lists.element_range(row), b"[]", out, &value);
    }))
}

/// Names are strings, and none is null.
fn map(map: &MapArray) -> Option<Append<'_>> {
    let text = matches!(
        map.key_type(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    );
    let named = text && map.keys().null_count() == 0;
    let (key, value) = (values(map.keys()).filter(|_| named)?, values(map.values())?);
    let offsets = map.value_offsets();
    Some(Box::new(move |row, out| {
        let entries = offsets[row] as usize..offsets[row + 1] as usize;
        joined(entries, b"{}", out, |entry, out| {
            key(entry, out);
            out.push(b':');
            value(entry, out);
        });
    }))
}

fn runs<R: RunEndIndexType>(runs: &RunArray<R>) -> Option<Append<'_>> {
    let value = values(runs.values())?;
    Some(Box::new(move |row, out| {
        value(runs.get_physical_index(row), out);
    }))
}

fn joined<T>(
    parts: impl Iterator<Item = T>,
    brackets: &[u8; 2],
    out: &mut Vec<u8>,
    one: impl Fn(T, &mut Vec<u8>),
) {
    out.push(brackets[0]);
    for (index, part) in parts.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        one(part, out);
    }
    out.push(brackets[1]);
}

/// `"name":`
pub(crate) fn key(name: &str) -> Vec<u8> {
    let mut key = Vec::new();
    push(&mut key, name);
    key.push(b':');
    key
}

/// Appends a value as JSON; numbers in their shortest form that reads back equal, those that JSON
/// lacks as null.
pub(crate) fn push<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value)
        .expect("a Vec takes every byte, and these types always encode");
}

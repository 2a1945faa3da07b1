//! The columns `id` and kept fields, as JSON.

use arrow::array::{
    Array, AsArray, BooleanArray, Float64Array, Int64Array, LargeStringArray, RecordBatch,
    StringArray,
};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::record::JSON_COLUMN;

/// The columns of some rows, ready to be written row by row.
pub(super) struct Columns<'a> {
    columns: Vec<(Vec<u8>, Values<'a>)>,
}

/// A column by its type.
enum Values<'a> {
    Null,
    Boolean(&'a BooleanArray),
    Int(&'a Int64Array),
    Float(&'a Float64Array),
    String(&'a StringArray),
    LargeString(&'a LargeStringArray),
    Json(&'a StringArray),
}

impl<'a> Columns<'a> {
    /// Looks at each column's type once.
    ///
    /// # Errors
    /// If the input made a column of a type that it should not.
    pub fn new(batch: &'a RecordBatch) -> Result<Self> {
        let schema = batch.schema_ref();
        let columns = schema.fields().iter().zip(batch.columns());
        let columns = columns
            .map(|(field, array)| {
                let mut key = Vec::new();
                push(&mut key, field.name());
                key.push(b':');
                Ok((key, Values::new(field, array.as_ref())?))
            })
            .collect::<Result<_>>()?;
        Ok(Self { columns })
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Appends `"name":value` of one column and row.
    pub fn write(&self, column: usize, row: usize, out: &mut Vec<u8>) {
        let (key, values) = &self.columns[column];
        out.extend_from_slice(key);
        values.write(row, out);
    }
}

impl<'a> Values<'a> {
    fn new(field: &Field, array: &'a dyn Array) -> Result<Self> {
        let json = field
            .metadata()
            .get(JSON_COLUMN.0)
            .is_some_and(|kind| kind == JSON_COLUMN.1);
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean(array.as_boolean()),
            DataType::Int64 => Self::Int(array.as_primitive::<Int64Type>()),
            DataType::Float64 => Self::Float(array.as_primitive::<Float64Type>()),
            DataType::Utf8 if json => Self::Json(array.as_string()),
            DataType::Utf8 => Self::String(array.as_string()),
            DataType::LargeUtf8 => Self::LargeString(array.as_string()),
            other => {
                return Err(Error::internal(format!(
                    "column {:?} has the type {other}, which no output writes",
                    field.name()
                )));
            }
        })
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) {
        let array: &dyn Array = match self {
            Self::Null => return out.extend_from_slice(b"null"),
            Self::Boolean(array) => *array,
            Self::Int(array) => *array,
            Self::Float(array) => *array,
            Self::String(array) | Self::Json(array) => *array,
            Self::LargeString(array) => *array,
        };
        if array.is_null(row) {
            return out.extend_from_slice(b"null");
        }
        match self {
            Self::Null => {}
            Self::Boolean(array) => push(out, &array.value(row)),
            Self::Int(array) => push(out, &array.value(row)),
            Self::Float(array) => push(out, &array.value(row)),
            Self::String(array) => push(out, array.value(row)),
            Self::LargeString(array) => push(out, array.value(row)),
            // A line break can only stand between tokens here, and a row is a line.
            Self::Json(array) => out.extend(array.value(row).bytes().map(|byte| match byte {
                b'\n' | b'\r' => b' ',
                byte => byte,
            })),
        }
    }
}

/// Appends a value as JSON; numbers in their shortest form that reads back equal, those that JSON
/// lacks as null.
pub(super) fn push<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value)
        .expect("a Vec takes every byte, and these types always encode");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::testing::kept_batch;
    use arrow::datatypes::{Schema, UInt8Type};
    use std::sync::Arc;

    fn row(columns: &Columns<'_>, row: usize) -> String {
        let mut out = Vec::new();
        for column in 0..columns.len() {
            if column > 0 {
                out.push(b' ');
            }
            columns.write(column, row, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_type_and_its_nulls() {
        let batch = kept_batch();
        let columns = Columns::new(&batch).unwrap();
        assert_eq!(
            row(&columns, 0),
            r#""id":"ä\"1\"" "a.b":"zwei\nlines" "int":-9007199254740993 "float":0.1 "bool":true "json":{"x": [1, null]}"#
        );
        assert_eq!(
            row(&columns, 1),
            r#""id":null "a.b":null "int":null "float":null "bool":null "json":null"#
        );
        assert_eq!(
            row(&columns, 2),
            r#""id":"" "a.b":"" "int":0 "float":null "bool":false "json":"日本\n""#
        );
    }

    #[test]
    fn json_texts_stay_on_their_line() {
        let field = Field::new("j", DataType::Utf8, true)
            .with_metadata([(JSON_COLUMN.0.to_string(), JSON_COLUMN.1.to_string())]);
        let schema = Arc::new(Schema::new(vec![field]));
        let array = StringArray::from(vec!["{\r\n\"a\":1}"]);
        let batch = RecordBatch::try_new(schema, vec![Arc::new(array)]).unwrap();
        assert_eq!(row(&Columns::new(&batch).unwrap(), 0), "\"j\":{  \"a\":1}");
    }

    #[test]
    fn other_types_are_a_bug() {
        let array = arrow::array::PrimitiveArray::<UInt8Type>::from(vec![1]);
        let batch = RecordBatch::try_from_iter([("odd", Arc::new(array) as _)]).unwrap();
        let error = Columns::new(&batch).err().unwrap().to_string();
        assert!(error.contains("\"odd\""), "{error}");
    }
}

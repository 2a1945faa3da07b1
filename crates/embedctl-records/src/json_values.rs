//! Values of Arrow's types as JSON: times are strings by ISO 8601, decimals are numbers, bytes are hexadecimal, structs
//! and maps objects. NaN and the infinities are null.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::*;
use arrow::error::ArrowError;
use arrow::json::writer::{NullableEncoder, make_encoder};
use arrow::json::{Encoder, EncoderFactory, EncoderOptions};
use serde::Serialize;

use crate::record::{JSON_COLUMN, RecordFields};
use crate::value_text::value_text;

/// A column by how it is written.
pub(crate) enum ColumnValues<'a> {
    /// Texts that are JSON already.
    Json(&'a StringArray),
    /// Any of Arrow's types.
    Other(JsonValues<'a>),
}

/// Whether a column's strings are JSON.
pub(crate) fn is_json(field: &Field) -> bool {
    let kind = field.metadata().get(JSON_COLUMN.0);
    field.data_type() == &DataType::Utf8 && kind.is_some_and(|kind| kind == JSON_COLUMN.1)
}

impl<'a> ColumnValues<'a> {
    /// How the values of a column are written; `None` where JSON has no form for its type.
    pub(crate) fn of(field: &'a FieldRef, array: &'a ArrayRef) -> Option<Self> {
        match is_json(field) {
            true => Some(Self::Json(array.as_string())),
            false => JsonValues::new(field, array).map(Self::Other),
        }
    }

    /// Appends the value of one row.
    pub(crate) fn write(&mut self, row: usize, out: &mut Vec<u8>) {
        match self {
            // A line break can only stand between tokens here, and a row is a line.
            Self::Json(array) if array.is_valid(row) => {
                out.extend(array.value(row).bytes().map(|byte| match byte {
                    b'\n' | b'\r' => b' ',
                    byte => byte,
                }));
            }
            Self::Json(_) => out.extend_from_slice(b"null"),
            Self::Other(values) => values.write(row, out),
        }
    }
}

/// Adds a value of a column to a record's fields; nothing where JSON has no form for its type.
pub fn add_value(
    fields: &mut RecordFields,
    name: &str,
    field: &FieldRef,
    column: &ArrayRef,
    row: usize,
) {
    if let Some(mut values) = ColumnValues::of(field, column) {
        fields.add(name, |out| values.write(row, out));
    }
}

/// The values of a column, ready to be written.
pub(crate) struct JsonValues<'a>(NullableEncoder<'a>);

impl<'a> JsonValues<'a> {
    /// `None` where JSON has no form for the column's type.
    pub(crate) fn new(field: &'a FieldRef, array: &'a dyn Array) -> Option<Self> {
        static OPTIONS: LazyLock<EncoderOptions> = LazyLock::new(|| {
            let options = EncoderOptions::default().with_explicit_nulls(true);
            options.with_encoder_factory(Arc::new(ExactEncoders))
        });
        make_encoder(field, array, &OPTIONS).ok().map(Self)
    }

    /// Appends the value of a row, or `null`.
    pub(crate) fn write(&mut self, row: usize, out: &mut Vec<u8>) {
        match self.0.is_null(row) {
            true => out.extend_from_slice(b"null"),
            false => self.0.encode(row, out),
        }
    }
}

/// Where arrow's encoders would change a value: they spell 1700000000.5 as 1.7000000005e9, write `ERROR: …` for a time
/// beyond the calendar, and take a null among a dictionary's values for an empty one.
#[derive(Debug)]
struct ExactEncoders;

impl EncoderFactory for ExactEncoders {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        macro_rules! float {
            ($type:ty) => {{
                let floats = array.as_primitive::<$type>();
                Box::new(|row, out| push(out, &floats.value(row)))
            }};
        }
        let append: Append<'a> = match array.data_type() {
            DataType::Float16 => {
                let halves = array.as_primitive::<Float16Type>();
                Box::new(|row, out| push(out, &halves.value(row).to_f32()))
            }
            DataType::Float32 => float!(Float32Type),
            DataType::Float64 => float!(Float64Type),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let mut value = make_encoder(field, dictionary.values(), options)?;
                // Without any value all rows are null.
                let keys = match dictionary.values().is_empty() {
                    true => Vec::new(),
                    false => dictionary.normalized_keys(),
                };
                Box::new(move |row, out| value.encode(keys[row], out))
            }
            kind if kind.is_temporal() => match value_text(array) {
                Some(text) => Box::new(move |row, out| push(out, &text(row))),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let nulls = array.logical_nulls();
        Ok(Some(NullableEncoder::new(
            Box::new(ExactEncoder(append)),
            nulls,
        )))
    }
}

struct ExactEncoder<'a>(Append<'a>);

impl Encoder for ExactEncoder<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        (self.0)(row, out);
    }
}

/// Appends the value of a row that is not null.
type Append<'a> = Box<dyn FnMut(usize, &mut Vec<u8>) + 'a>;

/// `"name":`
#[must_use]
pub fn key(name: &str) -> Vec<u8> {
    let mut key = Vec::new();
    push(&mut key, name);
    key.push(b':');
    key
}

/// Appends a value as JSON; numbers in their shortest form that reads back equal, those that JSON
/// lacks as null.
pub fn push<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value)
        .expect("a Vec takes every byte, and these types always encode");
}

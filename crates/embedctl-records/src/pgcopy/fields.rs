//! Kept columns as PostgreSQL's binary fields: which type of SQL each Arrow type becomes, and its bytes.

use std::sync::Arc;

use super::interval;
use crate::json_rows::{JsonColumns, check_json_type};
use crate::json_values::is_json;
use crate::retype;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, RecordBatch};
use arrow::datatypes::*;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{ID_FIELD, KEEP, OUTPUT_FORMAT};

/// PostgreSQL counts from 2000-01-01, everybody else from 1970-01-01.
const EPOCH_DAYS: i32 = 10_957;
const DAY_MILLISECONDS: i64 = 86_400_000;
const EPOCH_MICROSECONDS: i64 = 946_684_800_000_000;

/// A value of `jsonb` begins with its version.
const JSONB: u8 = 1;

/// The remedy for a value that PostgreSQL does not take.
#[must_use]
pub fn leave_out() -> String {
    format!(
        "leave the field out (of {KEEP}; ids with {ID_FIELD} none), or choose another output format ({OUTPUT_FORMAT})"
    )
}

/// Checks that PostgreSQL has a type for a column.
///
/// # Errors
/// The reason why it has none.
pub fn check_type(field: &FieldRef) -> Result<(), String> {
    sql_type(field)?;
    check_json_type(field)
}

/// The type of SQL that a column becomes.
///
/// # Errors
/// The reason why PostgreSQL has none for it.
pub fn sql_type(field: &Field) -> Result<&'static str, String> {
    match field.data_type() {
        _ if is_json(field) => Ok("jsonb"),
        DataType::FixedSizeBinary(16) if is_uuid(field) => Ok("uuid"),
        kind => wire(kind),
    }
    .map_err(|kind| format!("PostgreSQL has no type for {kind}"))
}

/// Whether Arrow calls a field's bytes a UUID, whose wire form is the same bytes.
fn is_uuid(field: &Field) -> bool {
    field.extension_type_name() == Some("arrow.uuid")
}

/// The name in SQL; the type itself where there is none.
fn wire(kind: &DataType) -> Result<&'static str, &DataType> {
    Ok(match kind {
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => "smallint",
        DataType::UInt16 | DataType::Int32 => "integer",
        DataType::UInt32 | DataType::Int64 => "bigint",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..) => "numeric",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "bytea",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time",
        DataType::Timestamp(_, Some(_)) => "timestamptz",
        DataType::Timestamp(_, None) => "timestamp",
        kind if interval::is_interval(kind) => "interval",
        DataType::Dictionary(_, values) => wire(values)?,
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::Struct(_)
        | DataType::Map(..) => "jsonb",
        other => return Err(other),
    })
}

/// The fields of some rows.
pub struct Fields<'a> {
    names: Vec<&'a str>,
    columns: Vec<(ArrayRef, bool)>,
    json: JsonColumns<'a>,
}

impl<'a> Fields<'a> {
    /// Looks at each column's type once.
    ///
    /// # Errors
    /// Only on an internal error, if [`check_type`] has let all of their types pass.
    pub fn new(batch: &'a RecordBatch) -> Result<Self> {
        let plain = retype::batch(batch, retype::without_dictionary)
            .map_err(|error| Error::internal(format!("columns for PostgreSQL: {error}")))?;
        let fields = batch.schema_ref().fields();
        let columns = fields.iter().zip(plain.columns()).map(|(field, array)| {
            let kind = sql_type(field).map_err(Error::internal)?;
            Ok((Arc::clone(array), kind == "jsonb"))
        });
        let json = JsonColumns::new(batch).map_err(|(_, reason)| Error::internal(reason))?;
        Ok(Self {
            names: fields.iter().map(|field| field.name().as_str()).collect(),
            columns: columns.collect::<Result<_>>()?,
            json,
        })
    }

    /// Appends a row's fields, each behind its length.
    ///
    /// # Errors
    /// The column whose value PostgreSQL would not take, and why.
    pub fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), (&'a str, String)> {
        (0..self.columns.len()).try_for_each(|index| {
            let written = self.write_field(index, row, out);
            written.map_err(|reason| (self.names[index], reason))
        })
    }

    fn write_field(&mut self, index: usize, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let (array, is_json) = &self.columns[index];
        if array.is_null(row) || *array.data_type() == DataType::Null {
            out.extend((-1_i32).to_be_bytes());
            return Ok(());
        }
        let start = out.len();
        out.extend([0; 4]);
        match is_json {
            true => {
                out.push(JSONB);
                self.json.write_value(index, row, out);
                check_json(&out[start + 5..])?;
            }
            false => push_value(array, row, out)?,
        }
        let length = i32::try_from(out.len() - start - 4)
            .map_err(|_| "it is longer than 2 GiB".to_owned())?;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// The values that PostgreSQL would not take: their rows and columns, and why.
    pub fn refused(&mut self) -> Vec<(usize, usize, String)> {
        let mut refused = Vec::new();
        let mut field = Vec::new();
        for index in 0..self.columns.len() {
            let (array, is_json) = &self.columns[index];
            if !is_json && takes_all(array.data_type()) {
                continue;
            }
            for row in 0..array.len() {
                field.clear();
                if let Err(reason) = self.write_field(index, row, &mut field) {
                    refused.push((row, index, reason));
                }
            }
        }
        refused
    }
}

/// Whether PostgreSQL takes every value of a type.
fn takes_all(kind: &DataType) -> bool {
    kind.is_integer()
        || kind.is_floating()
        || matches!(
            kind,
            DataType::Null
                | DataType::Boolean
                | DataType::Decimal32(..)
                | DataType::Decimal64(..)
                | DataType::Decimal128(..)
        )
}

/// PostgreSQL's times have microseconds: anything finer would be cut off.
fn only_microseconds(array: &ArrayRef, row: usize) -> Result<(), String> {
    fn is_finer<T: ArrowPrimitiveType<Native = i64>>(array: &ArrayRef, row: usize) -> bool {
        let values = array.as_primitive_opt::<T>();
        values.is_some_and(|it| it.value(row) % 1000 != 0)
    }
    let is_finer = is_finer::<TimestampNanosecondType>(array, row)
        || is_finer::<Time64NanosecondType>(array, row);
    match is_finer {
        true => Err("it is a time with nanoseconds, but PostgreSQL counts microseconds".to_owned()),
        false => Ok(()),
    }
}

fn value<T: ArrowPrimitiveType>(array: &ArrayRef, row: usize) -> T::Native {
    array.as_primitive::<T>().value(row)
}

fn push_value(array: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let beyond = || "it is a time that PostgreSQL cannot count to".to_owned();
    match array.data_type() {
        DataType::Boolean => out.push(u8::from(array.as_boolean().value(row))),
        DataType::Int8 => out.extend(i16::from(value::<Int8Type>(array, row)).to_be_bytes()),
        DataType::UInt8 => out.extend(i16::from(value::<UInt8Type>(array, row)).to_be_bytes()),
        DataType::Int16 => out.extend(value::<Int16Type>(array, row).to_be_bytes()),
        DataType::UInt16 => out.extend(i32::from(value::<UInt16Type>(array, row)).to_be_bytes()),
        DataType::Int32 => out.extend(value::<Int32Type>(array, row).to_be_bytes()),
        DataType::UInt32 => out.extend(i64::from(value::<UInt32Type>(array, row)).to_be_bytes()),
        DataType::Int64 => out.extend(value::<Int64Type>(array, row).to_be_bytes()),
        DataType::UInt64 => push_numeric(value::<UInt64Type>(array, row).into(), 0, out),
        DataType::Float16 => out.extend(value::<Float16Type>(array, row).to_f32().to_be_bytes()),
        DataType::Float32 => out.extend(value::<Float32Type>(array, row).to_be_bytes()),
        DataType::Float64 => out.extend(value::<Float64Type>(array, row).to_be_bytes()),
        DataType::Date32 | DataType::Date64 => {
            let days = match array.as_primitive_opt::<Date32Type>() {
                Some(days) => Some(days.value(row)),
                None => value::<Date64Type>(array, row)
                    .div_euclid(DAY_MILLISECONDS)
                    .try_into()
                    .ok(),
            };
            let days = days.and_then(|days| days.checked_sub(EPOCH_DAYS));
            out.extend(days.ok_or_else(beyond)?.to_be_bytes());
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            only_microseconds(array, row)?;
            out.extend(microseconds(array, row).ok_or_else(beyond)?.to_be_bytes());
        }
        DataType::Timestamp(..) => {
            only_microseconds(array, row)?;
            let time = microseconds(array, row);
            let time = time.and_then(|time| time.checked_sub(EPOCH_MICROSECONDS));
            out.extend(time.ok_or_else(beyond)?.to_be_bytes());
        }
        DataType::Decimal32(_, scale) => {
            push_numeric(value::<Decimal32Type>(array, row).into(), *scale, out);
        }
        DataType::Decimal64(_, scale) => {
            push_numeric(value::<Decimal64Type>(array, row).into(), *scale, out);
        }
        DataType::Decimal128(_, scale) => {
            push_numeric(value::<Decimal128Type>(array, row), *scale, out);
        }
        DataType::Binary => out.extend_from_slice(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => out.extend_from_slice(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => out.extend_from_slice(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => {
            out.extend_from_slice(array.as_fixed_size_binary().value(row));
        }
        DataType::Utf8 => push_text(array.as_string::<i32>().value(row), out)?,
        DataType::LargeUtf8 => push_text(array.as_string::<i64>().value(row), out)?,
        DataType::Utf8View => push_text(array.as_string_view().value(row), out)?,
        kind if interval::is_interval(kind) => interval::push(array, row, out)?,
        other => return Err(format!("PostgreSQL has no type for {other}")),
    }
    Ok(())
}

fn push_text(text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    if memchr::memchr(0, text.as_bytes()).is_some() {
        return Err("it holds a NUL character, which PostgreSQL's text cannot".to_owned());
    }
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Refuses JSON that `jsonb` cannot hold: escapes of NUL, and of half a character.
fn check_json(json: &[u8]) -> Result<(), String> {
    let mut rest = json;
    let mut high = false; // whether the first half of a pair was just before
    while let Some(escape) = memchr::memchr(b'\\', rest) {
        let half = "it holds half a surrogate pair, which PostgreSQL's jsonb cannot";
        let digits = rest
            .get(escape + 2..escape + 6)
            .filter(|_| rest[escape + 1] == b'u');
        let unit = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let unit = unit.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let is_low = unit.is_some_and(|unit| (0xdc00..0xe000).contains(&unit));
        if high != is_low {
            return Err(half.to_owned());
        }
        if unit == Some(0) {
            return Err("it holds a NUL character, which PostgreSQL's jsonb cannot".to_owned());
        }
        high = unit.is_some_and(|unit| (0xd800..0xdc00).contains(&unit));
        rest = &rest[escape + if unit.is_some() { 6 } else { 2 }..];
        if high && rest.first() != Some(&b'\\') {
            return Err(half.to_owned());
        }
    }
    Ok(())
}

/// A time of any unit; `None` beyond 64 bits.
fn microseconds(array: &ArrayRef, row: usize) -> Option<i64> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    match array.data_type() {
        DataType::Time32(Second) => {
            Some(i64::from(value::<Time32SecondType>(array, row)) * 1_000_000)
        }
        DataType::Time32(_) => Some(i64::from(value::<Time32MillisecondType>(array, row)) * 1_000),
        DataType::Time64(Nanosecond) => Some(value::<Time64NanosecondType>(array, row) / 1_000),
        DataType::Time64(_) => Some(value::<Time64MicrosecondType>(array, row)),
        DataType::Timestamp(Second, _) => {
            value::<TimestampSecondType>(array, row).checked_mul(1_000_000)
        }
        DataType::Timestamp(Millisecond, _) => {
            value::<TimestampMillisecondType>(array, row).checked_mul(1_000)
        }
        DataType::Timestamp(Microsecond, _) => Some(value::<TimestampMicrosecondType>(array, row)),
        DataType::Timestamp(Nanosecond, _) => {
            Some(value::<TimestampNanosecondType>(array, row) / 1_000)
        }
        _ => None,
    }
}

/// A `numeric`: digits to the base of 10,000, the place of the first, the sign, and the decimal places shown.
fn push_numeric(value: i128, scale: i8, out: &mut Vec<u8>) {
    let places = usize::from(scale.max(0).cast_unsigned());
    let mut digits = value.unsigned_abs().to_string();
    digits.push_str(&"0".repeat(usize::from(scale.min(0).unsigned_abs())));
    if digits.len() <= places {
        digits.insert_str(0, &"0".repeat(places + 1 - digits.len()));
    }
    let (whole, fraction) = digits.split_at(digits.len() - places);
    let whole = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
    let fraction = format!("{fraction}{}", "0".repeat((4 - places % 4) % 4));
    let all = whole + &fraction;
    let groups = all.as_bytes().chunks(4).map(|four| {
        let digits = four.iter();
        digits.fold(0_i16, |number, digit| number * 10 + i16::from(digit - b'0'))
    });
    let groups: Vec<i16> = groups.collect();
    let short = |number: usize| i16::try_from(number).expect("a decimal has 76 digits at most");
    let sign: u16 = if value < 0 { 0x4000 } else { 0 };
    out.extend(short(groups.len()).to_be_bytes());
    out.extend((short((all.len() - fraction.len()) / 4) - 1).to_be_bytes());
    out.extend(sign.to_be_bytes());
    out.extend(short(places).to_be_bytes());
    groups
        .iter()
        .for_each(|group| out.extend(group.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_that_is_no_jsonb_is_refused() {
        for json in [
            r#""\u0000""#,
            r#"{"a":"x\\\u0000"}"#,
            r#""\ud800""#,
            r#""\ud83dx\ude00""#,
            r#""\ude00""#,
            r#""\ud83d\n""#,
        ] {
            assert!(check_json(json.as_bytes()).is_err(), "{json}");
        }
        for json in [
            r#""\\u0000""#,
            r#""\ud83d\ude00 \u00e4\n""#,
            r#"["\\", "\\ud800"]"#,
        ] {
            assert_eq!(check_json(json.as_bytes()), Ok(()), "{json}");
        }
    }

    fn numeric(value: i128, scale: i8) -> Vec<i16> {
        let mut out = Vec::new();
        push_numeric(value, scale, &mut out);
        let (pairs, _) = out.as_chunks::<2>();
        pairs.iter().map(|pair| i16::from_be_bytes(*pair)).collect()
    }

    #[test]
    fn times_finer_than_microseconds_are_refused_and_days_begin_at_midnight() {
        use arrow::array::{Date64Array, Time64NanosecondArray, TimestampNanosecondArray};
        let fields = |array: ArrayRef| {
            let batch = RecordBatch::try_from_iter([("when", array)]).unwrap();
            let mut out = Vec::new();
            let mut fields = Fields::new(&batch).unwrap();
            let refused = fields.refused();
            let written = fields.write(0, &mut out);
            assert_eq!(refused.len(), usize::from(written.is_err()), "{refused:?}");
            written
                .map_err(|(name, reason)| format!("{name}: {reason}"))
                .map(|()| out)
        };
        let arrays: [ArrayRef; 2] = [
            Arc::new(Time64NanosecondArray::from(vec![1_001])),
            Arc::new(TimestampNanosecondArray::from(vec![-1])),
        ];
        for array in arrays {
            let error = fields(array).unwrap_err();
            assert!(
                error.contains("when: it is a time with nanoseconds"),
                "{error}"
            );
        }
        let time = fields(Arc::new(Time64NanosecondArray::from(vec![5_000]))).unwrap();
        assert_eq!(time[4..], 5_i64.to_be_bytes());
        // A millisecond before 1970 is still 1969.
        let date = fields(Arc::new(Date64Array::from(vec![-1]))).unwrap();
        assert_eq!(date[4..], (-1 - EPOCH_DAYS).to_be_bytes());
    }

    #[test]
    fn decimals_are_digits_to_the_base_of_ten_thousand() {
        // Count, weight of the first, sign, decimal places; then the digits.
        assert_eq!(numeric(12_345_678, 2), [3, 1, 0, 2, 12, 3456, 7800]);
        assert_eq!(numeric(-5, 3), [2, 0, 0x4000, 3, 0, 50]);
        assert_eq!(numeric(7, -2), [1, 0, 0, 0, 700]);
        assert_eq!(numeric(0, 0), [1, 0, 0, 0, 0]);
    }
}

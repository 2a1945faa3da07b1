//! Kept columns as PostgreSQL's binary fields: which type of SQL each Arrow type becomes, and its bytes.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampNanosecondType,
};

use crate::error::{Error, Result};
use crate::output::columns::{self, Columns};

/// PostgreSQL counts from 2000-01-01, everybody else from 1970-01-01.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_MICROSECONDS: i64 = 946_684_800_000_000;

/// A value of `jsonb` begins with its version.
const JSONB: u8 = 1;

/// The type of SQL that a column becomes.
///
/// # Errors
/// If PostgreSQL has none for it; the error names it.
pub(super) fn sql_type(field: &Field) -> Result<&'static str> {
    match columns::is_json(field) {
        true => Ok("jsonb"),
        false => wire(field.data_type()).map(|(_, sql)| sql),
    }
    .map_err(|kind| {
        Error::usage(format!(
            "--keep {}: PostgreSQL has no type for {kind}",
            field.name()
        ))
        .with_remedy("leave it out, or choose another output format (-f)")
    })
}

/// The Arrow type whose values go over the wire, and its name in SQL; the type itself where there is none.
fn wire(kind: &DataType) -> Result<(DataType, &'static str), &DataType> {
    let same = || kind.clone();
    Ok(match kind {
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            (DataType::LargeUtf8, "text")
        }
        DataType::Boolean => (same(), "boolean"),
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => (DataType::Int16, "smallint"),
        DataType::UInt16 | DataType::Int32 => (DataType::Int32, "integer"),
        DataType::UInt32 | DataType::Int64 => (DataType::Int64, "bigint"),
        DataType::UInt64 => (DataType::Decimal128(20, 0), "numeric"),
        DataType::Float16 | DataType::Float32 => (DataType::Float32, "real"),
        DataType::Float64 => (same(), "double precision"),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => {
            (DataType::Decimal128(*precision, *scale), "numeric")
        }
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => (DataType::LargeBinary, "bytea"),
        DataType::Date32 | DataType::Date64 => (DataType::Date32, "date"),
        DataType::Time32(_) | DataType::Time64(_) => {
            (DataType::Time64(TimeUnit::Microsecond), "time")
        }
        DataType::Timestamp(_, zone) => {
            let sql = if zone.is_some() {
                "timestamptz"
            } else {
                "timestamp"
            };
            (
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
                sql,
            )
        }
        DataType::Dictionary(_, values) => wire(values)?,
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::Struct(_)
        | DataType::Map(..) => (same(), "jsonb"),
        other => return Err(other),
    })
}

/// The fields of some rows.
pub(super) struct Fields<'a> {
    names: Vec<&'a str>,
    columns: Vec<(ArrayRef, bool)>,
    json: Columns<'a>,
}

impl<'a> Fields<'a> {
    /// Looks at each column's type once.
    ///
    /// # Errors
    /// If PostgreSQL has no type for one.
    pub fn new(batch: &'a RecordBatch) -> Result<Self> {
        let fields = batch.schema_ref().fields();
        // What does not fit is an error, not null.
        let exact = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let columns = fields.iter().zip(batch.columns()).map(|(field, array)| {
            if sql_type(field)? == "jsonb" {
                return Ok((array.clone(), true));
            }
            let (kind, _) = wire(field.data_type()).expect("it has a type of SQL");
            let cast = cast_with_options(array, &kind, &exact)
                .map_err(|error| Error::usage(format!("--keep {}: {error}", field.name())))?;
            only_microseconds(field.name(), array)?;
            Ok((cast, false))
        });
        Ok(Self {
            names: fields.iter().map(|field| field.name().as_str()).collect(),
            columns: columns.collect::<Result<_>>()?,
            json: Columns::new(batch)?,
        })
    }

    /// Appends a row's fields, each behind its length.
    ///
    /// # Errors
    /// The column whose value PostgreSQL would not take, and why.
    pub fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), (&'a str, String)> {
        for (index, (array, is_json)) in self.columns.iter().enumerate() {
            if array.is_null(row) {
                out.extend((-1_i32).to_be_bytes());
                continue;
            }
            let start = out.len();
            out.extend([0; 4]);
            match is_json {
                true => {
                    out.push(JSONB);
                    self.json.write_value(index, row, out);
                }
                false => push_value(array, row, out).map_err(|it| (self.names[index], it))?,
            }
            let length = i32::try_from(out.len() - start - 4)
                .map_err(|_| (self.names[index], "it is longer than 2 GiB".to_owned()))?;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }
}

/// PostgreSQL's clock has microseconds: what is finer would be cut off.
fn only_microseconds(name: &str, array: &ArrayRef) -> Result<()> {
    let values = array.as_primitive_opt::<TimestampNanosecondType>();
    let finer = values.is_some_and(|it| it.iter().flatten().any(|it| it % 1000 != 0));
    if !finer {
        return Ok(());
    }
    Err(Error::usage(format!(
        "--keep {name}: there are times with nanoseconds, and PostgreSQL counts microseconds"
    ))
    .with_remedy("round them in the input, or leave the field out"))
}

fn value<T: ArrowPrimitiveType>(array: &ArrayRef, row: usize) -> T::Native {
    array.as_primitive::<T>().value(row)
}

fn push_value(array: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let beyond = || "it is a time that PostgreSQL cannot count to".to_owned();
    match array.data_type() {
        DataType::Boolean => out.push(u8::from(array.as_boolean().value(row))),
        DataType::Int16 => out.extend(value::<Int16Type>(array, row).to_be_bytes()),
        DataType::Int32 => out.extend(value::<Int32Type>(array, row).to_be_bytes()),
        DataType::Int64 => out.extend(value::<Int64Type>(array, row).to_be_bytes()),
        DataType::Float32 => out.extend(value::<Float32Type>(array, row).to_be_bytes()),
        DataType::Float64 => out.extend(value::<Float64Type>(array, row).to_be_bytes()),
        DataType::Date32 => {
            let days = value::<Date32Type>(array, row).checked_sub(EPOCH_DAYS);
            out.extend(days.ok_or_else(beyond)?.to_be_bytes());
        }
        DataType::Time64(_) => {
            out.extend(value::<Time64MicrosecondType>(array, row).to_be_bytes());
        }
        DataType::Timestamp(..) => {
            let time = value::<TimestampMicrosecondType>(array, row);
            let time = time.checked_sub(EPOCH_MICROSECONDS);
            out.extend(time.ok_or_else(beyond)?.to_be_bytes());
        }
        DataType::Decimal128(_, scale) => {
            push_numeric(value::<Decimal128Type>(array, row), *scale, out);
        }
        DataType::LargeBinary => out.extend_from_slice(array.as_binary::<i64>().value(row)),
        DataType::LargeUtf8 => {
            let text = array.as_string::<i64>().value(row).as_bytes();
            if memchr::memchr(0, text).is_some() {
                return Err("it holds a NUL character, which PostgreSQL's text cannot".to_owned());
            }
            out.extend_from_slice(text);
        }
        other => return Err(format!("PostgreSQL has no type for {other}")),
    }
    Ok(())
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

    fn numeric(value: i128, scale: i8) -> Vec<i16> {
        let mut out = Vec::new();
        push_numeric(value, scale, &mut out);
        let (pairs, _) = out.as_chunks::<2>();
        pairs.iter().map(|pair| i16::from_be_bytes(*pair)).collect()
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

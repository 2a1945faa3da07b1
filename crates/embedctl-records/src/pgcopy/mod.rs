//! PostgreSQL's `COPY … FROM … WITH (FORMAT binary)`: rows of `id`, the kept fields, and the vectors in pgvector's types.
//!
//! The layout is that of PostgreSQL's documentation ("Binary Format" under COPY) and of pgvector's `recv`
//! functions: a `vector` is int16 components, int16 zero, float32 each; a `halfvec` the same with float16; a
//! `bit` int32 bits, then bytes from the highest bit on; a `sparsevec` int32 components, int32 entries, int32 zero, the
//! entries' int32 indices from 0, and their float32 values. All big-endian.

pub mod fields;
mod interval;

use std::io::{self, BufRead, Read};

use half::f16;

use self::fields::{Fields, leave_out};
use crate::lines::ReadFault;
use crate::numbers::{array, floats};
use crate::quantize::{Dtype, Elements};
use crate::record::Rows;
use crate::vectors::{StoredVector, TakeVector, in_full};
use embedctl_common::error::{Error, Place, Result};
use embedctl_common::setting::MAX_ACTIVE_DIMS;
use embedctl_vectors::{Numbers, RowVector};

/// pgvector's most entries of a sparse vector.
const MOST_ENTRIES: usize = 16_000;

/// The vectors of some rows.
#[derive(Debug)]
pub enum CopyVectors {
    /// In full.
    Full {
        /// Of each column the components of a vector, how many elements they are, and the elements.
        columns: Vec<((usize, usize), Elements)>,
        /// Whether a row has one number, which is no list.
        is_single: bool,
    },
    /// Those entries that are not zero.
    Sparse(Numbers),
}

/// Appends rows from `first` on until `out` holds `most` bytes. Each has `count` fields, and sparse vectors are `dimensions`
/// wide. Returns which row is next.
///
/// # Errors
/// If PostgreSQL would not take a value, or pgvector a vector.
pub fn append_rows(
    rows: &Rows,
    first: usize,
    (count, dimensions): (i16, usize),
    fields: &mut Fields<'_>,
    vectors: &CopyVectors,
    most: usize,
    out: &mut Vec<u8>,
) -> Result<usize> {
    for row in first..rows.len() {
        if out.len() >= most {
            return Ok(row);
        }
        out.extend(count.to_be_bytes());
        let written = fields.write(row, out);
        written.map_err(|(field, reason)| {
            let record = rows.refs[row].record + 1;
            let place = Place::file(format!("record {record}, field {field}"));
            Error::input(place, reason).with_remedy(leave_out())
        })?;
        let is_missing = rows.is_missing(row);
        match vectors {
            CopyVectors::Full { columns, is_single } => {
                for (shape, elements) in columns {
                    match is_missing {
                        true => out.extend((-1_i32).to_be_bytes()),
                        false if *is_single => push_real(elements, row, out),
                        false => push_vector(*shape, elements, row, out),
                    }
                }
            }
            CopyVectors::Sparse(vectors) => {
                let entries = vectors.get(row);
                if entries.values().len() > MOST_ENTRIES {
                    let record = rows.refs[row].record + 1;
                    return Err(Error::input(
                        Place::file(format!("record {record}")),
                        format!(
                            "its sparse vector has {} entries, but pgvector's have {MOST_ENTRIES} at most",
                            entries.values().len()
                        ),
                    )
                    .with_remedy(format!("keep fewer with {MAX_ACTIVE_DIMS}")));
                }
                match is_missing {
                    true => out.extend((-1_i32).to_be_bytes()),
                    false => push_sparse(dimensions, entries, out),
                }
            }
        }
    }
    Ok(rows.len())
}

/// A field that is a `sparsevec`.
fn push_sparse(dimensions: usize, row: RowVector<'_>, out: &mut Vec<u8>) {
    let number =
        |count: usize| i32::try_from(count).expect("a vocabulary has fewer than 2^31 terms");
    let entries = row.values().len();
    for count in [12 + 8 * entries, dimensions, entries, 0] {
        out.extend(number(count).to_be_bytes());
    }
    for (index, _) in row.entries() {
        out.extend(number(index as usize).to_be_bytes());
    }
    for value in row.values() {
        out.extend(value.to_be_bytes());
    }
}

/// Appends the number of a row as a field.
fn push_real(elements: &Elements, row: usize, out: &mut Vec<u8>) {
    let number = match elements {
        Elements::F32(values) => values[row],
        Elements::F16(values) => values[row].to_f32(),
        Elements::U8(values) => values[row].into(),
        Elements::I8(values) => values[row].into(),
    };
    out.extend(4_i32.to_be_bytes());
    out.extend(number.to_be_bytes());
}

/// Appends row `row` of a column as a field: its length, then the value.
fn push_vector(
    (dimensions, width): (usize, usize),
    elements: &Elements,
    row: usize,
    out: &mut Vec<u8>,
) {
    let part = row * width..(row + 1) * width;
    let short = |count: usize| i16::try_from(count).expect("16,000 at most were let in");
    let long = |count: usize| i32::try_from(count).expect("16,000 at most were let in");
    let size = match elements {
        Elements::F32(_) => 4,
        Elements::F16(_) => 2,
        Elements::U8(_) | Elements::I8(_) => 1,
    };
    out.extend(long(4 + size * width).to_be_bytes());
    match elements {
        // Bits, eight to a byte.
        Elements::U8(_) | Elements::I8(_) => out.extend(long(dimensions).to_be_bytes()),
        Elements::F32(_) | Elements::F16(_) => {
            out.extend(short(dimensions).to_be_bytes());
            out.extend(0_i16.to_be_bytes());
        }
    }
    match elements {
        Elements::F32(values) => {
            for value in &values[part] {
                out.extend_from_slice(&value.to_be_bytes());
            }
        }
        Elements::F16(values) => {
            for value in &values[part] {
                out.extend_from_slice(&value.to_be_bytes());
            }
        }
        Elements::U8(bytes) => out.extend_from_slice(&bytes[part]),
        // `binary` has subtracted 128.
        Elements::I8(bytes) => {
            let bytes = bytes[part].iter().map(|it| it.cast_unsigned());
            out.extend(bytes.map(|it| it.wrapping_add(128)));
        }
    }
}

/// pgvector's types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PgVector {
    /// float32.
    Vector,
    /// float16.
    Halfvec,
    /// A bit for each component.
    Bit,
    /// Indices and values.
    Sparsevec,
    /// PostgreSQL's own type, of a column of single numbers.
    Real,
}

/// A column's name, and its type if it holds vectors.
pub type PgColumn = (String, Option<PgVector>);

/// Hands over the vectors of all rows up to the end of a copy, whose head was read. `declared` names the columns; without it,
/// every field with the bytes of a `vector` or a `halfvec` is taken and named by its number, from 1. A `bit` field is given
/// as its bytes.
///
/// # Errors
/// If the copy cannot be read, is damaged (an error of the file `name`), or `take` says so.
pub fn read_rows(
    bytes: &mut dyn BufRead,
    name: &str,
    declared: Option<&[PgColumn]>,
    take: &mut TakeVector<'_>,
) -> Result<(), ReadFault> {
    let damaged = |reason: String| ReadFault::Content(Error::input(Place::file(name), reason));
    let mut field = Vec::new();
    for row in 0.. {
        let fields = i16::from_be_bytes(array(bytes)?);
        if fields == -1 {
            break;
        }
        if fields < 0 {
            return Err(damaged(format!("a row claims {fields} fields")));
        }
        for number in 1..=fields {
            let length = i32::from_be_bytes(array(bytes)?);
            let Ok(length) = u64::try_from(length) else {
                if length == -1 {
                    continue; // null
                }
                return Err(damaged(format!("a field claims {length} bytes")));
            };
            field.clear();
            if bytes.take(length).read_to_end(&mut field)? as u64 != length {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let index = usize::from(number.unsigned_abs()) - 1;
            let numbered;
            let (column, kind) = match declared {
                None => {
                    numbered = number.to_string();
                    (numbered.as_str(), None)
                }
                Some(columns) => match columns.get(index) {
                    Some((name, Some(kind))) => (name.as_str(), Some(*kind)),
                    _ => continue,
                },
            };
            let Some((dtype, values)) = vector(&field, kind) else {
                if kind.is_none() {
                    continue;
                }
                let reason = format!("its column {column} holds a value that is not a vector");
                return Err(damaged(reason));
            };
            take(StoredVector {
                column,
                row,
                dtype,
                values: &values,
            })?;
        }
    }
    Ok(())
}

/// The components of a `sparsevec`: its width, the number of its entries, zero, then indices and values.
fn sparse(head: &[u8; 4], rest: &[u8]) -> Option<Vec<f32>> {
    let number = |bytes: [u8; 4]| usize::try_from(i32::from_be_bytes(bytes)).ok();
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let (_, rest) = rest.split_first_chunk::<4>()?;
    let count = number(*count)?;
    if rest.len() != count.checked_mul(8)? {
        return None;
    }
    let (indices, values) = rest.split_at(4 * count);
    let (indices, _) = indices.as_chunks::<4>();
    let indices = indices.iter().map(|index| u32::from_be_bytes(*index));
    in_full(
        number(*head)?,
        indices.zip(floats(values, f32::from_be_bytes)),
    )
}

/// The components of a field that is a vector, of the kind that is declared.
fn vector(field: &[u8], kind: Option<PgVector>) -> Option<(Dtype, Vec<f32>)> {
    let (head, rest) = field.split_first_chunk::<4>()?;
    if kind == Some(PgVector::Real) {
        let number = f32::from_be_bytes(*head);
        return rest.is_empty().then(|| (Dtype::F32, vec![number]));
    }
    if kind == Some(PgVector::Bit) {
        let bits = usize::try_from(u32::from_be_bytes(*head)).ok()?;
        let whole = bits.div_ceil(8) == rest.len();
        return whole.then(|| (Dtype::Uint8, floats(rest, |[one]| f32::from(one))));
    }
    if kind == Some(PgVector::Sparsevec) {
        return sparse(head, rest).map(|values| (Dtype::F32, values));
    }
    let [a, b, 0, 0] = *head else { return None };
    let dimensions = usize::from(u16::from_be_bytes([a, b]));
    let is = |one: PgVector, size: usize| {
        kind.is_none_or(|kind| kind == one) && rest.len() == dimensions * size
    };
    if dimensions == 0 {
        return None;
    }
    if is(PgVector::Vector, 4) {
        return Some((Dtype::F32, floats(rest, f32::from_be_bytes)));
    }
    let half = |two| f16::from_be_bytes(two).to_f32();
    is(PgVector::Halfvec, 2).then(|| (Dtype::F16, floats(rest, half)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_vector_is_told_from_one() {
        let field = |head: [u8; 4], rest: usize| [&head[..], &vec![1; rest]].concat();
        assert!(
            vector(&field([0, 2, 0, 0], 8), None).is_some_and(|(dtype, _)| dtype == Dtype::F32)
        );
        assert!(
            vector(&field([0, 2, 0, 0], 4), None).is_some_and(|(dtype, _)| dtype == Dtype::F16)
        );
        assert!(vector(&field([0, 2, 0, 0], 4), Some(PgVector::Vector)).is_none());
        assert!(vector(&field([0, 0, 0, 12], 2), Some(PgVector::Bit)).is_some());
        assert!(vector(&field([0, 0, 0, 12], 2), None).is_none());
        assert!(vector(b"abc", None).is_none());
    }
}

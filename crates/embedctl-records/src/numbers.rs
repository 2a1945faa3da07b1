//! Numbers as files hold them: read in bulk, row by row of a matrix, or from a page of lists.

use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::sync::Arc;

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::lines::ReadFault;
use crate::quantize::Dtype;
use crate::vectors::{StoredVector, TakeRow, TakeVector};
use arrow::array::{ArrayRef, PrimitiveArray};
use arrow::datatypes::{Float16Type, Float32Type};
use embedctl_common::error::Result;
use embedctl_vectors::{Numbers, RowVector};

/// A stream that is read in small pieces.
#[must_use]
pub fn buffered(bytes: Box<dyn Read + Send>) -> Box<dyn BufRead> {
    Box::new(BufReader::with_capacity(1 << 18, bytes))
}

/// The next bytes.
///
/// # Errors
/// If there are fewer, or the stream cannot be read.
pub fn array<const N: usize>(bytes: &mut (impl Read + ?Sized)) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    bytes.read_exact(&mut array).map(|()| array)
}

/// Numbers, as `read` makes them of bytes.
pub(crate) fn floats<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (numbers, _) = bytes.as_chunks::<N>();
    numbers.iter().map(|number| read(*number)).collect()
}

/// Appends elements of a file as float32.
pub fn widen(dtype: Dtype, bytes: &[u8], values: &mut Vec<f32>) {
    match dtype {
        Dtype::F16 => append_halves(bytes, values),
        Dtype::Int8 => append(bytes, values, |[one]| f32::from(one.cast_signed())),
        Dtype::Uint8 => append(bytes, values, |[one]| f32::from(one)),
        _ => append(bytes, values, f32::from_le_bytes),
    }
}

fn append<const N: usize>(bytes: &[u8], values: &mut Vec<f32>, read: impl Fn([u8; N]) -> f32) {
    let (numbers, _) = bytes.as_chunks::<N>();
    values.extend(numbers.iter().map(|number| read(*number)));
}

/// Many at a time, as a processor converts them.
fn append_halves(bytes: &[u8], values: &mut Vec<f32>) {
    let mut halves = [f16::ZERO; 64];
    let (numbers, _) = bytes.as_chunks::<2>();
    for part in numbers.chunks(halves.len()) {
        for (half, number) in halves.iter_mut().zip(part) {
            *half = f16::from_le_bytes(*number);
        }
        let before = values.len();
        values.resize(before + part.len(), 0.0);
        halves[..part.len()].convert_to_f32_slice(&mut values[before..]);
    }
}

/// Hands over `rows` rows of a matrix, each of `size` bytes, which follow.
///
/// # Errors
/// If they cannot be read, or `take` says so.
pub fn read_rows(
    bytes: &mut dyn BufRead,
    rows: u64,
    size: usize,
    dtype: Dtype,
    take: &mut TakeVector<'_>,
) -> Result<(), ReadFault> {
    let (mut row, mut values) = (vec![0; size], Vec::new());
    for number in 0..rows {
        bytes.read_exact(&mut row)?;
        values.clear();
        widen(dtype, &row, &mut values);
        take(StoredVector {
            column: "",
            row: number,
            dtype,
            values: &values,
        })?;
    }
    Ok(())
}

/// Hands over rows of `width` numbers, the first of which has the index `first`.
pub fn hand_rows(values: &[f32], width: usize, first: usize, take: &mut TakeRow<'_>) {
    for (row, index) in values.chunks_exact(width).zip(first..) {
        take(index, RowVector::of_vector(row).into());
    }
}

/// The entries of a sparse vector, whose indices and values stand in these bytes.
#[must_use]
pub fn entries(indices: &[u8], values: &[u8]) -> Vec<(u32, f32)> {
    let (indices, _) = indices.as_chunks();
    let indices = indices.iter().map(|index| u32::from_le_bytes(*index));
    indices.zip(floats(values, f32::from_le_bytes)).collect()
}

/// The bytes of indices, which are stored as integers of 32 bits.
#[must_use]
pub fn index_bytes(indices: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(indices.len() * 4);
    for index in indices {
        bytes.extend_from_slice(&index.to_le_bytes());
    }
    bytes
}

/// The bytes of values.
#[must_use]
pub fn value_bytes(values: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * 4);
    for value in values {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// The first value that float16 cannot hold, and its row.
#[must_use]
pub fn beyond_f16(rows: &Numbers) -> Option<(usize, f32)> {
    let beyond = |value: &&f32| f16::from_f32(**value).is_infinite();
    let mut rows = rows.iter().enumerate();
    rows.find_map(|(row, vectors)| Some((row, *vectors.values().iter().find(beyond)?)))
}

/// Of rows that are `width` numbers wide, the numbers at these places.
#[must_use]
pub fn part_of_rows(all: &[f32], width: usize, part: &Range<usize>) -> Vec<f32> {
    let rows = all.chunks_exact(width.max(1));
    rows.flat_map(|row| &row[part.clone()]).copied().collect()
}

/// Lists of one length, as a page of a column may hold them.
#[derive(Debug, Clone, Copy)]
pub struct ListForm {
    /// Numbers of a list.
    pub width: usize,
    /// Bytes of a number.
    pub bytes: usize,
    /// The definition level of a number that is there.
    pub defined: u16,
}

/// The numbers of a page as a column: of float16 if each has two bytes, else of float32.
#[must_use]
pub fn numbers_of(bytes: &[u8], size: usize) -> ArrayRef {
    match size {
        2 => {
            let (numbers, _) = bytes.as_chunks();
            let values = numbers.iter().map(|bytes| f16::from_le_bytes(*bytes));
            Arc::new(PrimitiveArray::<Float16Type>::from_iter_values(values))
        }
        _ => {
            let (numbers, _) = bytes.as_chunks();
            let values = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes));
            Arc::new(PrimitiveArray::<Float32Type>::from_iter_values(values))
        }
    }
}

/// The `count` numbers of whole lists that a page holds as they are; `None` where it holds anything else. Its levels stand
/// first, with as many bytes, if they are told.
#[must_use]
pub fn whole_lists<'p>(
    mut rest: &'p [u8],
    (repeated, defined): (Option<u32>, Option<u32>),
    count: usize,
    form: &ListForm,
) -> Option<&'p [u8]> {
    if count == 0 || !count.is_multiple_of(form.width) {
        return None;
    }
    let repeated = levels(&mut rest, repeated)?;
    let defined = levels(&mut rest, defined)?;
    // A list begins with a number at level 0, and goes on with numbers at level 1.
    let is_next = |at: usize, level, run: usize| match level {
        0 => at.is_multiple_of(form.width) && (run == 1 || form.width == 1),
        _ => !at.is_multiple_of(form.width) && at % form.width + run <= form.width,
    };
    let is_there = |_, level, _| level == form.defined;
    let bits = u16::BITS - form.defined.leading_zeros();
    let is_plain = all_levels(repeated, 1, count, is_next)
        && all_levels(defined, bits, count, is_there)
        && rest.len() == count * form.bytes;
    is_plain.then_some(rest)
}

/// Takes a page's levels from `rest`: as many bytes, or, if not said, as four bytes before them say.
fn levels<'p>(rest: &mut &'p [u8], bytes: Option<u32>) -> Option<&'p [u8]> {
    let bytes = match bytes {
        Some(bytes) => bytes,
        None => u32::from_le_bytes(*rest.split_off(..4)?.first_chunk()?),
    };
    rest.split_off(..bytes as usize)
}

/// Whether `is_right` says so of all `count` levels of so many bits, which stand in runs of one level or packed eight at a
/// time. It is asked with the place of a run's first level, the level, and the length of the run.
fn all_levels(
    mut rest: &[u8],
    bits: u32,
    count: usize,
    is_right: impl Fn(usize, u16, usize) -> bool,
) -> bool {
    let mut at = 0;
    while at < count {
        let Some(header) = unsigned(&mut rest) else {
            return false;
        };
        let length = (header >> 1) as usize;
        if header & 1 == 0 {
            let Some(level) = rest.split_off(..bits.div_ceil(8) as usize) else {
                return false;
            };
            let level = level
                .iter()
                .rev()
                .fold(0, |all, byte| all << 8 | u16::from(*byte));
            let run = length.min(count - at);
            if run == 0 || !is_right(at, level, run) {
                return false;
            }
            at += run;
            continue;
        }
        for _ in 0..length {
            let Some(packed) = rest.split_off(..bits as usize) else {
                return false;
            };
            let packed = packed
                .iter()
                .rev()
                .fold(0_u128, |all, byte| all << 8 | u128::from(*byte));
            for place in 0..(count - at).min(8) {
                let level = packed >> (place as u32 * bits) & ((1 << bits) - 1);
                if !is_right(at, level as u16, 1) {
                    return false;
                }
                at += 1;
            }
        }
        if length == 0 {
            return false;
        }
    }
    true
}

/// A number in groups of seven bits, the lowest first; `None` if it ends early or has more than 32 bits.
fn unsigned(rest: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u32;
    for shift in (0..u32::BITS).step_by(7) {
        let byte = *rest.split_off_first()?;
        number |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

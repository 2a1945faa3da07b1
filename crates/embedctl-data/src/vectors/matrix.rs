//! Rows of a matrix, read from any place in a file, by several threads if need be.

use std::io;
use std::ops::Range;

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::failed;
use super::rows::{ChosenRows, TakeRow, runs};
use crate::writing::quantize::Dtype;
use embedctl_common::error::Result;
use embedctl_common::vectors::RowVector;
use embedctl_storage::Readable;

/// Rows of a run that are read at a time.
const ROWS_AT_A_TIME: u64 = 1024;

/// Row after row of the same width and type, from `start` in a file.
pub struct MatrixRows {
    pub(crate) file: Readable,
    pub(crate) read_at: ReadAt,
    pub(crate) start: u64,
    pub(crate) rows: u64,
    pub(crate) width: usize,
    pub(crate) dtype: Dtype,
}

/// Of a folder's many parts few may be open at a time.
impl Drop for MatrixRows {
    fn drop(&mut self) {
        self.file.bytes.close();
    }
}

/// Fills with the bytes from there on.
pub(crate) type ReadAt = Box<dyn Fn(u64, &mut [u8]) -> io::Result<()> + Send + Sync>;

impl MatrixRows {
    /// How many there are.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Elements of a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The type of the elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The elements of consecutive rows, one row after another, in place of what `values` held. `room` is used again.
    ///
    /// # Errors
    /// If the file cannot be read, or has become shorter.
    pub fn read(&self, rows: Range<u64>, room: &mut Vec<u8>, values: &mut Vec<f32>) -> Result<()> {
        let size = self.width * self.dtype.bytes();
        let count = usize::try_from(rows.end - rows.start).unwrap_or(0);
        room.resize(count * size, 0);
        let at = self.start + rows.start * size as u64;
        (self.read_at)(at, room).map_err(|error| failed(&self.file, error))?;
        values.clear();
        widen(self.dtype, room, values);
        Ok(())
    }
}

impl ChosenRows for MatrixRows {
    fn rows(&self) -> u64 {
        self.rows
    }

    fn read(&mut self, rows: &[u64], take: &mut TakeRow<'_>) -> Result<()> {
        let (mut room, mut values) = (Vec::new(), Vec::new());
        let mut done = 0;
        for mut run in runs(rows) {
            while !run.is_empty() {
                let end = run.end.min(run.start + ROWS_AT_A_TIME);
                Self::read(self, run.start..end, &mut room, &mut values)?;
                run.start = end;
                for row in values.chunks_exact(self.width) {
                    take(done, RowVector::of_vector(row).into());
                    done += 1;
                }
            }
        }
        Ok(())
    }
}

/// Appends elements of a file as float32.
pub(crate) fn widen(dtype: Dtype, bytes: &[u8], values: &mut Vec<f32>) {
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

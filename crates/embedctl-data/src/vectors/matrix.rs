//! Rows of a matrix, read from any place in a file, by several threads if need be.

use std::io;
use std::ops::Range;

use super::failed;
use super::rows::{ChosenRows, runs};
use embedctl_common::error::Result;
use embedctl_records::numbers::{hand_rows, widen};
use embedctl_records::quantize::Dtype;
use embedctl_records::vectors::TakeRow;
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
                hand_rows(&values, self.width, done, take);
                done += values.len() / self.width.max(1);
            }
        }
        Ok(())
    }
}

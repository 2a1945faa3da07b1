//! Rows of a matrix, read from any place in the file, by several threads if need be.

use std::io::{self, Seek};
use std::ops::Range;
use std::sync::Arc;

use super::MatrixOutput;
use super::vectors::{row_bytes, shape, widen};
use crate::vectors::{ChosenRows, TakeRow, failed, followed, no_such_vectors, runs};
use crate::writing::quantize::Dtype;
use embedctl_common::error::{Error, Result};
use embedctl_common::vectors::{FormColumns, RowVector};
use embedctl_storage::{Address, Readable};

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
    /// Opens a file; `None` where it is far away and so is read in order.
    ///
    /// # Errors
    /// If it cannot be read, or its size is another than its header says.
    pub(super) fn open(file: &Readable, kind: MatrixOutput) -> Result<Option<Self>> {
        if Address::is_url_path(file.path()) {
            return Ok(None);
        }
        let mut bytes = file.seeking();
        let (rows, width, dtype) = shape(file, &mut bytes, kind)?;
        let size = row_bytes(file, rows, width, dtype)? as u64;
        let start = bytes.stream_position();
        let start = start.map_err(|error| Error::io("read", file.path(), error))?;
        let end = rows
            .checked_mul(size)
            .and_then(|size| size.checked_add(start));
        match end {
            Some(end) if end == file.bytes.len() => {}
            Some(end) if end < file.bytes.len() => return Err(followed(file)),
            _ => return Err(failed(file, io::ErrorKind::UnexpectedEof.into())),
        }
        let bytes = Arc::clone(&file.bytes);
        Ok(Some(Self {
            file: file.clone(),
            read_at: Box::new(move |offset, into| bytes.read_at(offset, into)),
            start,
            rows,
            width: usize::try_from(width).unwrap_or(usize::MAX),
            dtype,
        }))
    }

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

/// Opens a file to read vectors of these kinds; `None` where it is far away, or holds bytes, or where other vectors than
/// dense ones are wanted.
///
/// # Errors
/// If it cannot be read, or holds no such vectors.
pub(super) fn choose(
    file: &Readable,
    kind: MatrixOutput,
    wanted: &[FormColumns],
) -> Result<Option<Box<dyn ChosenRows>>> {
    let Some(columns) = FormColumns::dense(wanted) else {
        return Ok(None);
    };
    let is_float = matches!(kind, MatrixOutput::Npy | MatrixOutput::Fbin);
    let Some(matrix) = is_float
        .then(|| MatrixRows::open(file, kind))
        .transpose()?
        .flatten()
    else {
        return Ok(None);
    };
    let is_wanted = matrix.width == columns.form.width() && columns.names.len() == 1;
    if !is_wanted || matrix.dtype.bytes() == 1 {
        return Err(no_such_vectors(file.path(), wanted));
    }
    Ok(Some(Box::new(matrix)))
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
                    take(done, RowVector::Dense(row));
                    done += 1;
                }
            }
        }
        Ok(())
    }
}

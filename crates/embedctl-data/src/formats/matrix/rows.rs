//! Vectors of chosen rows of a matrix.

use std::io::{self, Seek};
use std::sync::Arc;

use half::f16;

use super::MatrixOutput;
use super::vectors::shape;
use crate::vectors::{ChosenRows, TakeRow, floats, no_such_vectors, runs};
use crate::writing::quantize::Dtype;
use embedctl_common::error::{Error, Result};
use embedctl_common::vectors::{FormColumns, RowVector};
use embedctl_storage::{Address, Readable};

/// Row after row in float32 or float16, from `start`.
pub(crate) struct MatrixRows {
    pub file: Readable,
    pub read_at: ReadAt,
    pub start: u64,
    pub rows: u64,
    pub width: usize,
    pub dtype: Dtype,
}

/// Fills with the bytes from there on.
pub(crate) type ReadAt = Box<dyn Fn(u64, &mut [u8]) -> io::Result<()> + Send>;

/// Opens a file; `None` where it is far away, or holds bytes, or where other vectors than dense ones are wanted.
///
/// # Errors
/// If it cannot be read, or holds no such vectors.
pub(super) fn open(
    file: &Readable,
    kind: MatrixOutput,
    wanted: &[FormColumns],
) -> Result<Option<Box<dyn ChosenRows>>> {
    let Some(columns) = FormColumns::dense(wanted) else {
        return Ok(None);
    };
    let is_float = matches!(kind, MatrixOutput::Npy | MatrixOutput::Fbin);
    if !is_float || Address::is_url_path(file.path()) {
        return Ok(None);
    }
    let width = columns.form.width();
    let mut bytes = file.seeking();
    let (rows, found, dtype) = shape(file, &mut bytes, kind)?;
    if found != width as u64 || columns.names.len() > 1 || dtype.bytes() == 1 {
        return Err(no_such_vectors(file.path(), wanted));
    }
    let start = bytes.stream_position();
    let start = start.map_err(|error| Error::io("read", file.path(), error))?;
    let bytes = Arc::clone(&file.bytes);
    Ok(Some(Box::new(MatrixRows {
        file: file.clone(),
        read_at: Box::new(move |offset, into| bytes.read_at(offset, into)),
        start,
        rows,
        width,
        dtype,
    })))
}

impl ChosenRows for MatrixRows {
    fn rows(&self) -> u64 {
        self.rows
    }

    fn read(&mut self, rows: &[u64], take: &mut TakeRow<'_>) -> Result<()> {
        let failed = |error| self.file.failed(error);
        let bytes = self.width * self.dtype.bytes();
        let mut buffer = Vec::new();
        let mut done = 0;
        for run in runs(rows) {
            let at = self.start + run.start * bytes as u64;
            let length = usize::try_from(run.end - run.start).unwrap_or(0);
            buffer.resize(length * bytes, 0);
            (self.read_at)(at, &mut buffer).map_err(failed)?;
            for row in buffer.chunks_exact(bytes) {
                let vector: Vec<f32> = match self.dtype {
                    Dtype::F16 => floats(row, |two| f16::from_le_bytes(two).to_f32()),
                    _ => floats(row, f32::from_le_bytes),
                };
                take(done, RowVector::Dense(&vector));
                done += 1;
            }
        }
        Ok(())
    }
}

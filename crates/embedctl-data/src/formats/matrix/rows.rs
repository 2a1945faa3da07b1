//! Matrices whose rows are read from any place in the file.

use std::io::{self, Seek};
use std::sync::Arc;

use super::MatrixOutput;
use super::vectors::{row_bytes, shape};
use crate::vectors::{ChosenRows, MatrixRows, failed, followed, no_such_vectors};
use embedctl_common::error::{Error, Result};
use embedctl_storage::{Address, Readable};
use embedctl_vectors::Forms;

/// Opens a file; `None` where it is far away and so is read in order.
///
/// # Errors
/// If it cannot be read, or its size is another than its header says.
pub(super) fn open(file: &Readable, kind: MatrixOutput) -> Result<Option<MatrixRows>> {
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
    Ok(Some(MatrixRows {
        file: file.clone(),
        read_at: Box::new(move |offset, into| bytes.read_at(offset, into)),
        start,
        rows,
        width: usize::try_from(width).unwrap_or(usize::MAX),
        dtype,
    }))
}

/// Opens a file to read vectors of these kinds; `None` where it is far away, or holds bytes, or where other vectors than
/// dense ones are wanted.
///
/// # Errors
/// If it cannot be read, or holds no such vectors.
pub(super) fn choose(
    file: &Readable,
    kind: MatrixOutput,
    wanted: &Forms,
) -> Result<Option<Box<dyn ChosenRows>>> {
    if !wanted.are_dense() {
        return Ok(None);
    }
    let is_float = matches!(kind, MatrixOutput::Npy | MatrixOutput::Fbin);
    let Some(matrix) = is_float.then(|| open(file, kind)).transpose()?.flatten() else {
        return Ok(None);
    };
    let is_wanted = wanted.first().widths() == [matrix.width()];
    if !is_wanted || matrix.dtype().bytes() == 1 {
        return Err(no_such_vectors(file.path(), wanted));
    }
    Ok(Some(Box::new(matrix)))
}

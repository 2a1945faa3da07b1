//! Rows of tokens' vectors, read back from a matrix and the file beside it that says how many each row has.

use std::io::Read;

use super::{BATCH_ROWS, MatrixOutput, batch_of, vectors};
use crate::vectors::{TakeBatch, ended, failed, in_order, no_such_vectors, unreadable};
use crate::writing::encoding::column_of;
use crate::writing::npy::{HEADER, is_lengths};
use crate::writing::sidecar::LENGTHS;
use arrow::array::ArrayRef;
use embedctl_common::error::{Error, Result};
use embedctl_records::numbers::array;
use embedctl_storage::Readable;
use embedctl_vectors::{Forms, Numbers};

/// The rows as a column, batch by batch. `false` where several columns are wanted, or no file of lengths stands beside the
/// matrix.
pub(super) fn batches(
    file: &Readable,
    kind: MatrixOutput,
    wanted: &Forms,
    take: &mut TakeBatch<'_>,
) -> Result<bool> {
    let Some((name, width)) = wanted.alone() else {
        return Ok(false);
    };
    let Some(beside) = file.bytes.beside(LENGTHS)? else {
        return Ok(false);
    };
    let mut lengths = lengths(&beside)?;
    let (mut rows, mut row) = (wanted.first().no_rows(), Vec::new());
    let mut left = lengths.next().transpose()?;
    // Rows without a token have no vector that would end them.
    let mut complete = |rows: &mut Numbers, row: &mut Vec<f32>, left: &mut Option<u64>| {
        while *left == Some(0) {
            rows.push_values(row);
            row.clear();
            *left = lengths.next().transpose()?;
            if rows.len() == BATCH_ROWS {
                take(batch_of(name, column(rows)?)?)?;
            }
        }
        Ok::<_, Error>(())
    };
    complete(&mut rows, &mut row, &mut left)?;
    let unequal = || {
        unreadable(
            file.path(),
            "the number of vectors differs from the sum in the `.lengths.npy` file beside it",
        )
        .with_remedy("copy both files, or make them again")
    };
    vectors::read(file, kind, &mut |vector| {
        if vector.values.len() != width {
            return Err(no_such_vectors(file.path(), wanted));
        }
        row.extend_from_slice(vector.values);
        left = Some(
            left.and_then(|left| left.checked_sub(1))
                .ok_or_else(unequal)?,
        );
        complete(&mut rows, &mut row, &mut left)
    })?;
    if left.is_some() {
        return Err(unequal());
    }
    take(batch_of(name, column(&mut rows)?)?)?;
    Ok(true)
}

/// The lengths in a file of them, one after another.
fn lengths(file: &Readable) -> Result<impl Iterator<Item = Result<u64>> + use<>> {
    let mut bytes = in_order(file)?;
    let header: [u8; HEADER] = array(&mut bytes).map_err(|error| failed(file, error))?;
    if !is_lengths(&header) {
        return Err(unreadable(file.path(), "it is not a file of lengths"));
    }
    let rows = (file.bytes.len() - HEADER as u64) / 8;
    let file = file.clone();
    let mut number = 0;
    Ok(std::iter::from_fn(move || {
        if number == rows {
            return ended(&file, bytes.by_ref()).err().map(Err);
        }
        number += 1;
        let next = array(&mut bytes).map(u64::from_le_bytes);
        Some(next.map_err(|error| failed(&file, error)))
    }))
}

/// The rows as a column; none are left.
fn column(rows: &mut Numbers) -> Result<ArrayRef> {
    let none = rows.same();
    column_of(std::mem::replace(rows, none))
}

//! Vectors read back from files of the formats that embedctl writes: one after another, widened to
//! float32.

pub(crate) mod matrix;
mod rows;

use std::error::Error as StdError;
use std::io::{self, BufRead, Read};
use std::path::Path;

pub use matrix::MatrixRows;
pub(crate) use rows::{ChosenRows, no_such_vectors, runs};

use serde_json::Value;

use crate::writing::encoding::{BESIDE, VECTOR_COLUMNS};
use crate::writing::forms::recorded_form;
use arrow::array::RecordBatch;
use embedctl_common::error::{Error, Place, Result};
use embedctl_common::threads::caught;
use embedctl_records::lines::ReadFault;
use embedctl_records::numbers::buffered;
use embedctl_records::quantize::Dtype;
use embedctl_records::vectors::{CUT, RecordedColumn, RecordedColumns};
use embedctl_storage::{Readable, no_fault_of_data};

/// Takes columns of vectors, batch by batch; an error ends the reading.
pub(crate) type TakeBatch<'a> = dyn FnMut(RecordBatch) -> Result<()> + 'a;

/// Its bytes from the first to the last.
pub(crate) fn in_order(file: &Readable) -> Result<Box<dyn BufRead>> {
    let bytes = (file.bytes.reader_from(0)).map_err(|error| failed(file, error))?;
    Ok(buffered(bytes))
}

/// The error for a file of another format than its ending says.
pub(crate) fn unreadable(path: &Path, reason: impl Into<String>) -> Error {
    Error::input(Place::file(path.display().to_string()), reason)
}

/// The result of a decoder. Some panic over damage, which is reported as an error of the file.
pub(crate) fn guarded<T, E: StdError + Send + Sync + 'static>(
    file: &Readable,
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<T> {
    let decoded = caught(decode).map_err(|panic| damaged(file, panic))?;
    decoded.map_err(|error| damaged(file, error))
}

fn damaged(file: &Readable, error: impl StdError + Send + Sync + 'static) -> Error {
    no_fault_of_data(&file.name, error).unwrap_or_else(|error| {
        unreadable(file.path(), format!("it is cut short or damaged ({error})")).with_remedy(CUT)
    })
}

/// A file that ends too early is damaged; all else is the system's refusal, or the store's.
pub(crate) fn failed(file: &Readable, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            unreadable(file.path(), "it ends in the middle of a vector").with_remedy(CUT)
        }
        _ => file.failed(error),
    }
}

/// Makes sure that no bytes follow, which would be ignored.
pub(crate) fn ended(file: &Readable, mut bytes: impl Read) -> Result<()> {
    match bytes.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(followed(file)),
        Err(error) => Err(failed(file, error)),
    }
}

/// The error for a file that goes on after its last row.
pub(crate) fn followed(file: &Readable) -> Error {
    unreadable(
        file.path(),
        "bytes follow its last row, so its beginning or its end is damaged",
    )
    .with_remedy(CUT)
}

/// The columns of vectors as a provenance describes them, of each kind.
pub(crate) fn recorded_columns(made: &Value) -> RecordedColumns {
    RecordedColumns {
        columns: columns_by_kind(made).flatten().collect(),
    }
}

/// The same, kind by kind.
pub(crate) fn columns_by_kind(made: &Value) -> impl Iterator<Item = Vec<RecordedColumn>> {
    let beside = made[BESIDE].as_array().into_iter().flatten();
    let kinds = std::iter::once(made).chain(beside);
    kinds.map(|kind| columns_of_kind(kind).collect())
}

/// The columns of one kind of vectors.
fn columns_of_kind(made: &Value) -> impl Iterator<Item = RecordedColumn> {
    let dtype = made["dtype"].as_str().and_then(|it| it.parse().ok());
    let dtype = dtype.map(|dtype| match dtype {
        Dtype::Binary => Dtype::Int8,
        Dtype::Ubinary => Dtype::Uint8,
        other => other,
    });
    // One number, or one for each of several widths.
    let widths = &made["dimensions"];
    let width = |column: usize| {
        let width = widths.as_u64().or_else(|| widths.get(column)?.as_u64());
        width.and_then(|width| width.try_into().ok())
    };
    let form = recorded_form(made);
    let names = made[VECTOR_COLUMNS].as_array().into_iter().flatten();
    let names = names.filter_map(Value::as_str).map(str::to_owned);
    names.enumerate().map(move |(column, name)| RecordedColumn {
        name,
        dtype,
        form: form.clone(),
        width: width(column),
    })
}

/// The error for a file whose records cannot be read on.
pub(crate) fn faulty(file: &Readable, fault: ReadFault) -> Error {
    match fault {
        ReadFault::Source(error) => failed(file, error),
        ReadFault::Content(error) => error,
    }
}

//! Vectors read back from files of the formats that embedctl writes: one after another, widened to
//! float32.

pub(crate) mod columns;
pub(crate) mod lists;
pub(crate) mod matrix;
mod rows;

use std::error::Error as StdError;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

pub use matrix::MatrixRows;
pub(crate) use rows::{ChosenRows, TakeRow, no_such_vectors, runs};

use serde_json::Value;

use crate::writing::encoding::{BESIDE, VECTOR_COLUMNS};
use crate::writing::forms::recorded_kind;
use crate::writing::quantize::Dtype;
use arrow::array::RecordBatch;
use embedctl_common::error::{Error, Place, Result};
use embedctl_common::threads::caught;
use embedctl_common::vectors::VectorKind;
use embedctl_storage::{Readable, no_fault_of_data};

/// A vector of a file.
#[derive(Debug, Clone, Copy)]
pub struct StoredVector<'a> {
    /// Its column; empty in a format without names.
    pub column: &'a str,
    /// The number of its row in the file, from 0; of a matrix that of its line, where a row may have several lines.
    pub row: u64,
    /// The type of its elements in the file: float32 (also for float64), float16, int8 or uint8.
    pub dtype: Dtype,
    /// Its elements.
    pub values: &'a [f32],
}

/// Takes vectors, row by row: all of a row, whatever columns they are of, before those of the next one. An error ends the
/// reading.
pub type TakeVector<'a> = dyn FnMut(StoredVector<'_>) -> Result<()> + 'a;

/// Takes columns of vectors, batch by batch; an error ends the reading.
pub(crate) type TakeBatch<'a> = dyn FnMut(RecordBatch) -> Result<()> + 'a;

/// The widest sparse vectors that are read back: a wider claim is damage.
const MOST_SPARSE_WIDTH: usize = 1 << 24;

/// A column of vectors as a provenance describes it.
#[derive(Debug, Clone)]
pub(crate) struct RecordedColumn {
    /// Its name.
    pub name: String,
    /// The type of its elements, for a format that does not say so itself.
    pub dtype: Option<Dtype>,
    /// The kind of its vectors; `None` if they are not read back.
    pub kind: Option<VectorKind>,
    /// The width of a vector in full, where the provenance has it.
    pub width: Option<usize>,
}

/// The columns of vectors as a provenance describes them, of each kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedColumns {
    pub columns: Vec<RecordedColumn>,
}

impl RecordedColumns {
    /// Reads it.
    pub fn of(made: &Value) -> Self {
        Self {
            columns: Self::kinds(made).flatten().collect(),
        }
    }

    /// The columns of each kind.
    pub fn kinds(made: &Value) -> impl Iterator<Item = Vec<RecordedColumn>> {
        let beside = made[BESIDE].as_array().into_iter().flatten();
        let kinds = std::iter::once(made).chain(beside);
        kinds.map(|kind| RecordedColumn::of_kind(kind).collect())
    }

    /// The column of that name, if the provenance has it.
    pub fn column(&self, name: &str) -> Option<&RecordedColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The kind of the vectors in the column of that name: dense if the provenance does not have it.
    pub fn kind(&self, name: &str) -> Option<VectorKind> {
        self.column(name)
            .map_or(Some(VectorKind::Dense), |column| column.kind)
    }

    /// The width in full of the vectors in the column of that name; 0 if the provenance does not have it.
    pub fn width(&self, name: &str) -> usize {
        let column = self.column(name);
        column.and_then(|column| column.width).unwrap_or(0)
    }

    /// Whether a column of `all` is to be read.
    pub fn takes<'n>(&self, name: &str, mut all: impl Iterator<Item = &'n str>) -> bool {
        let named = |name: &str| self.column(name).is_some();
        named(name) || !all.any(named)
    }
}

impl RecordedColumn {
    /// The columns of one kind of vectors.
    fn of_kind(made: &Value) -> impl Iterator<Item = Self> {
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
        let kind = recorded_kind(made);
        let names = made[VECTOR_COLUMNS].as_array().into_iter().flatten();
        let names = names.filter_map(Value::as_str).map(str::to_owned);
        names.enumerate().map(move |(column, name)| Self {
            name,
            dtype,
            kind,
            width: width(column),
        })
    }
}

/// A sparse vector in full; `None` where it has an index that `width` does not reach, or is wider than any.
pub(crate) fn in_full(
    width: usize,
    entries: impl IntoIterator<Item = (u32, f32)>,
) -> Option<Vec<f32>> {
    let mut full = vec![0.0; Some(width).filter(|width| *width <= MOST_SPARSE_WIDTH)?];
    for (index, value) in entries {
        *full.get_mut(index as usize)? = value;
    }
    Some(full)
}

/// Its bytes from the first to the last.
pub(crate) fn in_order(file: &Readable) -> Result<impl BufRead + use<>> {
    let bytes = (file.bytes.reader_from(0)).map_err(|error| failed(file, error))?;
    Ok(BufReader::with_capacity(1 << 18, bytes))
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

/// The remedy for a file that is cut short.
pub(crate) const CUT: &str = "copy or make it again";

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

/// The next bytes.
pub(crate) fn array<const N: usize>(bytes: &mut impl Read) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    bytes.read_exact(&mut array).map(|()| array)
}

/// Numbers, as `read` makes them of bytes.
pub(crate) fn floats<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (numbers, _) = bytes.as_chunks::<N>();
    numbers.iter().map(|number| read(*number)).collect()
}

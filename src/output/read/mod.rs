//! Vectors read back from the files that embedctl writes, whoever wrote them: one after another, widened to
//! float32.

mod binary;
mod chosen;
mod lines;
mod lists;

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

pub use chosen::ChosenVectors;

use super::options::OutputFormat;
use super::quantize::Dtype;
use crate::error::{Error, Place, Result};
use crate::threads::caught;

/// A vector of a file.
#[derive(Debug, Clone, Copy)]
pub struct StoredVector<'a> {
    /// Its column; empty in a format without names.
    pub column: &'a str,
    /// What its elements are in the file: float32 (also where a file holds float64), float16, int8 or uint8.
    pub dtype: Dtype,
    /// Its elements.
    pub values: &'a [f32],
}

/// Takes vectors, row by row; an error ends the reading.
pub type TakeVector<'a> = dyn FnMut(StoredVector<'_>) -> Result<()> + 'a;

/// Hands every vector of a file to `take`: of all columns that are lists of numbers, or of the matrix. Rows
/// without a vector are passed over. The format is by the path's ending.
///
/// # Errors
/// If the file cannot be read, is of another format, or `take` says so.
pub fn read_vectors(path: &Path, take: &mut TakeVector<'_>) -> Result<()> {
    let format = OutputFormat::from_path(path).ok_or_else(|| {
        unreadable(
            path,
            "its ending names no format that vectors are read from",
        )
        .with_remedy(format!("end it in {}", super::options::endings()))
    })?;
    read_as(path, format, take)
}

/// As [`read_vectors`], of a file whose format is known.
fn read_as(path: &Path, format: OutputFormat, take: &mut TakeVector<'_>) -> Result<()> {
    let file = File::open(path).map_err(|error| Error::io("read", path, error))?;
    match format {
        OutputFormat::Parquet => lists::parquet(path, take),
        OutputFormat::Arrow => lists::arrow_file(path, file, take),
        OutputFormat::Arrows => lists::arrow_stream(path, file, take),
        OutputFormat::Jsonl(compression) => lines::jsonl(path, file, compression, take),
        OutputFormat::Npy => binary::npy(path, BufReader::new(file), take),
        OutputFormat::Fbin | OutputFormat::I8bin | OutputFormat::U8bin => {
            binary::bin(path, BufReader::new(file), format, take)
        }
        OutputFormat::Pgcopy => binary::pgcopy(path, BufReader::new(file), take),
    }
}

/// The error for a file that is not what its ending says.
pub(super) fn unreadable(path: &Path, reason: impl Into<String>) -> Error {
    Error::input(Place::file(path.display().to_string()), reason)
}

/// What a decoder makes of the file. Some panic over damage, which is the file's fault.
fn guarded<T, E: std::fmt::Display>(
    path: &Path,
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<T> {
    let damaged = |error: &dyn std::fmt::Display| {
        unreadable(path, format!("it is cut short or damaged ({error})"))
            .with_remedy("copy or make it again")
    };
    let decoded = caught(decode).map_err(|panic| damaged(&panic))?;
    decoded.map_err(|error| damaged(&error))
}

/// A file that ends too early is damaged; all else is the system's refusal.
fn failed(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => unreadable(path, "it ends in the middle of a vector"),
        _ => Error::io("read", path, error),
    }
}

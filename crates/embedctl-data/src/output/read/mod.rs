//! Vectors read back from the files that embedctl writes, whoever wrote them: one after another, widened to
//! float32.

mod binary;
mod chosen;
mod lines;
mod lists;

use std::error::Error as StdError;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

pub use chosen::{Aside, ChosenVectors};

use serde_json::Value;

use super::encoding::VECTOR_COLUMNS;
use super::made;
use super::options::{Compression, OutputFormat};
use super::quantize::Dtype;
use embedctl_common::error::{Error, Place, Result};
use embedctl_common::threads::caught;
use embedctl_storage::{Readable, no_fault_of_data};

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

/// Hands every vector of a file to `take`: of the columns that its provenance names, of all that are lists of numbers
/// where it names none of those that are there, or of the matrix. Rows without a vector are passed over. The format is
/// by the ending of its name. Of Parquet the columns of vectors alone are read.
///
/// # Errors
/// If the file cannot be read, is of another format, or `take` says so.
pub fn read_vectors(file: &Readable, take: &mut TakeVector<'_>) -> Result<()> {
    let format = OutputFormat::from_path(file.path()).ok_or_else(|| {
        unreadable(
            file.path(),
            "its ending names no format that vectors are read from",
        )
        .with_remedy(format!("end it in {}", super::options::endings()))
    })?;
    // Of a matrix nothing else is there, and PostgreSQL's format names its fields by itself.
    let made = match format.is_matrix() || format == OutputFormat::Pgcopy {
        true => None,
        false => made::provenance(file, format)?,
    };
    let said = made.as_ref().map_or_else(Said::default, Said::of);
    read_as(file, format, &said, take)
}

/// What a provenance says of vectors.
#[derive(Debug, Clone, Default)]
struct Said {
    /// Names of their columns.
    columns: Vec<String>,
    /// What their elements are, where a format does not say so itself.
    dtype: Option<Dtype>,
}

impl Said {
    fn of(made: &Value) -> Self {
        let names = made[VECTOR_COLUMNS].as_array().into_iter().flatten();
        let names = names.filter_map(Value::as_str).map(str::to_owned);
        let dtype = made["dtype"].as_str().and_then(|it| it.parse().ok());
        Self {
            columns: names.collect(),
            dtype: dtype.map(|dtype| match dtype {
                Dtype::Binary => Dtype::Int8,
                Dtype::Ubinary => Dtype::Uint8,
                other => other,
            }),
        }
    }

    /// Whether a column of `all` is to be read.
    fn takes<'n>(&self, name: &str, mut all: impl Iterator<Item = &'n str>) -> bool {
        let named = |name: &str| self.columns.iter().any(|column| column == name);
        named(name) || !all.any(named)
    }
}

/// As [`read_vectors`], of a file whose format is known.
fn read_as(
    file: &Readable,
    format: OutputFormat,
    said: &Said,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    match format {
        OutputFormat::Parquet => lists::parquet(file, said, take),
        OutputFormat::Arrow => lists::arrow_file(file, said, take),
        OutputFormat::Arrows => lists::arrow_stream(file, said, take),
        OutputFormat::Jsonl(compression) => lines::jsonl(file, compression, said, take),
        OutputFormat::Npy => binary::npy(file, in_order(file)?, take),
        OutputFormat::Fbin | OutputFormat::I8bin | OutputFormat::U8bin => {
            binary::bin(file, in_order(file)?, format, take)
        }
        OutputFormat::Pgcopy => binary::pgcopy(file, in_order(file)?, take),
    }
}

/// What the hash of that name in a file's provenance is over: of a matrix its header or the values behind it, of lines
/// what they were before they were compressed, of all else its bytes.
///
/// # Errors
/// If the file cannot be read, or begins otherwise.
pub(crate) fn hashed(file: &Readable, format: OutputFormat, name: &str) -> Result<Box<dyn Read>> {
    let mut bytes = in_order(file)?;
    match (name, format) {
        ("lines", OutputFormat::Jsonl(compression)) => {
            return decompressed(bytes, compression).map_err(|error| failed(file, error));
        }
        ("header", _) => {
            let all = file.bytes.len();
            let (rows, width, dtype) = match format {
                OutputFormat::Npy => binary::npy_shape(file, &mut bytes)?,
                _ => binary::bin_shape(file, &mut bytes, format)?,
            };
            let values = (dtype.bytes() as u64).checked_mul(width);
            let values = values.and_then(|row| row.checked_mul(rows));
            let header = values
                .and_then(|values| all.checked_sub(values))
                .unwrap_or(0);
            return Ok(Box::new(in_order(file)?.take(header)));
        }
        ("values", OutputFormat::Npy) => {
            binary::npy_shape(file, &mut bytes)?;
        }
        ("values", _) => {
            binary::bin_shape(file, &mut bytes, format)?;
        }
        _ => {}
    }
    Ok(Box::new(bytes))
}

fn decompressed(
    bytes: impl BufRead + 'static,
    compression: Compression,
) -> io::Result<Box<dyn Read>> {
    Ok(match compression {
        Compression::None => Box::new(bytes),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(bytes)),
        Compression::Zstd => Box::new(zstd::Decoder::with_buffer(bytes)?),
    })
}

/// Its bytes from the first to the last.
fn in_order(file: &Readable) -> Result<impl BufRead + use<>> {
    let bytes = (file.bytes.reader_from(0)).map_err(|error| failed(file, error))?;
    Ok(BufReader::with_capacity(1 << 18, bytes))
}

/// The error for a file that is not what its ending says.
pub(super) fn unreadable(path: &Path, reason: impl Into<String>) -> Error {
    Error::input(Place::file(path.display().to_string()), reason)
}

/// What a decoder makes of the file. Some panic over damage, which is the file's fault.
fn guarded<T, E: StdError + Send + Sync + 'static>(
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
fn failed(file: &Readable, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            unreadable(file.path(), "it ends in the middle of a vector").with_remedy(CUT)
        }
        _ => file.failed(error),
    }
}

/// What helps where a file is cut short.
const CUT: &str = "copy or make it again";

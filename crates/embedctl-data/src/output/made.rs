//! Reading back what made an output: the provenance in it, or beside it.

use std::error::Error as StdError;
use std::sync::Arc;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

use super::OutputFormat;
use super::sidecar::PROVENANCE;
use crate::input::{Chunks, check_arrow_file};
use arrow::ipc;
use embedctl_common::error::{Error, Result};
use embedctl_common::threads::caught;
use embedctl_storage::Readable;

/// Key of a file's metadata that holds the run's provenance.
pub(super) const KEY: &str = "embedctl";

/// A provenance is some kilobytes; what is larger is none.
const MOST_BYTES: u64 = 64 << 20;

/// The provenance of an output; `None` where there is none, or none that can be read.
///
/// # Errors
/// If the system or a store refuses.
pub fn provenance(file: &Readable, format: OutputFormat) -> Result<Option<Value>> {
    let text = match format {
        OutputFormat::Parquet => {
            let chunks = Chunks::new(Arc::clone(&file.bytes));
            let Some(reader) = decoded(|| SerializedFileReader::new(chunks))? else {
                return Ok(None);
            };
            let metadata = reader.metadata().file_metadata().key_value_metadata();
            let mut entries = metadata.into_iter().flatten();
            let own = entries.find(|entry| entry.key == KEY);
            own.and_then(|entry| entry.value.clone())
        }
        OutputFormat::Arrow => {
            let open = || {
                check_arrow_file(file.bytes.as_ref())?;
                ipc::reader::FileReader::try_new(file.seeking(), None)
            };
            decoded(open)?.and_then(|reader| reader.custom_metadata().get(KEY).cloned())
        }
        OutputFormat::Arrows => {
            if let Some(made) = beside(file)? {
                return Ok(Some(made));
            }
            let bytes = file.bytes.reader_from(0);
            let bytes = bytes.map_err(|error| file.failed(error))?;
            let reader = decoded(|| ipc::reader::StreamReader::try_new(bytes, None))?;
            reader.and_then(|reader| reader.schema().metadata().get(KEY).cloned())
        }
        _ => return beside(file),
    };
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// What a decoder makes of a file; `None` where it is damaged, and an error where a store refuses.
fn decoded<T, E: StdError + 'static>(decode: impl FnOnce() -> Result<T, E>) -> Result<Option<T>> {
    match caught(decode) {
        Ok(Ok(decoded)) => Ok(Some(decoded)),
        Ok(Err(error)) => Error::behind(&error).map_or(Ok(None), Err),
        Err(_) => Ok(None),
    }
}

/// The provenance that stands beside an output.
///
/// # Errors
/// If the system or a store refuses.
pub(super) fn beside(file: &Readable) -> Result<Option<Value>> {
    let Some(beside) = file.bytes.beside(PROVENANCE)? else {
        return Ok(None);
    };
    Ok(serde_json::from_slice(&beside.read_whole(MOST_BYTES)?).ok())
}

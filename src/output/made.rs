//! Reading back what made an output: the provenance in it, or beside it.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use arrow::ipc;
use serde_json::Value;

use super::OutputFormat;
use super::sidecar::{PROVENANCE, sidecar_path};
use super::writer::PROVENANCE_KEY as KEY;
use crate::error::{Error, Result};
use crate::input::{Chunks, check_arrow_file};
use crate::small_file;
use crate::threads::caught;

/// A provenance is some kilobytes; what is larger is none.
const MOST_BYTES: u64 = 64 << 20;

/// The provenance of the output at `path`; `None` where there is none, or none that can be read.
///
/// # Errors
/// If the system refuses.
pub fn provenance(path: &Path, format: OutputFormat) -> Result<Option<Value>> {
    match format {
        OutputFormat::Parquet => {
            let chunks = Chunks::of_file(path).map_err(|error| Error::io("read", path, error))?;
            let Ok(Ok(reader)) = caught(|| SerializedFileReader::new(chunks)) else {
                return Ok(None);
            };
            let metadata = reader.metadata().file_metadata().key_value_metadata();
            let own = metadata
                .into_iter()
                .flatten()
                .find(|entry| entry.key == KEY);
            let text = own.and_then(|entry| entry.value.as_deref());
            Ok(text.and_then(|text| serde_json::from_str(text).ok()))
        }
        OutputFormat::Arrow => {
            let file = File::open(path).map_err(|error| Error::io("read", path, error))?;
            let open = || {
                check_arrow_file(path)?;
                ipc::reader::FileReader::try_new_buffered(file, None)
            };
            let Ok(Ok(reader)) = caught(open) else {
                return Ok(None);
            };
            let text = reader.custom_metadata().get(KEY);
            Ok(text.and_then(|text| serde_json::from_str(text).ok()))
        }
        _ => {
            let beside = sidecar_path(path, PROVENANCE);
            match small_file::read(&beside, MOST_BYTES) {
                Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Error::io("read", beside, error)),
            }
        }
    }
}

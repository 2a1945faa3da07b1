//! Reading the provenance of an output, in it or beside it.

use std::error::Error as StdError;

use serde_json::Value;

use super::sidecar::PROVENANCE;
use embedctl_common::error::{Error, Result};
use embedctl_common::threads::caught;
use embedctl_storage::Readable;

/// Key of a file's metadata that holds the run's provenance.
pub(crate) const KEY: &str = "embedctl";

/// A provenance has some kilobytes; a larger file is not one.
const MOST_BYTES: u64 = 64 << 20;

/// A provenance that stands in a file as text; `None` where it is none.
pub(crate) fn parsed(text: Option<String>) -> Option<Value> {
    text.and_then(|text| serde_json::from_str(&text).ok())
}

/// The result of a decoder; `None` if the file is damaged, and an error if a store refuses.
pub(crate) fn decoded<T, E: StdError + 'static>(
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<Option<T>> {
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
pub(crate) fn beside(file: &Readable) -> Result<Option<Value>> {
    let Some(beside) = file.bytes.beside(PROVENANCE)? else {
        return Ok(None);
    };
    Ok(serde_json::from_slice(&beside.read_whole(MOST_BYTES)?).ok())
}

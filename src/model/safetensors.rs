//! The header of a safetensors file: what tensors it holds, without their elements.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};

/// The longest header that is read: the safetensors library's own limit.
pub(crate) const MOST_HEADER: u64 = 100_000_000;

/// A tensor's entry in the header; `__metadata__`, which is none, has neither member.
#[derive(Deserialize)]
pub(crate) struct Entry {
    #[serde(default)]
    pub dtype: String,
    #[serde(default)]
    pub shape: Vec<u64>,
}

/// The tensors of the file at `path`, by their names.
pub(crate) fn header(path: &Path) -> Result<BTreeMap<String, Entry>> {
    let read = |error| Error::io("read", path, error);
    let mut file = File::open(path).map_err(read)?;
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(read)?;
    let mut header = Vec::new();
    let length = u64::from_le_bytes(length).min(MOST_HEADER);
    file.take(length).read_to_end(&mut header).map_err(read)?;
    let mut tensors: BTreeMap<String, Entry> =
        serde_json::from_slice(&header).map_err(|error| {
            Error::model(
                path.display(),
                format!("has a header that is none of safetensors ({error})"),
            )
            .with_remedy("fetch it again")
        })?;
    tensors.retain(|_, tensor| !tensor.dtype.is_empty());
    Ok(tensors)
}

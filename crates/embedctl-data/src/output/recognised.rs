//! The format of a file of vectors that is read back.

use embedctl_common::error::{Error, Result};
use embedctl_storage::Readable;

use crate::vectors::unreadable;
use crate::writing::format::{OutputFormat, endings};
use crate::writing::made;
use crate::writing::quantize::Dtype;

/// The most bytes that a format is recognised by.
const LONGEST_START: usize = 12;

/// The format of a file or an object: its first bytes decide, then the ending of its name. One of a format without such
/// bytes and with another ending is told by the type of its components, which the provenance beside it has.
///
/// # Errors
/// If nothing tells it, or the system or a store refuses.
pub fn format_of(file: &Readable) -> Result<OutputFormat> {
    let named = OutputFormat::from_path(file.path());
    // Any number may be the first of such a file: a matrix of 8,827 rows begins as an object of JSON does.
    if let Some(format) = named.filter(|format| format.facts().starts.is_empty()) {
        return Ok(format);
    }
    let mut start = [0; LONGEST_START];
    let start = &mut start[..LONGEST_START.min(file.bytes.len().try_into().unwrap_or(usize::MAX))];
    (file.bytes.read_at(0, start)).map_err(|error| file.failed(error))?;
    match OutputFormat::of_start(start).or(named) {
        Some(format) => Ok(format),
        None => told_beside(file)?.ok_or_else(|| unknown(file)),
    }
}

/// The format that has no first bytes of its own, where a provenance lies beside the file.
fn told_beside(file: &Readable) -> Result<Option<OutputFormat>> {
    let made = made::beside(file)?;
    let dtype = made.and_then(|made| made["dtype"].as_str()?.parse::<Dtype>().ok());
    Ok(dtype.and_then(|dtype| {
        OutputFormat::all().find(|format| {
            let facts = format.facts();
            facts.starts.is_empty() && facts.dtypes.contains(&dtype)
        })
    }))
}

fn unknown(file: &Readable) -> Error {
    unreadable(
        file.path(),
        "neither its first bytes nor its ending tell a format that vectors are read from",
    )
    .with_remedy(format!("name a file that ends in {}", endings()))
}

//! The format of a file of vectors that is read back.

use embedctl_common::error::{Error, Result};
use embedctl_records::quantize::Dtype;
use embedctl_storage::Readable;

use crate::vectors::unreadable;
use crate::writing::format::{OutputFormat, endings};
use crate::writing::made;

/// The most bytes that a format is recognised by.
const LONGEST_START: usize = 12;

/// The format of a file or an object: its first bytes decide, or, of a matrix whose numbers may begin with any bytes, its
/// size; then the ending of its name. Of matrices that differ in the type of their components alone, the ending or the
/// provenance beside the file tells which it is.
///
/// # Errors
/// If nothing tells it, or the system or a store refuses.
pub fn format_of(file: &Readable) -> Result<OutputFormat> {
    let named = OutputFormat::from_path(file.path());
    let mut start = [0; LONGEST_START];
    let start = &mut start[..LONGEST_START.min(file.bytes.len().try_into().unwrap_or(usize::MAX))];
    (file.bytes.read_at(0, start)).map_err(|error| file.failed(error))?;
    let is_matrix = |format: &OutputFormat| is_plain_matrix(*format, start, file.bytes.len());
    // A matrix of 8,827 rows begins as an object of JSON does, but its size is told by its first bytes.
    if let Some(format) = named.filter(is_matrix) {
        return Ok(format);
    }
    // A stream's four bytes of ones are also the number of rows of a matrix that is damaged.
    let may_be_rows = named.is_some_and(|named| named.facts().starts.is_empty());
    let told =
        OutputFormat::of_start(start).filter(|told| !may_be_rows || *told != OutputFormat::Arrows);
    if let Some(format) = told.filter(|told| !matches!(told, OutputFormat::Jsonl(_))) {
        return Ok(format);
    }
    match told_beside(file)?.filter(is_matrix) {
        Some(format) => Ok(format),
        None => told.or(named).ok_or_else(|| unknown(file)),
    }
}

/// Whether a file of `size` bytes with this start is a whole matrix in a format that has no other first bytes than its size.
fn is_plain_matrix(format: OutputFormat, start: &[u8], size: u64) -> bool {
    let facts = format.facts();
    let (Some((&rows, rest)), Some(dtype)) = (start.split_first_chunk(), facts.dtypes.first())
    else {
        return false;
    };
    let Some((&width, _)) = rest.split_first_chunk() else {
        return false;
    };
    let (rows, width) = (u32::from_le_bytes(rows), u32::from_le_bytes(width));
    let elements = u64::from(rows).checked_mul(u64::from(width));
    let bytes = elements.and_then(|elements| elements.checked_mul(dtype.bytes() as u64));
    facts.starts.is_empty() && bytes.and_then(|bytes| bytes.checked_add(8)) == Some(size)
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

//! Remedies that several stages share.

use std::io::{self, ErrorKind};

use crate::setting::{FORCE, THREADS};

/// The remedy for an adapter that cannot be applied.
pub const MERGE_ADAPTER: &str =
    "merge the adapter into its base model with peft's merge_and_unload() and save that";

/// The remedy if an output's name is taken.
#[must_use]
pub fn taken() -> String {
    format!("pass {FORCE} to replace it, or write elsewhere")
}

/// The remedy if the machine's memory is too small for a batch.
#[must_use]
pub fn more_memory() -> String {
    format!("raise the limit on memory (ulimit -v, a container's), or lower {THREADS}")
}

/// Adds to a refused write the advice that helps, where there is some.
#[must_use]
pub fn with_remedy(error: io::Error) -> io::Error {
    let advice = match error.kind() {
        ErrorKind::StorageFull => "No space left on device; free some, or write to another disk",
        ErrorKind::QuotaExceeded => {
            "the disk quota is used up; free some space, or write to another disk"
        }
        ErrorKind::FileTooLarge => {
            "the file would be larger than this file system or `ulimit -f` allows"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), advice)
}

//! Remedies that several stages share.

use crate::setting::{FORCE, THREADS};

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

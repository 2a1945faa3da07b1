//! Tools for the tests of embedctl's crates: damage to files from a seed, and a count of the memory asked for.

mod allocations;
pub mod mutation;

pub use allocations::WatchedMemory;

use embedctl_common::{ErrorKind, Result};

/// The result's value, if any; the reason why something was refused must not be the program's own fault.
///
/// # Panics
/// If the error is an [`ErrorKind::Internal`].
pub fn assert_no_bug<T>(result: Result<T>) -> Option<T> {
    if let Err(error) = &result {
        assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
    }
    result.ok()
}

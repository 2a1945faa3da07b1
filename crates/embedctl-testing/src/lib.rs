//! Tools for the tests of embedctl's crates: damage to files from a seed, and a count of the memory asked for.
//!
//! ```text
//!  mutation ── a good file, damaged in another way for each seed, under watch for time and memory
//!  WatchedMemory ── the allocator that counts a test's requests
//!  emulator ── NVIDIA's libraries, for tests of what runs on a GPU
//!  stride ── how many of very many cases a test takes
//! ```
//!
//! ```
//! use embedctl_testing::mutation;
//!
//! mutation::each_content("greeting", b"hello", 10, |damaged| {
//!     let _ = std::str::from_utf8(damaged); // refused or read, and no panic
//! });
//! ```

mod allocations;
mod emulator;
pub mod mutation;

pub use allocations::WatchedMemory;
pub use emulator::{EmulatorFiles, emulator};

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

/// The distance between the cases that a test takes of very many: 1 in CI, where `CI` is set, so that all are tested before a
/// change is merged; and `elsewhere` on other machines, where somebody waits for them.
#[must_use]
pub fn stride(elsewhere: usize) -> usize {
    match std::env::var_os("CI") {
        Some(_) => 1,
        None => elsewhere,
    }
}

/// A machine made of files: a root folder with these, path and content.
///
/// # Panics
/// If a file cannot be written.
#[must_use]
pub fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder for temporary files");
    for (path, text) in files {
        let path = root.path().join(path);
        let folder = path.parent().expect("it is joined to the root");
        std::fs::create_dir_all(folder).expect("a folder below the root");
        std::fs::write(path, text).expect("a file below the root");
    }
    root
}

/// The largest difference between two lists of numbers; NaN if a number is NaN.
///
/// # Panics
/// If the lists have different lengths.
#[must_use]
pub fn apart(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let each = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs());
    // In this order NaN is the farthest apart.
    each.max_by(f32::total_cmp).unwrap_or(0.0)
}

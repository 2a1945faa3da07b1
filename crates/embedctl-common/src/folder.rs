//! The files in a folder, and their names relative to it.

use std::fs;
use std::path::{Path, PathBuf};

/// The paths of all entries of `folder`, sorted; none if it cannot be read.
#[must_use]
pub fn children(folder: &Path) -> Vec<PathBuf> {
    let mut children: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    children.sort();
    children
}

/// The name of `path` relative to `folder`, with slashes on every system.
#[must_use]
pub fn name_in(folder: &Path, path: &Path) -> String {
    with_slashes(path.strip_prefix(folder).unwrap_or(path))
}

/// A path's text with slashes on every system.
#[must_use]
pub fn with_slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

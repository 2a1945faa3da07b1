//! What lies in a folder, and what it is called there.

use std::fs;
use std::path::{Path, PathBuf};

/// The paths of all that lies in `folder`, sorted; none where it cannot be read.
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

/// What `path` is called in `folder`: with slashes on every system.
#[must_use]
pub fn name_in(folder: &Path, path: &Path) -> String {
    with_slashes(path.strip_prefix(folder).unwrap_or(path))
}

/// A path's text with slashes on every system.
#[must_use]
pub fn with_slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

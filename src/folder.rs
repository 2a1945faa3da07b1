//! What lies in a folder.

use std::fs;
use std::path::{Path, PathBuf};

/// The paths of all that lies in `folder`, sorted; none where it cannot be read.
pub(crate) fn children(folder: &Path) -> Vec<PathBuf> {
    let mut children: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    children.sort();
    children
}

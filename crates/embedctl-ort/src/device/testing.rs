//! Machines made of files.

use std::fs;

use tempfile::TempDir;

/// A root folder with these files: path and content.
pub(super) fn root(files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

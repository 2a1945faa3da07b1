//! Temporary folders for this user alone.

use std::io::Result;
use std::path::Path;

use tempfile::{Builder, TempDir};

/// Makes a folder below `parent` that only this user can read; it is removed when the value is dropped.
///
/// # Errors
/// If the system refuses.
pub fn make(prefix: &str, parent: &Path) -> Result<TempDir> {
    let mut builder = Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir_in(parent)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_this_user_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let parent = TempDir::new().unwrap();
        let folder = make("a-", parent.path()).unwrap();
        let mode = folder.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}

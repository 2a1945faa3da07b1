//! Files that several processes write: locked, grown, replaced whole.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::Transfer;
use embedctl_common::atomic::{self, FileLock};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::small_file;

/// Takes a lock, waiting for its holder. Where the file system has no locks, content is verified
/// before it is published, so two writers cost time and no more.
pub(super) fn lock(path: &Path, cancel: &CancelToken, transfer: &dyn Transfer) -> Result<FileLock> {
    create_folder_of(path)?;
    let file = open_to_write(path).map_err(|error| Error::io("open", path, error))?;
    wait_for(file, "fetching the same file", cancel, transfer)
}

/// Opens a file of our own for writing at its end and makes it if it isn't there. Never through a link, which would
/// lead to a file that is not ours, and never waits for the other end of a pipe.
pub(super) fn open_to_write(path: &Path) -> io::Result<File> {
    small_file::regular(path, File::options().create(true).append(true), false)
}

/// Takes the lock of an open file or folder. `what` names the holder's work, for messages.
pub(super) fn wait_for(
    file: File,
    what: &str,
    cancel: &CancelToken,
    transfer: &dyn Transfer,
) -> Result<FileLock> {
    FileLock::wait(file, cancel, || {
        transfer.note(&format!("another process is {what}: waiting for it"));
    })
}

/// Creates the folder that a file will lie in.
pub(super) fn create_folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| Error::io("create the folder", folder, error))
}

/// Copies a file to an unused name: an existing name may be a link to the file itself.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut target = File::options().write(true).create_new(true).open(to)?;
    io::copy(&mut File::open(from)?, &mut target).map(drop)
}

/// Writes a small file whole, and its folder.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    create_folder_of(path)?;
    atomic::replace(path, content).map_err(|error| Error::io("write", path, error))
}

#[cfg(unix)]
pub(super) fn symbolic_link(target: &Path, place: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, place)
}

#[cfg(windows)]
pub(super) fn symbolic_link(target: &Path, place: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target, place)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_never_a_link_or_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "kept").unwrap();
        let link = folder.path().join("link");
        symbolic_link(&other, &link).unwrap();
        assert!(open_to_write(&link).is_err());
        assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
        let dangling = folder.path().join("dangling");
        symbolic_link(Path::new("made"), &dangling).unwrap();
        assert!(open_to_write(&dangling).is_err());
        assert!(!folder.path().join("made").exists());
        open_to_write(&folder.path().join("new")).unwrap();
    }
}

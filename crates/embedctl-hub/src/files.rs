//! Files that several processes write: locked, grown, replaced whole.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Transfer;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::small_file;

/// Time between two looks at a lock that another process holds.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Takes a lock, waiting for whoever has it. `None` where the file system has no locks: content is verified
/// before it is published, so two writers cost time and no more.
pub(super) fn lock(
    path: &Path,
    cancel: &CancelToken,
    transfer: &dyn Transfer,
) -> Result<Option<File>> {
    create_folder_of(path)?;
    let file = open_to_write(path).map_err(|error| Error::io("open", path, error))?;
    wait_for(file, "fetching the same file", cancel, transfer)
}

/// Opens a file of our own for writing at its end and makes it if it isn't there. Never through a link, which would
/// lead to a file that is not ours, and never waits for the other end of a pipe.
pub(super) fn open_to_write(path: &Path) -> io::Result<File> {
    small_file::regular(path, File::options().create(true).append(true), false)
}

/// Takes the lock of an open file or folder; `what` its holder is doing, for messages.
pub(super) fn wait_for(
    file: File,
    what: &str,
    cancel: &CancelToken,
    transfer: &dyn Transfer,
) -> Result<Option<File>> {
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(_)) => return Ok(None),
        }
        if !told {
            told = true;
            transfer.note(&format!("another process is {what}: waiting for it"));
        }
        // Disconnected means cancelled; nothing is ever sent.
        if cancel.channel().recv_timeout(LOOK_EVERY).is_err() && cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
    }
}

/// Creates the folder that a file will lie in.
pub(super) fn create_folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| Error::io("create the folder", folder, error))
}

/// A name beside a file for what will replace it, which no other writer uses. The process's number alone
/// would not do: in containers every process may have the same, and a killed one may have left its file.
pub(super) fn temporary(path: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(
        ".{}-{}-{}.embedctl-tmp",
        std::process::id(),
        since.map_or(0, |since| since.as_nanos()),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    path.with_file_name(name)
}

/// Copies a file to a name that is not taken: what a name that is leads to may be the file itself.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut target = File::options().write(true).create_new(true).open(to)?;
    io::copy(&mut File::open(from)?, &mut target).map(drop)
}

/// Writes a small file whole: beside, then renamed.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    create_folder_of(path)?;
    let beside = temporary(path);
    let written = File::create_new(&beside)
        .and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        Error::io("write", path, error)
    })
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

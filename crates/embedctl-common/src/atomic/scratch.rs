//! A temporary folder that is always removed: when it is dropped or, if its process was killed, by the next process
//! that makes such a folder and finds it unlocked. A killed process drops nothing, and its files have the size of a
//! model.

use std::fs::{self, File};
use std::io::Result;
use std::path::Path;

use tempfile::{Builder, TempDir};

use super::disk::is_at;
use super::lock::FileLock;
use crate::small_file;

const LOCK: &str = "lock";

/// Makes a folder below `parent` that nobody else may look into, and that goes with its value.
///
/// # Errors
/// If the system refuses.
pub fn private_folder(prefix: &str, parent: &Path) -> Result<TempDir> {
    let mut builder = Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir_in(parent)
}

/// A private folder below the system's folder for temporary files, locked for as long as it is in use.
#[derive(Debug)]
pub struct ScratchFolder {
    // Fields are dropped in this order: an open file would keep the folder on Windows.
    _lock: FileLock,
    folder: TempDir,
}

impl ScratchFolder {
    /// Makes a folder whose name begins with `prefix`, and removes those of killed processes.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(prefix: &str) -> Result<Self> {
        Self::below(&std::env::temp_dir(), prefix)
    }

    fn below(parent: &Path, prefix: &str) -> Result<Self> {
        remove_abandoned(parent, prefix);
        loop {
            let folder = private_folder(prefix, parent)?;
            let path = folder.path().join(LOCK);
            let lock = File::create(&path)?;
            // Another process may take it for abandoned until it is locked.
            let lock = FileLock::try_take(lock).filter(|lock| is_at(lock.file(), &path));
            if let Some(lock) = lock {
                return Ok(Self {
                    _lock: lock,
                    folder,
                });
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes folders whose processes are gone: their locks are free.
fn remove_abandoned(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        let path = entry.path();
        // Other users may put anything under such a name into the shared folder: only this user's own folders are used.
        if is_own_folder(&path)
            && let Ok(lock) = small_file::open(&path.join(LOCK))
            && FileLock::try_take(lock).is_some_and(|lock| lock.is_exclusive())
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Whether a path is a folder (not a link to one) that only this user can write to.
#[cfg(unix)]
fn is_own_folder(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // SAFETY: the call takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
}

/// The folder for temporary files is each user's own here.
#[cfg(not(unix))]
fn is_own_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "embedctl-weights-";

    fn below(parent: &TempDir) -> ScratchFolder {
        ScratchFolder::below(parent.path(), PREFIX).unwrap()
    }

    #[test]
    fn a_folder_goes_with_its_value() {
        let parent = TempDir::new().unwrap();
        let folder = below(&parent);
        let path = folder.path().to_path_buf();
        fs::write(path.join("weights.bin"), "0").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn abandoned_folders_are_removed_and_live_ones_left_alone() {
        let parent = TempDir::new().unwrap();
        let live = below(&parent);
        let abandoned = private_folder(PREFIX, parent.path()).unwrap().keep();
        fs::write(abandoned.join(LOCK), "").unwrap();
        let foreign = parent.path().join("somebody-elses");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join(LOCK), "").unwrap();
        let other = below(&parent);
        assert!(live.path().exists() && other.path().exists());
        assert!(!abandoned.exists());
        assert!(foreign.exists());
    }

    /// All users may write to the system's folder for temporary files.
    #[cfg(unix)]
    #[test]
    fn what_others_have_put_there_is_neither_waited_for_nor_removed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let parent = TempDir::new().unwrap();
        let pipe = |path: &Path| {
            let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
            // SAFETY: a C string that outlives the call.
            assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        };
        let with_pipe = private_folder(PREFIX, parent.path()).unwrap().keep();
        pipe(&with_pipe.join(LOCK));
        pipe(&parent.path().join(format!("{PREFIX}2-0")));
        let open = private_folder(PREFIX, parent.path()).unwrap().keep();
        fs::write(open.join(LOCK), "").unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let elsewhere = TempDir::new().unwrap();
        fs::write(elsewhere.path().join(LOCK), "").unwrap();
        symlink(elsewhere.path(), parent.path().join(format!("{PREFIX}3-0"))).unwrap();
        let folder = below(&parent);
        assert!(folder.path().exists() && with_pipe.exists() && open.exists());
        assert!(elsewhere.path().join(LOCK).exists());
    }
}

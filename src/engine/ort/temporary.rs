//! A temporary folder that goes, whatever happens: with its value, or, if the process was killed, when
//! the next one that makes such a folder finds it unlocked.

use std::fs::{self, File};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "embedctl-weights-";
const LOCK: &str = "lock";

/// A folder for this user alone, below the system's folder for temporary files.
pub(super) struct TemporaryFolder {
    path: PathBuf,
    /// Locked for as long as the folder is in use.
    _lock: File,
}

impl TemporaryFolder {
    /// Makes a folder.
    pub(super) fn new() -> Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    fn below(parent: &Path) -> Result<Self> {
        remove_abandoned(parent);
        let path = create(parent)?;
        let locked = File::create(path.join(LOCK)).and_then(|lock| lock.lock().map(|()| lock));
        match locked {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err(error) => {
                let _ = fs::remove_dir_all(&path);
                Err(error)
            }
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn create(parent: &Path) -> Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    #[allow(unused_mut)] // Windows has no mode
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    for _ in 0..1000 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        // Fails where anything stands under the name already, a link included.
        match builder.create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(Error::from(ErrorKind::AlreadyExists))
}

/// Removes folders whose processes are gone: their locks are free.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        if let Ok(lock) = File::open(path.join(LOCK))
            && lock.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_value() {
        let parent = tempfile::TempDir::new().unwrap();
        let folder = TemporaryFolder::below(parent.path()).unwrap();
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
        let parent = tempfile::TempDir::new().unwrap();
        let live = TemporaryFolder::below(parent.path()).unwrap();
        let abandoned = parent.path().join(format!("{PREFIX}1-0"));
        fs::create_dir(&abandoned).unwrap();
        fs::write(abandoned.join(LOCK), "").unwrap();
        let foreign = parent.path().join("somebody-elses");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join(LOCK), "").unwrap();
        let other = TemporaryFolder::below(parent.path()).unwrap();
        assert!(live.path().exists() && other.path().exists());
        assert!(!abandoned.exists());
        assert!(foreign.exists());
    }
}

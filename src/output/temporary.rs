//! Files that are being written beside their final names, and the list of those that are alive.
//!
//! The list is the one piece of global state here: a second signal ends the process without unwinding,
//! and what has been begun must still go. See [`remove_temporaries`].

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// How often [`remove_temporaries`] asks for the list, and how long it waits in between.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// How much of the final name a temporary name repeats; names end at 255 bytes on most systems.
const NAME_BYTES: usize = 100;

/// Removes every file that this process has begun to write and not published, for an exit that runs no
/// destructors. Whatever was being written cannot be published afterwards.
///
/// Takes a lock, so call it from a thread, not from a signal handler itself. Gives up after a second if
/// a file is being created or published all that time: an exit must not hang where the file system does.
pub fn remove_temporaries() {
    for _ in 0..LOCK_TRIES {
        let mut live = match LIVE.try_lock() {
            Ok(live) => live,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(LOCK_PAUSE);
                continue;
            }
        };
        for path in live.drain(..) {
            // Nobody is left to hear of a failure; the name says what the file was.
            let _ = fs::remove_file(path);
        }
        return;
    }
}

/// The files alive. While it is held, none is added, removed or published.
pub(super) fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file beside its final name; removed when dropped, unless it was published.
#[derive(Debug)]
pub(super) struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    /// Creates a file in the folder of `path`, under a name of its own.
    ///
    /// Its permissions are those of any new file (the process's umask).
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut live = live();
        loop {
            let path = path.with_file_name(temporary_name(path.file_name().unwrap_or_default()));
            // Read access as well: some network file systems fill partial pages by reading them.
            let mut options = OpenOptions::new();
            match options.read(true).write(true).create_new(true).open(&path) {
                Ok(file) => {
                    live.push(path.clone());
                    return Ok(Self { path, file });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it stands.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, open for writing.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Waits until the content is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        match self.file.sync_all() {
            // Some file systems have no such thing, and say so.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
                ) =>
            {
                Ok(())
            }
            result => result,
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut live = live();
        if let Some(index) = live.iter().position(|path| *path == self.path) {
            let _ = fs::remove_file(live.swap_remove(index));
        }
    }
}

/// `.NAME.embedctl-PID-RANDOM.tmp`: hidden, recognizable, and of no other run.
fn temporary_name(name: &OsStr) -> OsString {
    let name = name.to_string_lossy();
    let end = (0..=name.len().min(NAME_BYTES))
        .rev()
        .find(|&end| name.is_char_boundary(end))
        .unwrap_or(0);
    // A hasher's keys are the standard library's one source of random numbers.
    let random = RandomState::new().build_hasher().finish();
    let pid = std::process::id();
    format!(".{}.embedctl-{pid}-{random:016x}.tmp", &name[..end]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_are_hidden_and_short_enough() {
        let long = "ü".repeat(120);
        let one = temporary_name(OsStr::new(&long));
        let two = temporary_name(OsStr::new(&long));
        assert_ne!(one, two);
        let one = one.to_str().expect("UTF-8");
        assert!(one.starts_with(".ü") && one.ends_with(".tmp"), "{one}");
        assert!(one.len() < 200, "{one}");
    }

    #[test]
    fn a_dropped_temporary_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let temporary = Temporary::create(&folder.path().join("out")).unwrap();
        let path = temporary.path().to_path_buf();
        assert!(path.exists());
        drop(temporary);
        assert!(!path.exists());
    }

    #[cfg(unix)]
    #[test]
    fn permissions_follow_the_umask() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        File::create(&plain).unwrap();
        let temporary = Temporary::create(&folder.path().join("out")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(temporary.path()), mode(&plain));
    }
}

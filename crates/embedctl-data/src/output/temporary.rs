//! Files that are being written beside their final names: a run's list of them, and what stopped runs left.
//!
//! Each is locked as long as its run lives, whatever ends that run, so that another run can tell an
//! abandoned one from one at work.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError as Busy};
use std::time::Duration;

use super::place::parent;
use embedctl_common::error::{Error, Result};
use embedctl_common::hash::Hash;
use embedctl_common::threads::locked;
use embedctl_storage::Storage;

/// How often [`RunFiles::remove`] asks for the list, and how long it waits in between.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// How much of the final name a temporary name repeats; names end at 255 bytes on most systems.
const NAME_BYTES: usize = 100;

/// The files that one run has begun and not yet published. Clones share one list.
///
/// A program that ends without unwinding (at a second signal) removes them by [`RunFiles::remove`]; they
/// are nobody else's, so other runs of the process go on.
#[derive(Debug, Clone, Default)]
pub struct RunFiles(Arc<State>);

#[derive(Debug, Default)]
struct State {
    live: Mutex<Vec<PathBuf>>,
    notes: Mutex<Vec<String>>,
    storage: OnceLock<Storage>,
}

impl RunFiles {
    /// No files yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes every file that the run has begun to write and not published, for an exit that runs no
    /// destructors. Whatever was being written cannot be published afterwards.
    ///
    /// Takes a lock, so call it from a thread, not from a signal handler itself. Gives up after a second if
    /// a file is being created or published all that time: an exit must not hang where the file system does.
    pub fn remove(&self) {
        for _ in 0..LOCK_TRIES {
            let mut live = match self.0.live.try_lock() {
                Ok(live) => live,
                Err(Busy::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(Busy::WouldBlock) => {
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

    /// What the run did about files of earlier runs, for its user; each is told once.
    #[must_use]
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.0.notes))
    }

    /// Lets the run write to object stores. What it has begun there is aborted when its writers are dropped; an
    /// exit that runs no destructors leaves parts that nobody sees.
    pub fn use_storage(&self, storage: Storage) {
        let _ = self.0.storage.set(storage);
    }

    /// The stores that it may write to.
    ///
    /// # Errors
    /// If none were given.
    pub fn storage(&self) -> Result<Storage> {
        self.0.storage.get().cloned().ok_or_else(|| {
            Error::usage("object stores were not opened")
                .with_remedy("give them to the run (RunFiles::use_storage)")
        })
    }

    pub(crate) fn note(&self, note: String) {
        let mut notes = locked(&self.0.notes);
        notes.push(note);
    }

    /// The files alive. While it is held, none is added, removed or published.
    pub(super) fn live(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        locked(&self.0.live)
    }
}

/// A file beside its final name; removed when dropped, unless it was published.
#[derive(Debug)]
pub(super) struct Temporary {
    path: PathBuf,
    file: File,
    files: RunFiles,
}

impl Temporary {
    /// Creates a file in the folder of `path`, under a name of its own, as one of `files`.
    ///
    /// Its permissions are those of any new file (the process's umask).
    pub fn create(path: &Path, files: &RunFiles) -> io::Result<Self> {
        let mut live = files.live();
        loop {
            let path = beside(path, ".tmp");
            // Read access as well: some network file systems fill partial pages by reading them.
            let mut options = OpenOptions::new();
            match options.read(true).write(true).create_new(true).open(&path) {
                // Another run may take it for abandoned until it is locked: then it has gone, or goes.
                Ok(file) if lock(&file) == Locked::Elsewhere || !is_at(&file, &path) => {}
                Ok(file) => {
                    live.push(path.clone());
                    drop(live);
                    let files = files.clone();
                    return Ok(Self { path, file, files });
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

    /// Whether it still stands there.
    pub fn stands(&self) -> bool {
        is_at(&self.file, &self.path)
    }

    /// The run that it belongs to.
    pub fn run(&self) -> &RunFiles {
        &self.files
    }

    /// The file, open for writing.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Waits until the content is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        sync(&self.file)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut live = self.files.live();
        if let Some(index) = live.iter().position(|path| *path == self.path) {
            let _ = fs::remove_file(live.swap_remove(index));
        }
    }
}

/// Waits until a file's content is on the disk.
pub(super) fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
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

/// Makes new names durable, where that is possible.
pub(super) fn sync_folder(folder: &Path) {
    if cfg!(unix) {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
}

/// What came of locking a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locked {
    Here,
    Elsewhere,
    /// This file system has no locks: nobody can tell.
    Unknown,
}

/// Locks a file until it is closed, without waiting.
pub(super) fn lock(file: &File) -> Locked {
    match file.try_lock() {
        Ok(()) => Locked::Here,
        Err(TryLockError::WouldBlock) => Locked::Elsewhere,
        Err(TryLockError::Error(_)) => Locked::Unknown,
    }
}

/// Whether `file` still stands at `path`.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (Ok(one), Ok(two)) = (file.metadata(), fs::symlink_metadata(path)) else {
            return false;
        };
        (one.dev(), one.ino()) == (two.dev(), two.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = file; // what is open cannot be replaced here
        path.exists()
    }
}

/// Opens a regular file that is no link, for reading and writing.
pub(super) fn open_plain(path: &Path) -> Option<File> {
    let plain = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    let file = plain.then(|| OpenOptions::new().read(true).write(true).open(path));
    file?.ok().filter(|file| is_at(file, path))
}

/// Removes the temporary files of `path` that no run holds any more: how many, and their bytes.
pub(super) fn remove_abandoned(path: &Path) -> (usize, u64) {
    let prefix = prefix(path.file_name().unwrap_or_default());
    let mut removed = (0, 0);
    for entry in fs::read_dir(parent(path)).into_iter().flatten().flatten() {
        if !is_temporary(&entry.file_name(), &prefix) {
            continue;
        }
        let Some(file) = open_plain(&entry.path()) else {
            continue;
        };
        // One that may not be written any more is complete, and was left on purpose.
        let Some(metadata) = (file.metadata().ok()).filter(|it| !it.permissions().readonly())
        else {
            continue;
        };
        let bytes = metadata.len();
        if lock(&file) == Locked::Here
            && is_at(&file, &entry.path())
            && fs::remove_file(entry.path()).is_ok()
        {
            removed = (removed.0 + 1, removed.1 + bytes);
        }
    }
    removed
}

/// Whether `name` is `PREFIX` with `PID-RANDOM.tmp` behind it.
fn is_temporary(name: &OsStr, prefix: &str) -> bool {
    let own = || {
        let rest = name.to_str()?.strip_prefix(prefix)?;
        let (pid, random) = rest.strip_suffix(".tmp")?.split_once('-')?;
        let digits = pid.bytes().all(|byte| byte.is_ascii_digit());
        let hex = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(digits && hex && !pid.is_empty())
    };
    own() == Some(true)
}

/// A path of its own beside `path`: `.NAME.embedctl-PID-RANDOM` and `ending`: hidden, recognizable, and of
/// no other run.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let prefix = prefix(path.file_name().unwrap_or_default());
    let pid = std::process::id();
    path.with_file_name(format!("{prefix}{pid}-{:016x}{ending}", random()))
}

/// A random number.
pub(super) fn random() -> u64 {
    // A hasher's keys are the standard library's one source of them.
    RandomState::new().build_hasher().finish()
}

/// `.NAME.embedctl-`, what all hidden files of an output begin with.
pub(super) fn prefix(name: &OsStr) -> String {
    let text = name.to_string_lossy();
    if text.len() <= NAME_BYTES && name.to_str().is_some() {
        return format!(".{text}.embedctl-");
    }
    // Names that begin alike must not be taken for each other.
    let mut hash = Hash::default();
    hash.add(name.as_encoded_bytes());
    let end = text.floor_char_boundary(NAME_BYTES);
    format!(".{}~{}.embedctl-", &text[..end], &hash.hex()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_are_hidden_and_short_enough() {
        let long = PathBuf::from("ü".repeat(120));
        let name = |path: &Path| beside(path, ".tmp").to_str().expect("UTF-8").to_owned();
        let (one, two) = (name(&long), name(&long));
        assert_ne!(one, two);
        assert!(one.starts_with(".ü") && one.ends_with(".tmp"), "{one}");
        assert!(one.len() < 200, "{one}");
        let longer = PathBuf::from("ü".repeat(121));
        assert!(is_temporary(OsStr::new(&one), &prefix(long.as_os_str())));
        assert!(!is_temporary(OsStr::new(&one), &prefix(longer.as_os_str())));
        assert!(!is_temporary(
            OsStr::new(".a.embedctl-1-x.tmp"),
            ".a.embedctl-"
        ));
    }

    #[test]
    fn a_dropped_temporary_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let temporary =
            Temporary::create(&folder.path().join("out"), &RunFiles::default()).unwrap();
        let path = temporary.path().to_path_buf();
        assert!(path.exists());
        drop(temporary);
        assert!(!path.exists());
    }

    #[test]
    fn only_what_nobody_holds_is_abandoned() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let held = Temporary::create(&out, &RunFiles::default()).unwrap();
        let left = beside(&out, ".tmp");
        let other = beside(&folder.path().join("other"), ".tmp");
        for path in [&left, &other] {
            fs::write(path, "left").unwrap();
        }
        assert_eq!(remove_abandoned(&out), (1, 4));
        assert!(held.path().exists() && other.exists() && !left.exists());
    }

    #[cfg(unix)]
    #[test]
    fn permissions_follow_the_umask() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        File::create(&plain).unwrap();
        let temporary =
            Temporary::create(&folder.path().join("out"), &RunFiles::default()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(temporary.path()), mode(&plain));
    }
}

//! One file, written beside its name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::disk::{give_name, is_at, open_plain, parent, sync};
use super::lock::FileLock;
use super::names::{beside, is_temporary, prefix};
use super::pending::PendingFiles;
use super::step;

/// A file that grows under a hidden name, locked; removed when dropped, unless it was published.
#[derive(Debug)]
pub struct AtomicFile {
    name: PathBuf,
    path: PathBuf,
    lock: FileLock,
    pending: PendingFiles,
}

impl AtomicFile {
    /// Creates a file in the folder of `name`, as one of `pending`. Its permissions are those of any new file (the
    /// process's umask).
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create(name: &Path, pending: &PendingFiles) -> io::Result<Self> {
        Self::create_in(parent(name), name, pending)
    }

    /// The same in another folder of that file system.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create_in(folder: &Path, name: &Path, pending: &PendingFiles) -> io::Result<Self> {
        let mut live = pending.live();
        let own = name.file_name().ok_or(ErrorKind::IsADirectory)?;
        loop {
            let path = beside(&folder.join(own), ".tmp");
            // Read access as well: some network file systems fill partial pages by reading them.
            let mut options = OpenOptions::new();
            let file = match options.read(true).write(true).create_new(true).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            // Until the file is locked, another run may take it for abandoned and remove it.
            let lock = FileLock::try_take(file);
            if let Some(lock) = lock.filter(|lock| is_at(lock.file(), &path)) {
                live.push(path.clone());
                drop(live);
                return Ok(Self {
                    name: name.to_path_buf(),
                    path,
                    lock,
                    pending: pending.clone(),
                });
            }
        }
    }

    /// The name that it is to get.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Where it stands.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it still stands there.
    pub(super) fn stands(&self) -> bool {
        is_at(self.lock.file(), &self.path)
    }

    /// The list that it is on.
    #[must_use]
    pub fn pending(&self) -> &PendingFiles {
        &self.pending
    }

    /// The file, open for writing.
    #[must_use]
    pub fn file(&self) -> &File {
        self.lock.file()
    }

    /// Waits until the content is on the disk.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn sync(&self) -> io::Result<()> {
        sync(self.lock.file())
    }

    /// Gives it its name, in the place of a file that may have it.
    ///
    /// # Errors
    /// If the system refuses: the other file stands as it did.
    pub fn replace(self) -> io::Result<()> {
        let mut live = self.pending.live();
        step::rename(&self.path, &self.name)?;
        live.retain(|path| *path != self.path);
        Ok(())
    }

    /// Gives it its name; `false` if the name is taken, and the other file stays.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn put_new(self) -> io::Result<bool> {
        give_name(&self.path, &self.name)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        let mut live = self.pending.live();
        if let Some(index) = live.iter().position(|path| *path == self.path) {
            let _ = fs::remove_file(live.swap_remove(index));
        }
    }
}

/// Writes a small file whole, waits until it is on the disk, and gives it its name, in the place of a file that may have
/// it.
///
/// # Errors
/// If the system refuses: the other file stands as it did.
pub fn replace(name: &Path, content: &[u8]) -> io::Result<()> {
    let file = AtomicFile::create(name, &PendingFiles::default())?;
    file.file().write_all(content)?;
    file.sync()?;
    file.replace()
}

/// Removes the hidden files of `name` that no process holds any more: how many, and their bytes.
#[must_use]
pub fn remove_abandoned(name: &Path) -> (usize, u64) {
    let prefix = prefix(name.file_name().unwrap_or_default());
    let mut removed = (0, 0);
    for entry in fs::read_dir(parent(name)).into_iter().flatten().flatten() {
        if !is_temporary(&entry.file_name(), &prefix) {
            continue;
        }
        let Some(file) = open_plain(&entry.path()) else {
            continue;
        };
        // A read-only file is complete, and was left on purpose.
        let Some(metadata) = (file.metadata().ok()).filter(|it| !it.permissions().readonly())
        else {
            continue;
        };
        let bytes = metadata.len();
        let lock = FileLock::try_take(file).filter(FileLock::is_exclusive);
        if let Some(lock) = lock
            && is_at(lock.file(), &entry.path())
            && fs::remove_file(entry.path()).is_ok()
        {
            removed = (removed.0 + 1, removed.1 + bytes);
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::super::step::faults::{self, Fault};
    use super::*;

    fn begun(name: &Path, content: &str) -> AtomicFile {
        let file = AtomicFile::create(name, &PendingFiles::default()).unwrap();
        file.file().write_all(content.as_bytes()).unwrap();
        file
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_or_a_free_name_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        drop(begun(&path, "dropped"));
        assert!(names(folder.path()).is_empty());
        assert!(begun(&path, "one").put_new().unwrap());
        assert!(!begun(&path, "two").put_new().unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        replace(&path, b"three").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn a_refusal_leaves_the_old_file_alone_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "old").unwrap();
        faults::after(0, Fault::AllRefused);
        assert!(replace(&path, b"new").is_err());
        // Without hard links a taken name is found by a look.
        assert!(!begun(&path, "new").put_new().unwrap());
        assert!(begun(&folder.path().join("free"), "new").put_new().is_err());
        assert!(faults::end());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["out"]);
        // A file system without hard links renames.
        faults::after(0, Fault::Refused);
        assert!(begun(&folder.path().join("free"), "new").put_new().unwrap());
        assert!(faults::end());
        assert_eq!(names(folder.path()), ["free", "out"]);
        assert!(replace(folder.path(), b"new").is_err(), "a folder stays");
        assert!(replace(&folder.path().join("no/out"), b"new").is_err());
    }

    /// A reader that waits at a pipe, or the target of a link, is not written to: the name itself is replaced.
    #[cfg(unix)]
    #[test]
    fn links_and_pipes_are_replaced_and_never_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (link, pipe) = (folder.path().join("link"), folder.path().join("pipe"));
        std::os::unix::fs::symlink("/dev/full", &link).unwrap();
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: a C string that outlives the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        for path in [&link, &pipe] {
            assert!(!begun(path, "new").put_new().unwrap());
            replace(path, b"new").unwrap();
            assert!(fs::symlink_metadata(path).unwrap().is_file());
        }
    }

    #[test]
    fn only_what_nobody_holds_is_abandoned() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let held = begun(&out, "");
        let left = beside(&out, ".tmp");
        let other = beside(&folder.path().join("other"), ".tmp");
        for path in [&left, &other] {
            fs::write(path, "left").unwrap();
        }
        assert_eq!(remove_abandoned(&out), (1, 4));
        assert!(held.path().exists() && other.exists() && !left.exists());
    }

    #[test]
    fn an_exit_removes_the_files_of_its_run() {
        let folder = tempfile::tempdir().unwrap();
        let pending = PendingFiles::default();
        let path = folder.path().join("out");
        let one = AtomicFile::create(&path, &pending).unwrap();
        let other = begun(&path, "");
        pending.remove();
        assert!(!one.path().exists() && other.path().exists());
    }

    #[cfg(unix)]
    #[test]
    fn permissions_follow_the_umask() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        File::create(&plain).unwrap();
        let file = begun(&folder.path().join("out"), "");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(file.path()), mode(&plain));
    }
}

//! A folder of this machine.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use walkdir::{DirEntry, WalkDir};

use super::own;
use super::{Content, Entry, FolderLock, LARGEST_READ, OWN, SharedFolder, own_folder};
use embedctl_common::atomic::{
    self, AtomicFile, FileLock, PendingFiles, give_name, parent, random, sync_folder,
};
use embedctl_common::error::{Error, Place, Result};
use embedctl_common::folder::{children, name_in};
use embedctl_common::remedies::with_remedy;
use embedctl_common::small_file;

/// How often a lock is tried whose file was removed meanwhile. A file system may give a file another number each time.
const LOCK_TRIES: u32 = 100;

/// Ending of a scratch folder's name.
const SCRATCH: &str = ".scratch";

/// A folder of this machine.
#[derive(Debug, Clone)]
pub struct LocalFolder {
    root: PathBuf,
    /// Where the job's own files lie, once it is settled.
    own: Arc<OnceLock<PathBuf>>,
    /// Whether others read the folder as a table, so that these may lie beside it.
    is_table: bool,
    /// Scratch folder of the lock's holder. The next holder removes files that a kill has left there.
    scratch: Arc<OnceLock<PathBuf>>,
    /// Whether locks are asked for at all: a file system may have none.
    has_locks: bool,
}

impl LocalFolder {
    /// The folder `root`, which need not exist yet, with a job's own files in it.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            own: Arc::default(),
            is_table: false,
            scratch: Arc::default(),
            has_locks: true,
        }
    }

    /// The folder `root`, which others read as one table: the job's own files lie beside it ([`own_folder`]).
    #[must_use]
    pub fn of_parts(root: impl Into<PathBuf>) -> Self {
        Self {
            is_table: true,
            ..Self::new(root)
        }
    }

    /// As on a file system without locks.
    #[must_use]
    pub fn without_locks(root: impl Into<PathBuf>) -> Self {
        Self {
            has_locks: false,
            ..Self::new(root)
        }
    }

    /// Where `name` lies.
    fn path(&self, name: &str) -> PathBuf {
        match own::within(name).zip(self.beside()) {
            Some((name, own)) => own.join(name),
            None => self.root.join(name),
        }
    }

    /// The folder of the job's own files, if it lies beside this one.
    fn beside(&self) -> Option<&Path> {
        let own = self.is_table.then(|| {
            let own = || own_folder(&self.root);
            self.own.get_or_init(own)
        })?;
        (!own.starts_with(&self.root)).then_some(own)
    }

    fn scratch_path(&self, lock: &str) -> PathBuf {
        self.path(&format!("{lock}{SCRATCH}"))
    }

    /// Removes the scratch folders of a lock's holders, which all have ended.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn clear_scratch(&self, lock: &str) -> Result<()> {
        let path = self.own_path(lock)?;
        let own = path.file_name().unwrap_or_default().to_string_lossy();
        let is_scratch = |name: &str| {
            let run = name.strip_prefix(&*own)?.strip_suffix(SCRATCH)?;
            let is_run =
                |run: &str| run.len() == 16 && run.bytes().all(|it| it.is_ascii_hexdigit());
            Some(run.is_empty() || run.strip_prefix('.').is_some_and(is_run))
        };
        for path in children(parent(&path)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if is_scratch(&name) == Some(true) {
                remove_folder(&path)?;
            }
        }
        Ok(())
    }

    /// The path of a name that is to be written or removed. The target of a link below the top is not part of the
    /// output, and another user's link at the top is refused.
    fn own_path(&self, name: &str) -> Result<PathBuf> {
        atomic::follow(&self.root, |_| false)
            .map_err(|error| Error::io("write to", &self.root, error))?;
        let path = self.path(name);
        let top = match self.beside() {
            Some(own) if path.starts_with(own) => parent(own),
            _ => &self.root,
        };
        let is_link = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
        let folders = path.ancestors().skip(1).take_while(|folder| *folder != top);
        match folders.into_iter().find(is_link) {
            None => Ok(path),
            Some(link) => Err(Error::input(
                Place::file(link.display().to_string()),
                "is a link; nothing is written to the folder that it leads to, or removed from it",
            )
            .with_remedy("put the folder itself there, or write elsewhere")),
        }
    }

    /// Creates the folder of `path`.
    fn make_folder(path: &Path) -> Result<()> {
        let Some(folder) = path.parent() else {
            return Ok(());
        };
        fs::create_dir_all(folder)
            .map_err(|error| Error::io("create the folder", folder, with_remedy(error)))
    }

    /// Writes `bytes` aside and gives them the name `path`.
    fn put_bytes(&self, path: &Path, bytes: &[u8], durable: bool) -> io::Result<bool> {
        let folder = parent(path);
        let aside = self.scratch.get().map_or(folder, PathBuf::as_path);
        fs::create_dir_all(aside)?;
        let file = AtomicFile::create_in(aside, path, &PendingFiles::default())?;
        file.file().write_all(bytes)?;
        if durable {
            file.sync()?;
        }
        let put = file.put_new()?;
        if durable && put {
            sync_folder(folder)?;
        }
        Ok(put)
    }
}

impl SharedFolder for LocalFolder {
    fn place(&self, name: &str) -> Place {
        Place::file(self.path(name).display().to_string())
    }

    fn put(&self, name: &str, content: Content<'_>) -> Result<bool> {
        let path = self.own_path(name)?;
        Self::make_folder(&path)?;
        let put = match content {
            Content::Bytes(bytes) => self.put_bytes(&path, bytes, false),
            Content::Durable(bytes) => self.put_bytes(&path, bytes, true),
            Content::File(file) => give_name(file, &path).and_then(|put| {
                let _ = fs::remove_file(file);
                sync_folder(parent(&path)).map(|()| put)
            }),
        };
        put.map_err(|error| Error::io("write to", &path, with_remedy(error)))
    }

    fn exists(&self) -> bool {
        self.root.exists()
    }

    fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        let mut found = entries(&self.path(folder))?;
        if let Some(sidecars) = own::sidecars(folder).filter(|_| self.beside().is_some()) {
            found.extend(entries(&self.path(&sidecars))?);
        }
        found.sort_by(|one, two| one.name.cmp(&two.name));
        Ok(found)
    }

    fn version(&self, name: &str) -> Result<Option<String>> {
        let path = self.path(name);
        match fs::symlink_metadata(&path) {
            Ok(metadata) => Ok(version_of(&metadata)),
            // Without locks, another run may be putting the same anew.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path, error)),
        }
    }

    fn stray(&self) -> Result<Option<String>> {
        let is_seen = |entry: &DirEntry| {
            entry.depth() == 0 || !entry.file_name().to_string_lossy().starts_with(['_', '.'])
        };
        let entries = WalkDir::new(&self.root).into_iter().filter_entry(is_seen);
        // Readers cannot read a folder that cannot be listed, either.
        let mut below = entries.flatten().filter(|entry| entry.depth() > 1);
        let file = below.find(|entry| entry.file_type().is_file());
        Ok(file.map(|file| name_in(&self.root, file.path())))
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path(name);
        match small_file::read(&path, LARGEST_READ) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path, error)),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.own_path(name)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    fn file(&self, name: &str) -> Result<PathBuf> {
        Ok(self.path(name))
    }

    fn scratch(&self, lock: &str) -> Result<PathBuf> {
        let path = self.scratch.get().cloned();
        let path = path.unwrap_or_else(|| self.scratch_path(lock));
        remove_folder(&path)?;
        fs::create_dir_all(&path)
            .map_err(|error| Error::io("create the folder", &path, with_remedy(error)))?;
        Ok(path)
    }

    fn lock(&self, name: &str) -> Result<Option<FolderLock>> {
        let path = self.own_path(name)?;
        let failed = |error| Error::io("create", &path, with_remedy(error));
        let mut tries = 0..LOCK_TRIES;
        // The folder is there from the start, even if the lock lies beside it.
        Self::make_folder(&self.root.join(OWN))?;
        let lock = loop {
            Self::make_folder(&path)?;
            let mut options = File::options();
            let options = options.read(true).append(true).create(true);
            let file = match small_file::regular(&path, options, false) {
                // Its folder went with an earlier holder.
                Err(error) if error.kind() == ErrorKind::NotFound && tries.next().is_some() => {
                    continue;
                }
                file => file.map_err(failed)?,
            };
            if !self.has_locks || tries.next().is_none() {
                break None;
            }
            match FileLock::try_take(file) {
                None => return Ok(None),
                Some(lock) if lock.is_at(&path) => break Some(lock).filter(FileLock::is_exclusive),
                Some(_) => {}
            }
        };
        let is_exclusive = lock.is_some();
        let scratch = self.scratch.get_or_init(|| match is_exclusive {
            true => self.scratch_path(name),
            false => self.scratch_path(&format!("{name}.{:016x}", random())),
        });
        Ok(Some(FolderLock {
            lock,
            scratch: Some(scratch.clone()),
        }))
    }
}

/// A version that changes when a file is written to, replaced or copied over. If it differs, the content decides.
#[cfg(unix)]
fn version_of(metadata: &fs::Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    Some(format!(
        "{}.{:09}-{}.{:09}-{}",
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
        metadata.ino()
    ))
}

/// The same where files have no numbers.
#[cfg(not(unix))]
fn version_of(metadata: &fs::Metadata) -> Option<String> {
    let since = |time: io::Result<std::time::SystemTime>| {
        let since = time.ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(since.as_nanos())
    };
    let (modified, created) = (since(metadata.modified())?, since(metadata.created()));
    Some(format!("{modified}-{}", created.unwrap_or(0)))
}

/// The regular files in the folder at `path`; none if there is no such folder.
fn entries(path: &Path) -> Result<Vec<Entry>> {
    let failed = |error| Error::io("list the folder", path, error);
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        // Removed since: not there.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_file() {
            found.push(Entry {
                name: entry.file_name().to_string_lossy().into_owned(),
                size: metadata.len(),
                version: version_of(&metadata),
            });
        }
    }
    Ok(found)
}

/// Removes a folder with all that is in it; it may be gone already.
///
/// # Errors
/// If the system refuses.
fn remove_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_once() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalFolder::new(folder.path().join("out"));
        assert!(storage.list("").unwrap().is_empty());
        for (content, put) in [(&b"one"[..], true), (b"two", false)] {
            assert_eq!(storage.put("a/x", Content::Bytes(content)).unwrap(), put);
            assert_eq!(storage.put("a/y", Content::Durable(content)).unwrap(), put);
        }
        let file = storage.scratch("lock").unwrap().join("z");
        for (content, put) in [("one", true), ("two", false)] {
            fs::write(&file, content).unwrap();
            assert_eq!(storage.put("a/z", Content::File(&file)).unwrap(), put);
            assert!(!file.exists());
        }
        let found = storage.list("a").unwrap();
        let found: Vec<_> = (found.iter())
            .map(|entry| (entry.name.as_str(), entry.size))
            .collect();
        assert_eq!(found, [("x", 3), ("y", 3), ("z", 3)]);
        for name in ["a/x", "a/y", "a/z"] {
            assert_eq!(storage.read(name).unwrap().unwrap(), b"one");
            storage.remove(name).unwrap();
            storage.remove(name).unwrap();
            assert_eq!(storage.read(name).unwrap(), None);
        }
    }

    #[test]
    fn a_lock_is_held_once_and_its_scratch_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalFolder::new(folder.path());
        let held = storage.lock("lock").unwrap().unwrap();
        assert!(storage.lock("lock").unwrap().is_none());
        let scratch = storage.scratch("lock").unwrap();
        fs::write(scratch.join("left"), "").unwrap();
        drop(held);
        assert!(!scratch.exists());
        assert!(storage.lock("lock").unwrap().is_some());
    }
}

//! Folders whose files are put once and never changed: few operations, so that a disk, an object store and a faulty disk
//! of the tests are all that a job needs to know.
//!
//! Everything that a job does durably goes through [`SharedFolder::put`], which never replaces: of two runs that
//! put the same name one wins and the other learns it. A job is right under any order of failures if it is
//! right when any one call fails, which the tests do to every call in turn.

mod local;
mod objects;
mod own;

use std::fmt;
use std::path::{Path, PathBuf};

use embedctl_common::atomic::FileLock;
use embedctl_common::error::{Place, Result};

use super::Readable;

pub use local::LocalFolder;
pub use objects::ObjectFolder;
pub(crate) use own::sidecar;
pub use own::{OWN, own_address, own_folder, sidecar_key};

/// Bytes of a file that is read whole ([`SharedFolder::read`]), at most: the longest are lists of a part's texts.
pub(crate) const LARGEST_READ: u64 = 1 << 30;

/// Something complete, to be put under a name.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// Bytes that can be made again from other files: not synced to the disk.
    Bytes(&'a [u8]),
    /// Bytes that must be on the disk before anything that is put later.
    Durable(&'a [u8]),
    /// A file in the scratch folder, already on the disk; it is moved.
    File(&'a Path),
}

/// A name in a folder, and how much it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, without the folder.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Changes whenever the content does: an object's etag; a file's times and inode number. `None`: unknown.
    pub version: Option<String>,
}

/// A folder for files that are put once and never changed. Names are relative, with `/` between; those below [`OWN`] may
/// lie beside the folder ([`own_folder`]).
pub trait SharedFolder: Send + Sync + fmt::Debug {
    /// Where `name` is, for messages.
    fn place(&self, name: &str) -> Place;

    /// Puts `content` under `name`, whole or not at all; `false` where something stands there already, which
    /// stays.
    ///
    /// # Errors
    /// If the system refuses.
    fn put(&self, name: &str, content: Content<'_>) -> Result<bool>;

    /// Whether the folder is there. Below a prefix of a store, anything may be.
    fn exists(&self) -> bool {
        true
    }

    /// The files of a folder (empty: the top), sorted; none where there is no such folder.
    ///
    /// # Errors
    /// If the system refuses.
    fn list(&self, folder: &str) -> Result<Vec<Entry>>;

    /// The version ([`Entry::version`]) of a file that was put, or was found to be the same; `None` if unknown.
    ///
    /// # Errors
    /// If the system refuses.
    fn version(&self, name: &str) -> Result<Option<String>>;

    /// A file below the top that readers of the whole would take for a part, or its folder: in one whose name begins
    /// with neither `_` nor `.`, nor does its own.
    ///
    /// # Errors
    /// If the system refuses.
    fn stray(&self) -> Result<Option<String>> {
        Ok(None)
    }

    /// The content of `name`; `None` if it does not exist.
    ///
    /// # Errors
    /// If it is not a regular file, is longer than any file of a job, or the system refuses.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// Removes `name`; it may be gone already.
    ///
    /// # Errors
    /// If the system refuses.
    fn remove(&self, name: &str) -> Result<()>;

    /// A local file with the content of `name`.
    ///
    /// # Errors
    /// If the system refuses.
    fn file(&self, name: &str) -> Result<PathBuf>;

    /// The content of `name`, readable from any offset.
    ///
    /// # Errors
    /// If it is not there, or the system refuses.
    fn open(&self, name: &str) -> Result<Readable> {
        Readable::file(&self.file(name)?)
    }

    /// The file of [`SharedFolder::file`] is not needed any more: a copy may go.
    fn release(&self, name: &str) {
        let _ = name;
    }

    /// An empty folder of this machine for files on their way, of the holder of that lock alone; whatever an
    /// earlier holder has left in it is removed.
    ///
    /// # Errors
    /// If the system refuses.
    fn scratch(&self, lock: &str) -> Result<PathBuf>;

    /// Locks `name` against other processes until the guard is dropped or the process ends; `None` where
    /// another one holds it. A folder without locks gives a guard of nothing: there [`SharedFolder::put`] alone
    /// decides who wins.
    ///
    /// # Errors
    /// If the system refuses.
    fn lock(&self, name: &str) -> Result<Option<FolderLock>>;

    /// Proves that [`SharedFolder::put`] never writes a name twice, where only a server's word stands for it: writes
    /// the file `name`, if it is there, again as it is.
    ///
    /// # Errors
    /// If that is not refused, or the system cannot be asked.
    fn prove_exclusive(&self, name: &str) -> Result<()> {
        let _ = name;
        Ok(())
    }
}

/// A lock, held.
#[derive(Debug)]
pub struct FolderLock {
    lock: Option<FileLock>,
    scratch: Option<PathBuf>,
}

impl FolderLock {
    /// A guard without a lock.
    #[must_use]
    pub fn none() -> Self {
        Self {
            lock: None,
            scratch: None,
        }
    }

    /// Whether the lock is exclusive. A folder without locks has no exclusive lock.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.lock.as_ref().is_some_and(FileLock::is_exclusive)
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if let Some(scratch) = &self.scratch {
            let _ = std::fs::remove_dir_all(scratch);
        }
    }
}

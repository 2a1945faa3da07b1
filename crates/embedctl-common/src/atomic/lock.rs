//! Locks on open files.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::disk::is_at;
use crate::cancel::CancelToken;
use crate::error::{Error, Result};

/// Time between two looks at a lock that another process holds.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A lock on an open file or folder. Dropping it, or the end of the process, frees it.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    is_exclusive: bool,
}

impl FileLock {
    /// Takes the lock of an open file, without waiting; `None` where another one holds it.
    ///
    /// A file system without locks gives a lock that excludes nobody ([`FileLock::is_exclusive`]).
    #[must_use]
    pub fn try_take(file: File) -> Option<Self> {
        let is_exclusive = take(&file)?;
        Some(Self { file, is_exclusive })
    }

    /// Takes the lock, waiting for its holder. `waits` is called once, before the first wait.
    ///
    /// # Errors
    /// If `cancel` is cancelled meanwhile.
    pub fn wait(file: File, cancel: &CancelToken, waits: impl FnOnce()) -> Result<Self> {
        let mut waits = Some(waits);
        loop {
            if let Some(is_exclusive) = take(&file) {
                return Ok(Self { file, is_exclusive });
            }
            if let Some(waits) = waits.take() {
                waits();
            }
            // Disconnected means cancelled; nothing is ever sent.
            if cancel.channel().recv_timeout(LOOK_EVERY).is_err() && cancel.is_cancelled() {
                return Err(Error::interrupted());
            }
        }
    }

    /// Whether the locked file still has the name `path`. The lock of a removed file excludes nobody.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        is_at(&self.file, path)
    }

    /// Whether nobody else holds it: a file system without locks cannot tell.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    /// The locked file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // A process that another thread is starting has a copy of every open file until it runs its program. Closing
        // ours would leave the lock with the copy.
        let _ = self.file.unlock();
    }
}

/// Whether the lock was taken for this file alone; `None` where another one holds it.
fn take(file: &File) -> Option<bool> {
    match file.try_lock() {
        Ok(()) => Some(true),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(_)) => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_once_and_waited_for_until_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let open = || File::create(&path).unwrap();
        let held = FileLock::try_take(open()).unwrap();
        assert!(held.is_exclusive() && FileLock::try_take(open()).is_none());
        let cancel = CancelToken::new();
        let waited = FileLock::wait(open(), &cancel, || cancel.cancel());
        assert!(waited.unwrap_err().is_interrupted());
        drop(held);
        let never = || panic!("nobody holds it");
        assert!(FileLock::wait(open(), &CancelToken::new(), never).is_ok());
    }

    #[test]
    fn a_copy_of_the_open_file_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = File::create(&path).unwrap();
        // As a process has it that is being started.
        let copy = file.try_clone().unwrap();
        drop(FileLock::try_take(file).unwrap());
        let again = FileLock::try_take(File::open(&path).unwrap());
        assert!(again.is_some_and(|lock| lock.is_exclusive()));
        drop(copy);
    }
}

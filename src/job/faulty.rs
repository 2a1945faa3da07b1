//! A storage that refuses one of its calls.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

use crate::error::{Error, Place, Result};
use crate::remedies::with_remedy;
use crate::storage::{Content, Entry, FolderLock, SharedFolder};

/// Does what `inner` does until call number `fails` (from 0): that one fails, before or after it has done
/// its work, and so do all that follow it where `dead`, as after a kill.
#[derive(Debug, Clone)]
pub struct Faulty {
    pub inner: Arc<dyn SharedFolder>,
    pub calls: Arc<AtomicU64>,
    pub fails: u64,
    /// Whether the failing call does its work before it fails, as a lost answer does.
    pub late: bool,
    pub dead: bool,
    fetched: Arc<TempDir>,
}

impl Faulty {
    pub fn new(inner: impl SharedFolder + 'static, fails: u64, late: bool, dead: bool) -> Self {
        Self::over(Arc::new(inner), fails, late, dead)
    }

    pub fn over(inner: Arc<dyn SharedFolder>, fails: u64, late: bool, dead: bool) -> Self {
        Self {
            inner,
            calls: Arc::default(),
            fails,
            late,
            dead,
            fetched: Arc::new(tempfile::tempdir().unwrap()),
        }
    }

    fn call<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let fails = call == self.fails || (self.dead && call > self.fails);
        if !fails {
            return work();
        }
        if self.late && call == self.fails {
            work()?;
        }
        let full = io::Error::from(ErrorKind::StorageFull);
        Err(Error::io(
            "write to",
            "the faulty storage",
            with_remedy(full),
        ))
    }
}

impl SharedFolder for Faulty {
    fn place(&self, name: &str) -> Place {
        self.inner.place(name)
    }
    fn put(&self, name: &str, content: Content<'_>) -> Result<bool> {
        self.call(|| self.inner.put(name, content))
    }
    fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        self.call(|| self.inner.list(folder))
    }
    fn version(&self, name: &str) -> Result<Option<String>> {
        self.call(|| self.inner.version(name))
    }
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.call(|| self.inner.read(name))
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.call(|| self.inner.remove(name))
    }
    fn file(&self, name: &str) -> Result<PathBuf> {
        // Alone, as an object is fetched.
        self.call(|| {
            let path = self.fetched.path().join(name);
            let fetched = fs::copy(self.inner.file(name)?, &path);
            fetched.map_err(|error| Error::io("read", &path, error))?;
            Ok(path)
        })
    }
    fn scratch(&self, lock: &str) -> Result<PathBuf> {
        self.call(|| self.inner.scratch(lock))
    }
    fn lock(&self, name: &str) -> Result<Option<FolderLock>> {
        self.call(|| self.inner.lock(name))
    }
}

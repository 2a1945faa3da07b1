//! A storage in memory, for tests that read a job again and again.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use crate::error::{Place, Result};
use crate::hash;
use crate::storage::{Content, Entry, FolderLock, SharedFolder};

type Files = BTreeMap<String, Vec<u8>>;

/// Files by their names.
#[derive(Debug, Clone)]
pub struct Memory {
    files: Arc<Mutex<Files>>,
    fetched: Arc<TempDir>,
}

impl Memory {
    /// These, with their content.
    pub fn new(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        Self {
            files: Arc::new(Mutex::new(files.into_iter().collect())),
            fetched: Arc::new(tempfile::tempdir().unwrap()),
        }
    }

    /// Puts `content` in place of what is there.
    pub fn set(&self, name: &str, content: &[u8]) {
        let mut files = self.files.lock().unwrap();
        let file = files.entry(name.to_owned()).or_default();
        file.clear();
        file.extend_from_slice(content);
    }
}

impl SharedFolder for Memory {
    fn place(&self, name: &str) -> Place {
        Place::file(name)
    }
    fn put(&self, name: &str, content: Content<'_>) -> Result<bool> {
        let bytes = match content {
            Content::Bytes(bytes) | Content::Durable(bytes) => bytes.to_vec(),
            Content::File(path) => fs::read(path).unwrap(),
        };
        let mut files = self.files.lock().unwrap();
        let is_free = !files.contains_key(name);
        if is_free {
            files.insert(name.to_owned(), bytes);
        }
        Ok(is_free)
    }
    fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        let files = self.files.lock().unwrap();
        let inside = |name: &str| match folder {
            "" => Some(name.to_owned()),
            folder => Some(name.strip_prefix(folder)?.strip_prefix('/')?.to_owned()),
        };
        let entries = files.iter().filter_map(|(name, content)| {
            let name = inside(name).filter(|name| !name.contains('/'))?;
            let size = content.len() as u64;
            Some(Entry {
                name,
                size,
                version: Some(hash::of(content)),
            })
        });
        Ok(entries.collect())
    }
    fn version(&self, name: &str) -> Result<Option<String>> {
        Ok(self.read(name)?.map(hash::of))
    }
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.files.lock().unwrap().get(name).cloned())
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.files.lock().unwrap().remove(name);
        Ok(())
    }
    fn file(&self, name: &str) -> Result<PathBuf> {
        let path = self.fetched.path().join(name.replace('/', "_"));
        fs::write(&path, self.read(name)?.unwrap_or_default()).unwrap();
        Ok(path)
    }
    fn scratch(&self, _: &str) -> Result<PathBuf> {
        // Of this run alone.
        Ok(tempfile::tempdir_in(self.fetched.path()).unwrap().keep())
    }
    fn lock(&self, _: &str) -> Result<Option<FolderLock>> {
        Ok(Some(FolderLock::none()))
    }
}

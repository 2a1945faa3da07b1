//! The files beside a part, which bear its name, of a storage in which no lock keeps other runs out.
//!
//! They stand before their part does, so a run may find those of another: of one that was killed, or of one that is about
//! to put its part. Nobody can tell, so they are replaced, and the part decides: the run whose part stands makes sure
//! that those beside it are its own, and the other puts back what it has replaced.

use std::fs;
use std::path::Path;

use super::storage::{Content, Guard, Storage};
use crate::error::{Error, Result};

/// Files beside a part that is about to be put.
pub(super) struct Beside<'a> {
    storage: &'a dyn Storage,
    is_exclusive: bool,
    own: Vec<(String, Vec<u8>)>,
    replaced: Vec<(String, Vec<u8>)>,
}

impl<'a> Beside<'a> {
    pub(super) fn new(storage: &'a dyn Storage, lock: &Guard) -> Self {
        Self {
            storage,
            is_exclusive: lock.is_exclusive(),
            own: Vec::new(),
            replaced: Vec::new(),
        }
    }

    /// Puts the file at `path` beside the part; false where another run's stands there, which a lock keeps out.
    pub(super) fn put(&mut self, name: &str, path: &Path) -> Result<bool> {
        if self.is_exclusive {
            return self.storage.put(name, Content::File(path));
        }
        let bytes = fs::read(path).map_err(|error| Error::io("read", path, error))?;
        if !self.storage.put(name, Content::File(path))?
            && let Some(there) = self.storage.read(name)?
            && there != bytes
        {
            self.replaced.push((name.to_owned(), there));
            self.replace(name, &bytes)?;
        }
        self.own.push((name.to_owned(), bytes));
        Ok(true)
    }

    /// Puts the part; false where that of another run stands there.
    pub(super) fn publish(self, name: &str, path: &Path) -> Result<bool> {
        let is_first = self.storage.put(name, Content::File(path))?;
        let stand = if is_first { &self.own } else { &self.replaced };
        for (name, bytes) in stand {
            if self.storage.read(name)?.as_ref() != Some(bytes) {
                self.replace(name, bytes)?;
            }
        }
        Ok(is_first)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.storage.remove(name)?;
        self.storage.put(name, Content::Durable(bytes)).map(drop)
    }
}

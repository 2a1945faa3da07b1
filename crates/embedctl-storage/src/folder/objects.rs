//! A folder on an object store. Each file is put by one conditional request, so that of two runs one wins; files on
//! their way lie on this machine.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use tempfile::TempDir;

use super::{Content, Entry, FolderLock, LARGEST_READ, OWN, SharedFolder, own};
use crate::{Address, Child, Readable, Storage, WrittenObject, bare_etag};
use embedctl_common::error::{Error, Place, Result};
use embedctl_common::threads::locked;

/// Bytes of a file at most: a part is about 128 MiB.
const LARGEST: u64 = 4 << 30;

/// The objects below an address.
pub struct ObjectFolder {
    storage: Storage,
    /// With a slash at the end.
    base: Address,
    /// The key of the folder beside it for the job's own files, once it is known whether it is used.
    beside: OnceLock<Option<String>>,
    /// The same, once the run was interrupted.
    after: OnceLock<Storage>,
    /// The etags of the written objects.
    etags: Mutex<HashMap<String, String>>,
    /// Scratch folder for fetched files and uploads.
    here: Mutex<Option<TempDir>>,
}

impl fmt::Debug for ObjectFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectFolder({})", self.base)
    }
}

impl ObjectFolder {
    /// The objects below `base`, which may be empty.
    #[must_use]
    pub fn new(storage: Storage, base: &Address) -> Self {
        let key = base.key().trim_end_matches('/');
        let slash = if key.is_empty() { "" } else { "/" };
        Self {
            storage,
            base: base.with_key(format!("{key}{slash}")),
            beside: OnceLock::new(),
            after: OnceLock::new(),
            etags: Mutex::default(),
            here: Mutex::default(),
        }
    }

    fn at(&self, name: &str) -> Result<Address> {
        let beside = self.beside()?;
        Ok(match own::within(name).zip(beside) {
            Some((name, beside)) => self.base.with_key(format!("{beside}{name}")),
            None => self.inside(name),
        })
    }

    fn inside(&self, name: &str) -> Address {
        self.base.with_key(format!("{}{name}", self.base.key()))
    }

    /// The key of the folder beside this one, with a slash at its end; `None` if the job's own files lie in this one:
    /// an older version began the job, or it has the whole bucket.
    fn beside(&self) -> Result<Option<&str>> {
        if let Some(beside) = self.beside.get() {
            return Ok(beside.as_deref());
        }
        let folder = self.base.key().trim_end_matches('/');
        let is_older = || {
            self.storage
                .look_for(&self.inside(&format!("{OWN}/job.json")))
        };
        let beside = match folder {
            "" => None,
            _ if is_older()?.is_some() => None,
            folder => Some(own::key_beside(folder)),
        };
        Ok(self.beside.get_or_init(|| beside).as_deref())
    }

    fn children(&self, folder: &str) -> Result<Vec<Entry>> {
        let folder = match folder {
            "" => self.base.clone(),
            folder => self.at(&format!("{folder}/"))?,
        };
        let found = self.storage.children(&folder)?.into_iter();
        let found = found.filter(|child| !child.name.ends_with('/'));
        let entry = |child: Child| Entry {
            name: child.name,
            size: child.size,
            version: child.etag,
        };
        Ok(found.map(entry).collect())
    }

    /// A folder of this machine, which goes with this value.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let mut here = locked(&self.here);
        let failed = |error| Error::io("create a folder in", std::env::temp_dir(), error);
        let root = match &mut *here {
            Some(root) => root,
            none => none.insert(tempfile::tempdir().map_err(failed)?),
        };
        let folder = root.path().join(name);
        fs::create_dir_all(&folder).map_err(failed)?;
        Ok(folder)
    }
}

impl SharedFolder for ObjectFolder {
    fn place(&self, name: &str) -> Place {
        let at = self.at(name).unwrap_or_else(|_| self.inside(name));
        Place::file(at.to_string())
    }

    fn put(&self, name: &str, content: Content<'_>) -> Result<bool> {
        let at = self.at(name)?;
        let bytes = || match content {
            Content::Bytes(bytes) | Content::Durable(bytes) => Ok(bytes.to_vec()),
            Content::File(file) => fs::read(file).map_err(|error| Error::io("read", file, error)),
        };
        let put: Option<WrittenObject> = match self.after.get() {
            Some(last) => last.put_new(&at, bytes()?)?,
            None => match self.storage.put_new(&at, bytes()?) {
                // An interrupted run has some seconds left to upload its finished rows.
                Err(error) if error.is_interrupted() => {
                    let last = self.storage.after_cancel()?;
                    let last = self.after.get_or_init(|| last);
                    match last.put_new(&at, bytes()?)? {
                        // The store may have completed the interrupted request without an answer.
                        None => last.holds(&at, &bytes()?)?,
                        put => put,
                    }
                }
                put => put?,
            },
        };
        let etag = put.as_ref().and_then(|written| written.etag.clone());
        match etag {
            Some(etag) => locked(&self.etags).insert(name.to_owned(), etag),
            None => locked(&self.etags).remove(name),
        };
        if let Content::File(file) = content {
            let _ = fs::remove_file(file);
        }
        Ok(put.is_some())
    }

    fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        let mut found = self.children(folder)?;
        if let Some(sidecars) = own::sidecars(folder)
            && self.beside()?.is_some()
        {
            found.extend(self.children(&sidecars)?);
            found.sort_by(|one, two| one.name.cmp(&two.name));
        }
        Ok(found)
    }

    fn version(&self, name: &str) -> Result<Option<String>> {
        let known = locked(&self.etags).get(name).cloned();
        if known.is_some() {
            return Ok(known);
        }
        // Another run has put the same.
        let storage = self.after.get().unwrap_or(&self.storage);
        let object = storage.look_for(&self.at(name)?)?;
        Ok(object.and_then(|object| bare_etag(object.etag())))
    }

    fn stray(&self) -> Result<Option<String>> {
        let is_seen = |name: &String| name.ends_with('/') && !name.starts_with(['_', '.']);
        let mut names = (self.storage.children(&self.base)?.into_iter()).map(|child| child.name);
        Ok(names.find(is_seen))
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self.storage.look_for(&self.at(name)?)? {
            Some(object) => object.read_whole(LARGEST_READ).map(Some),
            None => Ok(None),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.storage.remove(&self.at(name)?)
    }

    fn file(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder("fetched")?.join(name.replace('/', "_"));
        let object = self.storage.look(&self.at(name)?)?;
        let bytes = object.read_whole(LARGEST)?;
        fs::write(&path, bytes).map_err(|error| Error::io("write to", &path, error))?;
        Ok(path)
    }

    fn open(&self, name: &str) -> Result<Readable> {
        Ok(self.storage.look(&self.at(name)?)?.into())
    }

    fn release(&self, name: &str) {
        if let Ok(folder) = self.folder("fetched") {
            let _ = fs::remove_file(folder.join(name.replace('/', "_")));
        }
    }

    fn scratch(&self, lock: &str) -> Result<PathBuf> {
        let folder = self.folder(&lock.replace('/', "_"))?;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        Ok(folder)
    }

    fn prove_exclusive(&self, name: &str) -> Result<()> {
        let Some(bytes) = self.read(name)? else {
            return Ok(());
        };
        let address = self.at(name)?;
        (self.storage).prove_conditional_writes(&self.base, &address, bytes)
    }

    fn lock(&self, _: &str) -> Result<Option<FolderLock>> {
        Ok(Some(FolderLock::none()))
    }
}

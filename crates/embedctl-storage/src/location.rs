//! Locations of files and folders: a local path or an address.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Address, LocalFolder, ObjectFolder, Readable, SharedFolder, Storage};
use embedctl_common::error::{Error, Result};
use embedctl_common::small_file;

/// Where a file or a folder lies: on this machine, or at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// On this machine.
    Local(PathBuf),
    /// On an object store, a web server or the Hub.
    Remote(Address),
}

impl Location {
    /// The location that a user named: an address, where the path begins with `word://`.
    ///
    /// # Errors
    /// If the address has an unknown scheme.
    pub fn of(path: &Path) -> Result<Self> {
        match Address::is_url_path(path) {
            true => Address::parse(&path.to_string_lossy()).map(Self::Remote),
            false => Ok(Self::Local(path.to_path_buf())),
        }
    }

    /// The file or object, to be read.
    ///
    /// # Errors
    /// If it is not there, or the system or the store refuses.
    pub fn read(&self, storage: Option<&Storage>) -> Result<Readable> {
        match self {
            Self::Remote(address) => Ok(opened(storage)?.look(address)?.into()),
            Self::Local(path) if matches!(path.try_exists(), Ok(false)) => {
                let reason = format!("there is no file {}", path.display());
                Err(Error::usage(reason).with_remedy("check its name and folder"))
            }
            Self::Local(path) => Readable::file(path),
        }
    }

    /// The same, or `None` if it does not exist.
    ///
    /// # Errors
    /// If the system or the store refuses, or a file there is no regular one.
    pub fn find(&self, storage: Option<&Storage>) -> Result<Option<Readable>> {
        let path = match self {
            Self::Remote(address) => {
                return Ok(opened(storage)?.look_for(address)?.map(Readable::from));
            }
            Self::Local(path) => path,
        };
        let refused = |error| Error::io("read", path, error);
        match small_file::open(path) {
            Ok(file) => {
                let found = file.metadata().map_err(refused)?;
                Ok(Some(Readable::of_file(path, found.len())))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(error)),
        }
    }

    /// The file, or the objects of the address: the one with that name, all that match a pattern, or all below a
    /// prefix.
    ///
    /// # Errors
    /// If there is none, or the system or the store refuses.
    pub fn list(&self, storage: Option<&Storage>) -> Result<Vec<Readable>> {
        match self {
            Self::Local(_) => Ok(vec![self.read(storage)?]),
            Self::Remote(address) => {
                let objects = opened(storage)?.list(address)?.into_iter();
                Ok(objects.map(Readable::from).collect())
            }
        }
    }

    /// Whether it is a folder that is there, or an address of all objects below it.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        match self {
            Self::Local(path) => path.is_dir(),
            Self::Remote(address) => address.is_prefix(),
        }
    }

    /// The folder, which need not exist yet, to be listed, read and put into.
    ///
    /// # Errors
    /// If it is at an address, and no stores were opened.
    pub fn folder(&self, storage: Option<&Storage>) -> Result<Arc<dyn SharedFolder>> {
        Ok(match self {
            Self::Local(path) => Arc::new(LocalFolder::of_parts(path)),
            Self::Remote(address) => Arc::new(ObjectFolder::new(opened(storage)?.clone(), address)),
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(formatter),
            Self::Remote(address) => address.fmt(formatter),
        }
    }
}

fn opened(storage: Option<&Storage>) -> Result<&Storage> {
    storage.ok_or_else(|| Error::usage("object stores were not opened"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Content;

    #[test]
    fn paths_lie_here_and_addresses_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let here = Location::of(folder.path()).unwrap();
        assert!(here.is_folder());
        let inside = here.folder(None).unwrap();
        assert!(inside.put("a", Content::Bytes(b"content")).unwrap());
        assert_eq!(
            inside.open("a").unwrap().read_whole(99).unwrap(),
            b"content"
        );
        let file = Location::of(&folder.path().join("a")).unwrap();
        assert!(!file.is_folder());
        assert_eq!(file.list(None).unwrap(), [file.read(None).unwrap()]);
        let missing = Location::of(&folder.path().join("b")).unwrap();
        assert!(missing.find(None).unwrap().is_none());
        let error = missing.read(None).unwrap_err();
        assert!(error.to_string().starts_with("there is no file"), "{error}");

        let there = Location::of(Path::new("s3://bucket/folder/")).unwrap();
        assert!(there.is_folder());
        assert_eq!(there.to_string(), "s3://bucket/folder/");
        let error = there.folder(None).unwrap_err();
        assert_eq!(error.to_string(), "object stores were not opened");
        assert!(Location::of(Path::new("ftp://host/x")).is_err());
    }
}

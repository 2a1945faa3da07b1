//! A file of the set, and the steps that give it its name or take it back.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Sidecars;
use crate::atomic::disk::{give_name, inode};
use crate::atomic::step;

/// A file of the set.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Member {
    /// The complete file; none if an old file is removed without a successor.
    pub(super) new: Option<Name>,
    /// Its inode, by which it is known under any name; none where there is no such thing.
    pub(super) inode: Option<u64>,
    /// The name that it gets.
    pub(super) name: Name,
    /// The path aside for the file that has the name now.
    pub(super) old: Name,
    /// The name that the new file keeps if it cannot have its own.
    pub(super) kept: Name,
}

/// A path: as text if it is UTF-8, so that people can read the plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Name {
    Text(String),
    Other(OsString),
}

impl Name {
    pub(super) fn new(path: PathBuf) -> Self {
        path.into_os_string()
            .into_string()
            .map_or_else(Self::Other, Self::Text)
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Text(text) => Path::new(text),
            Self::Other(text) => Path::new(text),
        }
    }

    pub(super) fn exists(&self) -> bool {
        fs::symlink_metadata(self.path()).is_ok()
    }
}

/// The name that was refused, and why.
pub(super) type Refusal = (PathBuf, io::Error);

impl Member {
    pub(super) fn refusal(&self) -> impl Fn(io::Error) -> Refusal {
        |error| (self.name.path().to_path_buf(), error)
    }

    /// The new file, as long as it has not got its name alone.
    pub(super) fn waiting(&self) -> Option<&Path> {
        self.new.as_ref().filter(|new| new.exists()).map(Name::path)
    }

    /// Whether the name is the new file's.
    pub(super) fn has_name(&self) -> bool {
        match (self.inode, inode(self.name.path())) {
            (Some(own), Some(there)) => own == there,
            (None, _) => self.new.is_some() && self.waiting().is_none() && self.name.exists(),
            (Some(_), None) => false,
        }
    }

    /// Looks whether the new file is still there.
    pub(super) fn look(&self) -> io::Result<()> {
        if self.new.is_none() || self.waiting().is_some() || self.has_name() {
            return Ok(());
        }
        Err(io::Error::new(
            ErrorKind::NotFound,
            "the file that should get the name was removed during the run; run the command again",
        ))
    }

    /// Whether something stands under the name that may be replaced.
    fn is_taken(&self, replace: bool) -> io::Result<bool> {
        match fs::symlink_metadata(self.name.path()) {
            Ok(metadata) if metadata.is_file() && replace => Ok(true),
            // Renaming over a device or a FIFO would replace it.
            Ok(_) => Err(appeared()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Moves an old sidecar aside.
    pub(super) fn clear_name(&self, replace: bool, sidecars: Sidecars) -> io::Result<()> {
        let (name, old) = (self.name.path(), self.old.path());
        let former = self.new.is_none();
        if self.has_name() || (former && !(sidecars.is_own)(name)) || !self.is_taken(replace)? {
            return Ok(());
        }
        match self.old.exists() {
            // Somebody has put another there since the old one was put aside.
            true if former => Ok(()),
            true => Err(appeared()),
            false => step::rename(name, old),
        }
    }

    /// Puts the main file in the place of an old one, if there is any, which stays under a name aside if
    /// it may have to come back.
    pub(super) fn replace(&self, replace: bool, aside: bool) -> io::Result<()> {
        let (name, old) = (self.name.path(), self.old.path());
        let Some(new) = self.waiting().filter(|_| !self.has_name()) else {
            return Ok(());
        };
        if !self.is_taken(replace)? {
            return Ok(());
        }
        // A second name, so that the first is never without a file; not every file system has such.
        if aside && !self.old.exists() && step::hard_link(name, old).is_err() {
            step::rename(name, old)?;
        }
        self.rename(new)
    }

    fn rename(&self, new: &Path) -> io::Result<()> {
        match step::rename(new, self.name.path()) {
            // Done, and the answer lost, as a network file system may.
            Err(_) if self.has_name() && self.waiting().is_none() => Ok(()),
            result => result,
        }
    }

    /// Gives the new file its name, which is free.
    pub(super) fn take_name(&self) -> io::Result<()> {
        let Some(new) = self.waiting() else {
            return Ok(());
        };
        match give_name(new, self.name.path()) {
            Ok(true) => {}
            // A stopped run came as far as this, or the answer was lost.
            _ if self.has_name() => {}
            Ok(false) => return Err(appeared()),
            Err(error) => return Err(error),
        }
        // The result stands; a second name for it that stays is no reason to fail.
        let _ = step::remove_file(new);
        Ok(())
    }

    /// Gives the new file the name that it keeps, wherever it has got to.
    pub(super) fn keep(&self) {
        let from = match self.waiting() {
            Some(new) => {
                if self.has_name() {
                    let _ = step::remove_file(self.name.path());
                }
                new
            }
            None if self.has_name() => self.name.path(),
            None => return,
        };
        if step::rename(from, self.kept.path()).is_err() {
            // A search for abandoned files leaves it alone.
            if let Ok(metadata) = fs::metadata(from) {
                let mut permissions = metadata.permissions();
                permissions.set_readonly(true);
                let _ = fs::set_permissions(from, permissions);
            }
        }
    }
}

fn appeared() -> io::Error {
    io::Error::new(
        ErrorKind::AlreadyExists,
        "something else appeared under that name during the run",
    )
}

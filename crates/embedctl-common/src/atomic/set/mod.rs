//! Several files of one output: all of them get their names, or none does.
//!
//! A file system renames one file at a time, so a set passes through states between. None of them has
//! files of two runs under the names of one output, and each can be completed or undone:
//!
//! ```text
//!  old main, old sidecars      the plan is on the disk
//!  old main, no sidecars       old sidecars stand aside; the old main gets a second name
//!  new main, no sidecars       one rename
//!  new main, new sidecars      the set; old files aside are removed, then the plan
//! ```
//!
//! Where no main file stands, sidecars get their names first, and the main file last. The plan is a file
//! beside the output that is locked while it is carried out. Two runs take turns. A run that finds an unlocked plan
//! carries it out (its files were complete) before anything else. Where a name is
//! refused, everything is undone, and the new files stay under names that the error gives.

mod journal;
mod member;
mod plan;
#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use self::journal::Journal;
use self::plan::Plan;
use super::file::AtomicFile;
use super::names::with_ending;
use super::pending::PendingFiles;
use crate::error::{Error, Result};
use crate::remedies::with_remedy;

/// The files beside a main file that belong to it.
#[derive(Debug, Clone, Copy)]
pub struct Sidecars {
    /// Their endings, after the main file's name.
    pub endings: &'static [&'static str],
    /// Whether an earlier run wrote the file at a path. Other files stay.
    pub is_own: fn(&Path) -> bool,
}

impl Default for Sidecars {
    fn default() -> Self {
        Self {
            endings: &[],
            is_own: |_| false,
        }
    }
}

impl Sidecars {
    /// The files that an earlier run has written beside `main`.
    pub fn existing(self, main: &Path) -> impl Iterator<Item = PathBuf> + use<> {
        let main = main.to_path_buf();
        let paths = self.endings.iter();
        let paths = paths.map(move |ending| with_ending(&main, ending));
        paths.filter(move |path| (self.is_own)(path))
    }
}

/// Complete files that are to appear together; the last one is the main file.
#[derive(Debug)]
pub struct AtomicSet<'a> {
    /// The files.
    pub files: Vec<&'a AtomicFile>,
    /// Whether files that have these names are replaced, and former sidecars of the main file go. Without it, nothing is
    /// ever overwritten, even if it appeared a moment ago.
    pub replace: bool,
    /// The sidecars of a former main file.
    pub sidecars: Sidecars,
}

impl AtomicSet<'_> {
    /// Gives every file its name.
    ///
    /// # Errors
    /// If the system refuses: the former files stand under the names again, and the new files under names of their own,
    /// which the error gives.
    pub fn publish(self) -> Result<()> {
        let Some(main) = self.files.last() else {
            return Ok(());
        };
        for file in &self.files {
            file.sync()
                .map_err(|error| Error::io("write to", file.name(), with_remedy(error)))?;
        }
        let old = fs::symlink_metadata(main.name()).ok();
        if let Some(old) = old.filter(|old| self.replace && old.is_file()) {
            // The new file gets the permissions of the old one, where the system allows it.
            let _ = fs::set_permissions(main.path(), old.permissions());
        }
        let plan = Plan::new(&self.files, self.replace, self.sidecars);
        let mut journal = Journal::none(main.name());
        // One file needs none: its rename is all there is to do.
        let begun = match plan.files.len() {
            1 => Ok(()),
            _ => journal.begin(main.name(), main.pending(), self.sidecars),
        };

        // Held until the end: an exit that removes pending files finds either all of this done, or none.
        let mut live = main.pending().live();
        let alive = |file: &AtomicFile| live.iter().any(|path| path == file.path());
        if !self.files.iter().all(|file| alive(file)) {
            return Err(Error::interrupted());
        }
        if let Some(file) = self.files.iter().find(|file| !file.stands()) {
            let gone = io::Error::new(
                ErrorKind::NotFound,
                format!(
                    "{} was removed during the run; run the command again",
                    file.path().display()
                ),
            );
            return Err(Error::io("write to", file.name(), gone));
        }
        // From here on they are complete files, whatever name they get.
        live.retain(|path| !self.files.iter().any(|file| path == file.path()));
        let written = begun.and_then(|()| journal.write(&plan));
        let carried_out = written
            .map_err(|error| (main.name().to_path_buf(), error))
            .and_then(|()| journal.carry_out(&plan));
        carried_out.map_err(|(path, error)| {
            let source = journal.undo(&plan, with_remedy(error));
            Error::unpublished(&path, &plan.kept(), source)
        })
    }

    /// Completes, or undoes, the set that a killed run was publishing under the name `main`.
    pub fn recover(main: &Path, pending: &PendingFiles, sidecars: Sidecars) {
        Journal::recover(main, pending, sidecars);
    }
}

//! The resources of a run's writers: its list of files, the object stores, and the clock of their threads.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::sidecar::SIDECARS;
use embedctl_common::atomic::{AtomicSet, PendingFiles};
use embedctl_common::error::{Error, Result};
use embedctl_common::stage::Clock;
use embedctl_storage::Storage;

/// The files that one run has begun and not yet published, the stores that it may write to, and the processor time of its
/// writers' threads. Clones share all of them.
#[derive(Debug, Clone, Default)]
pub struct RunFiles {
    pub(super) pending: PendingFiles,
    storage: Arc<OnceLock<Storage>>,
    clock: Arc<Clock>,
}

impl RunFiles {
    /// No files yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same files and stores, with a clock that begins at nothing: for another run.
    #[must_use]
    pub fn with_new_clock(&self) -> Self {
        Self {
            clock: Arc::default(),
            ..self.clone()
        }
    }

    /// Counts the processor time of threads that write beside the caller's.
    #[must_use]
    pub fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// Removes every file that the run has begun to write and not published, for an exit that runs no destructors
    /// ([`PendingFiles::remove`]).
    pub fn remove(&self) {
        self.pending.remove();
    }

    /// Adds a note for the user.
    pub fn note(&self, note: String) {
        self.pending.note(note);
    }

    /// Notes for the user, such as those about files of earlier runs; each is told once.
    #[must_use]
    pub fn take_notes(&self) -> Vec<String> {
        self.pending.take_notes()
    }

    /// Gives the output file at `path`, and the files beside it, their names, if an earlier run was stopped while it did
    /// so. Told by a note.
    pub fn complete_stopped(&self, path: &Path) {
        AtomicSet::recover(path, &self.pending, SIDECARS);
    }

    /// Lets the run write to object stores. What it has begun there is aborted when its writers are dropped; an
    /// exit that runs no destructors leaves invisible parts.
    pub fn use_storage(&self, storage: Storage) {
        let _ = self.storage.set(storage);
    }

    /// The stores that it may write to.
    ///
    /// # Errors
    /// If none were given.
    pub fn storage(&self) -> Result<Storage> {
        self.storage.get().cloned().ok_or_else(|| {
            Error::usage("object stores were not opened")
                .with_remedy("give them to the run (RunFiles::use_storage)")
        })
    }
}

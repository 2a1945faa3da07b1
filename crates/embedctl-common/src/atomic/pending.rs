//! The files that a run has begun and not published.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use crate::threads::locked;

/// How often [`PendingFiles::remove`] asks for the list, and how long it waits in between.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The files that one run has begun and not yet published. Clones share one list.
///
/// A program that ends without unwinding (at a second signal) removes them by [`PendingFiles::remove`]; other runs of
/// the process have lists of their own and go on.
#[derive(Debug, Clone, Default)]
pub struct PendingFiles(Arc<PendingState>);

#[derive(Debug, Default)]
struct PendingState {
    live: Mutex<Vec<PathBuf>>,
    notes: Mutex<Vec<String>>,
}

impl PendingFiles {
    /// Removes every file of the list, for an exit that runs no destructors. Files that were being written cannot be
    /// published afterwards.
    ///
    /// Takes a lock, so call it from a thread, not from a signal handler itself. Gives up after a second if
    /// a file is being created or published all that time: an exit must not hang where the file system does.
    pub fn remove(&self) {
        for _ in 0..LOCK_TRIES {
            let mut live = match self.0.live.try_lock() {
                Ok(live) => live,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(LOCK_PAUSE);
                    continue;
                }
            };
            for path in live.drain(..) {
                // A failure can no longer be reported. The hidden name tells which output the file belonged to.
                let _ = fs::remove_file(path);
            }
            return;
        }
    }

    /// Notes about files of earlier runs, for the user; each is told once.
    #[must_use]
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.0.notes))
    }

    /// Adds a note.
    pub fn note(&self, note: String) {
        locked(&self.0.notes).push(note);
    }

    /// The list. While it is held, no file is added, removed or published.
    pub(super) fn live(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        locked(&self.0.live)
    }
}

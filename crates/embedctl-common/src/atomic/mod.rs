//! Files that appear under their names whole, or not at all, whatever ends the process.
//!
//! ```text
//!  AtomicFile    one file, written under a hidden name beside its own: it replaces a file, or takes a free name
//!  AtomicSet     several files of one output: all of them appear, or none does
//!  PendingFiles  the files that a run has begun: removed at an exit that runs no destructors
//!  FileLock      a lock on an open file; the system frees it when the process ends, so none is ever stale
//!  ScratchFolder a private temporary folder; the next one removes the folders of killed processes
//! ```
//!
//! Guarantees:
//!
//! - **Names.** A file grows in the folder that its name is in, as `.NAME.embedctl-PID-RANDOM.tmp`. A reader of the name
//!   sees the old file, the new one, or none; never a part.
//! - **Existing files.** [`AtomicFile::replace`] replaces a file. [`AtomicFile::put_new`] refuses to, by a hard link,
//!   which the file system decides: of two processes that put one name, one wins. File systems without hard links are
//!   looked at first and then renamed on.
//! - **Power.** [`AtomicFile::sync`] and [`sync_folder`] wait for the disk. An [`AtomicSet`] does both.
//! - **Kills.** A growing file is locked. So [`remove_abandoned`] distinguishes files of killed processes from files that
//!   another process writes. An [`AtomicSet`] keeps a journal, by which the next run completes or undoes a set.
//!
//! ```
//! use embedctl_common::atomic;
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("settings.json");
//! atomic::replace(&path, b"{}")?;
//! assert_eq!(std::fs::read(&path)?, b"{}");
//! # Ok::<(), std::io::Error>(())
//! ```

mod disk;
mod file;
mod links;
mod lock;
mod names;
mod pending;
mod scratch;
mod set;
mod step;

pub use disk::{file_number, give_name, parent, sync, sync_folder};
pub use file::{AtomicFile, remove_abandoned, replace};
pub use links::{NamedFile, follow, leads_to, open_special};
pub use lock::FileLock;
pub use names::{beside, is_hidden, random, with_ending};
pub use pending::PendingFiles;
pub use scratch::{ScratchFolder, private_folder};
pub use set::{AtomicSet, Sidecars};

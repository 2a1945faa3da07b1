//! The last step: the files of an output get their names, all of them or none.
//!
//! A file system renames one file at a time, so a set passes through states between. None of them has
//! files of two runs under the names of one output, and each can be completed or undone:
//!
//! ```text
//!  old main, old sidecars      the plan is on the disk
//!  old main, no sidecars       old sidecars stand aside; the old main gets a second name
//!  new main, no sidecars       one rename
//!  new main, new sidecars      the set; what stood aside goes, and then the plan
//! ```
//!
//! Where no main file stands, sidecars get their names first, and the main file last. The plan is a file
//! beside the output that is locked while it is carried out: two runs take turns, and whoever finds one
//! that nobody holds carries it out (its files were complete) before doing anything else. Where a name is
//! refused, everything is undone, and the new files stay under names that the error gives.

mod journal;
mod member;
mod plan;
pub(super) mod step;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use self::journal::Journal;
use self::plan::Plan;
use super::fault::with_remedy;
use super::temporary::{RunFiles, Temporary};
use embedctl_common::error::{Error, Result};

/// Gives every file its name; the last one is the main file.
///
/// With `force`, what stands under these names is replaced, and sidecars of a former output under the
/// main name go. Without it, nothing is ever overwritten, even if it appeared a moment ago.
///
/// # Errors
/// If the system refuses: what stood under the names stands there again, and the new files under names
/// of their own, which the error gives.
pub(super) fn publish(files: &[(&Temporary, &Path)], force: bool) -> Result<()> {
    let Some(((main, main_path), _)) = files.split_last() else {
        return Ok(());
    };
    for (file, path) in files {
        file.sync()
            .map_err(|error| Error::io("write to", path, with_remedy(error)))?;
    }
    if let Some(old) = fs::metadata(main_path).ok().filter(|_| force) {
        // A courtesy: whoever could read the old file can read the new one. Not every system can.
        let _ = fs::set_permissions(main.path(), old.permissions());
    }
    let plan = Plan::new(files, force);
    let mut journal = Journal::none(main_path);
    // One file needs none: its rename is all there is to do.
    let begun = match plan.files.len() {
        1 => Ok(()),
        _ => journal.begin(main_path, main.run()),
    };

    // Held until the end: an exit that removes temporaries finds either all of this done, or none.
    let mut live = main.run().live();
    let alive = |file: &Temporary| live.iter().any(|path| path == file.path());
    if !files.iter().all(|(file, _)| alive(file)) {
        return Err(Error::interrupted());
    }
    if let Some((file, name)) = files.iter().find(|(file, _)| !file.stands()) {
        let gone = io::Error::new(
            ErrorKind::NotFound,
            format!("somebody has removed {}", file.path().display()),
        );
        return Err(Error::io("write to", name, gone));
    }
    // From here on they are complete files, whatever name they get.
    live.retain(|path| !files.iter().any(|(file, _)| path == file.path()));
    let written = begun.and_then(|()| journal.write(&plan));
    let carried_out = written
        .map_err(|error| (main_path.to_path_buf(), error))
        .and_then(|()| journal.carry_out(&plan));
    carried_out.map_err(|(path, error)| {
        let source = journal.undo(&plan, with_remedy(error));
        Error::unpublished(&path, &plan.kept(), source)
    })
}

/// Completes, or undoes, what a run has left that was stopped while it published `main`.
pub(super) fn recover(main: &Path, run: &RunFiles) {
    Journal::recover(main, run);
}

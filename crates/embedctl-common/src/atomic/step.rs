//! The calls that change names, one by one.

use std::io;
use std::path::Path;

pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    step()?;
    std::fs::rename(from, to)
}

pub(super) fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    step()?;
    std::fs::hard_link(from, to)
}

pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    step()?;
    std::fs::remove_file(path)
}

#[cfg(not(test))]
#[allow(clippy::unnecessary_wraps)] // tests make it fail
fn step() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
use faults::step;

/// Steps that fail, or end the process, in tests.
#[cfg(test)]
pub(super) mod faults {
    use std::cell::Cell;
    use std::io;

    /// The outcome of a step.
    #[derive(Debug, Clone, Copy)]
    pub enum Fault {
        /// It is refused; all later ones are done.
        Refused,
        /// It is refused, and all later ones are.
        AllRefused,
        /// The process ends before it.
        Killed,
    }

    thread_local! {
        static PLANNED: Cell<Option<(u32, Fault)>> = const { Cell::new(None) };
    }

    /// Plans a fault of this thread's after so many steps.
    pub fn after(steps: u32, fault: Fault) {
        PLANNED.set(Some((steps, fault)));
    }

    /// Ends it; whether it has come to that step.
    pub fn end() -> bool {
        !matches!(PLANNED.take(), Some((1.., _)))
    }

    pub(super) fn step() -> io::Result<()> {
        match PLANNED.get() {
            Some((0, Fault::Killed)) => std::process::exit(9),
            Some((0, fault)) => {
                if matches!(fault, Fault::Refused) {
                    PLANNED.set(None);
                }
                Err(io::ErrorKind::PermissionDenied.into())
            }
            Some((steps, fault)) => {
                PLANNED.set(Some((steps - 1, fault)));
                Ok(())
            }
            None => Ok(()),
        }
    }
}

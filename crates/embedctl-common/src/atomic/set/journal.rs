//! A plan's file, locked while the plan is carried out. The next run completes or undoes a plan that it finds unlocked.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Sidecars;
use super::member::Refusal;
use super::plan::Plan;
use crate::atomic::disk::{is_at, open_plain, parent, sync, sync_folder};
use crate::atomic::lock::FileLock;
use crate::atomic::names::prefix;
use crate::atomic::pending::PendingFiles;

/// Bytes of a plan, which is some paths, at most. A larger file is not a plan.
const MAX_PLAN: u64 = 1 << 20;

/// How long another run may take to publish under the same name. It is a matter of milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// Written behind a plan that is being undone.
const UNDO: &[u8] = b"\nundo\n";

/// A plan's file, locked; removed when dropped.
pub(super) struct Journal {
    path: PathBuf,
    lock: Option<FileLock>,
}

impl Journal {
    /// No file yet.
    pub(super) fn none(main: &Path) -> Self {
        let prefix = prefix(main.file_name().unwrap_or_default());
        Self {
            path: main.with_file_name(format!("{prefix}publishing")),
            lock: None,
        }
    }

    /// Creates the file. Waits for other runs that publish under this name, and completes the plans of stopped
    /// runs.
    pub(super) fn begin(
        &mut self,
        main: &Path,
        pending: &PendingFiles,
        sidecars: Sidecars,
    ) -> io::Result<()> {
        let started = Instant::now();
        loop {
            let mut options = OpenOptions::new();
            match options
                .read(true)
                .write(true)
                .create_new(true)
                .open(&self.path)
            {
                Ok(file) => {
                    let lock = FileLock::try_take(file);
                    self.lock = lock.filter(|lock| is_at(lock.file(), &self.path));
                    if self.lock.is_some() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    Self::recover(main, pending, sidecars);
                }
                Err(error) => return Err(error),
            }
            if started.elapsed() > PATIENCE {
                return Err(io::Error::new(
                    ErrorKind::TimedOut,
                    format!(
                        "another run has been publishing this output for too long; if no such run exists, \
                         remove {}",
                        self.path.display()
                    ),
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Completes or undoes the plan of a run that was stopped while it published `main`.
    pub(super) fn recover(main: &Path, pending: &PendingFiles, sidecars: Sidecars) {
        // A process that holds it is at work.
        if let Some(journal) = Self::abandoned(main) {
            journal.finish(main, pending, sidecars);
        }
    }

    /// The plan of a stopped run, if there is one that was written by this user and nobody else.
    fn abandoned(main: &Path) -> Option<Self> {
        let path = Self::none(main).path.clone();
        let file = open_plain(&path)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let metadata = file.metadata().ok()?;
            // SAFETY: the call takes nothing and cannot fail.
            let own = metadata.uid() == unsafe { libc::geteuid() };
            if !own || metadata.mode() & 0o022 != 0 || metadata.nlink() != 1 {
                return None;
            }
        }
        let lock = FileLock::try_take(file).filter(FileLock::is_exclusive);
        let lock = Some(lock.filter(|lock| is_at(lock.file(), &path))?);
        Some(Self { path, lock })
    }

    /// Puts a plan onto the disk; where none was begun there is nothing to write.
    pub(super) fn write(&self, plan: &Plan) -> io::Result<()> {
        if let Some(lock) = &self.lock {
            let text = serde_json::to_vec(&plan.relative())?;
            lock.file().write_all(&text)?;
            sync(lock.file())?;
            let _ = sync_folder(parent(&self.path));
        }
        Ok(())
    }

    /// Carries a plan out. Old files that cannot be removed are left to a later run.
    pub(super) fn carry_out(&mut self, plan: &Plan) -> Result<(), Refusal> {
        plan.carry_out()?;
        if plan.leaves_old() {
            self.lock = None;
        }
        Ok(())
    }

    /// Undoes a plan that was refused. If a file could not be put back, the error says so, and a later run does it.
    pub(super) fn undo(&mut self, plan: &Plan, refusal: io::Error) -> io::Error {
        if let Some(lock) = &self.lock {
            // Without the mark a later run would try to complete the set, which is no worse.
            let _ = (lock.file().write_all(UNDO)).and_then(|()| sync(lock.file()));
        }
        if plan.undo() {
            return refusal;
        }
        self.lock = None;
        let text = format!(
            "{refusal}; some old files were not restored. The next run to this output restores them from {}",
            self.path.display()
        );
        io::Error::new(refusal.kind(), text)
    }

    /// Carries a stopped run's plan out, or undoes it.
    fn finish(mut self, main: &Path, pending: &PendingFiles, sidecars: Sidecars) {
        let mut text = Vec::new();
        let read = self
            .lock
            .as_ref()
            .map(|lock| lock.file().take(MAX_PLAN).read_to_end(&mut text));
        let undo = text.ends_with(UNDO);
        let text = text.strip_suffix(UNDO).unwrap_or(&text);
        // A plan that is cut short was never begun.
        let Some(plan) = read
            .and_then(|_| serde_json::from_slice::<Plan>(text).ok())
            .and_then(|plan| plan.absolute(main, sidecars))
        else {
            return;
        };
        let carried_out = match undo {
            true => Err((main.to_path_buf(), io::Error::other("it was refused"))),
            false => self.carry_out(&plan),
        };
        let what = format!(
            "an earlier run was stopped while it gave its output the name {}",
            main.display()
        );
        pending.note(match carried_out {
            Ok(()) => format!("{what}; this is done now"),
            Err((path, error)) => {
                let refusal = self.undo(&plan, error);
                let (path, kept) = (path.display(), plan.kept());
                let kept = kept.display();
                format!("{what}; that cannot be done, and it stays as {kept} ({path}: {refusal})")
            }
        });
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.lock.is_some() {
            let _ = fs::remove_file(&self.path);
            let _ = sync_folder(parent(&self.path));
        }
    }
}

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

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::fault::with_remedy;
use super::place::parent;
use super::temporary::{self, Locked, RunFiles, Temporary, beside, is_at, lock, open_plain};
use crate::error::{Error, Result};

/// Ending of the file that holds a run's provenance.
pub(super) const PROVENANCE: &str = ".json";

/// Ending of the file that says which record each row of an array came from.
pub(super) const ROWS: &str = ".rows.jsonl";

/// A sidecar that is larger than this was not written as provenance.
const MAX_PROVENANCE: u64 = 1 << 20;

/// A plan is some paths; what is larger is none.
const MAX_PLAN: u64 = 1 << 20;

/// How long another run may take to publish under the same name. It is a matter of milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// Written behind a plan that is being undone.
const UNDO: &[u8] = b"\nundo\n";

/// `path` with `ending` after it: `out.npy` and `.json` make `out.npy.json`.
pub(super) fn sidecar_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Sidecars that an earlier run has written beside `main`, whatever its format.
pub(super) fn former_sidecars(main: &Path) -> impl Iterator<Item = PathBuf> {
    let paths = [PROVENANCE, ROWS].map(|ending| sidecar_path(main, ending));
    paths.into_iter().filter(|path| is_sidecar(path))
}

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
    // Somebody who holds it is at work.
    if let Some(journal) = Journal::abandoned(main) {
        journal.finish(main, run);
    }
}

/// A plan's file, locked; removed when dropped.
struct Journal {
    path: PathBuf,
    file: Option<File>,
}

impl Journal {
    fn none(main: &Path) -> Self {
        let prefix = temporary::prefix(main.file_name().unwrap_or_default());
        Self {
            path: main.with_file_name(format!("{prefix}publishing")),
            file: None,
        }
    }

    /// Creates the file; waits for other runs that publish under this name, and finishes what stopped ones
    /// have left.
    fn begin(&mut self, main: &Path, run: &RunFiles) -> io::Result<()> {
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
                    if lock(&file) != Locked::Elsewhere && is_at(&file, &self.path) {
                        self.file = Some(file);
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => recover(main, run),
                Err(error) => return Err(error),
            }
            if started.elapsed() > PATIENCE {
                return Err(io::Error::new(
                    ErrorKind::TimedOut,
                    format!(
                        "another run is publishing under that name, and does not get on; if there is \
                         none, remove {}",
                        self.path.display()
                    ),
                ));
            }
            std::thread::sleep(PAUSE);
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
        (lock(&file) == Locked::Here && is_at(&file, &path)).then_some(())?;
        let file = Some(file);
        Some(Self { path, file })
    }

    fn write(&mut self, plan: &Plan) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            file.write_all(&serde_json::to_vec(&plan.relative())?)?;
            temporary::sync(file)?;
            sync_folder(parent(&self.path));
        }
        Ok(())
    }

    /// Carries a plan out; what stands aside and cannot be removed is left to a later run.
    fn carry_out(&mut self, plan: &Plan) -> Result<(), Refusal> {
        plan.carry_out()?;
        if plan.leaves_old() {
            self.file = None;
        }
        Ok(())
    }

    /// Undoes a plan that was refused; what could not be put back is said with the refusal, and left to a
    /// later run.
    fn undo(&mut self, plan: &Plan, refusal: io::Error) -> io::Error {
        if let Some(file) = &mut self.file {
            // Without the mark a later run would try to complete the set, which is no worse.
            let _ = file.write_all(UNDO).and_then(|()| temporary::sync(file));
        }
        if plan.undo() {
            return refusal;
        }
        self.file = None;
        let text = format!(
            "{refusal}; what stood there could not all be put back, which the next run to this output does \
             as {} says",
            self.path.display()
        );
        io::Error::new(refusal.kind(), text)
    }

    /// Carries a stopped run's plan out, or undoes it.
    fn finish(mut self, main: &Path, run: &RunFiles) {
        let mut text = Vec::new();
        let read = self
            .file
            .as_ref()
            .map(|file| file.take(MAX_PLAN).read_to_end(&mut text));
        let undo = text.ends_with(UNDO);
        let text = text.strip_suffix(UNDO).unwrap_or(&text);
        // One that was not written to its end was not begun.
        let Some(plan) = read
            .and_then(|_| serde_json::from_slice::<Plan>(text).ok())
            .and_then(|plan| plan.absolute(main))
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
        run.note(match carried_out {
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
        if self.file.is_some() {
            let _ = fs::remove_file(&self.path);
            sync_folder(parent(&self.path));
        }
    }
}

/// Which file gets which name.
#[derive(Debug, Serialize, Deserialize)]
struct Plan {
    /// Whether files that stand under these names are replaced.
    replace: bool,
    /// The last one is the main file.
    files: Vec<Member>,
}

/// A file of the set.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Member {
    /// The complete file; none where an old one goes without another in its place.
    new: Option<Name>,
    /// Its inode, by which it is known under any name; none where there is no such thing.
    inode: Option<u64>,
    /// The name that it gets.
    name: Name,
    /// Where the file stands aside that has the name now.
    old: Name,
    /// The name that the new file keeps if it cannot have its own.
    kept: Name,
}

/// A path: text where it is, for whoever reads the plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Other(OsString),
}

impl Name {
    fn new(path: PathBuf) -> Self {
        path.into_os_string()
            .into_string()
            .map_or_else(Self::Other, Self::Text)
    }

    fn path(&self) -> &Path {
        match self {
            Self::Text(text) => Path::new(text),
            Self::Other(text) => Path::new(text),
        }
    }

    fn exists(&self) -> bool {
        fs::symlink_metadata(self.path()).is_ok()
    }
}

/// The name that was refused, and why.
type Refusal = (PathBuf, io::Error);

impl Plan {
    fn new(files: &[(&Temporary, &Path)], replace: bool) -> Self {
        let (_, main) = files.last().expect("a set has a main file");
        let mark = format!("unpublished-{:08x}", temporary::random() >> 32);
        let main_kept = with_mark(main, &mark);
        let member = |new: Option<&Path>, name: &Path| {
            let ending = name.as_os_str().as_encoded_bytes();
            let ending = ending.strip_prefix(main.as_os_str().as_encoded_bytes());
            let kept = match ending.and_then(|ending| std::str::from_utf8(ending).ok()) {
                Some(ending) => sidecar_path(&main_kept, ending),
                None => with_mark(name, &mark),
            };
            Member {
                new: new.map(|new| Name::new(new.to_path_buf())),
                inode: new.and_then(inode),
                name: Name::new(name.to_path_buf()),
                old: Name::new(beside(name, ".old")),
                kept: Name::new(kept),
            }
        };
        let replaced = replace && fs::symlink_metadata(main).is_ok();
        let former = former_sidecars(main)
            .filter(|path| replaced && !files.iter().any(|(_, name)| name == path))
            .map(|path| member(None, &path));
        let new = files
            .iter()
            .map(|(file, name)| member(Some(file.path()), name));
        Self {
            replace,
            files: former.chain(new).collect(),
        }
    }

    /// With paths as they are written: names in the main file's folder, from the root elsewhere.
    fn relative(&self) -> Self {
        let folder = self.main().name.path().parent();
        let written = |name: &Name| {
            let path = name.path();
            Name::new(match path.file_name() {
                Some(own) if path.parent() == folder => own.into(),
                _ => std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
            })
        };
        self.each(|name| Some(written(name)))
            .expect("every name is kept")
    }

    /// As it was before [`Plan::relative`]; `None` if this is no plan for `main`.
    fn absolute(&self, main: &Path) -> Option<Self> {
        let last = self.files.last()?;
        (last.name.path().file_name() == main.file_name() && last.new.is_some()).then_some(())?;
        self.each(|name| Some(Name::new(main.with_file_name(name.path()))))
    }

    fn each(&self, change: impl Fn(&Name) -> Option<Name>) -> Option<Self> {
        let member = |member: &Member| {
            Some(Member {
                new: match &member.new {
                    Some(new) => Some(change(new)?),
                    None => None,
                },
                inode: member.inode,
                name: change(&member.name)?,
                old: change(&member.old)?,
                kept: change(&member.kept)?,
            })
        };
        Some(Self {
            replace: self.replace,
            files: self.files.iter().map(member).collect::<Option<_>>()?,
        })
    }

    fn main(&self) -> &Member {
        self.files.last().expect("a set has a main file")
    }

    /// Where the new main file is, once the plan was undone as far as possible.
    fn kept(&self) -> PathBuf {
        let main = self.main();
        let named = Some(&main.name).filter(|_| main.has_name());
        let kept = [Some(&main.kept), main.new.as_ref(), named];
        let kept = kept.into_iter().flatten().find(|name| name.exists());
        kept.unwrap_or(&main.kept).path().to_path_buf()
    }

    /// Gives the files their names. Goes on from wherever a stopped run has got to.
    fn carry_out(&self) -> Result<(), Refusal> {
        let (main, others) = self.files.split_last().expect("a set has a main file");
        for file in &self.files {
            file.look().map_err(file.refusal())?;
        }
        for file in others {
            file.clear_name(self.replace).map_err(file.refusal())?;
        }
        main.replace(self.replace, !others.is_empty())
            .map_err(main.refusal())?;
        // The main file comes last, where it has not replaced another.
        for file in &self.files {
            file.take_name().map_err(file.refusal())?;
        }
        for file in &self.files {
            sync_folder(parent(file.name.path()));
        }
        for file in &self.files {
            let _ = step::remove_file(file.old.path());
        }
        Ok(())
    }

    /// Puts everything back, and new files under the names that they keep. Goes on from wherever a stopped
    /// run has got to; what the system refuses stays where it is. Whether every old file has its name again.
    fn undo(&self) -> bool {
        let (main, others) = self.files.split_last().expect("a set has a main file");
        for file in others {
            file.keep();
        }
        let name = main.name.path();
        // So that there is no moment without a main file: the old one is renamed over it.
        if main.has_name() && step::hard_link(name, main.kept.path()).is_ok() {
            if let Some(new) = main.waiting() {
                let _ = step::remove_file(new);
            }
            if !main.old.exists() {
                let _ = step::remove_file(name);
            }
        } else {
            main.keep();
        }
        if main.old.exists() {
            if !main.name.exists() || main.has_name() {
                let _ = step::rename(main.old.path(), name);
            } else if inode(main.old.path()) == inode(name) {
                let _ = step::remove_file(main.old.path());
            }
        }
        for file in others {
            if file.old.exists() && !file.name.exists() {
                let _ = step::rename(file.old.path(), file.name.path());
            }
        }
        sync_folder(parent(name));
        !self.leaves_old()
    }

    /// Whether an old file stands aside.
    fn leaves_old(&self) -> bool {
        self.files.iter().any(|file| file.old.exists())
    }
}

impl Member {
    fn refusal(&self) -> impl Fn(io::Error) -> Refusal {
        |error| (self.name.path().to_path_buf(), error)
    }

    /// The new file, as long as it has not got its name alone.
    fn waiting(&self) -> Option<&Path> {
        self.new.as_ref().filter(|new| new.exists()).map(Name::path)
    }

    /// Whether the name is the new file's.
    fn has_name(&self) -> bool {
        match (self.inode, inode(self.name.path())) {
            (Some(own), Some(there)) => own == there,
            (None, _) => self.new.is_some() && self.waiting().is_none() && self.name.exists(),
            (Some(_), None) => false,
        }
    }

    /// Looks whether the new file is still there.
    fn look(&self) -> io::Result<()> {
        if self.new.is_none() || self.waiting().is_some() || self.has_name() {
            return Ok(());
        }
        Err(io::Error::new(
            ErrorKind::NotFound,
            "somebody has removed the file that should get the name",
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

    /// Puts aside what stands under the name of a sidecar.
    fn clear_name(&self, replace: bool) -> io::Result<()> {
        let (name, old) = (self.name.path(), self.old.path());
        let former = self.new.is_none();
        if self.has_name() || (former && !is_sidecar(name)) || !self.is_taken(replace)? {
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
    fn replace(&self, replace: bool, aside: bool) -> io::Result<()> {
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

    /// Gives the new file its name, which nothing has.
    fn take_name(&self) -> io::Result<()> {
        let Some(new) = self.waiting() else {
            return Ok(());
        };
        let name = self.name.path();
        // Of the portable calls, only a hard link refuses to overwrite.
        match step::hard_link(new, name) {
            Ok(()) => {}
            // A stopped run came as far as this.
            Err(_) if self.has_name() => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(appeared()),
            // No hard links here (FAT, some network shares): look, then rename.
            Err(_) if self.name.exists() => return Err(appeared()),
            Err(_) => return self.rename(new),
        }
        // The result stands; a second name for it that stays is no reason to fail.
        let _ = step::remove_file(new);
        Ok(())
    }

    /// Gives the new file the name that it keeps, wherever it has got to.
    fn keep(&self) {
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
            // Whoever looks for abandoned files leaves it alone.
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

/// `out.npy` with a mark: `out.MARK.npy`.
fn with_mark(path: &Path, mark: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(mark);
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

/// By which a file is known under any of its names.
fn inode(path: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::symlink_metadata(path).ok()?;
        Some(metadata.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Whether a file beside a replaced output was written by an earlier run, by its beginning: somebody's
/// own `data.parquet.json` is none of ours.
fn is_sidecar(path: &Path) -> bool {
    let plain = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    let Some(file) = plain.then(|| File::open(path).ok()).flatten() else {
        return false;
    };
    let mut content = Vec::new();
    if file.take(MAX_PROVENANCE).read_to_end(&mut content).is_err() {
        return false;
    }
    if path
        .as_os_str()
        .as_encoded_bytes()
        .ends_with(ROWS.as_bytes())
    {
        return content.is_empty() || content.starts_with(br#"{"row":0,"#);
    }
    serde_json::from_slice::<serde_json::Value>(&content)
        .is_ok_and(|value| value["schema"].is_u64() && value["model"].is_object())
}

/// Makes new names durable, where that is possible.
fn sync_folder(folder: &Path) {
    if cfg!(unix) {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
}

/// The calls that change names, one by one.
mod step {
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
    use super::faults::step;
}

/// Steps that fail, or end the process, in tests.
#[cfg(test)]
pub(super) mod faults {
    use std::cell::Cell;
    use std::io;

    /// What happens at a step.
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

//! Where a writer's bytes go: a file beside its final name, or straight into a stream.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::fault::write_error;
use super::handle;
use super::place::{OutputPlace, PlaceKind};
use super::proof;
use super::remote::Remote;
use super::run_files::RunFiles;
use super::sidecar::{self, SIDECARS};
use embedctl_common::atomic::{
    AtomicFile, AtomicSet, open_special, parent, remove_abandoned, with_ending,
};
use embedctl_common::error::{Error, Result};
use embedctl_common::hash::Hash;
use embedctl_common::remedies::{self, with_remedy};

/// An output that is being written. Dropped unpublished, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Target {
    shown: PathBuf,
    force: bool,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    /// Written beside its name.
    Beside(SidecarFiles),
    /// Written directly.
    Open(File),
    /// A FIFO without a reader yet: opened when there is something to write.
    Fifo(PathBuf),
    /// An object on a store.
    Remote(Remote),
    /// Given up: takes everything, keeps nothing.
    Abandoned,
}

#[derive(Debug)]
struct SidecarFiles {
    main: AtomicFile,
    sidecars: Vec<AtomicFile>,
}

impl Target {
    /// Opens `place`, whose files will be among `files`; `sidecars` are the endings of those that will stand
    /// beside it. Finishes what a stopped run has left under this name, or removes it.
    ///
    /// # Errors
    /// If it, or a sidecar, exists without `force`, or cannot be written.
    pub fn create(
        place: &OutputPlace,
        force: bool,
        sidecars: &[&str],
        files: &RunFiles,
    ) -> Result<Self> {
        let shown = place.shown().to_path_buf();
        let open = |file: io::Result<File>| {
            file.map(Sink::Open)
                .map_err(|error| Error::io("write to", &shown, error))
        };
        let sink = match &place.kind {
            PlaceKind::Stdout => open(handle::stdout())?,
            #[cfg(unix)]
            PlaceKind::Descriptor(number) => open(handle::duplicate(*number))?,
            PlaceKind::Device(path) => open(open_special(path, true))?,
            #[cfg(unix)]
            PlaceKind::Fifo(path) => match handle::open_fifo(path) {
                Ok(Some(file)) => Sink::Open(file),
                Ok(None) => Sink::Fifo(path.clone()),
                Err(error) => return Err(Error::io("write to", &shown, error)),
            },
            #[cfg(not(unix))]
            PlaceKind::Fifo(path) => Sink::Fifo(path.clone()),
            PlaceKind::Object(address) => {
                Sink::Remote(Remote::create(address, force, sidecars, files)?)
            }
            PlaceKind::File { path } => {
                files.complete_stopped(path);
                clear_abandoned(path, sidecars, files);
                check_free(path, sidecars, force, place)?;
                let main = AtomicFile::create(path, &files.pending).map_err(|error| {
                    Error::io("create a file in", parent(path), with_remedy(error))
                })?;
                Sink::Beside(SidecarFiles {
                    main,
                    sidecars: Vec::new(),
                })
            }
        };
        Ok(Self { shown, force, sink })
    }

    /// Whether a file can be made at `place`; a pipe's reader must not see it opened and closed again.
    ///
    /// # Errors
    /// As [`Target::create`].
    pub fn check(
        place: &OutputPlace,
        force: bool,
        sidecars: &[&str],
        files: &RunFiles,
    ) -> Result<()> {
        if place.is_published() {
            Self::create(place, force, sidecars, files)?;
        }
        Ok(())
    }

    /// The path as the user wrote it.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// Whether a terminal shows what is written: text of others must not steer it.
    pub fn is_terminal(&self) -> bool {
        matches!(&self.sink, Sink::Open(file) if file.is_terminal())
    }

    /// Whether files stand beside it once it is published.
    pub fn has_sidecars(&self) -> bool {
        matches!(self.sink, Sink::Beside(_) | Sink::Remote(_))
    }

    /// The error for a failed write to this output.
    pub fn error(&self, error: io::Error) -> Error {
        write_error(&self.shown, error)
    }

    /// Creates a file that will be published beside the output, and returns another handle to it;
    /// `None` where an output has no such files (a stream, a device, an object).
    ///
    /// # Errors
    /// If the system refuses.
    pub fn sidecar(&mut self, ending: &str) -> Result<Option<Sidecar>> {
        let Sink::Beside(beside) = &mut self.sink else {
            return Ok(None);
        };
        let path = with_ending(beside.main.name(), ending);
        let sidecar = AtomicFile::create(&path, beside.main.pending())
            .map_err(|error| Error::io("create", &path, with_remedy(error)))?;
        let file =
            (sidecar.file().try_clone()).map_err(|error| Error::io("create", &path, error))?;
        beside.sidecars.push(sidecar);
        Ok(Some(Sidecar { path, file }))
    }

    /// Writes the run's provenance beside the output, where it has sidecars.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn provenance(&mut self, provenance: &serde_json::Value) -> Result<()> {
        let text = || proof::sidecar_text(provenance);
        if let Sink::Remote(remote) = &mut self.sink {
            remote.add_sidecar(sidecar::PROVENANCE, text());
        } else if let Some(mut sidecar) = self.sidecar(sidecar::PROVENANCE)? {
            sidecar.write_all(&text())?;
        }
        Ok(())
    }

    /// Whether what was written can be overwritten.
    pub fn is_rewritable(&self) -> bool {
        matches!(self.sink, Sink::Beside(_))
    }

    /// Overwrites the bytes at `offset`.
    ///
    /// # Errors
    /// If the system refuses, or this is a stream.
    pub fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = match &mut self.sink {
            Sink::Beside(beside) => {
                let mut file = beside.main.file();
                file.seek(SeekFrom::Start(offset))
                    .and_then(|_| file.write_all(bytes))
            }
            _ => Err(io::ErrorKind::NotSeekable.into()),
        };
        written.map_err(|error| self.error(error))
    }

    /// Completes the output and `rejects`: on the disk, under their names, all of them or none. Of files and
    /// objects, the output itself comes last.
    ///
    /// # Errors
    /// If the system refuses; nothing new stands under any name then.
    pub fn publish(&mut self, mut rejects: Option<Self>) -> Result<()> {
        let mut rejects = rejects.as_mut();
        for stream in rejects.as_deref_mut().into_iter().chain([&mut *self]) {
            if !matches!(stream.sink, Sink::Beside(_)) {
                // Even an output without a byte ends: a FIFO's reader waits for that.
                stream.write(&[]).map_err(|error| stream.error(error))?;
            }
        }
        if let Some(Sink::Remote(remote)) = rejects.as_deref_mut().map(|it| &mut it.sink) {
            remote.finish()?;
        }
        let targets = rejects.as_deref().into_iter().chain([&*self]);
        let beside = targets.filter_map(|target| match &target.sink {
            Sink::Beside(beside) => Some(beside),
            _ => None,
        });
        let set = AtomicSet {
            files: beside
                .flat_map(|beside| beside.sidecars.iter().chain([&beside.main]))
                .collect(),
            replace: self.force,
            sidecars: SIDECARS,
        };
        set.publish()?;
        match &mut self.sink {
            Sink::Remote(remote) => remote.finish(),
            _ => Ok(()),
        }
    }

    /// Gives the output up: removes what was written beside its name, and lets later writes pass
    /// unwritten. A buffer on top of this would otherwise write its rest when it is dropped, perhaps
    /// into a pipe without an active reader.
    pub fn abandon(&mut self) {
        self.sink = Sink::Abandoned;
    }

    /// Gives up a stream of Arrow that has begun, with the head of a message that never comes: where a stream ends
    /// between two batches, readers take it for complete.
    pub fn break_off(&mut self) {
        if let Sink::Open(stream) = &mut self.sink {
            let _ = stream.write_all(&[0xff, 0xff, 0xff, 0xff, 8, 0, 0, 0]);
        }
        self.abandon();
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Sink::Fifo(path) = &self.sink {
            self.sink = Sink::Open(open_special(path, true)?);
        }
        match &mut self.sink {
            Sink::Beside(beside) => beside.main.file().write(bytes),
            Sink::Open(file) => file.write(bytes),
            Sink::Remote(remote) => remote.write(bytes),
            Sink::Fifo(_) | Sink::Abandoned => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // Files are not buffered here.
    }
}

/// A file that will stand beside the output.
#[derive(Debug)]
pub(crate) struct Sidecar {
    path: PathBuf,
    file: File,
}

impl Sidecar {
    /// Appends `bytes`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(|error| write_error(&self.path, error))
    }

    /// Overwrites its first bytes, and returns the hash of all.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn complete(&mut self, start: &[u8]) -> Result<Hash> {
        let written = (self.file.seek(SeekFrom::Start(0))).and_then(|_| self.file.write_all(start));
        written.map_err(|error| write_error(&self.path, error))?;
        let mut hash = Hash::default();
        let mut buffer = vec![0; 1 << 16];
        let read = self.file.seek(SeekFrom::Start(0)).and_then(|_| {
            loop {
                match self.file.read(&mut buffer)? {
                    0 => return Ok(()),
                    count => hash.add(&buffer[..count]),
                }
            }
        });
        read.map_err(|error| Error::io("read", &self.path, error))?;
        Ok(hash)
    }
}

/// Refuses to replace an existing file, unless forced.
fn check_free(path: &Path, sidecars: &[&str], force: bool, place: &OutputPlace) -> Result<()> {
    let option = place.option();
    let shown = place.shown().display();
    if !force && fs::symlink_metadata(path).is_ok() {
        return Err(Error::usage(format!("{option} {shown}: the file exists"))
            .with_remedy(remedies::taken()));
    }
    for ending in sidecars {
        let sidecar = with_ending(path, ending);
        match fs::symlink_metadata(&sidecar) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(Error::usage(format!(
                    "{option} {shown}: {} is written with it, but there is a folder of that name",
                    sidecar.display()
                ))
                .with_remedy("write elsewhere"));
            }
            Ok(_) if !force => {
                return Err(Error::usage(format!(
                    "{option} {shown}: {} is written with it, but already exists",
                    sidecar.display()
                ))
                .with_remedy(remedies::taken()));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("create", sidecar, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes temporary files that stopped runs have left for this output, with a note.
fn clear_abandoned(path: &Path, sidecars: &[&str], files: &RunFiles) {
    let sidecars = sidecars.iter().map(|ending| with_ending(path, ending));
    let removed = [path.to_path_buf()].into_iter().chain(sidecars);
    let (count, bytes) = removed
        .map(|path| remove_abandoned(&path))
        .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    if count > 0 {
        let these = if count == 1 { "file" } else { "files" };
        files.pending.note(format!(
            "removed {count} temporary {these} ({bytes} bytes) that stopped runs had left of {}",
            path.display()
        ));
    }
}

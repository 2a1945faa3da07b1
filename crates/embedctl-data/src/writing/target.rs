//! Where a writer's bytes go: a file beside its final name, or straight into a stream.

mod opening;
pub(crate) mod sidecars;

use std::fs::File;
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::fault::write_error;
use super::remote::Remote;
use super::sidecar::SIDECARS;
use embedctl_common::atomic::{AtomicFile, AtomicSet, open_special};
use embedctl_common::error::{Error, Result};

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

//! Files that stand beside an output.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use super::{Sink, Target};
use crate::writing::fault::write_error;
use crate::writing::{proof, sidecar};
use embedctl_common::atomic::{AtomicFile, with_ending};
use embedctl_common::error::{Error, Result};
use embedctl_common::hash::Hash;
use embedctl_common::remedies::with_remedy;

impl Target {
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

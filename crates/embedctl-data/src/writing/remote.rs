//! An output on an object store: uploaded in invisible parts, and completed at the end, after its sidecars.
//!
//! A store publishes one name at a time, so a set of files is not published at once: the sidecars come first, and the
//! output, for which readers look, last. If the store refuses the output, new sidecars are removed again.

use std::io::{self, Write};

use super::run_files::RunFiles;
use embedctl_common::error::{Error, Result};
use embedctl_common::remedies;
use embedctl_storage::{Address, ObjectWriter, Storage};

/// An object that is being written. Dropped unfinished, it leaves nothing.
#[derive(Debug)]
pub(super) struct Remote {
    storage: Storage,
    address: Address,
    force: bool,
    writer: Option<Box<dyn ObjectWriter>>,
    sidecars: Vec<(Address, Vec<u8>)>,
}

impl Remote {
    /// Begins to write an object; `sidecars` are the endings of those that will stand beside it.
    ///
    /// # Errors
    /// If one of them exists without `force`, or could not be written.
    pub fn create(
        address: &Address,
        force: bool,
        sidecars: &[&str],
        files: &RunFiles,
    ) -> Result<Self> {
        let storage = files.storage()?;
        let writer = storage.create(address, force)?;
        for ending in sidecars.iter().filter(|_| !force) {
            let sidecar = address.with_ending(ending);
            if storage.exists(&sidecar)? {
                return Err(Error::usage(format!(
                    "{address}: {sidecar} is written with it, but already exists"
                ))
                .with_remedy(remedies::taken()));
            }
        }
        Ok(Self {
            storage,
            address: address.clone(),
            force,
            writer: Some(writer),
            sidecars: Vec::new(),
        })
    }

    /// Keeps a sidecar until the end.
    pub fn add_sidecar(&mut self, ending: &str, bytes: Vec<u8>) {
        self.sidecars
            .push((self.address.with_ending(ending), bytes));
    }

    /// Puts everything under its name, the object itself last.
    ///
    /// # Errors
    /// If the store refuses; the object is as it was then.
    pub fn finish(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else {
            return Err(Error::internal("an object was finished twice"));
        };
        let mut new = Vec::new();
        let placed = self.place_sidecars(&mut new).and_then(|()| writer.finish());
        if placed.is_err() {
            for sidecar in &new {
                let _ = self.storage.remove(sidecar);
            }
        }
        placed
    }

    fn place_sidecars(&mut self, new: &mut Vec<Address>) -> Result<()> {
        for (address, bytes) in self.sidecars.drain(..) {
            if self.force && self.storage.exists(&address)? {
                self.storage.put_over(&address, bytes)?;
                continue;
            }
            if self.storage.put_new(&address, bytes)?.is_none() {
                return Err(Error::usage(format!(
                    "{}: {address} is written with it, but has appeared meanwhile",
                    self.address
                ))
                .with_remedy(remedies::taken()));
            }
            new.push(address);
        }
        Ok(())
    }
}

impl Write for Remote {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.writer {
            Some(writer) => writer.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! Opens an output, and clears its name.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::{SidecarFiles, Sink, Target};
use crate::writing::handle;
use crate::writing::place::{OutputPlace, PlaceKind};
use crate::writing::remote::Remote;
use crate::writing::run_files::RunFiles;
use embedctl_common::atomic::{AtomicFile, open_special, parent, remove_abandoned, with_ending};
use embedctl_common::error::{Error, Result};
use embedctl_common::remedies::{self, with_remedy};

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

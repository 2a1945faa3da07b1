//! What stands at the output's path: nothing yet, a file to replace, or something to write into.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use super::Destination;
use super::fault::write_error;
use super::target::Target;
use crate::error::{Error, Result};

/// Links followed at most, as on Linux.
const MAX_LINKS: usize = 40;

/// Where an output goes, with symbolic links resolved.
#[derive(Debug)]
pub(crate) struct Place {
    /// As the user wrote it, for messages.
    shown: PathBuf,
    /// The option that named it, for messages.
    option: &'static str,
    pub(super) kind: PlaceKind,
}

/// What stands there.
#[derive(Debug)]
pub(super) enum PlaceKind {
    /// Standard output.
    Stdout,
    /// An open descriptor of this process (`/dev/fd/N`, `/dev/stdout`), whatever it is open on.
    #[cfg(unix)]
    Descriptor(std::os::fd::RawFd),
    /// A FIFO, which blocks whoever opens it until its reader comes.
    Fifo,
    /// A device: written as it is, never renamed over or removed.
    Device,
    /// A file to be made or replaced.
    File {
        /// Its path, no link.
        path: PathBuf,
        /// Whether it stands there now.
        exists: bool,
    },
}

impl Place {
    /// Looks at what `option` named.
    ///
    /// # Errors
    /// If it is a folder, or lies in none.
    pub fn find(destination: &Destination, option: &'static str) -> Result<Self> {
        let path = match destination {
            Destination::Path(path) => path,
            Destination::Stdout => {
                return Ok(Self {
                    shown: "standard output".into(),
                    option,
                    kind: PlaceKind::Stdout,
                });
            }
        };
        Ok(Self {
            shown: path.clone(),
            option,
            kind: look(path, option)?,
        })
    }

    /// As the user wrote it.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// The option that named it.
    pub fn option(&self) -> &'static str {
        self.option
    }

    /// Whether it is a regular file, made beside its name and then renamed.
    pub fn is_file(&self) -> bool {
        matches!(self.kind, PlaceKind::File { .. })
    }

    /// Whether a file can be made here; a pipe's reader must not see it opened and closed again.
    ///
    /// # Errors
    /// As [`Target::create`].
    pub fn check(&self, force: bool, sidecars: &[&str]) -> Result<()> {
        if self.is_file() {
            Target::create(self, force, sidecars)?;
        }
        Ok(())
    }

    /// Whether somebody would see raw bytes on a screen.
    pub fn is_terminal(&self) -> bool {
        matches!(self.kind, PlaceKind::Stdout) && io::stdout().is_terminal()
    }
}

fn look(path: &Path, option: &'static str) -> Result<PlaceKind> {
    let folder = || {
        Error::Usage(format!(
            "{option} {}: that is a folder; name a file in it",
            path.display()
        ))
    };
    if path.as_os_str().is_empty() {
        return Err(Error::Usage(format!(
            "{option} is empty; name a file, or `-`"
        )));
    }
    let text = path.as_os_str().as_encoded_bytes();
    if text.ends_with(b"/") || text.ends_with(MAIN_SEPARATOR.to_string().as_bytes()) {
        return Err(folder());
    }
    #[cfg_attr(not(unix), expect(clippy::infallible_destructuring_match))] // there are two on Unix
    let resolved = match follow(path).map_err(|error| write_error(path, error))? {
        Followed::Path(resolved) => resolved,
        #[cfg(unix)]
        Followed::Descriptor(number) => return Ok(PlaceKind::Descriptor(number)),
    };
    let exists = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return Err(folder()),
        Ok(metadata) if is_fifo(&metadata) => return Ok(PlaceKind::Fifo),
        Ok(metadata) if !metadata.is_file() => return Ok(PlaceKind::Device),
        Ok(_) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        // A file where a folder should be is told about below, by its name.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => false,
        Err(error) => return Err(write_error(path, error)),
    };
    let parent = parent(&resolved);
    match fs::metadata(parent) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => {
            return Err(Error::Usage(format!(
                "{option} {}: {} is a file, not a folder",
                path.display(),
                parent.display()
            )));
        }
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Err(Error::Usage(format!(
                "{option} {}: there is no folder {}; create it first, or write elsewhere",
                path.display(),
                parent.display()
            )));
        }
        Err(error) => return Err(Error::io("look into", parent, error)),
    }
    if resolved.file_name().is_none() {
        return Err(folder());
    }
    Ok(PlaceKind::File {
        path: resolved,
        exists,
    })
}

/// The folder of a path; the current one for a bare name.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(unix)]
fn is_fifo(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_fifo(_: &fs::Metadata) -> bool {
    false
}

/// Where a path leads.
enum Followed {
    Path(PathBuf),
    #[cfg(unix)]
    Descriptor(std::os::fd::RawFd),
}

/// Follows links by hand, since a dangling one leads somewhere too: its target is what gets created.
fn follow(path: &Path) -> io::Result<Followed> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        #[cfg(unix)]
        if let Some(number) = descriptor(&path) {
            return Ok(Followed::Descriptor(number));
        }
        match fs::read_link(&path) {
            Ok(target) => path = parent(&path).join(target),
            // No link, or nothing there.
            Err(_) => return Ok(Followed::Path(path)),
        }
    }
    Err(io::Error::other(
        "it is a symbolic link that leads to itself",
    ))
}

/// The number of an open descriptor that `path` stands for.
///
/// Its link in `/proc` may lead to a regular file, as under `> out.jsonl`; the shell has opened that
/// file for us, so it is written, not replaced.
#[cfg(unix)]
fn descriptor(path: &Path) -> Option<std::os::fd::RawFd> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let folder = fs::canonicalize(parent(path)).ok()?;
    ["/dev/fd", "/proc/self/fd"]
        .iter()
        .any(|own| fs::canonicalize(own).is_ok_and(|own| own == folder))
        .then_some(number)
}

/// Whether two paths name the same file, existing or not.
///
/// Two outputs of one run at one place would replace each other.
#[must_use]
pub fn same_place(one: &Path, two: &Path) -> bool {
    fn name(path: &Path) -> Option<PathBuf> {
        match follow(path).ok()? {
            Followed::Path(path) => {
                let folder = fs::canonicalize(parent(&path)).ok()?;
                Some(folder.join(path.file_name()?))
            }
            #[cfg(unix)]
            Followed::Descriptor(_) => None,
        }
    }
    // Devices may be shared: nothing is replaced there.
    let special = |path: &Path| fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    !special(one) && name(one).is_some_and(|one| Some(one) == name(two))
}

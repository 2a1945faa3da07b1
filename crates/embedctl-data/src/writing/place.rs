//! The state of the output's path: free, a file to replace, or a device or pipe to write into.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use super::fault::write_error;
use super::handle;
use super::options::Destination;
use embedctl_common::atomic::{self, file_number, parent};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{self, SetBy};
use embedctl_storage::{Address, Location};

/// Where an output goes, with symbolic links resolved.
#[derive(Debug)]
pub(crate) struct OutputPlace {
    /// As the user wrote it, for messages.
    shown: PathBuf,
    /// The option that named it, for messages.
    option: SetBy,
    pub(super) kind: PlaceKind,
}

/// The kind of file at the path.
#[derive(Debug)]
pub(super) enum PlaceKind {
    /// Standard output.
    Stdout,
    /// An open descriptor of this process (`/dev/fd/N`, `/dev/stdout`), whatever it is open on.
    #[cfg(unix)]
    Descriptor(std::os::fd::RawFd),
    /// A FIFO: opening it blocks until there is a reader.
    Fifo(PathBuf),
    /// A device: written as it is, never renamed over or removed.
    Device(PathBuf),
    /// An object on a store, to be made or replaced.
    Object(Address),
    /// A file to be made or replaced.
    File {
        /// Its path, no link.
        path: PathBuf,
    },
}

impl OutputPlace {
    /// The output's setting, for messages.
    pub const OUTPUT: SetBy = SetBy::Setting(setting::OUTPUT);

    /// Inspects the path that `option` names.
    ///
    /// # Errors
    /// If it is a folder, or lies in none.
    pub fn find(destination: &Destination, option: SetBy) -> Result<Self> {
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
    pub fn option(&self) -> SetBy {
        self.option
    }

    /// The path of a regular file, links resolved.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.kind {
            PlaceKind::File { path } => Some(path),
            _ => None,
        }
    }

    /// Whether it gets its name at the end, complete: a file or an object.
    pub(crate) fn is_published(&self) -> bool {
        matches!(self.kind, PlaceKind::File { .. } | PlaceKind::Object(_))
    }

    /// Whether it is a terminal, which would show raw bytes.
    pub fn is_terminal(&self) -> bool {
        matches!(self.kind, PlaceKind::Stdout) && io::stdout().is_terminal()
    }
}

fn look(path: &Path, option: SetBy) -> Result<PlaceKind> {
    let folder = || {
        Error::usage(format!("{option} {}: that is a folder", path.display()))
            .with_remedy("name a file in it")
    };
    if path.as_os_str().is_empty() {
        return Err(Error::usage(format!("{option} is empty")).with_remedy("name a file, or `-`"));
    }
    if let Location::Remote(address) = Location::of(path)? {
        return match address.is_prefix() {
            true => Err(Error::usage(format!(
                "{option} {address}: name an object in it"
            ))),
            false => Ok(PlaceKind::Object(address)),
        };
    }
    let text = path.as_os_str().as_encoded_bytes();
    if text.ends_with(b"/") || text.ends_with(MAIN_SEPARATOR.to_string().as_bytes()) {
        return Err(folder());
    }
    #[cfg_attr(not(unix), expect(clippy::infallible_destructuring_match))] // there are two on Unix
    let resolved = match ended(atomic::follow(path, is_descriptor))
        .map_err(|error| write_error(path, error))?
    {
        LinkTarget::Path(resolved) => resolved,
        #[cfg(unix)]
        LinkTarget::Descriptor(number) => return Ok(PlaceKind::Descriptor(number)),
    };
    match fs::symlink_metadata(&resolved) {
        Ok(metadata) if metadata.is_dir() => return Err(folder()),
        Ok(metadata) if is_fifo(&metadata) => return Ok(PlaceKind::Fifo(resolved)),
        Ok(metadata) if !metadata.is_file() => return Ok(PlaceKind::Device(resolved)),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // A file where a folder should be is told about below, by its name.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
        Err(error) => return Err(write_error(path, error)),
    }
    let parent = parent(&resolved);
    match fs::metadata(parent) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => {
            return Err(Error::usage(format!(
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
            return Err(Error::usage(format!(
                "{option} {}: there is no folder {}",
                path.display(),
                parent.display()
            ))
            .with_remedy("create it first, or write elsewhere"));
        }
        Err(error) => return Err(Error::io("look into", parent, error)),
    }
    if resolved.file_name().is_none() {
        return Err(folder());
    }
    Ok(PlaceKind::File { path: resolved })
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
enum LinkTarget {
    Path(PathBuf),
    #[cfg(unix)]
    Descriptor(std::os::fd::RawFd),
}

/// Where a path leads, by one of the ways to follow links.
fn ended(end: io::Result<PathBuf>) -> io::Result<LinkTarget> {
    let end = end?;
    #[cfg(unix)]
    if let Some(number) = descriptor(&end) {
        return Ok(LinkTarget::Descriptor(number));
    }
    Ok(LinkTarget::Path(end))
}

fn is_descriptor(path: &Path) -> bool {
    #[cfg(unix)]
    return descriptor(path).is_some();
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
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

/// What tells a regular file, existing or not, from others. Devices, FIFOs and terminals have none: they
/// may be shared, since nothing is replaced there.
#[derive(Debug, Default)]
pub(super) struct Identity {
    /// Its path without links.
    path: Option<PathBuf>,
    /// Its device and inode, where it exists and the system has such.
    inode: Option<(u64, u64)>,
}

impl Identity {
    pub(super) fn of_path(path: &Path) -> Self {
        match Location::of(path) {
            Ok(Location::Local(_)) => {}
            // However it is spelled.
            Ok(Location::Remote(address)) => {
                return Self {
                    path: Some(address.to_string().into()),
                    inode: None,
                };
            }
            Err(_) => return Self::default(), // refused elsewhere
        }
        match ended(atomic::leads_to(path, is_descriptor)) {
            Ok(LinkTarget::Path(resolved)) => {
                let metadata = fs::metadata(&resolved).ok();
                if metadata.as_ref().is_some_and(|it| !it.is_file()) {
                    return Self::default();
                }
                let folder = fs::canonicalize(parent(&resolved)).ok();
                Self {
                    path: folder
                        .zip(resolved.file_name())
                        .map(|(folder, name)| folder.join(name)),
                    inode: metadata.as_ref().and_then(file_number),
                }
            }
            #[cfg(unix)]
            Ok(LinkTarget::Descriptor(number)) => Self::of_open(handle::duplicate(number).ok()),
            Err(_) => Self::default(),
        }
    }

    /// Of the file that standard input was redirected from.
    pub(super) fn of_stdin() -> Self {
        #[cfg(unix)]
        {
            let file = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned();
            Self::of_open(file.ok().map(fs::File::from))
        }
        #[cfg(not(unix))]
        Self::default()
    }

    /// Of the file that standard output was redirected to.
    pub(super) fn of_stdout() -> Self {
        Self::of_open(handle::stdout().ok())
    }

    fn of_open(file: Option<fs::File>) -> Self {
        let metadata = file.and_then(|file| file.metadata().ok());
        Self {
            path: None,
            inode: metadata
                .filter(fs::Metadata::is_file)
                .as_ref()
                .and_then(file_number),
        }
    }

    /// Whether it lies in a folder that is there.
    pub(super) fn is_inside(&self, folder: &Path) -> bool {
        let folder = folder.canonicalize().ok().filter(|it| it.is_dir());
        let inside = folder.zip(self.path.as_ref());
        inside.is_some_and(|(folder, path)| path.starts_with(folder))
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        (self.path.is_some() && self.path == other.path)
            || (self.inode.is_some() && self.inode == other.inode)
    }
}

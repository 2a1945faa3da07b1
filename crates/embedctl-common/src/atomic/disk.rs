//! Calls to the file system: durable content, durable names, and names that must be free.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;

use super::step;

/// The folder of a path; the current one for a bare name.
#[must_use]
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Waits until a file's content is on the disk.
///
/// # Errors
/// If the system refuses. A file system that knows no such thing is no error.
pub fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        result => result,
    }
}

/// Waits until the names in a folder are on the disk, where a system has such a call.
///
/// # Errors
/// If the system refuses.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    sync(&File::open(folder)?)
}

/// Gives a complete file a free name; `false` if the name is taken. The file may keep its other name, too.
///
/// # Errors
/// If the system refuses.
pub fn give_name(file: &Path, name: &Path) -> io::Result<bool> {
    // Of the portable calls, only a hard link refuses to overwrite.
    match step::hard_link(file, name) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(error),
        // No hard links here (FAT, some network shares): look, then rename.
        Err(_) if fs::symlink_metadata(name).is_ok() => Ok(false),
        Err(_) => step::rename(file, name).map(|()| true),
    }
}

/// Device and number of a file, by which it is known under any of its names; `None` where a system has none.
#[must_use]
pub fn file_number(metadata: &Metadata) -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        Some((metadata.dev(), metadata.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        None
    }
}

/// The number of the file at `path`.
pub(super) fn inode(path: &Path) -> Option<u64> {
    Some(file_number(&fs::symlink_metadata(path).ok()?)?.1)
}

/// Whether `path` still names `file`. Systems without file numbers do not let an open file be replaced.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(one), Ok(two)) => file_number(&one) == file_number(&two),
        _ => false,
    }
}

/// Opens a regular file that is no link, for reading and writing.
pub(super) fn open_plain(path: &Path) -> Option<File> {
    let plain = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    let file = plain.then(|| OpenOptions::new().read(true).write(true).open(path));
    file?.ok().filter(|file| is_at(file, path))
}

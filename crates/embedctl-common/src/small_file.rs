//! Files that are read whole: only regular ones, and only up to a size. A FIFO would block, and a device has no end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;

use crate::error::Cause;
use crate::file_state;

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// If it cannot be read, is not a regular file, or is longer.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let reason = format!("it is longer than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

/// The same for text in UTF-8.
///
/// # Errors
/// As [`read`]; or if the file is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The values of a JSON file. Its parser is compiled here, where it is optimised: the largest files are tokenizers.
///
/// # Errors
/// If the bytes are not JSON.
pub fn json(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes)
}

/// Opens a regular file for reading, without waiting for the other end of a pipe.
///
/// # Errors
/// If it cannot be opened, or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    regular(path, OpenOptions::new().read(true), true)
}

/// Fills `out` from a place in a file. Threads may do so at the same time.
///
/// # Errors
/// If it ends before ([`io::ErrorKind::UnexpectedEof`]), or the system refuses.
#[cfg(unix)]
pub fn read_at(file: &File, out: &mut [u8], start: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, start)
}

/// Fills `out` from a place in a file. Threads may do so at the same time.
///
/// # Errors
/// If it ends before ([`io::ErrorKind::UnexpectedEof`]), or the system refuses.
#[cfg(windows)]
pub fn read_at(file: &File, mut out: &mut [u8], mut start: u64) -> io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, start) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                out = &mut out[read..];
                start += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Opens a regular file as `options` say, without waiting for the other end of a pipe; on Unix a link only where
/// `follows_links`.
///
/// # Errors
/// If it cannot be opened, or is not a regular file.
pub fn regular(path: &Path, options: &mut OpenOptions, follows_links: bool) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        options,
        libc::O_NONBLOCK | if follows_links { 0 } else { libc::O_NOFOLLOW },
    );
    #[cfg(not(unix))]
    let _ = follows_links;
    let file = options.open(path).inspect_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            file_state::note(path, None);
        }
    })?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        file_state::note(path, Some(&metadata));
        Ok(file)
    } else {
        let reason = "it is not a regular file";
        Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
    }
}

/// The bytes of a text file without a byte-order mark, which editors on Windows put before UTF-8.
#[must_use]
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// A pointer of Git LFS is shorter, by its specification.
pub const LFS_POINTER_LIMIT: usize = 1024;

/// Why a file that begins so cannot be read whatever it should be: it is a pointer of Git LFS, as a clone without LFS has
/// in the place of large files.
#[must_use]
pub fn lfs_pointer(start: &[u8]) -> Option<Cause> {
    let is_pointer = start.starts_with(b"version https://git-lfs.github.com/");
    is_pointer.then(|| {
        Cause::of("is a pointer to a file in Git LFS, not the file")
            .with("get the file: `git lfs install && git lfs pull` in the clone, or fetch it again")
    })
}

/// The same for a file that may hold any text: only if all of it, `content`, has the form of a pointer.
#[must_use]
pub fn whole_lfs_pointer(content: &[u8]) -> Option<Cause> {
    let cause = lfs_pointer(content).filter(|_| content.len() < LFS_POINTER_LIMIT)?;
    let text = str::from_utf8(content).ok()?;
    let mut lines = text.lines();
    let is_version = lines.next() == Some("version https://git-lfs.github.com/spec/v1");
    let mut has = |key: &str| lines.next().is_some_and(|line| line.starts_with(key));
    let is_pointer = is_version && has("oid sha256:") && has("size ") && lines.next().is_none();
    is_pointer.then_some(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert_eq!(
            read(&path, 4).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        assert!(read(folder.path(), 5).is_err());
        assert_eq!(
            read(&folder.path().join("gone"), 5).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn text_about_a_pointer_is_not_a_pointer() {
        let pointer =
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n";
        assert!(whole_lfs_pointer(pointer.as_bytes()).is_some());
        for text in [
            format!("{pointer}is a pointer"),
            format!("a pointer:\n{pointer}"),
            pointer.replace("oid sha256", "id"),
            pointer.replace("spec/v1", "spec/v1 is the address"),
            pointer.replace("size", &"x".repeat(1024)),
            "version https://git-lfs.github.com/spec/v1".into(),
        ] {
            assert!(whole_lfs_pointer(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_and_a_device_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a C string that outlives the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        for path in [&path, Path::new("/dev/zero")] {
            assert_eq!(
                read(path, 5).unwrap_err().kind(),
                io::ErrorKind::InvalidInput
            );
        }
    }
}

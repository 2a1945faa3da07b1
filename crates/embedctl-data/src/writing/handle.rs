//! Handles to standard output, open descriptors, and FIFOs that wait for a reader.

use std::fs::File;
use std::io;

/// Another handle to standard output: the standard library's own is line buffered.
pub(super) fn stdout() -> io::Result<File> {
    #[cfg(unix)]
    let handle = std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?;
    #[cfg(windows)]
    let handle = std::os::windows::io::AsHandle::as_handle(&io::stdout()).try_clone_to_owned()?;
    Ok(File::from(handle))
}

#[cfg(unix)]
pub use self::unix::{duplicate, open_fifo};

#[cfg(unix)]
mod unix {
    //! The two calls that the standard library lacks.

    use std::fs::File;
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, RawFd};
    use std::path::Path;

    use embedctl_common::atomic::open_special;

    /// Another handle to an open descriptor, with its position and its mode.
    ///
    /// Opening `/dev/fd/N` instead would start a regular file from its first byte, and fail on a socket.
    pub fn duplicate(number: RawFd) -> io::Result<File> {
        // SAFETY: the call takes two integers and touches no memory; a wrong number is refused.
        let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
        if copy < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was made above and has no other owner.
        Ok(unsafe { File::from_raw_fd(copy) })
    }

    /// Opens a FIFO if it has a reader already; `None` if not yet.
    pub fn open_fifo(path: &Path) -> io::Result<Option<File>> {
        let file = match open_special(path, false) {
            Ok(file) => file,
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Ok(None),
            Err(error) => return Err(error),
        };
        // From here on a write waits for the reader.
        // SAFETY: the call takes integers, and the descriptor is open as long as `file` lives.
        let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
        if flags < 0 {
            return Err(io::Error::last_os_error());
        }
        let waiting = flags & !libc::O_NONBLOCK;
        // SAFETY: as above.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, waiting) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Some(file))
    }
}

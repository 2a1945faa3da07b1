//! Whether there are standard streams. Rust opens `/dev/null` in the place of those that are closed: data written there
//! would be lost without an error (`embedctl embed … -o - >&-`), and nothing would be read for an input (`<&-`).

use std::io;

/// Whether standard output is open.
///
/// # Errors
/// If it was closed when the program began.
pub fn check_output() -> io::Result<()> {
    match platform::is_output_closed() {
        false => Ok(()),
        true => Err(io::Error::other(
            "standard output is closed; redirect it to a file or a pipe",
        )),
    }
}

/// Whether standard input is open.
///
/// # Errors
/// If it was closed when the program began.
pub fn check_input() -> io::Result<()> {
    match platform::is_input_closed() {
        false => Ok(()),
        true => Err(io::Error::other(
            "standard input is closed; redirect it from a file or a pipe, or from /dev/null if there are no records",
        )),
    }
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod platform {
    use std::ffi::c_int;
    use std::sync::atomic::{AtomicBool, Ordering};

    static INPUT_CLOSED: AtomicBool = AtomicBool::new(false);
    static OUTPUT_CLOSED: AtomicBool = AtomicBool::new(false);

    pub fn is_input_closed() -> bool {
        INPUT_CLOSED.load(Ordering::Relaxed)
    }

    pub fn is_output_closed() -> bool {
        OUTPUT_CLOSED.load(Ordering::Relaxed)
    }

    /// Runs before Rust's own start, after which this can no longer be detected.
    // SAFETY: the sections named hold pointers to functions that the loader calls with the C calling
    // convention; `look` is one, and `used` keeps it.
    #[used]
    #[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
    #[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
    static LOOK: extern "C" fn() = look;

    /// A closed stream becomes a file that refuses to be read or written to, whatever name it is used under
    /// (`/dev/stdout`), and its number is not given to the next file that is opened.
    extern "C" fn look() {
        // Standard input first: the lowest number that is free is given to the file that is opened.
        replace(libc::STDIN_FILENO, libc::O_WRONLY, &INPUT_CLOSED);
        replace(libc::STDOUT_FILENO, libc::O_RDONLY, &OUTPUT_CLOSED);
    }

    /// Puts a file in the place of a stream that is closed, and remembers that it was.
    fn replace(stream: c_int, mode: c_int, closed: &AtomicBool) {
        // SAFETY: the calls take integers and a C string, and no other thread runs yet.
        unsafe {
            if libc::fcntl(stream, libc::F_GETFD) != -1 {
                return;
            }
            closed.store(true, Ordering::Relaxed);
            let null = libc::open(c"/dev/null".as_ptr(), mode);
            if null >= 0 && null != stream {
                libc::dup2(null, stream);
                libc::close(null);
            }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod platform {
    pub fn is_input_closed() -> bool {
        false
    }

    pub fn is_output_closed() -> bool {
        false
    }
}

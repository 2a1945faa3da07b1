//! Whether there is a standard output. Rust opens `/dev/null` in the place of standard streams that are
//! closed, so that data written there would be lost without an error (`embedctl embed … -o - >&-`).

use std::io;

pub fn check() -> io::Result<()> {
    if platform::is_closed() {
        return Err(io::Error::other(
            "standard output is closed; redirect it to a file or a pipe",
        ));
    }
    Ok(())
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod platform {
    use std::sync::atomic::{AtomicBool, Ordering};

    static CLOSED: AtomicBool = AtomicBool::new(false);

    pub fn is_closed() -> bool {
        CLOSED.load(Ordering::Relaxed)
    }

    /// Runs before Rust's own start, after which this can no longer be detected.
    // SAFETY: the sections named hold pointers to functions that the loader calls with the C calling
    // convention; `look` is one, and `used` keeps it.
    #[used]
    #[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
    #[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
    static LOOK: extern "C" fn() = look;

    /// Standard output becomes a file that refuses to be written to, whatever name it is written under
    /// (`/dev/stdout`), and its number is not given to the next file that is opened.
    extern "C" fn look() {
        // SAFETY: the calls take integers and a C string, and no other thread runs yet.
        unsafe {
            if libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) != -1 {
                return;
            }
            CLOSED.store(true, Ordering::Relaxed);
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            // Where standard input is closed too, this is its number, and there it may stay.
            if null >= 0 && null != libc::STDOUT_FILENO {
                libc::dup2(null, libc::STDOUT_FILENO);
            }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod platform {
    pub fn is_closed() -> bool {
        false
    }
}

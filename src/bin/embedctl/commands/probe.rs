//! The hidden subcommand behind the choice of library and provider: this program again, as a child that
//! loads one library and says on standard output what it can do. It stands before the real command line,
//! so that no help, completion or manual page knows it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use embedctl::runtime::ProbeCommand;
use embedctl::runtime::probe::{self, ProbeRequest};

/// Its name on the command line.
const NAME: &str = "__probe";

/// How a probe is started. Without a path to this program none is, and libraries are tried in this process.
pub fn command() -> Option<ProbeCommand> {
    let program = std::env::current_exe().ok()?;
    Some(ProbeCommand::new(program, vec![NAME.into()]))
}

/// The arguments of a probe, if this process was started as one.
pub fn arguments() -> Option<Vec<OsString>> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == NAME).then(|| arguments.collect())
}

/// Probes and ends the process.
pub fn run(arguments: &[OsString]) -> ! {
    let code = match answer(arguments) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            2
        }
    };
    // Without exit handlers: those of some libraries crash or hang.
    signal_hook::low_level::exit(code)
}

fn answer(arguments: &[OsString]) -> io::Result<()> {
    let request = ProbeRequest::parse(arguments)?;
    leave_no_core_file();
    end_with_parent()?;
    let mut output = take_standard_output()?;
    probe::serve(&request, &mut output)
}

/// Ends this process when its parent is gone, however that went: the parent holds the other end of standard
/// input open and never writes.
fn end_with_parent() -> io::Result<()> {
    let mut input = standard_input()?;
    let watching = Arc::new(AtomicBool::new(false));
    let is_watching = Arc::clone(&watching);
    thread::Builder::new().spawn(move || {
        is_watching.store(true, Ordering::Release);
        let mut nothing = [0; 64];
        while let Ok(1..) = input.read(&mut nothing) {}
        signal_hook::low_level::exit(1);
    })?;
    // A library that hangs while it is loaded holds the loader's lock, which a thread that is only starting
    // needs. This one has to be past that.
    while !watching.load(Ordering::Acquire) {
        thread::yield_now();
    }
    Ok(())
}

#[cfg(unix)]
fn standard_input() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

#[cfg(windows)]
fn standard_input() -> io::Result<File> {
    use std::os::windows::io::AsHandle;
    Ok(File::from(io::stdin().as_handle().try_clone_to_owned()?))
}

/// Standard output for our lines only; output of libraries goes to standard error.
#[cfg(unix)]
fn take_standard_output() -> io::Result<File> {
    use std::os::fd::AsFd;
    let own = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    // SAFETY: both are open, and no other thread exists yet: this is the first thing that the process does.
    if unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(own)
}

/// Libraries write to the same place here; the parent knows our lines by their mark.
#[cfg(windows)]
fn take_standard_output() -> io::Result<File> {
    use std::os::windows::io::AsHandle;
    Ok(File::from(io::stdout().as_handle().try_clone_to_owned()?))
}

/// A crash is a finding here, not something to be debugged.
fn leave_no_core_file() {
    #[cfg(unix)]
    {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the call reads the struct and nothing else. Failing, it leaves things as they were.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    }
}

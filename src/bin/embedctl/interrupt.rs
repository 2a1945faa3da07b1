//! Signals that would end the program. The first stops the run cleanly, the second at once.

use std::io;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use embedctl::Error;
use embedctl::cancel::CancelToken;
use embedctl::output::RunFiles;

use crate::exit::ExitCode;

/// Variable with the seconds that an interrupted run may take to publish its current part and clean up [default:
/// 4].
const LAST_SECONDS: &str = "EMBEDCTL_LAST_SECONDS";

/// The additional time before the process is ended. A write to a pipe without a reader cannot be cancelled, and the
/// running batches are lost anyway.
const LONGER: Duration = Duration::from_secs(1);

/// Watches for signals from now on, for a run with these files; a signal cancels the token.
pub fn watch(files: RunFiles) -> anyhow::Result<CancelToken> {
    watch_for(files, CancelToken::new())
}

/// As [`watch`], with a token whose time for the end of the run holds unless the environment says another one.
pub fn watch_for(files: RunFiles, usual: CancelToken) -> anyhow::Result<CancelToken> {
    let cancel = match std::env::var_os(LAST_SECONDS) {
        None => usual,
        Some(given) => {
            let seconds = given.to_str().and_then(|given| given.parse().ok());
            let seconds = seconds.filter(|seconds| (1..=3600).contains(seconds));
            let refused = || {
                Error::usage(format!("{LAST_SECONDS}={}", given.display()))
                    .with_remedy("give a number of seconds from 1 to 3600, or leave it out")
            };
            CancelToken::with_patience(Duration::from_secs(seconds.ok_or_else(refused)?))
        }
    };
    wait(cancel.clone(), files).context("cannot watch for signals")?;
    Ok(cancel)
}

fn wait(cancel: CancelToken, files: RunFiles) -> io::Result<()> {
    let mut signals = platform::Signals::new()?;
    let leave = move || {
        files.remove();
        ExitCode::Interrupted.leave_at_once();
    };
    spawn(move || {
        signals.wait();
        cancel.cancel();
        // Without a thread for it, there is still the second signal.
        let (patient, patience) = (leave.clone(), cancel.patience() + LONGER);
        let _ = spawn(move || {
            thread::sleep(patience);
            patient();
        });
        signals.wait();
        leave();
    })
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(work).map(drop)
}

#[cfg(unix)]
mod platform {
    use std::io;

    use libc::{
        SIGALRM, SIGHUP, SIGINT, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
        SIGXFSZ,
    };

    /// Signals that end a program by default, except those of its own faults.
    const ENDING: &[i32] = &[
        SIGHUP,
        SIGQUIT,
        SIGUSR1,
        SIGUSR2,
        SIGALRM,
        SIGVTALRM,
        SIGPROF,
        SIGXCPU,
        #[cfg(target_os = "linux")]
        libc::SIGIO,
        #[cfg(target_os = "linux")]
        libc::SIGPWR,
        #[cfg(all(
            target_os = "linux",
            any(target_arch = "x86_64", target_arch = "aarch64")
        ))]
        libc::SIGSTKFLT,
    ];

    /// Signals as they come in.
    pub struct Signals(signal_hook::iterator::Signals);

    impl Signals {
        pub fn new() -> io::Result<Self> {
            // So that a write beyond `ulimit -f` fails, with a message, and does not end the program.
            // SAFETY: no handler is installed, and nothing else in this process wants that signal.
            unsafe { libc::signal(SIGXFSZ, libc::SIG_IGN) };
            let mut asked = vec![SIGINT, SIGTERM];
            // `nohup` starts us with SIGHUP ignored, and means it; so do others with other signals.
            asked.extend(ENDING.iter().filter(|&&signal| !is_ignored(signal)));
            signal_hook::iterator::Signals::new(asked).map(Self)
        }

        /// Returns when the next signal comes.
        pub fn wait(&mut self) {
            self.0.forever().next();
        }
    }

    fn is_ignored(signal: i32) -> bool {
        // SAFETY: `sigaction` is a plain C struct for which all zeros is a value; with a null new action
        // the call changes nothing and only fills in `current`.
        let current = unsafe {
            let mut current: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut current) != 0 {
                return false;
            }
            current
        };
        current.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(windows)]
mod platform {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use signal_hook::consts::{SIGINT, SIGTERM};

    /// Signals as they come in. Windows offers no way to wait for one, only handlers that may do next to
    /// nothing: they raise a flag, and the flag is looked at.
    pub struct Signals(Arc<AtomicBool>);

    impl Signals {
        pub fn new() -> io::Result<Self> {
            let flag = Arc::new(AtomicBool::new(false));
            for signal in [SIGINT, SIGTERM] {
                signal_hook::flag::register(signal, Arc::clone(&flag))?;
            }
            Ok(Self(flag))
        }

        /// Returns when the next signal comes.
        pub fn wait(&mut self) {
            while !self.0.swap(false, Ordering::AcqRel) {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

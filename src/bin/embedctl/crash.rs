//! The message of a run that crashes in a native library: the place of the crash, and a remedy.
//!
//! Nothing is saved or continued here: the process still ends by the signal.

use embedctl::engine::EngineInfo;
use embedctl::job::Job;

use crate::printer::{Hooks, Printer, engine_label};

/// Prepares the message of a crash while the model is opened and during the run, which may be a job.
pub fn explain(printer: &Printer, job: Option<&Job>) -> Hooks {
    let output = match job.map(Job::is_single) {
        None => "The output file was not written. ",
        Some(false) => "Published parts of the output are kept; --resume continues after them. ",
        Some(true) => {
            "The output file was not written; finished parts are kept beside it, and --resume continues after them. "
        }
    };
    watch(printer, "while the model was being opened", output);
    Hooks {
        started: explain_run,
        published: explain_published,
        output,
    }
}

fn explain_run(printer: &Printer, engine: &EngineInfo, output: &'static str) {
    let place = format!("while {} ran the model", engine_label(engine));
    watch(printer, &place, output);
}

fn explain_published(printer: &Printer) {
    let place = "after the output was written";
    watch(printer, place, "The output is complete. ");
}

fn watch(printer: &Printer, place: &str, output: &str) {
    const FILE: &str = "The cause is a file that was being decoded, of the input, the model or an earlier output: check \
                        where it comes from, and please report this as a bug";
    let crashed = |signal: &str, decodes: bool| {
        let (place, cause) = match decodes {
            true => ("while a file was being decoded", FILE),
            false => (
                place,
                "The cause is usually a native library: try another version of it, or another provider (--provider \
                 cpu, --provider rten)",
            ),
        };
        printer.crash_line(&format!(
            "the process crashed ({signal}) {place}. {output}{cause}"
        ))
    };
    let without_memory = |decodes: bool| {
        let (place, cause) = match decodes {
            true => (
                "while a file was being decoded",
                "The file may claim more than it holds: check where it comes from. To use less memory, lower --window or \
                 --max-record-bytes; or raise the limit (ulimit -v, the container's limit)",
            ),
            false => (
                place,
                "To use less memory, lower --window, --batch-tokens, --threads or --max-record-bytes; or raise the limit \
                 (ulimit -v, the container's limit)",
            ),
        };
        printer.crash_line(&format!("memory ran out {place}. {output}{cause}"))
    };
    platform::say(crashed, without_memory);
}

#[cfg(unix)]
mod platform {
    use std::mem::zeroed;
    use std::ptr;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicPtr, Ordering};

    use crate::memory;
    use embedctl_common::threads::is_decoding;

    /// Signals of a crash, with their names.
    const SIGNALS: [(libc::c_int, &str); 5] = [
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGABRT, "SIGABRT"),
    ];

    /// The messages. Earlier messages are never freed: a handler may be reading them.
    static WORDS: AtomicPtr<Words> = AtomicPtr::new(ptr::null_mut());

    struct Words {
        /// Of a crash, in the order of [`SIGNALS`]; and of one while a file was decoded.
        crashed: Vec<[String; 2]>,
        without_memory: [String; 2],
    }

    /// Who handled the signals before, in the order of [`SIGNALS`].
    static BEFORE: OnceLock<Vec<libc::sigaction>> = OnceLock::new();

    /// Says `crashed` (given a signal's name, and whether a file is decoded) if one of the signals comes from now on, or
    /// `without_memory` where memory
    /// had run out.
    pub fn say(crashed: impl Fn(&str, bool) -> String, without_memory: impl Fn(bool) -> String) {
        let both = |name| [false, true].map(|decodes| crashed(name, decodes));
        let words = Words {
            crashed: SIGNALS.iter().map(|(_, name)| both(name)).collect(),
            without_memory: [false, true].map(without_memory),
        };
        WORDS.store(Box::into_raw(Box::new(words)), Ordering::Release);
        BEFORE.get_or_init(install);
    }

    fn install() -> Vec<libc::sigaction> {
        SIGNALS
            .iter()
            .map(|&(signal, _)| {
                // SAFETY: `sigaction` is a plain C struct for which all zeros is a value; both pointers are
                // to structs that outlive the call; the handler does only what a signal handler may.
                unsafe {
                    let mut before: libc::sigaction = zeroed();
                    let mut ours: libc::sigaction = zeroed();
                    ours.sa_sigaction = handle as *const () as libc::sighandler_t;
                    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                    libc::sigaction(signal, &raw const ours, &raw mut before);
                    before
                }
            })
            .collect()
    }

    /// Writes the message and restores the earlier handler, which gets the signal when its cause occurs again.
    extern "C" fn handle(
        signal: libc::c_int,
        info: *mut libc::siginfo_t,
        _context: *mut libc::c_void,
    ) {
        let Some(index) = SIGNALS.iter().position(|&(number, _)| number == signal) else {
            return;
        };
        // SAFETY: what `WORDS` points to is never freed or changed; `write`, `sigaction` and `raise` may be
        // called in a handler; `info` is the system's.
        unsafe {
            let words = WORDS.load(Ordering::Acquire).as_ref();
            let lines = words.and_then(|words| {
                if signal == libc::SIGABRT && memory::ran_out() {
                    return Some(&words.without_memory);
                }
                words.crashed.get(index)
            });
            if let Some(line) = lines.map(|lines| &lines[usize::from(is_decoding())]) {
                libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
            }
            // A signal sent by a process does not repeat by itself, and the earlier handler may ignore it.
            let sent = info.as_ref().is_none_or(|info| info.si_code <= 0);
            match BEFORE.get().and_then(|before| before.get(index)) {
                Some(before) if !sent => libc::sigaction(signal, before, ptr::null_mut()),
                _ => {
                    let default: libc::sigaction = zeroed();
                    libc::sigaction(signal, &raw const default, ptr::null_mut())
                }
            };
            if sent {
                libc::raise(signal);
            }
        }
    }
}

#[cfg(not(unix))]
mod platform {
    /// Windows shows crashes by itself.
    pub fn say(_: impl Fn(&str, bool) -> String, _: impl Fn(bool) -> String) {}
}

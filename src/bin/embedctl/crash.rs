//! The message of a run that crashes in a native library: the place of the crash, and a remedy.
//!
//! Nothing is saved or continued here: the process still ends by the signal.

use embedctl::engine::EngineInfo;
use embedctl::job::Job;

#[cfg(unix)]
use crate::printer;
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

/// The time of a line of the log, `seconds` and some milliseconds after the beginning of 1970. Allocates nothing.
#[cfg(unix)]
fn time_of_crash(seconds: u64, millis: i64) -> [u8; printer::NO_TIME.len()] {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, in eras of 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let mut time = [0; printer::NO_TIME.len()];
    time.copy_from_slice(printer::NO_TIME.as_bytes());
    for (mut value, start, digits) in [
        (year, 0, 4),
        (month, 5, 2),
        (day, 8, 2),
        (second / 3_600, 11, 2),
        (second / 60 % 60, 14, 2),
        (second % 60, 17, 2),
        (millis.unsigned_abs(), 20, 3),
    ] {
        for place in (start..start + digits).rev() {
            time[place] = b'0' + (value % 10) as u8;
            value /= 10;
        }
    }
    time
}

#[cfg(all(test, unix))]
mod tests {
    use chrono::{DateTime, SecondsFormat, Utc};

    #[test]
    fn the_time_of_a_crash_is_that_of_other_lines() {
        let leaps = [0, 951_782_399, 951_782_400, 4_107_542_400, 68_256_000];
        let spread = (0..4_000).map(|step| step * 2_345_679);
        for seconds in leaps.into_iter().chain(spread) {
            let time = super::time_of_crash(seconds, 7);
            let expected =
                DateTime::<Utc>::from_timestamp(seconds.cast_signed(), 7_000_000).unwrap();
            let expected = expected.to_rfc3339_opts(SecondsFormat::Millis, true);
            assert_eq!(std::str::from_utf8(&time).unwrap(), expected);
        }
    }
}

#[cfg(unix)]
mod platform {
    use std::mem::zeroed;
    use std::ptr;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicPtr, Ordering};

    use super::time_of_crash;
    use crate::printer::NO_TIME;
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
        crashed: Vec<[CrashLine; 2]>,
        without_memory: [CrashLine; 2],
    }

    /// A line of the log.
    struct CrashLine {
        text: String,
        /// Where its time belongs, if it has one.
        time: Option<usize>,
    }

    impl CrashLine {
        fn new(text: String) -> Self {
            Self {
                time: text.find(NO_TIME),
                text,
            }
        }

        /// Writes it to standard error, with the time. Allocates nothing, and takes little of a handler's small stack.
        fn write(&self) {
            // SAFETY: `clock_gettime` and `writev` are calls of the system alone, as a handler may make them; all pointers
            // are to values that outlive the calls.
            unsafe {
                let mut now: libc::timespec = zeroed();
                libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now);
                let time = time_of_crash(now.tv_sec.unsigned_abs(), now.tv_nsec / 1_000_000);
                let (before, after) = match self.time {
                    Some(at) => self.text.split_at(at),
                    None => ("", &*self.text),
                };
                let (time, after) = match self.time {
                    Some(_) => (&time[..], &after[time.len()..]),
                    None => (&[][..], after),
                };
                // At once, so that other lines stay apart.
                let parts = [before.as_bytes(), time, after.as_bytes()].map(|part| libc::iovec {
                    iov_base: part.as_ptr().cast_mut().cast(),
                    iov_len: part.len(),
                });
                libc::writev(libc::STDERR_FILENO, parts.as_ptr(), 3);
            }
        }
    }

    /// Who handled the signals before, in the order of [`SIGNALS`].
    static BEFORE: OnceLock<Vec<libc::sigaction>> = OnceLock::new();

    /// Says `crashed` (given a signal's name, and whether a file is decoded) if one of the signals comes from now on, or
    /// `without_memory` where memory
    /// had run out.
    pub fn say(crashed: impl Fn(&str, bool) -> String, without_memory: impl Fn(bool) -> String) {
        let both = |name| [false, true].map(|decodes| CrashLine::new(crashed(name, decodes)));
        let words = Words {
            crashed: SIGNALS.iter().map(|(_, name)| both(name)).collect(),
            without_memory: [false, true].map(|decodes| CrashLine::new(without_memory(decodes))),
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
                if signal == libc::SIGABRT && embedctl_allocator::ran_out() {
                    return Some(&words.without_memory);
                }
                words.crashed.get(index)
            });
            if let Some(line) = lines.map(|lines| &lines[usize::from(is_decoding())]) {
                line.write();
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

//! Threads: how many this process may use, panics as errors, and work with a time limit.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Scope, ScopedJoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, after, bounded, select};

use crate::error::{Error, ErrorKind, Result};
use crate::setting::THREADS;

/// Cores that this process may use, by affinity, control groups and `OMP_NUM_THREADS`. Systems that start many
/// processes in parallel (Spark, job arrays) set that variable to each one's share.
#[must_use]
pub fn usable_cores() -> usize {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    share(cores, std::env::var("OMP_NUM_THREADS").ok().as_deref())
}

/// The share of `cores` by that variable: its first number, which is for the outermost level.
fn share(cores: usize, variable: Option<&str>) -> usize {
    let first = variable.and_then(|numbers| numbers.split(',').next()?.trim().parse().ok());
    first
        .filter(|&share| share > 0)
        .map_or(cores, |share: usize| share.min(cores))
}

/// Checks that a number of threads is plausible: one of another order is a mistake, and so many threads would disturb
/// other programs.
///
/// # Errors
/// If there are far more than the cores could run.
pub fn check(threads: usize) -> Result<()> {
    let cores = usable_cores();
    let most = (16 * cores).max(256);
    if threads <= most {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{THREADS} {threads}: this process may use {cores} core{}, and more than {most} threads are of no use",
        if cores == 1 { "" } else { "s" }
    ))
    .with_remedy("leave the option out for the usual number")
    .of_option(THREADS))
}

/// The error for a thread that the system refuses.
pub fn exhausted(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let reason = "the system gives this process no more threads";
    Error::new(ErrorKind::Exhausted, "", reason)
        .with_remedy(format!(
            "lower {THREADS}, or raise the limits of processes and memory (ulimit -u, ulimit -v, a container's)"
        ))
        .caused_by(error)
}

/// Locks `mutex`, also after a thread has panicked with it: for values that are never left half changed.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a named thread.
///
/// # Errors
/// If the system has no more threads.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    try_spawn(name, work).map_err(exhausted)
}

/// As [`spawn`], with the system's own error.
///
/// # Errors
/// As there.
pub fn try_spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(work)
}

/// Starts a named thread of a scope.
///
/// # Errors
/// If the system has no more threads; [`thread::Scope::spawn`] panics then.
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn_scoped(scope, work)
        .map_err(exhausted)
}

/// The message of a panic.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    format!("a worker panicked: {}", panic_words(panic))
}

fn panic_words(panic: &(dyn std::any::Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned());
    said.unwrap_or_else(|| "without a message".into())
}

thread_local! {
    /// Whether this thread runs a decoder on a file from outside. Needs no initialization or drop, so a signal handler may
    /// read it.
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a decoder on a file from outside ([`caught`], [`within`]); for the message of a crash.
#[must_use]
pub fn is_decoding() -> bool {
    DECODING.get()
}

/// Runs a decoder, and remembers meanwhile that it does.
fn decoding<T>(decode: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            DECODING.set(self.0);
        }
    }
    let _before = Before(DECODING.replace(true));
    decode()
}

/// Runs another library's code on data from outside. Some libraries panic over some data: that is the data's fault, and
/// no bug to be reported.
///
/// # Errors
/// The panic's message.
pub fn foreign<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let done = catch_unwind(AssertUnwindSafe(|| decoding(work)));
    done.map_err(|panic| format!("a library panicked: {}", panic_words(&*panic)))
}

/// Runs `decode` on a file from outside. Libraries panic over some damage: that becomes an error about the file.
///
/// # Errors
/// The panic's message.
pub fn caught<T>(decode: impl FnOnce() -> T) -> io::Result<T> {
    let decoded = catch_unwind(AssertUnwindSafe(|| decoding(decode)));
    let given_up = |words: String| format!("its decoder gave up: {words}");
    decoded
        .map_err(|panic| io::Error::new(io::ErrorKind::InvalidData, given_up(panic_words(&*panic))))
}

/// Runs `work`; a panic becomes the error that `fault` makes of its message.
///
/// # Errors
/// The errors of `work`, or the panic's.
pub fn guarded<T, E>(
    work: impl FnOnce() -> Result<T, E>,
    fault: impl FnOnce(String) -> E,
) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(fault(panic_message(&*panic))))
}

/// Runs `work`, whose time depends on a file from outside, for `limit` at most, or until `stop` is ready (a cancelled
/// token's channel). Work that does not end keeps its thread until the process ends.
///
/// # Errors
/// The errors of `work`, its panic's message, an interruption, or a timeout.
pub fn within<T: Send + 'static, E: From<String> + Send + 'static>(
    limit: Duration,
    stop: &Receiver<()>,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    let result = Arc::new(Mutex::new(None));
    let made = Arc::clone(&result);
    ended_within(limit, stop, move || {
        *locked(&made) = Some(guarded(|| decoding(work), E::from));
    })?;
    let result = locked(&result).take();
    result.unwrap_or_else(|| Err("its thread has ended".to_owned().into()))
}

/// Waits for the end of `work`. Apart from its result, which would bring a channel of its own for each type.
fn ended_within(
    limit: Duration,
    stop: &Receiver<()>,
    work: impl FnOnce() + Send + 'static,
) -> Result<(), String> {
    let (sender, receiver) = bounded::<()>(1);
    let spawned = try_spawn("limited", move || {
        work();
        drop(sender);
    });
    spawned.map_err(|error| format!("no thread could be started: {error}"))?;
    ended(limit, stop, &receiver)
}

/// Waits until the other end of a channel is gone.
fn ended(limit: Duration, stop: &Receiver<()>, work: &Receiver<()>) -> Result<(), String> {
    select! {
        recv(work) -> _ => Ok(()),
        recv(stop) -> _ => Err("it was interrupted".to_owned()),
        recv(after(limit)) -> _ => Err(format!("it did not finish within {} s", limit.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelToken;

    #[test]
    fn what_panics_or_does_not_end_is_an_error() {
        let (long, cancel) = (Duration::from_secs(60), CancelToken::new());
        assert_eq!(within(long, cancel.channel(), || Ok::<_, String>(7)), Ok(7));
        let panicked =
            within::<(), String>(long, cancel.channel(), || panic!("row {}", 7)).unwrap_err();
        assert!(panicked.contains("row 7"), "{panicked}");
        let (_open, never) = bounded::<()>(0);
        let endless = || {
            let never = never.clone();
            move || never.recv().map_err(|error| error.to_string())
        };
        let late = within(Duration::ZERO, cancel.channel(), endless()).unwrap_err();
        assert_eq!(late, "it did not finish within 0 s");
        let told = within(long, cancel.channel(), || Ok::<_, String>(is_decoding()));
        assert_eq!((told, is_decoding()), (Ok(true), false));
        assert!(caught(is_decoding).unwrap() && caught(|| panic!("odd")).is_err());
        assert!(!is_decoding());
        cancel.cancel();
        let stopped = within(long, cancel.channel(), endless()).unwrap_err();
        assert_eq!(stopped, "it was interrupted");
    }

    #[test]
    fn a_share_of_the_cores_is_kept_to() {
        for (variable, cores) in [
            (None, 8),
            (Some("2"), 2),
            (Some(" 3,2"), 3),
            (Some("64"), 8),
            (Some("0"), 8),
            (Some("many"), 8),
            (Some(""), 8),
        ] {
            assert_eq!(share(8, variable), cores, "{variable:?}");
        }
    }

    #[test]
    fn a_number_of_threads_of_another_order_is_refused() {
        assert!(check(1).is_ok() && check(256).is_ok() && check(16 * usable_cores()).is_ok());
        let error = check(100_000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("threads 100000"), "{error}");
    }

    #[test]
    fn a_thread_that_is_not_given_is_called_that() {
        // No system has an address space for such a stack.
        let refused = thread::Builder::new()
            .stack_size(usize::MAX / 4)
            .spawn(|| ());
        let error = exhausted(refused.unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        let words = error.to_string();
        assert!(
            words.contains("no more threads") && !words.contains("bug"),
            "{words}"
        );
        assert!(std::error::Error::source(&error).is_some());
    }
}

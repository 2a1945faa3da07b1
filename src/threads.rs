//! Threads: how many this process may use, what one said when it panicked, and work that may not end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Cores that this process may use: affinity and control groups counted in.
#[must_use]
pub fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!(
        "a worker panicked: {}",
        said.unwrap_or_else(|| "without a message".into())
    )
}

/// Runs `work`, which somebody else's file drives, for `limit` at most. What does not end is left to its
/// thread, which ends with the process.
///
/// # Errors
/// Its own, what its panic said, or that it took too long.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (sender, receiver) = sync_channel(1);
    let spawned = std::thread::Builder::new()
        .name("limited".to_owned())
        .spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            // Nobody may be waiting any more.
            let _ = sender.send(result.unwrap_or_else(|panic| Err(panic_message(&*panic))));
        });
    spawned.map_err(|error| format!("no thread could be started: {error}"))?;
    receiver.recv_timeout(limit).unwrap_or_else(|_| {
        Err(format!(
            "it has not come to an end after {} s",
            limit.as_secs()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_panics_or_does_not_end_is_an_error() {
        let long = Duration::from_secs(60);
        assert_eq!(within(long, || Ok(7)), Ok(7));
        let panicked = within::<()>(long, || panic!("row {}", 7)).unwrap_err();
        assert!(panicked.contains("row 7"), "{panicked}");
        let (_open, never) = sync_channel::<()>(0);
        let late = within(Duration::ZERO, move || {
            never.recv().map_err(|it| it.to_string())
        });
        assert_eq!(late.unwrap_err(), "it has not come to an end after 0 s");
    }
}

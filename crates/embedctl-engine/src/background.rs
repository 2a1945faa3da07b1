//! Work on a thread of its own, whose result is awaited together with cancellation.

use crossbeam_channel::{Receiver, bounded, select};

use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::threads::{guarded, spawn};

/// The error for a thread that ended without a result.
#[must_use]
pub fn ended(what: &str) -> Error {
    Error::internal(format!("the {what} thread ended early"))
}

/// Runs `work` on a thread of its own; its result, or its panic as an error, comes through the channel.
///
/// # Errors
/// If there can be no other thread.
pub fn in_background<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<Receiver<Result<T>>> {
    let (sender, receiver) = bounded(1);
    spawn(name, move || {
        // After an error the receiver may be gone; the result is dropped then.
        let _ = sender.send(guarded(work, Error::internal));
    })?;
    Ok(receiver)
}

/// Waits for a result of [`in_background`], or for cancellation.
///
/// # Errors
/// That of the work; or if `cancel` is cancelled first.
pub fn wait<T>(cancel: &CancelToken, result: &Receiver<Result<T>>) -> Result<T> {
    select! {
        recv(result) -> message => message.map_err(|_| ended("background"))?,
        recv(cancel.channel()) -> _ => Err(Error::interrupted()),
    }
}

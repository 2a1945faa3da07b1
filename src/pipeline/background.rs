//! Threads whose results are waited for, and what can go wrong with them.

use crossbeam_channel::{Receiver, bounded, select};

use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::threads::{guarded, spawn};

/// A thread that ended without saying why.
pub(super) fn ended(what: &str) -> Error {
    Error::internal(format!("the {what} thread ended early"))
}

/// Runs `work` on a thread of its own; its result, or its panic as an error, comes through the channel.
pub(super) fn in_background<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<Receiver<Result<T>>> {
    let (sender, receiver) = bounded(1);
    spawn(name, move || {
        // The other side may be gone after an error; there is nobody to tell then.
        let _ = sender.send(guarded(work, Error::internal));
    })?;
    Ok(receiver)
}

/// Waits for a result or for cancellation.
pub(super) fn wait<T>(cancel: &CancelToken, result: &Receiver<Result<T>>) -> Result<T> {
    select! {
        recv(result) -> message => message.map_err(|_| ended("background"))?,
        recv(cancel.channel()) -> _ => Err(Error::interrupted()),
    }
}

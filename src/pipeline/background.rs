//! Threads whose results are waited for, and what can go wrong with them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, bounded, select};

use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::threads::{exhausted, panic_message};

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
        let result = catch_unwind(AssertUnwindSafe(work));
        // The other side may be gone after an error; there is nobody to tell then.
        let _ = sender
            .send(result.unwrap_or_else(|panic| Err(Error::internal(panic_message(&*panic)))));
    })?;
    Ok(receiver)
}

/// Runs `work` on a thread of its own.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_string())
        .spawn(work)
        .map_err(exhausted)
}

/// Waits for a result or for cancellation.
pub(super) fn wait<T>(cancel: &CancelToken, result: &Receiver<Result<T>>) -> Result<T> {
    select! {
        recv(result) -> message => message.map_err(|_| ended("background"))?,
        recv(cancel.channel()) -> _ => Err(Error::interrupted()),
    }
}

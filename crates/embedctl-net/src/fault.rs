//! Why a request came to nothing, and whether another may do better.

use std::io;
use std::time::Duration;

use embedctl_common::error::Error;

/// Why a request came to nothing.
#[derive(Debug)]
pub enum RequestFault {
    /// May work the next time.
    Transient {
        /// For messages, without a stop.
        reason: String,
        /// How long the server wants us to wait.
        after: Option<Duration>,
    },
    /// Will not.
    Final(Error),
}

impl From<Error> for RequestFault {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// Whether an error while a body is read may pass.
#[must_use]
pub fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, Interrupted, NotConnected, TimedOut,
        UnexpectedEof, WouldBlock,
    };
    match error.kind() {
        ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof | TimedOut
        | NotConnected | WouldBlock | Interrupted => true,
        // ureq wraps its own errors (a timeout, a body that ends early).
        _ => error
            .get_ref()
            .is_some_and(|inner| inner.downcast_ref::<ureq::Error>().is_some()),
    }
}

//! Cancelling a run from outside: a flag for loops, a channel for waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::threads::locked;

/// The default time that a cancelled run may take to finish its last batches, publish its rows and clean up.
const PATIENCE: Duration = Duration::from_secs(4);

/// Asks a run to stop. Clones share one state.
#[derive(Debug, Clone)]
pub struct CancelToken {
    state: Arc<CancelState>,
    cancelled: Receiver<()>,
}

#[derive(Debug)]
struct CancelState {
    flag: AtomicBool,
    patience: Duration,
    // Dropped by the first `cancel`, which wakes every receiver.
    sender: Mutex<Option<Sender<()>>>,
}

impl Default for CancelToken {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token with the time that a cancelled run may take to finish its last batches, publish its rows and clean up;
    /// the default is four seconds.
    #[must_use]
    pub fn with_patience(patience: Duration) -> Self {
        let (sender, cancelled) = bounded(0);
        let state = CancelState {
            flag: AtomicBool::new(false),
            patience,
            sender: Mutex::new(Some(sender)),
        };
        Self {
            state: Arc::new(state),
            cancelled,
        }
    }

    /// The time that the run may still take once it was cancelled.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.state.patience
    }

    /// Asks the run to stop at the next batch. Further calls do nothing.
    pub fn cancel(&self) {
        self.state.flag.store(true, Ordering::Release);
        locked(&self.state.sender).take();
    }

    /// Whether the run was asked to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state.flag.load(Ordering::Acquire)
    }

    /// A channel that becomes ready (disconnected) when the run is asked to stop; for `select!`.
    #[must_use]
    pub fn channel(&self) -> &Receiver<()> {
        &self.cancelled
    }
}

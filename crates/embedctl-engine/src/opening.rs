//! An engine that is being opened on a thread of its own: that can take long and must not hold up a signal.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;

use embedctl_common::cancel::CancelToken;
use embedctl_common::error::Result;
use embedctl_model::Model;

use crate::background::{in_background, wait};
use crate::{Engine, Resolved, padding};

/// Dropping it early cancels the opening and waits a moment: the process may be about to exit, which tears a native
/// library down under a thread that is still inside.
pub(super) struct Opening {
    engine: Receiver<Result<Box<dyn Engine>>>,
    /// `None` once the engine is open: it goes on to open a session for each worker.
    stop: Option<CancelToken>,
}

impl Opening {
    const GRACE: Duration = Duration::from_secs(2);

    /// Begins to open the engine of `model`.
    pub(super) fn begin(model: &Arc<Model>, resolved: &Resolved) -> Result<Self> {
        let (model, resolved) = (Arc::clone(model), resolved.clone());
        let stop = CancelToken::new();
        let cancel = stop.clone();
        Ok(Self {
            engine: in_background("engine", move || padding::open(&model, &resolved, &cancel))?,
            stop: Some(stop),
        })
    }

    /// Waits for the engine, or for cancellation.
    pub(super) fn wait(mut self, cancel: &CancelToken) -> Result<Box<dyn Engine>> {
        let engine = wait(cancel, &self.engine)?;
        self.stop = None;
        Ok(engine)
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.cancel();
            let _ = self.engine.recv_timeout(Self::GRACE);
        }
    }
}

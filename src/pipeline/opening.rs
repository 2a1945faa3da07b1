//! The engine, while it is opened.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

use super::background::in_background;
use crate::cancel::CancelToken;
use crate::engine::{Engine, EngineOptions};
use crate::error::Result;
use crate::model::Model;

/// The engine, being opened on a thread of its own: that can take long and must not hold up a signal.
///
/// Dropped before it is open, it asks the opening to stop and waits a moment: the process may be about to
/// exit, which tears a native library down under a thread that is still inside.
pub(super) struct Opening {
    pub(super) engine: Receiver<Result<Box<dyn Engine>>>,
    stop: CancelToken,
    /// What it is opened with; `None` for one that is open, whose precision was measured then.
    pub(super) options: Option<EngineOptions>,
}

impl Opening {
    const GRACE: Duration = Duration::from_secs(2);

    /// An engine that is open.
    pub(super) fn done(engine: Box<dyn Engine>) -> Self {
        let (sender, receiver) = bounded(1);
        // There is room for one, and the other end is held.
        let _ = sender.send(Ok(engine));
        Self {
            engine: receiver,
            stop: CancelToken::new(),
            options: None,
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.stop.cancel();
        let _ = self.engine.recv_timeout(Self::GRACE);
    }
}

pub(super) fn open_engine(
    model: &Arc<Model>,
    engine: EngineOptions,
    threads: usize,
) -> Result<Opening> {
    let model = Arc::clone(model);
    let stop = CancelToken::new();
    let options = EngineOptions {
        workers: threads,
        cancel: stop.clone(),
        ..engine
    };
    let kept = options.clone();
    let engine = in_background("engine", move || {
        crate::engine::padding::open(&model, &options)
    })?;
    Ok(Opening {
        engine,
        stop,
        options: Some(kept),
    })
}

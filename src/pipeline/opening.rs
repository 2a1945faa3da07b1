//! Threads whose results are waited for, the engine that is opened on one, and how its precision is measured.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, select};

use crate::batch::{self, TokenRows};
use crate::cancel::CancelToken;
use crate::embedder;
use crate::engine::{Cosine, Engine, EngineOptions};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::pool::Pooler;
use crate::threads::{guarded, locked, spawn};

/// The error for a thread that ended without a result.
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
        // After an error the receiver may be gone; the result is dropped then.
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

/// The engine, being opened on a thread of its own: that can take long and must not hold up a signal.
///
/// Dropping it early cancels the opening and waits a moment: the process may be about to
/// exit, which tears a native library down under a thread that is still inside.
pub(super) struct Opening {
    pub(super) engine: Receiver<Result<Box<dyn Engine>>>,
    stop: CancelToken,
    /// The options to open it with; `None` if it is already open and its precision was measured.
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

/// The cosine of reduced precision to single precision, where there is one; that of later windows joins it.
pub(super) type Joined = Arc<Mutex<Option<Cosine>>>;

/// Sees a window's tokens before they run; an error ends the run.
pub(super) type WindowHook = Box<dyn FnMut(&TokenRows) -> Result<()> + Send>;

/// Rows of the first window by which reduced precision is measured.
const SAMPLE_ROWS: usize = 64;

/// Upper limit on their tokens, so that the measurement takes some tenths of a second.
const SAMPLE_TOKENS: usize = 2048;

/// Operations per core and second in single precision, roughly: the budget for long rows.
const SECOND: u64 = 100_000_000_000;

/// Measures reduced precision by rows of the first window and its longest ones; and again by the longest rows of a
/// later window, where they are more than twice as long: attention sums over all of a row, so that errors may grow with
/// its length.
pub(super) fn precision_hook(
    engine: &Arc<dyn Engine>,
    pooler: &Arc<Pooler>,
    cosine: &Joined,
    options: EngineOptions,
) -> WindowHook {
    let (engine, pooler) = (Arc::clone(engine), Arc::clone(pooler));
    let cosine = Arc::clone(cosine);
    let most = long_tokens(|tokens| engine.operations(tokens));
    let mut longest = None;
    Box::new(move |tokens| {
        let sample = match longest {
            Some(length) => batch::longest(tokens, 2 * length, most),
            None => {
                let mut sample = batch::sample(tokens, SAMPLE_ROWS, SAMPLE_TOKENS);
                sample.append(&batch::longest(tokens, sample.longest(), most));
                sample
            }
        };
        if sample.tokens() == 0 {
            return Ok(());
        }
        longest = longest.max(Some(sample.longest()));
        let mut joined = locked(&cosine);
        *joined = embedder::cosine(engine.as_ref(), &pooler, &sample, *joined, &options)?;
        Ok(())
    })
}

/// Tokens that long rows may have together: as many as take a second, and half as many as the other rows' at least.
fn long_tokens(operations: impl Fn(usize) -> u64) -> usize {
    let (mut fits, mut too_long) = (SAMPLE_TOKENS / 2, 1 << 20);
    while fits + 1 < too_long {
        let middle = usize::midpoint(fits, too_long);
        match operations(middle) <= SECOND {
            true => fits = middle,
            false => too_long = middle,
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_take_a_second_or_half_a_sample() {
        // all-MiniLM-L6-v2 and a model of 7 billion parameters: products of a token, and of a pair of tokens.
        let of = |products: u64, pairs: u64| {
            move |tokens: usize| tokens as u64 * (products + tokens as u64 * pairs)
        };
        let small = long_tokens(of(21_000_000, 9_216));
        assert!((2000..4000).contains(&small), "{small}");
        assert_eq!(long_tokens(of(14_000_000_000, 500_000)), SAMPLE_TOKENS / 2);
        assert_eq!(long_tokens(|_| 0), (1 << 20) - 1);
    }
}

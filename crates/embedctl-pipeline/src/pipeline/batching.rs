//! How tokens are cut into batches, and how reduced precision is measured by them.

use std::sync::{Arc, Mutex};

use super::EmbedOptions;
use super::in_flight::PortionLimits;
use crate::batch::{self, TokenRows};
use crate::engine::{self, BatchLimits, Cosine, LoadedModel};
use crate::error::Result;
use crate::threads::locked;
use embedctl_model::work::Work;

/// The cosine of reduced precision to single precision, where there is one; that of later windows joins it.
pub(super) type Joined = Arc<Mutex<Option<Cosine>>>;

/// How tokens are cut into batches, which is known once the engine is open.
pub(super) struct Batching {
    pub(super) limits: BatchLimits,
    /// How much a portion of a window holds; `None`: windows stay whole.
    pub(super) portions: Option<PortionLimits>,
    pub(super) loaded: Arc<LoadedModel>,
    /// Sees each window's tokens.
    pub(super) hook: Option<WindowHook>,
}

impl Batching {
    /// As the options and the open engine have it. Where the engine's precision is reduced and is to be measured, each
    /// window's tokens may change `cosine`.
    pub(super) fn of(
        options: &EmbedOptions,
        loaded: &Arc<LoadedModel>,
        measures: bool,
        cosine: &Joined,
    ) -> Self {
        let measures = measures && loaded.info().is_reduced();
        Self {
            limits: limits(options, loaded),
            portions: portions(options, loaded),
            hook: measures.then(|| precision_hook(loaded, cosine)),
            loaded: Arc::clone(loaded),
        }
    }
}

/// The batch size of the options, else the engine's default.
fn limits(options: &EmbedOptions, loaded: &LoadedModel) -> BatchLimits {
    let suits = loaded.limits();
    BatchLimits {
        rows: options.batch_rows.unwrap_or(suits.rows),
        ..suits
    }
}

/// How windows are cut into portions; `None` where rows of a batch change each other's vectors, which must not depend on
/// where a run was resumed.
fn portions(options: &EmbedOptions, loaded: &Arc<LoadedModel>) -> Option<PortionLimits> {
    if engine::padding::mixes_rows(loaded.model(), loaded.info()) {
        return None;
    }
    let limits = limits(options, loaded);
    // Rows of each length need batches of their own.
    let batches = if limits.equal_lengths { 16 } else { 1 };
    let tokens = limits.tokens.saturating_mul(batches);
    if loaded.engine().operations(1) > 0 {
        let counts = Arc::clone(loaded);
        let cost = move |tokens| 2.0 * counts.engine().operations(tokens) as f64;
        return Some(PortionLimits::new(loaded.engine(), tokens, cost));
    }
    let work = Work::of(loaded.model()).ok()?;
    let cost = move |tokens: usize| work.total(tokens as f64, (tokens * tokens) as f64);
    Some(PortionLimits::new(loaded.engine(), tokens, cost))
}

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
fn precision_hook(loaded: &Arc<LoadedModel>, cosine: &Joined) -> WindowHook {
    let (loaded, cosine) = (Arc::clone(loaded), Arc::clone(cosine));
    let most = long_tokens(|tokens| loaded.engine().operations(tokens));
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
        *joined = loaded.cosine(&sample, *joined)?;
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

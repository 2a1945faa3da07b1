//! Feed-forwards of which each token takes some: their weights, and how they run.
//!
//! Tokens of one expert are gathered and multiplied together. A token's sum is made in the experts' order, so it
//! depends on nothing beside it.

use std::collections::TryReserveError;

use super::room::room;
use embedctl_checkpoint::architecture::{Architecture, ExpertsDescription};
use embedctl_common::error::Result;
use embedctl_kernels::{CacheLines, Matrix, PackedLayout};

/// Beside the experts' products: the shares and the bias.
#[derive(Debug)]
pub(crate) struct ExpertWeights {
    /// `[experts, hidden]`, in single precision.
    pub(crate) router: Matrix,
    /// Added to the sum; empty where there is none.
    pub(crate) bias: Vec<f32>,
}

/// A token that an expert takes, with its share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub(crate) expert: usize,
    pub(crate) token: usize,
    pub(crate) share: f32,
}

/// A worker's memory for experts.
#[derive(Debug, Default)]
pub(crate) struct ExpertScratch {
    /// `[tokens, experts]`.
    pub(crate) shares: CacheLines,
    /// The tokens of one expert, `[tokens, hidden]`.
    pub(crate) gathered: CacheLines,
    /// The expert's output for them.
    pub(crate) results: CacheLines,
    /// The sum, `[tokens, hidden]`.
    pub(crate) sum: CacheLines,
    pub(crate) routes: Vec<Route>,
}

impl ExpertScratch {
    /// Floats for each token.
    pub(crate) fn of_token(architecture: &Architecture) -> usize {
        let experts = architecture.feed_forward.experts;
        experts.map_or(0, |experts| {
            experts.count + 3 * architecture.hidden + 6 * experts.chosen
        })
    }

    /// Room for `tokens` tokens.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub(crate) fn try_grow(
        &mut self,
        architecture: &Architecture,
        tokens: usize,
    ) -> Result<(), TryReserveError> {
        let Some(experts) = architecture.feed_forward.experts else {
            return Ok(());
        };
        self.shares.try_grow(tokens.saturating_mul(experts.count))?;
        let states = tokens.saturating_mul(architecture.hidden);
        for buffer in [&mut self.gathered, &mut self.results, &mut self.sum] {
            buffer.try_grow(states)?;
        }
        self.routes.clear();
        self.routes
            .try_reserve_exact(tokens.saturating_mul(experts.chosen))
    }

    /// Chooses each token's experts by the shares, which become the softmax of what the router made; in the experts'
    /// order.
    pub(crate) fn choose(&mut self, experts: &ExpertsDescription, tokens: usize) {
        self.routes.clear();
        let shares = room(&mut self.shares, tokens * experts.count);
        for (token, shares) in shares.chunks_exact_mut(experts.count).enumerate() {
            let most = shares.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0.0;
            for share in shares.iter_mut() {
                *share = (*share - most).exp();
                sum += *share;
            }
            shares.iter_mut().for_each(|share| *share /= sum);
            let first = self.routes.len();
            for _ in 0..experts.chosen {
                // The greatest that is left; the first of equals.
                let taken = |expert: usize| {
                    self.routes[first..]
                        .iter()
                        .any(|route| route.expert == expert)
                };
                let mut best: Option<usize> = None;
                for expert in (0..experts.count).filter(|expert| !taken(*expert)) {
                    if best.is_none_or(|best| shares[expert] > shares[best]) {
                        best = Some(expert);
                    }
                }
                if let Some(expert) = best {
                    self.routes.push(Route {
                        expert,
                        token,
                        share: shares[expert],
                    });
                }
            }
            if experts.normalized {
                let chosen = &mut self.routes[first..];
                let sum: f32 = chosen.iter().map(|route| route.share).sum();
                chosen.iter_mut().for_each(|route| route.share /= sum);
            }
        }
        self.routes
            .sort_unstable_by_key(|route| (route.expert, route.token));
    }
}

/// The layouts of an expert's two products, in a network that is `hidden` wide.
pub(super) fn layouts(experts: &ExpertsDescription, hidden: usize) -> [PackedLayout; 2] {
    let up = PackedLayout {
        outputs: experts.width,
        inputs: hidden,
        gated: experts.gated,
    };
    let down = PackedLayout {
        outputs: hidden,
        inputs: experts.width,
        gated: false,
    };
    [up, down]
}

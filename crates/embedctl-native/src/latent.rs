//! Latent attention behind the last layer: every token attends to vectors that the model has learned, and a gated
//! feed-forward follows, both with a residual (NV-Embed).
//!
//! Keys and values of the learned vectors are the same for every token, so they are multiplied into the query's and the
//! output's weights when these are read: two products of `heads * latents` remain, with a softmax of each head between.

use std::collections::TryReserveError;

use super::room::room;
use embedctl_checkpoint::architecture::{Architecture, LatentAttention};
use embedctl_common::Activation;
use embedctl_common::error::Result;
use embedctl_kernels::{CacheLines, Isa, Matrix, Norm, Operand, ProductFinish, linear};

/// Tokens that run together: enough to make use of each fetched weight, few enough for a core's cache.
const BLOCK: usize = 64;

/// The weights in single precision, row-major.
#[derive(Debug)]
pub struct LatentMatrices {
    /// The norm of the attention's input.
    pub norm: Norm,
    /// Scores of the latents of each head, `[heads * latents, hidden]`.
    pub scores: Vec<f32>,
    /// From shares of the latents to the attention's output, `[hidden, heads * latents]`.
    pub mix: Vec<f32>,
    /// The norm of the feed-forward's input.
    pub feed_norm: Norm,
    /// Its first product: the activated half's rows come before those of its factor.
    pub up: [Vec<f32>; 2],
    /// Its second product. Behind each product's weight stands its bias.
    pub down: [Vec<f32>; 2],
}

/// The weights, packed.
#[derive(Debug)]
pub(crate) struct LatentWeights {
    pub(crate) latents: usize,
    pub(crate) norm: Norm,
    pub(crate) scores: Matrix,
    pub(crate) mix: Matrix,
    pub(crate) feed_norm: Norm,
    pub(crate) up: Matrix,
    pub(crate) down: Matrix,
}

/// A worker's memory for a block of tokens.
#[derive(Debug, Default)]
pub(crate) struct LatentScratch {
    normed: CacheLines,
    inner: CacheLines,
    operand: Operand,
}

impl LatentScratch {
    /// Floats of a block.
    pub(crate) fn floats(architecture: &Architecture) -> usize {
        architecture.latent.map_or(0, |latent| {
            let inner = latent.widest(architecture.hidden);
            BLOCK.saturating_mul(architecture.hidden + 2 * inner)
        })
    }

    /// Room for a block.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub(crate) fn try_grow(&mut self, architecture: &Architecture) -> Result<(), TryReserveError> {
        let Some(latent) = architecture.latent else {
            return Ok(());
        };
        let inner = latent.widest(architecture.hidden);
        self.normed.try_grow(BLOCK * architecture.hidden)?;
        self.inner.try_grow(BLOCK * inner)?;
        self.operand.try_reserve(BLOCK, inner)
    }
}

/// Bytes of the packed weights of `latent`, in a network that is `hidden` wide.
pub(crate) fn packed_bytes(latent: &LatentAttention, hidden: usize) -> usize {
    let rows = 2 * latent.scores() + 3 * latent.inner(hidden);
    rows.saturating_mul(hidden).saturating_mul(size_of::<f32>())
}

impl LatentWeights {
    /// Changes the states of all tokens.
    pub(crate) fn run(&self, isa: Isa, states: &mut [f32], scratch: &mut LatentScratch) {
        let LatentScratch {
            normed,
            inner,
            operand,
        } = scratch;
        let (hidden, scores, wide) = (self.norm.width(), self.mix.inputs(), self.down.inputs());
        for states in states.chunks_mut(BLOCK * hidden) {
            let tokens = states.len() / hidden;
            let normed = room(normed, states.len());
            self.norm.apply_to(isa, states, normed);
            let shares = room(inner, tokens * scores);
            let input = operand.convert(&self.scores, normed, hidden, tokens);
            let all = 0..tokens;
            linear(
                input,
                all.clone(),
                &self.scores,
                shares,
                scores,
                ProductFinish::Store,
            );
            shares.chunks_exact_mut(self.latents).for_each(softmax);
            let input = operand.convert(&self.mix, shares, scores, tokens);
            linear(
                input,
                all.clone(),
                &self.mix,
                states,
                hidden,
                ProductFinish::Add,
            );

            self.feed_norm.apply_to(isa, states, normed);
            let up = room(inner, tokens * wide);
            let input = operand.convert(&self.up, normed, hidden, tokens);
            let gate = ProductFinish::Gate(Activation::Gelu);
            linear(input, all.clone(), &self.up, up, wide, gate);
            let input = operand.convert(&self.down, up, wide, tokens);
            linear(input, all, &self.down, states, hidden, ProductFinish::Add);
        }
    }
}

fn softmax(scores: &mut [f32]) {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - most).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

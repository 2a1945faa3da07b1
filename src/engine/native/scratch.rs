//! A batch's rows, and the memory that a worker computes them in.

use std::collections::TryReserveError;
use std::ops::Range;

use super::architecture::Architecture;
use super::kernels::{AttentionScratch, Operand};
use super::relative_bias;
use super::rotary::RotaryTable;
use crate::error::{Error, ErrorKind, Result};
use crate::remedies::MORE_MEMORY;

/// Floats of the feed-forward's inner activations that are alive at a time: half a megabyte and a bit, which
/// with the weights' panels fits a core's own cache.
const INNER: usize = 147_456;

/// The rows of a batch: all tokens, one row after another.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Token ids.
    pub ids: &'a [u32],
    /// Token types, as many as ids; empty means all zero.
    pub types: &'a [u32],
    /// Where each row ends.
    pub ends: &'a [usize],
}

impl Rows<'_> {
    /// Each row's tokens.
    pub(super) fn spans(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(self.ends.iter().copied())
            .map(|(start, end)| start..end)
    }

    /// Tokens of the longest row.
    pub(super) fn longest(&self) -> usize {
        self.spans().map(|span| span.len()).max().unwrap_or(0)
    }
}

/// One worker's memory, reused from batch to batch.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The residual stream `[tokens, hidden]`.
    pub(super) states: Vec<f32>,
    /// A branch's normalized input, and its output where that is normalized too.
    pub(super) branch: Vec<f32>,
    /// Queries, keys and values.
    pub(super) heads: Vec<f32>,
    /// What attention gives.
    pub(super) context: Vec<f32>,
    /// The feed-forward's inner activations.
    pub(super) inner: Vec<f32>,
    /// A row of the embeddings.
    pub(super) row: Vec<f32>,
    pub(super) operand: Operand,
    pub(super) inner_operand: Operand,
    pub(super) attention: AttentionScratch,
    /// Bias of attention scores by distance, for each head, up to a reach that grows with the longest row.
    pub(super) bias: Vec<f32>,
    pub(super) turns: Vec<RotaryTable>,
}

impl Scratch {
    /// Makes room for all that a batch of `tokens` tokens needs, whose longest row has `longest`: what runs it asks
    /// for no more, since Rust ends the process where the system refuses what is not asked for first.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub(super) fn reserve(
        &mut self,
        architecture: &Architecture,
        tokens: usize,
        longest: usize,
    ) -> Result<()> {
        self.grow(architecture, tokens, longest)
            .or_else(|_| {
                // What it held for other batches may be what is missing.
                *self = Self::default();
                self.grow(architecture, tokens, longest)
            })
            .map_err(|_| {
                *self = Self::default();
                let reason = format!("the system refuses the memory for {tokens} tokens at a time");
                Error::new(ErrorKind::OutOfMemory, "native", reason).with_remedy(MORE_MEMORY)
            })
    }

    fn grow(
        &mut self,
        architecture: &Architecture,
        tokens: usize,
        longest: usize,
    ) -> Result<(), TryReserveError> {
        let Architecture {
            hidden,
            attention,
            embeddings,
            feed_forward,
            names,
            rotary,
            ..
        } = architecture;
        let query = attention.heads * attention.head_size;
        let key = attention.key_value_heads * attention.head_size;
        let embedded = if embeddings.projected {
            embeddings.width
        } else {
            0
        };
        let norms = [&names.attention_norms, &names.feed_forward_norms];
        let has_branch = norms
            .iter()
            .any(|norms| !norms.before.is_empty() || !norms.after.is_empty());
        let branch = embedded.max(if has_branch { *hidden } else { 0 });
        let all = |width: usize| tokens.saturating_mul(width);
        grow(&mut self.states, all(*hidden))?;
        grow(&mut self.branch, all(branch))?;
        grow(&mut self.heads, all(query + 2 * key))?;
        grow(&mut self.context, all(query))?;
        grow(&mut self.row, embeddings.width)?;
        let widest = (*hidden).max(query).max(embedded);
        self.operand.try_reserve(tokens, widest)?;
        let block = block(feed_forward.width, tokens);
        grow(&mut self.inner, block * feed_forward.width)?;
        self.inner_operand.try_reserve(block, feed_forward.width)?;
        self.attention.try_reserve(attention.head_size, longest)?;
        self.turns.resize_with(rotary.len(), RotaryTable::default);
        for (turns, rotary) in self.turns.iter_mut().zip(rotary) {
            turns.try_reserve(rotary, longest)?;
        }
        if attention.relative_buckets.is_some() {
            let floats = relative_bias::floats(attention.heads, longest);
            grow(&mut self.bias, floats)?;
        }
        Ok(())
    }
}

/// Room for `length` values in place of those that a buffer holds.
fn grow(buffer: &mut Vec<f32>, length: usize) -> Result<(), TryReserveError> {
    if buffer.capacity() < length {
        *buffer = Vec::new();
        buffer.try_reserve_exact(length)?;
    }
    Ok(())
}

/// Room for `length` values, of which a buffer may hold some already.
pub(super) fn grow_kept(buffer: &mut Vec<f32>, length: usize) -> Result<(), TryReserveError> {
    buffer.try_reserve_exact(length.saturating_sub(buffer.len()))
}

/// The first `length` values of a buffer, for which room has been made.
pub(super) fn room(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}

/// Tokens whose inner activations, `width` each, are alive at a time.
pub(super) fn block(width: usize, tokens: usize) -> usize {
    (INNER / width).max(12).min(tokens.max(1))
}

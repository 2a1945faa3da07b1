//! A batch's rows, and the memory that a worker computes them in.

use std::collections::TryReserveError;
use std::ops::Range;

use super::architecture::Architecture;
use super::kernels::{AttentionScratch, Lines, Operand};
use super::relative_bias;
use super::rotary::RotaryTable;
use crate::error::{Error, ErrorKind, Result};
use crate::remedies;

/// Floats of the feed-forward's inner activations that are alive at a time: three quarters of a megabyte, which with
/// the weights' panels fits a core's own cache.
const INNER: usize = 196_608;

/// Rows of products' tiles, into which blocks of tokens divide.
const TILE: usize = 6;

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
    pub(super) states: Lines,
    /// A branch's normalized input, and its output where that is normalized too.
    pub(super) branch: Lines,
    /// Queries, keys and values.
    pub(super) heads: Lines,
    /// What attention gives.
    pub(super) context: Lines,
    /// The feed-forward's inner activations.
    pub(super) inner: Lines,
    /// A row of the embeddings.
    pub(super) row: Lines,
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
                Error::new(ErrorKind::OutOfMemory, "native", reason)
                    .with_remedy(remedies::more_memory())
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
        self.states.try_grow(all(*hidden))?;
        self.branch.try_grow(all(branch))?;
        self.heads.try_grow(all(query + 2 * key))?;
        self.context.try_grow(all(query))?;
        self.row.try_grow(embeddings.width)?;
        let widest = (*hidden).max(query).max(embedded);
        self.operand.try_reserve(tokens, widest)?;
        let block = block(feed_forward.width, tokens);
        self.inner.try_grow(block * feed_forward.width)?;
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
pub(super) fn room(buffer: &mut Lines, length: usize) -> &mut [f32] {
    &mut buffer.floats_mut()[..length]
}

/// Tokens whose inner activations, `width` each, are alive at a time: as few blocks of nearly one size as there can be,
/// since each streams the weights through the cache once more.
pub(super) fn block(width: usize, tokens: usize) -> usize {
    let tokens = tokens.max(1);
    let blocks = tokens.div_ceil((INNER / width).max(TILE));
    tokens.div_ceil(blocks).next_multiple_of(TILE).min(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread may have no row at all, and there are no steps of nothing.
    #[test]
    fn blocks_are_as_few_as_can_be_and_nearly_even() {
        for width in [1, 384, 1536, 3072, 500_000] {
            let most = (INNER / width).max(TILE);
            for tokens in 0..600 {
                let block = block(width, tokens);
                assert!((1..=tokens.max(1)).contains(&block), "{tokens} of {width}");
                assert!(block < most + TILE, "{tokens} of {width}: {block}");
                assert!(tokens.div_ceil(block) <= tokens.div_ceil(most));
            }
        }
    }
}

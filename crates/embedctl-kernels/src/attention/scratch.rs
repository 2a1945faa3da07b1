//! The memory that attention works in.

use std::collections::TryReserveError;

use super::super::amx;
use super::super::lines::CacheLines;
use super::super::simd::MOST_LANES;
use super::super::tile::MOST_ROWS;
use super::SUMMED;
use super::softmax::{Heavy, MOST_HEAVY};

/// Room that calls share. It grows to the longest text, by itself where it was not asked to before, and then
/// allocates no more.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    pub(super) keys: CacheLines,
    pub(super) values: CacheLines,
    pub(super) scores: CacheLines,
    pub(super) weights: Vec<i32>,
    pub(super) queries: Vec<i32>,
    pub(super) heavy: Vec<Heavy>,
    /// Queries of a block and their weights, where there are tiles.
    pub(super) query_tiles: CacheLines,
    pub(super) weight_tiles: CacheLines,
}

impl AttentionScratch {
    /// Room for a text of `len` tokens and heads of `width` channels, in any arithmetic and any instructions.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn try_reserve(&mut self, width: usize, len: usize) -> Result<(), TryReserveError> {
        let padded = len.next_multiple_of(4 * MOST_LANES);
        let inputs = width.next_multiple_of(2 * MOST_LANES);
        let columns = width.next_multiple_of(4 * MOST_LANES);
        self.keys.try_grow(padded.saturating_mul(inputs))?;
        self.values.try_grow(padded.saturating_mul(columns))?;
        self.scores.try_grow(padded.saturating_mul(amx::ROWS))?;
        self.weight_tiles
            .try_grow(padded.saturating_mul(amx::ROWS))?;
        self.query_tiles.try_grow(amx::ROWS * inputs)?;
        self.heavy.clear();
        self.heavy.try_reserve_exact(MOST_ROWS * MOST_HEAVY)?;
        try_fill(&mut self.queries, MOST_ROWS * width)?;
        try_fill(&mut self.weights, MOST_ROWS * SUMMED)
    }
}

/// Lengthens `list` with zeros to `len`, if it is shorter.
fn try_fill<T: Copy + Default>(list: &mut Vec<T>, len: usize) -> Result<(), TryReserveError> {
    let more = len.saturating_sub(list.len());
    list.try_reserve_exact(more)?;
    list.resize(list.len() + more, T::default());
    Ok(())
}

//! Room in buffers, and the blocks of tokens that share it.

use std::collections::TryReserveError;

use embedctl_kernels::{CacheLines, Isa};

/// Floats of the feed-forward's inner activations that are alive at a time: three quarters of a megabyte, which with
/// the weights' panels fits a core's own cache.
const INNER: usize = 196_608;

/// Tokens of a block at least, where there are as many. Each block streams the weights through the cache once more, and
/// with fewer tokens a product waits for them; wide inner activations then take the second level's place as well.
const LEAST_BLOCK: usize = 66;

/// Rows that products take at a time, into which blocks of tokens divide: in vectors, and by AMX's tiles.
const HEIGHTS: [usize; 2] = [6, 32];

/// Makes room for `length` values; the buffer's old values are dropped.
pub(super) fn grow(buffer: &mut Vec<f32>, length: usize) -> Result<(), TryReserveError> {
    if buffer.capacity() < length {
        *buffer = Vec::new();
        buffer.try_reserve_exact(length)?;
    }
    Ok(())
}

/// Makes room for `length` values and keeps the buffer's old values.
pub(super) fn grow_kept(buffer: &mut Vec<f32>, length: usize) -> Result<(), TryReserveError> {
    buffer.try_reserve_exact(length.saturating_sub(buffer.len()))
}

/// The first `length` values of a buffer, for which room has been made.
pub(super) fn room(buffer: &mut CacheLines, length: usize) -> &mut [f32] {
    &mut buffer.floats_mut()[..length]
}

/// Tokens whose inner activations, `width` each, are alive at a time: as few blocks of nearly one size as there can be,
/// since each streams the weights through the cache once more.
pub(super) fn block(isa: Isa, width: usize, tokens: usize) -> usize {
    of_height(HEIGHTS[usize::from(isa.has_tiles())], width, tokens)
}

/// The most of them with any instructions.
pub(super) fn largest_block(width: usize, tokens: usize) -> usize {
    let blocks = HEIGHTS.map(|height| of_height(height, width, tokens));
    blocks[0].max(blocks[1])
}

fn of_height(height: usize, width: usize, tokens: usize) -> usize {
    let tokens = tokens.max(1);
    let blocks = tokens.div_ceil((INNER / width).max(LEAST_BLOCK));
    tokens.div_ceil(blocks).next_multiple_of(height).min(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread may have no row at all, and a step of 0 is not allowed.
    #[test]
    fn blocks_are_as_few_as_can_be_and_nearly_even() {
        for width in [1, 384, 1536, 3072, 4096, 14_336, 500_000] {
            let most = (INNER / width).max(LEAST_BLOCK);
            for (tokens, height) in
                (0..600).flat_map(|tokens| HEIGHTS.map(|height| (tokens, height)))
            {
                let block = of_height(height, width, tokens);
                assert!((1..=tokens.max(1)).contains(&block), "{tokens} of {width}");
                assert!(block < most + height, "{tokens} of {width}: {block}");
                assert!(tokens.div_ceil(block) <= tokens.div_ceil(most));
                assert!(block <= largest_block(width, tokens));
            }
        }
    }
}

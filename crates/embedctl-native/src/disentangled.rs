//! DeBERTa's scores: those of each query with the keys of relative positions, and of each key with their queries.

use std::collections::TryReserveError;

use super::room::room;
use embedctl_checkpoint::architecture::Architecture;
use embedctl_common::error::Result;
use embedctl_kernels::{CacheLines, Matrix, Operand, ProductFinish, linear};

/// Keys and queries of all relative positions of a layer, a matrix for each head; empty where the model has none.
#[derive(Debug, Default)]
pub(crate) struct RelativePositions {
    pub(crate) keys: Vec<Matrix>,
    pub(crate) queries: Vec<Matrix>,
}

/// A worker's memory for the scores of one head.
#[derive(Debug, Default)]
pub(crate) struct RelativeScratch {
    /// A head's queries or keys, `[tokens, head]`.
    contents: CacheLines,
    /// Their scores with all relative positions, `[tokens, positions]`: of queries, and of keys.
    scores: [CacheLines; 2],
    /// The addition to the scores, `[queries, keys]`.
    bias: CacheLines,
    /// The row of each distance, from the least on.
    rows: Vec<usize>,
}

impl RelativeScratch {
    /// Floats for a row of `longest` tokens.
    pub(crate) fn floats(architecture: &Architecture, longest: usize) -> usize {
        let attention = &architecture.attention;
        attention.disentangled.map_or(0, |kind| {
            let of_token = attention.head_size + 2 * kind.rows() + 4;
            longest
                .saturating_mul(of_token)
                .saturating_add(longest.saturating_mul(longest))
        })
    }

    /// Room for rows of `longest` tokens.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub(crate) fn try_grow(
        &mut self,
        architecture: &Architecture,
        longest: usize,
    ) -> Result<(), TryReserveError> {
        let attention = &architecture.attention;
        let Some(kind) = attention.disentangled else {
            return Ok(());
        };
        self.contents
            .try_grow(longest.saturating_mul(attention.head_size))?;
        for scores in &mut self.scores {
            scores.try_grow(longest.saturating_mul(kind.rows()))?;
        }
        self.bias.try_grow(longest.saturating_mul(longest))?;
        self.rows.clear();
        self.rows.try_reserve_exact(longest.saturating_mul(2))
    }

    /// The values to add to the scores of head `head` of a row of `length` tokens, `[queries, keys]`. `data` is its
    /// queries, keys and values, `stride` floats from token to token, with keys from `keys` on.
    pub(crate) fn bias(
        &mut self,
        architecture: &Architecture,
        positions: &RelativePositions,
        operand: &mut Operand,
        (data, stride, keys): (&[f32], usize, usize),
        head: usize,
        length: usize,
    ) -> Option<&[f32]> {
        let attention = &architecture.attention;
        let kind = attention.disentangled?;
        let (size, width) = (attention.head_size, kind.rows());
        let sides = [
            (positions.keys.get(head), head * size),
            (positions.queries.get(head), keys + head * size),
        ];
        for ((matrix, first), scores) in sides.iter().zip(&mut self.scores) {
            let Some(matrix) = matrix else { continue };
            let contents = room(&mut self.contents, length * size);
            let tokens = data.chunks(stride).map(|token| &token[*first..][..size]);
            for (to, from) in contents.chunks_exact_mut(size).zip(tokens) {
                to.copy_from_slice(from);
            }
            linear(
                operand.convert(matrix, contents, size, length),
                0..length,
                matrix,
                room(scores, length * width),
                width,
                ProductFinish::Store,
            );
        }
        self.rows.clear();
        #[allow(clippy::cast_possible_wrap)]
        let longest = length as isize;
        self.rows
            .extend((1 - longest..longest).map(|ahead| kind.row(ahead)));
        let [query_scores, key_scores] = &mut self.scores;
        let has = sides.map(|(matrix, _)| matrix.is_some());
        let query_scores = room(query_scores, if has[0] { length * width } else { 0 });
        let key_scores = room(key_scores, if has[1] { length * width } else { 0 });
        let bias = room(&mut self.bias, length * length);
        for (query, bias) in bias.chunks_exact_mut(length).enumerate() {
            for (key, bias) in bias.iter_mut().enumerate() {
                let row = self.rows[query + length - 1 - key];
                let of_query = query_scores.get(query * width + row).copied();
                let of_key = key_scores.get(key * width + row).copied();
                let sum = of_query.unwrap_or(0.0) + of_key.unwrap_or(0.0);
                *bias = sum * attention.scale;
            }
        }
        Some(bias)
    }
}

//! The kinds of input that are understood, and their elements for a batch.

use crate::padded::PaddedBatch;
use embedctl_rows::PositionIds;

/// One declared input of the graph and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphInput {
    /// Name in the graph.
    pub name: String,
    /// Its content.
    pub feed: InputFeed,
}

/// The content of an input, in the element type that the graph declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputFeed {
    /// Integers of shape `[rows, length]`; [`Tokens::fill`] makes them.
    Tokens(Tokens, TokenWidth),
    /// An empty key or value cache: a tensor without elements.
    Past(Vec<PastDim>, PastElement),
    /// The boolean `[1]` that chooses a decoder's branch: false, no cache.
    NoCache,
}

/// Integers with one element a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tokens {
    /// `input_ids`.
    Ids,
    /// `attention_mask`.
    Mask,
    /// `token_type_ids`: the segments of the tokenizer's template.
    Types,
    /// `position_ids`, made as the architecture counts.
    PositionIds(PositionIds),
}

/// Integer types that graphs declare for tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenWidth {
    /// int32.
    I32,
    /// int64.
    I64,
}

/// Element types of an empty cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastElement {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
}

/// A dimension of an empty cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastDim {
    /// As many as the batch has rows.
    Rows,
    /// The number of tokens in the cache: 0.
    Tokens,
    /// A size fixed by the graph.
    Fixed(usize),
}

/// An integer type that token ids are fed in.
pub trait TokenInt: Copy {
    /// Converts a token id, a mask bit or a position; all are small.
    fn from_token(value: i64) -> Self;
}

impl TokenInt for i64 {
    fn from_token(value: i64) -> Self {
        value
    }
}

impl TokenInt for i32 {
    #[allow(clippy::cast_possible_truncation)] // ids and positions are far below 2^31
    fn from_token(value: i64) -> Self {
        value as Self
    }
}

impl Tokens {
    /// Replaces `out` with this input's elements for `batch`, row-major `[rows, length]`.
    pub fn fill<T: TokenInt>(self, batch: &PaddedBatch, out: &mut Vec<T>) {
        out.clear();
        match self {
            Self::Ids => out.extend(batch.input_ids.iter().map(|&id| T::from_token(id))),
            Self::Mask => out.extend(batch.attention_mask.iter().map(|&bit| T::from_token(bit))),
            Self::Types => {
                out.extend(batch.token_types.iter().map(|&kind| T::from_token(kind)));
                out.resize(batch.rows * batch.length, T::from_token(0));
            }
            Self::PositionIds(positions) => {
                for row in 0..batch.rows {
                    let ids = &batch.input_ids[row * batch.length..(row + 1) * batch.length];
                    let counted = |index: usize| match positions {
                        PositionIds::FromZero => batch.mask(row)[index] != 0,
                        PositionIds::AfterPadding(id) => ids[index] != i64::from(id),
                    };
                    let (mut next, skipped) = match positions {
                        PositionIds::FromZero => (0, 0),
                        PositionIds::AfterPadding(id) => (i64::from(id) + 1, i64::from(id)),
                    };
                    out.extend((0..batch.length).map(|index| {
                        if !counted(index) {
                            return T::from_token(skipped);
                        }
                        next += 1;
                        T::from_token(next - 1)
                    }));
                }
            }
        }
    }
}

impl PastDim {
    /// The dimension's size for a batch of `rows`.
    #[must_use]
    pub fn size(self, rows: usize) -> usize {
        match self {
            Self::Rows => rows,
            Self::Tokens => 0,
            Self::Fixed(size) => size,
        }
    }
}

//! A vector for each token: late interaction (ColBERT), as sentence-transformers' `MultiVectorEncoder` has it.

mod token_pooling;

use std::collections::BTreeSet;

pub use token_pooling::TokenPooling;

/// What is known of the vectors of a text's tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MultiKind {
    /// Tokens without a vector.
    pub skipped: BTreeSet<u32>,
    /// The only tokens that have a vector; `None`: all others.
    pub kept: Option<BTreeSet<u32>>,
    /// Whether tokens of a query's expansion have vectors.
    pub expansion_counts: bool,
    /// Tokens at the beginning of a row that have no vector.
    pub leading: usize,
    /// Clusterings of a text's vectors, one after another.
    pub poolings: Vec<TokenPooling>,
}

impl MultiKind {
    /// The places of the tokens of a row that have vectors; the first `seen` are the text's own.
    pub(crate) fn places(&self, ids: &[u32], seen: usize) -> impl Iterator<Item = usize> {
        ids.iter().enumerate().filter_map(move |(place, id)| {
            let counts = place >= self.leading
                && (place < seen || self.expansion_counts)
                && !self.skipped.contains(id)
                && self.kept.as_ref().is_none_or(|kept| kept.contains(id));
            counts.then_some(place)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_skipped_kept_and_expanded() {
        let ids = [1, 5, 6, 5, 2, 9, 9];
        let places = |kind: &MultiKind| kind.places(&ids, 5).collect::<Vec<_>>();
        let mut kind = MultiKind::default();
        assert_eq!(places(&kind), [0, 1, 2, 3, 4]);
        kind.expansion_counts = true;
        assert_eq!(places(&kind), [0, 1, 2, 3, 4, 5, 6]);
        kind.skipped = [5].into();
        assert_eq!(places(&kind), [0, 2, 4, 5, 6]);
        kind.kept = Some([6, 5, 9].into());
        assert_eq!(places(&kind), [2, 5, 6]);
        kind.leading = 3;
        assert_eq!(places(&kind), [5, 6]);
    }
}

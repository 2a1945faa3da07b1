//! Sparse vectors: the weights of a vocabulary's terms, as sentence-transformers' `SparseEncoder` makes them.

use std::collections::{BTreeMap, BTreeSet};

use embedctl_kernels::TermPooling;
use embedctl_vectors::Numbers;

/// What is known of a model's sparse vectors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SparseKind {
    /// How the logits of a masked language model become weights of terms. `None` where a vector is made in full, and its
    /// components that are not zero are the entries.
    pub terms: Option<TermPooling>,
    /// Whether each token of a text has a weight of its own, without a network.
    pub by_token: bool,
    /// Whether the modules give each token a weight, the greatest of which counts for its term; these tokens have none.
    pub weighed: Option<BTreeSet<u32>>,
    /// Entries that are kept at most: those of the greatest magnitudes.
    pub most: Option<usize>,
}

impl SparseKind {
    /// Appends the entries of a row, the most that are kept. If asked, the whole row is scaled to length 1 before. An entry
    /// that is NaN or infinite stays.
    pub(crate) fn finish(
        &self,
        entries: impl IntoIterator<Item = (u32, f32)>,
        normalize: bool,
        out: &mut Numbers,
    ) {
        let most = self.most.unwrap_or(usize::MAX);
        let not_zero = entries.into_iter().filter(|(_, value)| *value != 0.0);
        let mut entries: Vec<(u32, f32)> = not_zero.collect();
        if normalize {
            let norm = entries.iter().map(|(_, value)| value * value).sum::<f32>();
            let norm = norm.sqrt().max(1e-12);
            entries.iter_mut().for_each(|(_, value)| *value /= norm);
        }
        if entries.len() > most {
            // Of equal magnitudes the first stays.
            entries.sort_by(|one, two| two.1.abs().total_cmp(&one.1.abs()).then(one.0.cmp(&two.0)));
            entries.truncate(most);
            entries.sort_by_key(|(index, _)| *index);
        }
        out.push_entries(entries);
    }
}

impl SparseKind {
    /// Appends the row of these tokens, which have these weights, where the greatest weight of a token counts. A weight that
    /// is NaN or infinite stays.
    pub(crate) fn weigh(&self, ids: &[u32], weights: &[f32], out: &mut Numbers) {
        let mut terms = BTreeMap::new();
        let has_none = |id: &u32| {
            self.weighed
                .as_ref()
                .is_some_and(|without| without.contains(id))
        };
        for (id, weight) in ids.iter().zip(weights).filter(|(id, _)| !has_none(id)) {
            let most = terms.entry(*id).or_insert(0.0_f32);
            if !weight.is_finite() || *weight > *most {
                *most = *weight;
            }
        }
        self.finish(terms, false, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_weight_of_a_token_counts() {
        let kind = SparseKind {
            weighed: Some([0, 2].into()),
            ..SparseKind::default()
        };
        let mut out = Numbers::of_entries();
        kind.weigh(
            &[0, 9, 5, 9, 7, 2],
            &[9.0, 0.5, 0.25, 0.75, 0.0, 9.0],
            &mut out,
        );
        assert_eq!(out.get(0).indices(), Some(&[5, 9][..]));
        assert_eq!(out.get(0).values(), [0.25, 0.75]);
        // The engine tells such a row.
        kind.weigh(&[9, 9], &[f32::NAN, 1.0], &mut out);
        assert!(out.get(1).values()[0].is_nan());
        kind.weigh(&[9, 9], &[1.0, f32::NAN], &mut out);
        assert!(out.get(2).values()[0].is_nan());
    }

    #[test]
    fn the_entries_of_the_greatest_magnitude_stay_in_order() {
        let row = [(1, 0.5), (4, -3.0), (5, 0.0), (8, 1.0), (9, 1.0)];
        for (most, kept) in [
            (None, &[1, 4, 8, 9][..]),
            (Some(2), &[4, 8]),
            (Some(1), &[4]),
            (Some(9), &[1, 4, 8, 9]),
        ] {
            let kind = SparseKind {
                most,
                ..SparseKind::default()
            };
            let mut out = Numbers::of_entries();
            kind.finish(row, false, &mut out);
            assert_eq!(out.get(0).indices(), Some(kept), "{most:?}");
        }
        let mut out = Numbers::of_entries();
        let row = [(3, 3.0), (7, 4.0)];
        SparseKind::default().finish(row, true, &mut out);
        assert_eq!(out.get(0).values(), [0.6, 0.8]);
        // The length is that of all entries, as Normalize runs before the reference cuts.
        let one = SparseKind {
            most: Some(1),
            ..SparseKind::default()
        };
        one.finish(row, true, &mut out);
        assert_eq!(out.get(1).indices(), Some(&[7][..]));
        assert_eq!(out.get(1).values(), [0.8]);
    }
}

//! Where an output has the vectors of each kind.

use std::collections::HashMap;
use std::sync::Arc;

use embedctl_common::vectors::{MultiRows, RowVectors, SparseRows};

/// The indices of terms by their names, of those that have a name alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermIndices(HashMap<String, u32>);

impl TermIndices {
    /// The indices of `terms`, which are in their order.
    #[must_use]
    pub fn of(terms: &[String]) -> Self {
        let mut indices: HashMap<String, Option<u32>> = HashMap::with_capacity(terms.len());
        for (index, term) in (0..).zip(terms) {
            let own = indices.entry(term.clone());
            // One name of two terms is none.
            own.and_modify(|index| *index = None).or_insert(Some(index));
        }
        let alone = indices.into_iter();
        Self(
            alone
                .filter_map(|(term, index)| Some((term, index?)))
                .collect(),
        )
    }

    /// The index of a term.
    pub(crate) fn get(&self, term: &str) -> Option<u32> {
        self.0.get(term).copied()
    }
}

/// Where the vectors of one kind stand in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KindColumns {
    /// Vectors in full: the names and widths of their columns. A matrix has one without a name.
    Dense(Vec<(String, usize)>),
    /// Sparse vectors: the name of their column, and the terms that there are.
    Sparse(String, usize),
    /// The same as maps from terms to weights, with the indices of the terms.
    Terms(String, usize, Arc<TermIndices>),
    /// A vector for each token: the name of their column, and their width.
    Multi(String, usize),
}

impl KindColumns {
    /// No vectors yet, of this kind.
    fn no_rows(&self) -> RowVectors {
        match self {
            Self::Dense(columns) => RowVectors::dense(columns.iter().map(|(_, width)| width).sum()),
            Self::Sparse(..) | Self::Terms(..) => RowVectors::Sparse(SparseRows::default()),
            Self::Multi(_, width) => RowVectors::Multi(MultiRows::new(*width)),
        }
    }

    /// The same vectors, where sparse ones are maps from terms to weights.
    #[must_use]
    pub fn as_terms(self, indices: &Arc<TermIndices>) -> Self {
        match self {
            Self::Sparse(name, width) => Self::Terms(name, width, Arc::clone(indices)),
            other => other,
        }
    }

    /// The names of its columns, with the widths of their vectors.
    pub fn columns(&self) -> impl Iterator<Item = (&str, usize)> {
        let (several, one) = match self {
            Self::Dense(columns) => (&columns[..], None),
            Self::Sparse(name, width) | Self::Terms(name, width, _) | Self::Multi(name, width) => {
                (&[][..], Some((name, width)))
            }
        };
        let one = one.map(|(name, width)| (name.as_str(), *width));
        (several.iter().map(|(name, width)| (name.as_str(), *width))).chain(one)
    }
}

/// No vectors yet, of these kinds.
#[must_use]
pub fn no_rows(kinds: &[KindColumns]) -> RowVectors {
    match kinds {
        [one] => one.no_rows(),
        several => RowVectors::Several(several.iter().map(KindColumns::no_rows).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_two_terms_is_the_index_of_neither() {
        let terms = ["[UNK]", "[1]", "a", "[1]"].map(String::from);
        let indices = TermIndices::of(&terms);
        let found = ["[UNK]", "[1]", "a", "b"].map(|term| indices.get(term));
        assert_eq!(found, [Some(0), None, Some(2), None]);
    }
}

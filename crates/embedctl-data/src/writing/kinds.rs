//! Where an output has the vectors of each kind.

use embedctl_common::vectors::{MultiRows, RowVectors, SparseRows};

/// Where the vectors of one kind stand in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KindColumns {
    /// Vectors in full: the names and widths of their columns. A matrix has one without a name.
    Dense(Vec<(String, usize)>),
    /// Sparse vectors: the name of their column, and the terms that there are.
    Sparse(String, usize),
    /// A vector for each token: the name of their column, and their width.
    Multi(String, usize),
}

impl KindColumns {
    /// No vectors yet, of this kind.
    fn no_rows(&self) -> RowVectors {
        match self {
            Self::Dense(columns) => RowVectors::dense(columns.iter().map(|(_, width)| width).sum()),
            Self::Sparse(..) => RowVectors::Sparse(SparseRows::default()),
            Self::Multi(_, width) => RowVectors::Multi(MultiRows::new(*width)),
        }
    }

    /// The names of its columns, with the widths of their vectors.
    pub fn columns(&self) -> impl Iterator<Item = (&str, usize)> {
        let (several, one) = match self {
            Self::Dense(columns) => (&columns[..], None),
            Self::Sparse(name, width) | Self::Multi(name, width) => (&[][..], Some((name, width))),
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

//! What the numbers of a row are.

use crate::record::RowVectors;
use embedctl_common::vectors::{MultiRows, SparseRows};

/// What the numbers of a row are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RowNumbers {
    /// A vector, or several of other widths.
    #[default]
    Vectors,
    /// One score or several.
    Scores,
    /// The entries of a sparse vector.
    Sparse,
    /// A vector for each token of a text.
    Multi,
}

impl RowNumbers {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Vectors, Self::Scores, Self::Sparse, Self::Multi];

    /// The ending of the name of a column, where a row has vectors of several kinds.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Self::Vectors | Self::Scores => "",
            Self::Sparse => "_sparse",
            Self::Multi => "_multi",
        }
    }

    /// No vectors yet of this form, of `width` components.
    pub(super) fn no_rows(self, width: usize) -> RowVectors {
        match self {
            Self::Sparse => RowVectors::Sparse(SparseRows::default()),
            Self::Multi => RowVectors::Multi(MultiRows::new(width)),
            Self::Vectors | Self::Scores => RowVectors::dense(width),
        }
    }
}

/// Another kind of vectors that a row has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdditionalVectors {
    /// What their numbers are.
    pub numbers: RowNumbers,
    /// Components of a vector.
    pub width: usize,
}

//! Vectors of tokens.

use super::dot;

/// The vectors of a row's tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MultiRow<'a> {
    /// Components of a vector.
    pub width: usize,
    /// The vectors `[tokens, width]`.
    pub values: &'a [f32],
}

impl<'a> MultiRow<'a> {
    /// The vectors, one after another.
    pub fn vectors(&self) -> impl Iterator<Item = &'a [f32]> + use<'a> {
        self.values.chunks_exact(self.width.max(1))
    }

    /// The sum over the vectors of `query` of the greatest dot product with one of these; NaN where there is none.
    #[must_use]
    pub fn max_sim(&self, query: MultiRow<'_>) -> f32 {
        let greatest = |token: &[f32]| {
            let scores = self.vectors().map(|own| dot(token, own));
            scores.fold(f32::NAN, f32::max)
        };
        query.vectors().map(greatest).sum()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Vectors of the tokens of rows, one row after another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MultiRows {
    width: usize,
    values: Vec<f32>,
    /// Where each row's vectors end, in vectors.
    ends: Vec<usize>,
}

impl MultiRows {
    /// No rows, of vectors of `width` components.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self {
            width,
            ..Self::default()
        }
    }

    /// Components of a vector.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Leaves none.
    pub fn clear(&mut self) {
        self.values.clear();
        self.ends.clear();
    }

    /// Appends a row of these values, as many as whole vectors.
    ///
    /// # Panics
    /// If they are not.
    pub fn push(&mut self, values: &[f32]) {
        assert!(
            values.len().is_multiple_of(self.width.max(1)),
            "vectors of another width"
        );
        self.values.extend_from_slice(values);
        self.ends.push(self.values.len() / self.width.max(1));
    }

    /// Row `row`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn get(&self, row: usize) -> MultiRow<'_> {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        MultiRow {
            width: self.width,
            values: &self.values[start * self.width..self.ends[row] * self.width],
        }
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = MultiRow<'_>> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Appends all rows of `other`.
    ///
    /// # Panics
    /// If their vectors are of another width.
    pub(super) fn append(&mut self, mut other: Self) {
        assert!(other.width == self.width, "vectors of another width");
        let vectors = self.ends.last().copied().unwrap_or(0);
        self.values.append(&mut other.values);
        self.ends.extend(other.ends.iter().map(|end| vectors + end));
    }

    /// How many vectors each row has.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| end - start)
    }

    /// The components of all vectors.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The components of all vectors, and where each row's vectors end.
    #[must_use]
    pub fn into_parts(self) -> (Vec<f32>, Vec<usize>) {
        (self.values, self.ends)
    }
}

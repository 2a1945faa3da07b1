//! Vectors of rows, dense, sparse or one for each token, on their way from an engine to an output.

/// The entries of a sparse vector that are not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SparseRow<'a> {
    /// Their places, in ascending order.
    pub indices: &'a [u32],
    /// Their values, as many.
    pub values: &'a [f32],
}

/// Sparse vectors, one after another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SparseRows {
    indices: Vec<u32>,
    values: Vec<f32>,
    /// Where each row's entries end.
    ends: Vec<usize>,
}

impl SparseRow<'_> {
    /// The entries, by ascending index.
    pub fn entries(&self) -> impl Iterator<Item = (u32, f32)> + '_ {
        self.indices
            .iter()
            .copied()
            .zip(self.values.iter().copied())
    }

    /// Walks over the union of both rows' entries: for each index both values, 0 where a row has none.
    pub fn with<'a>(&'a self, other: &'a SparseRow<'a>) -> impl Iterator<Item = (f32, f32)> + 'a {
        let (mut one, mut two) = (0, 0);
        std::iter::from_fn(move || {
            let at = |row: &SparseRow<'_>, place: usize| {
                row.indices
                    .get(place)
                    .map_or(u64::MAX, |&index| index.into())
            };
            let (first, second) = (at(self, one), at(other, two));
            let next = first.min(second);
            if next == u64::MAX {
                return None;
            }
            let mut pair = (0.0, 0.0);
            if first == next {
                pair.0 = self.values[one];
                one += 1;
            }
            if second == next {
                pair.1 = other.values[two];
                two += 1;
            }
            Some(pair)
        })
    }
}

impl SparseRows {
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

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.indices.clear();
        self.values.clear();
        self.ends.clear();
    }

    /// Appends a row.
    pub fn push(&mut self, row: SparseRow<'_>) {
        self.indices.extend_from_slice(row.indices);
        self.values.extend_from_slice(row.values);
        self.ends.push(self.values.len());
    }

    /// Appends a row of these entries, which ascend.
    pub fn push_entries(&mut self, entries: impl IntoIterator<Item = (u32, f32)>) {
        for (index, value) in entries {
            self.indices.push(index);
            self.values.push(value);
        }
        self.ends.push(self.values.len());
    }

    /// Row `row`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn get(&self, row: usize) -> SparseRow<'_> {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        let own = start..self.ends[row];
        SparseRow {
            indices: &self.indices[own.clone()],
            values: &self.values[own],
        }
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = SparseRow<'_>> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// The places of all rows' entries, one row after another.
    #[must_use]
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// The values of all rows' entries.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Where each row's entries end.
    #[must_use]
    pub fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// The indices, the values, and where each row's entries end.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u32>, Vec<f32>, Vec<usize>) {
        (self.indices, self.values, self.ends)
    }
}

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

/// The vectors of some rows.
#[derive(Debug, Clone, PartialEq)]
pub enum RowVectors {
    /// Vectors of one width, row-major.
    Dense {
        /// Components of a row's vectors, all together.
        width: usize,
        /// The components.
        values: Vec<f32>,
    },
    /// Sparse vectors.
    Sparse(SparseRows),
    /// A vector for each token.
    Multi(MultiRows),
}

/// The vector of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowVector<'a> {
    /// All components.
    Dense(&'a [f32]),
    /// The entries that are not zero.
    Sparse(SparseRow<'a>),
    /// The vectors of its tokens.
    Multi(MultiRow<'a>),
}

impl Default for RowVectors {
    fn default() -> Self {
        Self::dense(0)
    }
}

impl RowVectors {
    /// None yet, of `width` components.
    #[must_use]
    pub fn dense(width: usize) -> Self {
        Self::Dense {
            width,
            values: Vec::new(),
        }
    }

    /// Vectors in full, `width` components each.
    #[must_use]
    pub fn in_full(width: usize, values: Vec<f32>) -> Self {
        Self::Dense { width, values }
    }

    /// None yet, of the form of `self`.
    #[must_use]
    pub fn same(&self) -> Self {
        match self {
            Self::Dense { width, .. } => Self::dense(*width),
            Self::Sparse(_) => Self::Sparse(SparseRows::default()),
            Self::Multi(rows) => Self::Multi(MultiRows::new(rows.width)),
        }
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Dense { width, values } => values.len().checked_div(*width).unwrap_or(0),
            Self::Sparse(rows) => rows.len(),
            Self::Multi(rows) => rows.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The vector of row `row`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn get(&self, row: usize) -> RowVector<'_> {
        match self {
            Self::Dense { width, values } => {
                RowVector::Dense(&values[row * width..(row + 1) * width])
            }
            Self::Sparse(rows) => RowVector::Sparse(rows.get(row)),
            Self::Multi(rows) => RowVector::Multi(rows.get(row)),
        }
    }

    /// All rows' vectors.
    pub fn iter(&self) -> impl Iterator<Item = RowVector<'_>> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// The numbers of all rows.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        match self {
            Self::Dense { values, .. } => values,
            Self::Sparse(rows) => rows.values(),
            Self::Multi(rows) => rows.values(),
        }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If it is of the other form, or of another width.
    pub fn push(&mut self, row: RowVector<'_>) {
        match (self, row) {
            (Self::Dense { width, values }, RowVector::Dense(row)) => {
                assert!(*width == row.len(), "a vector of another width");
                values.extend_from_slice(row);
            }
            (Self::Sparse(rows), RowVector::Sparse(row)) => rows.push(row),
            (Self::Multi(rows), RowVector::Multi(row)) => {
                assert!(row.width == rows.width, "vectors of another width");
                rows.push(row.values);
            }
            _ => panic!("a vector of another form"),
        }
    }

    /// Appends all rows of `other`.
    ///
    /// # Panics
    /// As [`RowVectors::push`], unless `self` is empty: then it takes the form of `other`.
    pub fn append(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        match (self, other) {
            (
                Self::Dense { width, values },
                Self::Dense {
                    width: own,
                    values: mut more,
                },
            ) => {
                assert!(*width == own, "vectors of another width");
                values.append(&mut more);
            }
            (Self::Sparse(rows), Self::Sparse(more)) => {
                more.iter().for_each(|row| rows.push(row));
            }
            (Self::Multi(rows), Self::Multi(mut more)) => {
                assert!(more.width == rows.width, "vectors of another width");
                let vectors = rows.ends.last().copied().unwrap_or(0);
                rows.values.append(&mut more.values);
                rows.ends.extend(more.ends.iter().map(|end| vectors + end));
            }
            (_, more) => assert!(more.is_empty(), "vectors of another form"),
        }
    }
}

impl<'a> RowVector<'a> {
    /// All components, where a vector in full has `width`; of a vector for each token, those of all, side by side.
    #[must_use]
    pub fn in_full(&self, width: usize) -> Vec<f32> {
        match self {
            Self::Dense(values) => values.to_vec(),
            Self::Multi(row) => row.values.to_vec(),
            Self::Sparse(row) => {
                let mut full = vec![0.0; width];
                for (index, value) in row.entries() {
                    if let Some(place) = full.get_mut(index as usize) {
                        *place = value;
                    }
                }
                full
            }
        }
    }

    /// The numbers: all components, or those that are not zero.
    #[must_use]
    pub fn values(&self) -> &'a [f32] {
        match self {
            Self::Dense(values) => values,
            Self::Sparse(row) => row.values,
            Self::Multi(row) => row.values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_apart_and_compared_over_the_union_of_their_entries() {
        let mut rows = SparseRows::default();
        rows.push_entries([(1, 0.5), (7, 2.0)]);
        rows.push_entries([]);
        rows.push_entries([(0, 1.0), (7, 3.0), (9, 4.0)]);
        assert_eq!((rows.len(), rows.get(1).indices.len()), (3, 0));
        let (one, two) = (rows.get(0), rows.get(2));
        let union: Vec<_> = one.with(&two).collect();
        assert_eq!(union, [(0.0, 1.0), (0.5, 0.0), (2.0, 3.0), (0.0, 4.0)]);
        let mut all = RowVectors::default();
        all.append(RowVectors::Sparse(rows.clone()));
        all.append(RowVectors::Sparse(rows.clone()));
        assert_eq!(all.len(), 6);
        assert_eq!(all.get(5), RowVector::Sparse(rows.get(2)));
    }

    #[test]
    fn vectors_of_tokens_stay_with_their_rows() {
        let mut rows = MultiRows::new(2);
        rows.push(&[1.0, 2.0, 3.0, 4.0]);
        rows.push(&[]);
        rows.push(&[5.0, 6.0]);
        let mut all = RowVectors::Multi(rows.clone());
        all.append(RowVectors::Multi(rows.clone()));
        all.push(RowVector::Multi(rows.get(0)));
        let RowVectors::Multi(all) = &all else {
            panic!("another form");
        };
        assert_eq!(all.lengths().collect::<Vec<_>>(), [2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(all.get(5).values, [5.0, 6.0]);
        let vectors: Vec<_> = all.get(6).vectors().collect();
        assert_eq!(vectors, [[1.0, 2.0], [3.0, 4.0]]);
    }
}

//! Sparse vectors.

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
    /// The dot product with a vector in full; entries beyond it count as zero.
    #[must_use]
    pub fn dot(&self, full: &[f32]) -> f32 {
        let entries = self.entries();
        let products = entries.filter_map(|(index, value)| Some(full.get(index as usize)? * value));
        products.sum()
    }

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

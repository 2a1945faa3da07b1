//! The numbers of rows from a worker to an output.

use super::{Numbers, RowVector};

/// The numbers of rows: a part for each form, with as many rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowVectors {
    parts: Vec<Numbers>,
}

/// A row's numbers: a part for each form.
#[derive(Debug, Clone, Copy)]
pub struct RowParts<'a> {
    first: RowVector<'a>,
    /// The numbers of this row and of others, of all further forms.
    beside: &'a [Numbers],
    row: usize,
}

impl From<Numbers> for RowVectors {
    fn from(numbers: Numbers) -> Self {
        Self {
            parts: vec![numbers],
        }
    }
}

impl FromIterator<Numbers> for RowVectors {
    fn from_iter<T: IntoIterator<Item = Numbers>>(parts: T) -> Self {
        Self {
            parts: parts.into_iter().collect(),
        }
    }
}

impl RowVectors {
    /// A vector of `width` components in each row: `values` is `[rows, width]`.
    #[must_use]
    pub fn in_full(width: usize, values: Vec<f32>) -> Self {
        Numbers::in_full(width, values).into()
    }

    /// None yet, of the forms of `self`.
    #[must_use]
    pub fn same(&self) -> Self {
        self.parts.iter().map(Numbers::same).collect()
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.first().map_or(0, Numbers::len)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Row `row`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn get(&self, row: usize) -> RowParts<'_> {
        RowParts {
            first: self.parts[0].get(row),
            beside: &self.parts[1..],
            row,
        }
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = RowParts<'_>> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// The numbers of each form.
    #[must_use]
    pub fn parts(&self) -> &[Numbers] {
        &self.parts
    }

    /// The same, to be changed.
    pub fn parts_mut(&mut self) -> &mut [Numbers] {
        &mut self.parts
    }

    /// The same, taken apart.
    #[must_use]
    pub fn into_parts(self) -> Vec<Numbers> {
        self.parts
    }

    /// The numbers, where all of them are of one form.
    #[must_use]
    pub fn into_one(self) -> Option<Numbers> {
        let [one] = <[Numbers; 1]>::try_from(self.parts).ok()?;
        Some(one)
    }

    /// The numbers of all rows, form by form.
    pub fn values(&self) -> impl Iterator<Item = &[f32]> {
        self.parts.iter().map(Numbers::values)
    }

    /// Bytes of all rows, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(Numbers::bytes).sum()
    }

    /// Makes room for more rows, where all have as many numbers.
    pub fn reserve(&mut self, rows: usize) {
        self.parts.iter_mut().for_each(|part| part.reserve(rows));
    }

    /// Appends a row that holds the place of a missing one ([`Numbers::push_nothing`]).
    pub fn push_nothing(&mut self) {
        self.parts.iter_mut().for_each(Numbers::push_nothing);
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If it has other forms, or is of another width.
    pub fn push(&mut self, row: RowParts<'_>) {
        assert!(row.beside.len() + 1 == self.parts.len(), "other forms");
        let parts = self.parts.iter_mut().zip(row.parts());
        parts.for_each(|(part, row)| part.push(row));
    }

    /// Appends all rows of `other`.
    ///
    /// # Panics
    /// As [`RowVectors::push`], unless `self` is empty: then it takes the forms of `other`.
    pub fn append(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        if other.is_empty() {
            return;
        }
        assert!(other.parts.len() == self.parts.len(), "other forms");
        let parts = self.parts.iter_mut().zip(other.parts);
        parts.for_each(|(part, more)| part.append(more));
    }
}

impl<'a> From<RowVector<'a>> for RowParts<'a> {
    fn from(row: RowVector<'a>) -> Self {
        Self {
            first: row,
            beside: &[],
            row: 0,
        }
    }
}

impl PartialEq for RowParts<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.parts().eq(other.parts())
    }
}

impl<'a> RowParts<'a> {
    /// Its numbers of the first form.
    #[must_use]
    pub fn first(self) -> RowVector<'a> {
        self.first
    }

    /// Its numbers of each form.
    pub fn parts(self) -> impl Iterator<Item = RowVector<'a>> {
        let beside = self.beside.iter().map(move |part| part.get(self.row));
        std::iter::once(self.first).chain(beside)
    }

    /// Its numbers, form by form.
    pub fn values(self) -> impl Iterator<Item = &'a [f32]> {
        self.parts().map(|part| part.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_row_stay_together() {
        let mut entries = Numbers::of_entries();
        entries.push_entries([(1, 0.5)]);
        entries.push_entries([]);
        let dense = Numbers::in_full(1, vec![1.0, 2.0]);
        let rows = RowVectors::from_iter([dense.clone(), entries.clone()]);
        let mut all = RowVectors::default();
        all.append(rows.clone());
        all.append(rows.same());
        all.append(rows.clone());
        all.push(rows.get(0));
        all.push_nothing();
        assert_eq!(all.len(), 6);
        assert_eq!(all.get(3), rows.get(1));
        let values: Vec<&[f32]> = all.get(4).values().collect();
        assert_eq!(values, [&[1.0][..], &[0.5]]);
        assert_ne!(all.get(4), dense.get(0).into());
        assert_eq!((rows.into_one(), all.into_parts().len()), (None, 2));
        assert_eq!(RowVectors::from(dense.clone()).into_one(), Some(dense));
    }
}

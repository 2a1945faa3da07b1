//! The numbers of rows of one form.

use super::{RowVector, dot};

/// The numbers of rows of one form, row by row: one vector in each row, any number of vectors of one width, or the entries
/// of a vector that are not zero. What they mean is told by their [`RowForm`](super::RowForm).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Numbers {
    /// Components of a vector; 0 where entries are kept.
    width: usize,
    /// The components of all vectors, or the values of all entries.
    values: Vec<f32>,
    /// Where entries are kept, the place of each in its vector.
    indices: Option<Vec<u32>>,
    /// Where rows have different numbers of values, where those of each row end.
    ends: Option<Vec<usize>>,
}

impl Numbers {
    /// A vector of `width` components in each row: `values` is `[rows, width]`.
    #[must_use]
    pub fn in_full(width: usize, values: Vec<f32>) -> Self {
        Self {
            width,
            values,
            ..Self::default()
        }
    }

    /// No rows yet, each of which has any number of vectors of `width` components.
    #[must_use]
    pub fn of_vectors(width: usize) -> Self {
        Self {
            width,
            ends: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// No rows yet, of each of which the entries that are not zero are kept.
    #[must_use]
    pub fn of_entries() -> Self {
        Self {
            indices: Some(Vec::new()),
            ends: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// No rows that fit beside `row`.
    pub(super) fn like(row: RowVector<'_>) -> Self {
        Self {
            width: row.width,
            values: Vec::new(),
            indices: row.indices.map(|_| Vec::new()),
            ends: row.varies.then(Vec::new),
        }
    }

    /// None yet, of the form of `self`.
    #[must_use]
    pub fn same(&self) -> Self {
        Self {
            width: self.width,
            values: Vec::new(),
            indices: self.indices.as_ref().map(|_| Vec::new()),
            ends: self.ends.as_ref().map(|_| Vec::new()),
        }
    }

    /// Whether these are `rows` rows, all of them whole, of the form of `other`.
    pub(super) fn are(&self, rows: usize, other: &Self) -> bool {
        let is_whole = match (&self.ends, &other.ends) {
            (None, None) => self.values.len() == rows * other.width,
            (Some(ends), Some(_)) => ends.len() == rows && self.width == other.width,
            _ => false,
        };
        is_whole && self.indices.is_some() == other.indices.is_some()
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.ends {
            Some(ends) => ends.len(),
            None => self.values.len().checked_div(self.width).unwrap_or(0),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Components of a vector; `None` where entries are kept, which tell no width.
    #[must_use]
    pub fn width(&self) -> Option<usize> {
        self.indices.is_none().then_some(self.width)
    }

    /// How many numbers a row has, where all rows have as many.
    #[must_use]
    pub fn row_len(&self) -> Option<usize> {
        self.ends.is_none().then_some(self.width)
    }

    /// Row `row`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn get(&self, row: usize) -> RowVector<'_> {
        let own = match &self.ends {
            Some(ends) => row.checked_sub(1).map_or(0, |before| ends[before])..ends[row],
            None => row * self.width..(row + 1) * self.width,
        };
        RowVector {
            width: self.width,
            values: &self.values[own.clone()],
            indices: self.indices.as_ref().map(|indices| &indices[own]),
            varies: self.ends.is_some(),
        }
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = RowVector<'_>> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// The components of all vectors, or the values of all entries, row by row.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The components, to which more may be appended: whole rows, or a row piece by piece.
    ///
    /// # Panics
    /// If rows have different numbers of values, so that nothing would say where one ends.
    pub fn values_mut(&mut self) -> &mut Vec<f32> {
        assert!(self.ends.is_none(), "rows of different lengths");
        &mut self.values
    }

    /// The components of all vectors, or the values of all entries, row by row.
    #[must_use]
    pub fn into_values(self) -> Vec<f32> {
        self.values
    }

    /// Where entries are kept: the places of all of them, row by row, their values, and where each row's entries end.
    #[must_use]
    pub fn entries(&self) -> Option<(&[u32], &[f32], &[usize])> {
        Some((
            self.indices.as_deref()?,
            &self.values,
            self.ends.as_deref()?,
        ))
    }

    /// The same, taken apart.
    #[must_use]
    pub fn into_entries(self) -> Option<(Vec<u32>, Vec<f32>, Vec<usize>)> {
        Some((self.indices?, self.values, self.ends?))
    }

    /// How many vectors each row has, where rows have any number of them.
    #[must_use]
    pub fn counts(&self) -> Option<impl Iterator<Item = usize>> {
        let ends = self.ends.as_ref().filter(|_| self.indices.is_none())?;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let lengths = starts.zip(ends).map(|(start, end)| end - start);
        Some(lengths.map(|values| values / self.width.max(1)))
    }

    /// Bytes of all rows, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&self.values[..]) + self.indices.as_ref().map_or(0, |it| size_of_val(&it[..]))
    }

    /// Makes room for more rows, where all have as many numbers.
    pub fn reserve(&mut self, rows: usize) {
        self.values.reserve(rows * self.row_len().unwrap_or(0));
    }

    /// Leaves no row.
    pub fn clear(&mut self) {
        self.values.clear();
        self.indices.iter_mut().for_each(Vec::clear);
        self.ends.iter_mut().for_each(Vec::clear);
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If it is of another form, or of another width.
    pub fn push(&mut self, row: RowVector<'_>) {
        let is_same =
            row.varies == self.ends.is_some() && row.indices.is_some() == self.indices.is_some();
        assert!(is_same, "a vector of another form");
        assert!(row.width == self.width, "a vector of another width");
        if let (Some(own), Some(indices)) = (&mut self.indices, row.indices) {
            own.extend_from_slice(indices);
        }
        self.values.extend_from_slice(row.values);
        self.end_row();
    }

    /// Appends a row of these components: a vector, or as many as rows may have.
    ///
    /// # Panics
    /// If they are not whole vectors, or entries are kept.
    pub fn push_values(&mut self, values: &[f32]) {
        assert!(self.indices.is_none(), "components for entries");
        let is_whole = match self.ends {
            Some(_) => values.len().is_multiple_of(self.width.max(1)),
            None => values.len() == self.width,
        };
        assert!(is_whole, "vectors of another width");
        self.values.extend_from_slice(values);
        self.end_row();
    }

    /// Appends a row of these entries, whose places ascend.
    ///
    /// # Panics
    /// If no entries are kept.
    pub fn push_entries(&mut self, entries: impl IntoIterator<Item = (u32, f32)>) {
        let indices = self.indices.as_mut().expect("rows of entries");
        for (index, value) in entries {
            indices.push(index);
            self.values.push(value);
        }
        self.end_row();
    }

    /// Appends a row whose vector is given in full; where entries are kept, those that are not zero.
    ///
    /// # Panics
    /// If it is of another width.
    pub fn push_full(&mut self, vector: &[f32]) {
        if self.indices.is_none() {
            return self.push_values(vector);
        }
        let entries = (0..).zip(vector.iter().copied());
        self.push_entries(entries.filter(|(_, value)| *value != 0.0));
    }

    /// Appends a row that holds the place of a missing one: zeros, or nothing where rows have different numbers of values.
    pub fn push_nothing(&mut self) {
        let end = self.values.len() + self.row_len().unwrap_or(0);
        self.values.resize(end, 0.0);
        self.end_row();
    }

    /// Marks the end of a row, where that is needed.
    fn end_row(&mut self) {
        if let Some(ends) = &mut self.ends {
            ends.push(self.values.len());
        }
    }

    /// Appends all rows of `other`.
    ///
    /// # Panics
    /// If they are of another form, or of another width.
    pub fn append(&mut self, mut other: Self) {
        let is_same = other.ends.is_some() == self.ends.is_some()
            && other.indices.is_some() == self.indices.is_some();
        assert!(is_same, "vectors of another form");
        assert!(other.width == self.width, "vectors of another width");
        if let (Some(own), Some(ends)) = (&mut self.ends, other.ends) {
            let before = self.values.len();
            own.extend(ends.iter().map(|end| before + end));
        }
        if let (Some(own), Some(indices)) = (&mut self.indices, &mut other.indices) {
            own.append(indices);
        }
        self.values.append(&mut other.values);
    }

    /// These rows as queries that rows are [compared with](RowVector::compare): vectors of length 1 where a row has one, and
    /// in full where entries are kept.
    #[must_use]
    pub fn as_queries(&self) -> Self {
        if let Some(indices) = &self.indices {
            let width = indices.iter().max().map_or(1, |last| *last as usize + 1);
            let full = self.iter().flat_map(|query| query.in_full(width));
            return Self::in_full(width, full.collect());
        }
        let mut queries = self.clone();
        if self.ends.is_none() {
            for query in queries.values.chunks_exact_mut(self.width.max(1)) {
                let length = dot(query, query).sqrt();
                let scale = if length > 0.0 { length.recip() } else { 0.0 };
                query.iter_mut().for_each(|number| *number *= scale);
            }
        }
        queries
    }
}

#[cfg(test)]
mod tests {
    use super::super::RowForm;
    use super::*;

    fn entries() -> Numbers {
        let mut rows = Numbers::of_entries();
        rows.push_entries([(1, 0.5), (7, 2.0)]);
        rows.push_entries([]);
        rows.push_entries([(0, 1.0), (7, 3.0), (9, 4.0)]);
        rows
    }

    #[test]
    fn rows_are_kept_apart_and_compared_over_the_union_of_their_entries() {
        let rows = entries();
        assert_eq!((rows.len(), rows.get(1).values().len()), (3, 0));
        let (one, two) = (rows.get(0), rows.get(2));
        let union: Vec<_> = one.union(two).collect();
        assert_eq!(union, [(0.0, 1.0), (0.5, 0.0), (2.0, 3.0), (0.0, 4.0)]);
        let mut all = rows.clone();
        all.append(rows.clone());
        assert_eq!(all.len(), 6);
        assert_eq!(all.get(5), rows.get(2));
    }

    #[test]
    fn a_vector_in_full_becomes_a_row_of_any_form() {
        for form in RowForm::of_vectors() {
            let mut rows = form.of_width(3).no_rows();
            rows.push_full(&[0.0, 2.0, 0.0]);
            assert_eq!(
                (rows.len(), rows.get(0).in_full(3)),
                (1, vec![0.0, 2.0, 0.0])
            );
            let halved = rows.get(0).mapped(|it| it[..2].to_vec());
            let width = if form.is_sparse() { 3 } else { 2 };
            assert_eq!(halved.get(0).in_full(width).len(), width);
        }
    }

    #[test]
    fn vectors_of_tokens_stay_with_their_rows() {
        let mut rows = Numbers::of_vectors(2);
        rows.push_values(&[1.0, 2.0, 3.0, 4.0]);
        rows.push_values(&[]);
        rows.push_values(&[5.0, 6.0]);
        let mut all = rows.clone();
        all.append(rows.clone());
        all.push(rows.get(0));
        let counts: Vec<usize> = all.counts().unwrap().collect();
        assert_eq!(counts, [2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(all.get(5).values(), [5.0, 6.0]);
        let vectors: Vec<_> = all.get(6).vectors().collect();
        assert_eq!(vectors, [[1.0, 2.0], [3.0, 4.0]]);
    }

    #[test]
    fn rows_of_another_form_or_width_are_refused() {
        let all = || {
            [Numbers::in_full(2, vec![1.0; 2]), entries(), {
                let mut tokens = Numbers::of_vectors(2);
                tokens.push_values(&[1.0; 2]);
                tokens
            }]
        };
        let panics = |work: &mut dyn FnMut()| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err()
        };
        for (place, rows) in all().into_iter().enumerate() {
            for (other_place, other) in all().into_iter().enumerate() {
                let is_other = place != other_place;
                assert_eq!(panics(&mut || rows.clone().push(other.get(0))), is_other);
                assert_eq!(panics(&mut || rows.clone().append(other.clone())), is_other);
            }
        }
        let mut wider = Numbers::in_full(3, Vec::new());
        assert!(panics(&mut || wider.push(RowVector::of_vector(&[1.0]))));
        assert!(panics(&mut || wider.push_full(&[1.0])));
        assert!(panics(&mut || Numbers::of_vectors(2).push_values(&[1.0; 3])));
        assert!(panics(&mut || wider.push_entries([(0, 1.0)])));
        assert!(panics(&mut || Numbers::of_entries().push_values(&[1.0])));
    }
}

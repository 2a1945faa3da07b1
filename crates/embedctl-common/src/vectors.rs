//! Vectors of rows on their way from an engine to an output: dense, sparse, one for each token, or several of these.

mod form;
mod multi;
mod sparse;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use form::{EMBEDDING, Forms, RowForm, Terms, VectorKind};
pub use multi::{MultiRow, MultiRows};
pub use sparse::{SparseRow, SparseRows};

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
    /// Vectors of several of these kinds, as many rows of each.
    Several(Vec<Self>),
}

/// Two vectors, of which one component is as good as that of the other in its place.
pub type AlignedVectors<'a> = (Cow<'a, [f32]>, Cow<'a, [f32]>);

/// A row's vectors of several kinds.
#[derive(Debug, Clone, Copy)]
pub struct SeveralRow<'a> {
    kinds: &'a [RowVectors],
    row: usize,
}

impl<'a> SeveralRow<'a> {
    /// The vector of each kind.
    pub fn vectors(self) -> impl Iterator<Item = RowVector<'a>> {
        self.kinds.iter().map(move |kind| kind.get(self.row))
    }
}

impl PartialEq for SeveralRow<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.vectors().eq(other.vectors())
    }
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
    /// A vector of each of several kinds.
    Several(SeveralRow<'a>),
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
            Self::Multi(rows) => Self::Multi(MultiRows::new(rows.width())),
            Self::Several(kinds) => Self::Several(kinds.iter().map(Self::same).collect()),
        }
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Dense { width, values } => values.len().checked_div(*width).unwrap_or(0),
            Self::Sparse(rows) => rows.len(),
            Self::Multi(rows) => rows.len(),
            Self::Several(kinds) => kinds.first().map_or(0, Self::len),
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
            Self::Several(kinds) => RowVector::Several(SeveralRow { kinds, row }),
        }
    }

    /// All rows' vectors.
    pub fn iter(&self) -> impl Iterator<Item = RowVector<'_>> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// The numbers of all rows, those of each kind together.
    #[must_use]
    pub fn values(&self) -> Vec<&[f32]> {
        match self {
            Self::Dense { values, .. } => vec![values],
            Self::Sparse(rows) => vec![rows.values()],
            Self::Multi(rows) => vec![rows.values()],
            Self::Several(kinds) => kinds.iter().flat_map(Self::values).collect(),
        }
    }

    /// Bytes of all rows, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Dense { values, .. } => size_of_val(&values[..]),
            Self::Sparse(rows) => size_of_val(rows.values()) + size_of_val(rows.indices()),
            Self::Multi(rows) => size_of_val(rows.values()),
            Self::Several(kinds) => kinds.iter().map(Self::bytes).sum(),
        }
    }

    /// Appends a row that holds the place of a missing one: zeros, no entry, no token.
    pub fn push_nothing(&mut self) {
        match self {
            Self::Dense { width, values } => values.resize(values.len() + *width, 0.0),
            Self::Sparse(rows) => rows.push(SparseRow::default()),
            Self::Multi(rows) => rows.push(&[]),
            Self::Several(kinds) => kinds.iter_mut().for_each(Self::push_nothing),
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
                assert!(row.width == rows.width(), "vectors of another width");
                rows.push(row.values);
            }
            (Self::Several(kinds), RowVector::Several(row)) => {
                let own = kinds.iter_mut().zip(row.vectors());
                own.for_each(|(kind, vector)| kind.push(vector));
            }
            _ => panic!("a vector of another form"),
        }
    }

    /// The width of their vectors; `None` of sparse ones, which have no fixed number of entries, and of several kinds.
    #[must_use]
    pub fn width(&self) -> Option<usize> {
        match self {
            Self::Dense { width, .. } => Some(*width),
            Self::Multi(rows) => Some(rows.width()),
            Self::Sparse(_) | Self::Several(_) => None,
        }
    }

    /// These rows as queries that rows are [compared with](RowVector::compare): dense vectors of length 1, and sparse ones in
    /// full.
    #[must_use]
    pub fn as_queries(&self) -> Self {
        match self {
            Self::Dense { width, values } => {
                let mut values = values.clone();
                for query in values.chunks_exact_mut((*width).max(1)) {
                    let length = dot(query, query).sqrt();
                    let scale = if length > 0.0 { length.recip() } else { 0.0 };
                    query.iter_mut().for_each(|number| *number *= scale);
                }
                Self::in_full(*width, values)
            }
            Self::Sparse(rows) => {
                let last = rows.indices().iter().max();
                let width = last.map_or(1, |last| *last as usize + 1);
                let full = self.iter().flat_map(|query| query.in_full(width));
                Self::in_full(width, full.collect())
            }
            Self::Multi(_) => self.clone(),
            Self::Several(kinds) => Self::Several(kinds.iter().map(Self::as_queries).collect()),
        }
    }

    /// Leaves none.
    pub fn clear(&mut self) {
        match self {
            Self::Dense { values, .. } => values.clear(),
            Self::Sparse(rows) => rows.clear(),
            Self::Multi(rows) => rows.clear(),
            Self::Several(kinds) => kinds.iter_mut().for_each(Self::clear),
        }
    }

    /// Appends a row whose vector is given in full: of a sparse one the components that are not zero, of tokens' vectors one.
    ///
    /// # Panics
    /// If it is of another width, or rows have several kinds.
    pub fn push_full(&mut self, vector: &[f32]) {
        match self {
            Self::Dense { width, values } => {
                assert!(*width == vector.len(), "a vector of another width");
                values.extend_from_slice(vector);
            }
            Self::Sparse(rows) => {
                let entries = (0..).zip(vector.iter().copied());
                rows.push_entries(entries.filter(|(_, value)| *value != 0.0));
            }
            Self::Multi(rows) => rows.push(vector),
            Self::Several(_) => panic!("one vector for several kinds"),
        }
    }

    /// The rows' vectors of each kind.
    #[must_use]
    pub fn kinds(&self) -> &[Self] {
        match self {
            Self::Several(kinds) => kinds,
            one => std::slice::from_ref(one),
        }
    }

    /// The same, to be changed.
    pub fn kinds_mut(&mut self) -> &mut [Self] {
        match self {
            Self::Several(kinds) => kinds,
            one => std::slice::from_mut(one),
        }
    }

    /// The rows' vectors of each kind, apart.
    #[must_use]
    pub fn into_kinds(self) -> Vec<Self> {
        match self {
            Self::Several(kinds) => kinds,
            one => vec![one],
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
            (Self::Multi(rows), Self::Multi(more)) => rows.append(more),
            (Self::Several(kinds), Self::Several(more)) => {
                let own = kinds.iter_mut().zip(more);
                own.for_each(|(kind, more)| kind.append(more));
            }
            (_, more) => assert!(more.is_empty(), "vectors of another form"),
        }
    }
}

impl<'a> RowVector<'a> {
    /// All components, where a vector in full has `width`; of a vector for each token, those of all, side by side; of
    /// several kinds, those of the first.
    #[must_use]
    pub fn in_full(&self, width: usize) -> Vec<f32> {
        match self {
            Self::Dense(values) => values.to_vec(),
            Self::Multi(row) => row.values.to_vec(),
            Self::Several(row) => {
                (row.vectors().next()).map_or_else(Vec::new, |it| it.in_full(width))
            }
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

    /// A sparse vector of these entries.
    #[must_use]
    pub fn of_entries(indices: &'a [u32], values: &'a [f32]) -> Self {
        Self::Sparse(SparseRow { indices, values })
    }

    /// Vectors of tokens, so wide.
    #[must_use]
    pub fn of_tokens(width: usize, values: &'a [f32]) -> Self {
        Self::Multi(MultiRow { width, values })
    }

    /// No rows of the form of this one.
    #[must_use]
    pub fn no_rows(&self) -> RowVectors {
        match self {
            Self::Dense(values) => RowVectors::dense(values.len()),
            Self::Sparse(_) => RowVectors::Sparse(SparseRows::default()),
            Self::Multi(row) => RowVectors::Multi(MultiRows::new(row.width)),
            Self::Several(row) => {
                RowVectors::Several(row.vectors().map(|it| it.no_rows()).collect())
            }
        }
    }

    /// The row alone, each of its vectors as `make` makes it; sparse ones stay as they are.
    pub fn mapped(self, make: &dyn Fn(&[f32]) -> Vec<f32>) -> RowVectors {
        match self {
            Self::Dense(values) => {
                let values = make(values);
                RowVectors::in_full(values.len(), values)
            }
            Self::Multi(row) => {
                let vectors: Vec<Vec<f32>> = row.vectors().map(make).collect();
                let mut rows = MultiRows::new(vectors.first().map_or(row.width, Vec::len));
                rows.push(&vectors.concat());
                RowVectors::Multi(rows)
            }
            Self::Several(row) => {
                RowVectors::Several(row.vectors().map(|it| it.mapped(make)).collect())
            }
            Self::Sparse(_) => {
                let mut rows = self.no_rows();
                rows.push(self);
                rows
            }
        }
    }

    /// The row with other numbers: each of its vectors as `write` appends it to `room`, which is empty; sparse ones stay as
    /// they are, and so do those of several kinds.
    pub fn rewritten<'r>(
        self,
        room: &'r mut Vec<f32>,
        write: impl Fn(&[f32], &mut Vec<f32>),
    ) -> RowVector<'r>
    where
        'a: 'r,
    {
        match self {
            Self::Dense(values) => {
                write(values, room);
                RowVector::Dense(room)
            }
            Self::Multi(row) => {
                row.vectors().for_each(|vector| write(vector, room));
                let width = room.len().checked_div(row.len()).unwrap_or(row.width);
                RowVector::of_tokens(width, room)
            }
            Self::Sparse(_) | Self::Several(_) => self,
        }
    }

    /// Hands over how near the row is to each of `queries`, which are [made ready](RowVectors::as_queries), with the query's
    /// number: the cosine of dense vectors, the dot product of sparse ones, and of vectors of tokens the sum of the greatest
    /// dot product of each of the query's (`MaxSim`). Nothing where they are of another form or width.
    pub fn compare(self, queries: &RowVectors, take: &mut dyn FnMut(usize, f32)) {
        match (self, queries) {
            (Self::Dense(row), RowVectors::Dense { width, values }) if row.len() == *width => {
                let length = dot(row, row).sqrt();
                let scale = if length == 0.0 { 0.0 } else { length.recip() };
                for (number, query) in values.chunks_exact((*width).max(1)).enumerate() {
                    take(number, dot(query, row) * scale);
                }
            }
            (Self::Sparse(row), RowVectors::Dense { width, values }) => {
                for (number, query) in values.chunks_exact((*width).max(1)).enumerate() {
                    take(number, row.dot(query));
                }
            }
            (Self::Multi(row), RowVectors::Multi(queries)) => {
                for (number, query) in queries.iter().enumerate() {
                    take(number, row.max_sim(query));
                }
            }
            _ => {}
        }
    }

    /// The vectors of both rows side by side, component by component: sparse ones over the union of their entries, those of
    /// tokens one after another, and vectors in full as far as the shorter one goes. `None` where they have other forms, or
    /// other numbers of tokens.
    #[must_use]
    pub fn aligned(self, other: Self) -> Option<Vec<AlignedVectors<'a>>> {
        match (self, other) {
            (Self::Sparse(one), Self::Sparse(other)) => {
                let (one, other): (Vec<f32>, Vec<f32>) = one.with(&other).unzip();
                Some(vec![(one.into(), other.into())])
            }
            (Self::Multi(one), Self::Multi(other)) if one.len() == other.len() => {
                let pairs = one.vectors().zip(other.vectors());
                Some(
                    pairs
                        .map(|(one, other)| (one.into(), other.into()))
                        .collect(),
                )
            }
            (Self::Dense(one), Self::Dense(other)) => {
                let width = one.len().min(other.len());
                Some(vec![(one[..width].into(), other[..width].into())])
            }
            _ => None,
        }
    }

    /// The vectors of the kind of this number, where there are several; else these.
    #[must_use]
    pub fn kind(self, number: usize) -> Self {
        match self {
            Self::Several(row) => row.vectors().nth(number).unwrap_or(self),
            one => one,
        }
    }

    /// The numbers: all components, or those that are not zero; those of each kind together.
    #[must_use]
    pub fn values(&self) -> Vec<&'a [f32]> {
        match self {
            Self::Dense(values) => vec![values],
            Self::Sparse(row) => vec![row.values],
            Self::Multi(row) => vec![row.values],
            Self::Several(row) => row.vectors().flat_map(|it| it.values()).collect(),
        }
    }

    /// A row made of two of one form. `at` says of each component whether it is the other row's, and a factor.
    pub fn mixed(self, other: RowVector<'_>, at: &dyn Fn(usize) -> (bool, f32)) -> RowVectors {
        let components = |one: &[f32], other: &[f32]| -> Vec<f32> {
            let pairs = one.iter().zip(other.iter().cycle()).enumerate();
            let mixed = pairs.map(|(place, (&one, &other))| {
                let (takes_other, factor) = at(place);
                factor * if takes_other { other } else { one }
            });
            mixed.collect()
        };
        let mut made = self.no_rows();
        match (self, other) {
            (Self::Dense(one), RowVector::Dense(other)) => {
                made.push(RowVector::Dense(&components(one, other)));
            }
            (Self::Multi(one), RowVector::Multi(other)) => {
                let values = components(one.values, other.values);
                made.push(RowVector::of_tokens(one.width, &values));
            }
            (Self::Sparse(one), RowVector::Sparse(other)) => {
                let is_of_other = |term: u32| at(term as usize).0;
                let of_one = one.entries().filter(|(term, _)| !is_of_other(*term));
                let of_other = other.entries().filter(|(term, _)| is_of_other(*term));
                let entries: BTreeMap<u32, f32> = of_one.chain(of_other).collect();
                if let RowVectors::Sparse(rows) = &mut made {
                    let factor = |term: u32| at(term as usize).1;
                    let changed = entries.into_iter();
                    rows.push_entries(changed.map(|(term, weight)| (term, weight * factor(term))));
                }
            }
            (Self::Several(one), RowVector::Several(other)) => {
                let kinds = one.vectors().zip(other.vectors());
                return RowVectors::Several(
                    kinds.map(|(one, other)| one.mixed(other, at)).collect(),
                );
            }
            (one, _) => made.push(one),
        }
        made
    }

    /// The sparse vector, if it is one or there is one among several kinds.
    #[must_use]
    pub fn sparse(&self) -> Option<SparseRow<'a>> {
        match self {
            Self::Sparse(row) => Some(*row),
            Self::Several(row) => row.vectors().find_map(|it| it.sparse()),
            Self::Dense(_) | Self::Multi(_) => None,
        }
    }

    /// The vectors of tokens, if it is such or there are such among several kinds.
    #[must_use]
    pub fn multi(&self) -> Option<MultiRow<'a>> {
        match self {
            Self::Multi(row) => Some(*row),
            Self::Several(row) => row.vectors().find_map(|it| it.multi()),
            Self::Dense(_) | Self::Sparse(_) => None,
        }
    }
}

/// The dot product, in sixteen sums, which a processor adds side by side.
fn dot(one: &[f32], other: &[f32]) -> f32 {
    let (ones, one) = one.as_chunks::<16>();
    let (others, other) = other.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for (one, other) in ones.iter().zip(others) {
        for lane in 0..16 {
            sums[lane] += one[lane] * other[lane];
        }
    }
    let rest: f32 = one.iter().zip(other).map(|(one, other)| one * other).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_summed_whatever_the_width() {
        for width in [0, 1, 15, 16, 17, 48, 61] {
            let numbers: Vec<f32> = (0..width).map(|it| it as f32).collect();
            let expected: f32 = numbers.iter().map(|it| it * it).sum();
            assert!(
                (dot(&numbers, &numbers) - expected).abs() <= expected * 1e-6,
                "{width}"
            );
        }
    }

    #[test]
    fn rows_are_compared_with_queries_of_their_form() {
        let scores = |row: RowVector<'_>, queries: &RowVectors| {
            let mut scores = Vec::new();
            row.compare(&queries.as_queries(), &mut |query, score| {
                scores.push((query, score));
            });
            scores
        };
        let dense = RowVectors::in_full(2, vec![3.0, 4.0, 0.0, 0.0]);
        assert_eq!(
            scores(RowVector::Dense(&[0.0, 2.0]), &dense),
            [(0, 0.8), (1, 0.0)]
        );
        let mut sparse = SparseRows::default();
        sparse.push_entries([(1, 2.0), (3, 4.0)]);
        sparse.push_entries([]);
        let row = RowVector::of_entries(&[0, 3, 9], &[1.0, 0.5, 7.0]);
        let sparse = RowVectors::Sparse(sparse);
        assert_eq!(scores(row, &sparse), [(0, 2.0), (1, 0.0)]);
        let empty = RowVectors::Sparse(SparseRows::default());
        assert_eq!(scores(row, &empty), []);
        let mut multi = MultiRows::new(2);
        multi.push(&[1.0, 0.0, 0.0, 2.0]);
        let row = RowVector::of_tokens(2, &[0.5, 0.5, 0.25, 1.0]);
        assert_eq!(scores(row, &RowVectors::Multi(multi.clone())), [(0, 2.5)]);
        // A text without a token is near nothing.
        let nothing = scores(RowVector::of_tokens(2, &[]), &RowVectors::Multi(multi));
        assert!(nothing[0].1.is_nan());
        assert_eq!(scores(RowVector::Dense(&[1.0]), &empty), []);
    }

    #[test]
    fn a_row_is_rewritten_vector_by_vector() {
        let twice = |vector: &[f32], out: &mut Vec<f32>| {
            vector.iter().for_each(|number| out.extend([*number; 2]));
        };
        let mut room = Vec::new();
        let row = RowVector::of_tokens(1, &[1.0, 2.0]).rewritten(&mut room, twice);
        assert_eq!(row, RowVector::of_tokens(2, &[1.0, 1.0, 2.0, 2.0]));
        let sparse = RowVector::of_entries(&[4], &[1.0]);
        assert_eq!(sparse.rewritten(&mut Vec::new(), twice), sparse);
    }

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
    fn vectors_of_one_form_are_compared_side_by_side() {
        let mut rows = SparseRows::default();
        rows.push_entries([(1, 0.5), (7, 2.0)]);
        rows.push_entries([(7, 3.0), (9, 4.0)]);
        let sparse = |row| RowVector::Sparse(rows.get(row));
        let pairs = sparse(0).aligned(sparse(1)).unwrap();
        let [(one, other)] = &pairs[..] else {
            panic!("{pairs:?}");
        };
        assert_eq!(&one[..], [0.5, 2.0, 0.0]);
        assert_eq!(&other[..], [0.0, 3.0, 4.0]);
        let tokens = |values| RowVector::of_tokens(2, values);
        let pairs = tokens(&[1.0, 2.0, 3.0, 4.0]).aligned(tokens(&[5.0, 6.0, 7.0, 8.0]));
        assert_eq!(pairs.unwrap().len(), 2);
        assert!(tokens(&[1.0, 2.0]).aligned(tokens(&[])).is_none());
        assert!(tokens(&[1.0]).aligned(sparse(0)).is_none());
        let cut = RowVector::Dense(&[1.0, 2.0]).aligned(RowVector::Dense(&[3.0]));
        assert_eq!(cut.unwrap(), [(vec![1.0].into(), vec![3.0].into())]);
    }

    #[test]
    fn a_vector_in_full_becomes_a_row_of_any_form() {
        for kind in VectorKind::ALL {
            let mut rows = RowForm::of_kind(kind, 3).no_rows();
            rows.push_full(&[0.0, 2.0, 0.0]);
            assert_eq!(
                (rows.len(), rows.get(0).in_full(3)),
                (1, vec![0.0, 2.0, 0.0])
            );
            let halved = rows.get(0).mapped(&|it| it[..2].to_vec());
            let width = if kind == VectorKind::Sparse { 3 } else { 2 };
            assert_eq!(halved.get(0).in_full(width).len(), width);
        }
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

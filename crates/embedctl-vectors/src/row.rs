//! A row's numbers of one form.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Numbers, dot};

/// A row's numbers of one form: a vector, any number of vectors of one width, or the entries of a vector that are not zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowVector<'a> {
    /// Components of a vector; 0 of entries.
    pub(super) width: usize,
    pub(super) values: &'a [f32],
    /// Of entries, the places of the values.
    pub(super) indices: Option<&'a [u32]>,
    /// Whether other rows of this form may have other numbers of values.
    pub(super) varies: bool,
}

/// Two vectors, of which one component is as good as that of the other in its place.
pub type AlignedVectors<'a> = (Cow<'a, [f32]>, Cow<'a, [f32]>);

impl<'a> RowVector<'a> {
    /// A vector in full.
    #[must_use]
    pub fn of_vector(values: &'a [f32]) -> Self {
        Self {
            width: values.len(),
            values,
            indices: None,
            varies: false,
        }
    }

    /// Vectors of `width` components, as many as there are: `values` is `[vectors, width]`.
    #[must_use]
    pub fn of_vectors(width: usize, values: &'a [f32]) -> Self {
        Self {
            width,
            values,
            indices: None,
            varies: true,
        }
    }

    /// The entries of a vector that are not zero: their places, which ascend, and as many values.
    #[must_use]
    pub fn of_entries(indices: &'a [u32], values: &'a [f32]) -> Self {
        Self {
            width: 0,
            values,
            indices: Some(indices),
            varies: true,
        }
    }

    /// The components of its vectors, one vector after another, or the values of its entries.
    #[must_use]
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// The places of its entries, by which values stand.
    #[must_use]
    pub fn indices(&self) -> Option<&'a [u32]> {
        self.indices
    }

    /// Its entries: the place of each, and its value; none where vectors are given in full.
    pub fn entries(&self) -> impl Iterator<Item = (u32, f32)> + use<'a> {
        let indices = self.indices.unwrap_or_default().iter().copied();
        indices.zip(self.values.iter().copied())
    }

    /// Its vectors, one after another; none where entries are given.
    #[must_use]
    pub fn vectors(&self) -> impl ExactSizeIterator<Item = &'a [f32]> + use<'a> {
        let values = match self.indices {
            Some(_) => &[],
            None => self.values,
        };
        values.chunks_exact(self.width.max(1))
    }

    /// How many vectors it has, where rows have any number of them.
    #[must_use]
    pub fn count(&self) -> Option<usize> {
        (self.varies && self.indices.is_none()).then(|| self.vectors().len())
    }

    /// All components: those of its vectors side by side; of entries those of the vector, which has `width`.
    #[must_use]
    pub fn in_full(&self, width: usize) -> Vec<f32> {
        if self.indices.is_none() {
            return self.values.to_vec();
        }
        let mut full = vec![0.0; width];
        for (index, value) in self.entries() {
            if let Some(place) = full.get_mut(index as usize) {
                *place = value;
            }
        }
        full
    }

    /// The row alone.
    #[must_use]
    pub fn alone(self) -> Numbers {
        let mut rows = Numbers::like(self);
        rows.push(self);
        rows
    }

    /// No rows of the form of this one.
    #[must_use]
    pub fn no_rows(self) -> Numbers {
        Numbers::like(self)
    }

    /// The row alone, each of its vectors as `make` makes it; entries stay as they are.
    pub fn mapped(self, make: impl Fn(&[f32]) -> Vec<f32>) -> Numbers {
        let mut room = Vec::with_capacity(self.values.len());
        let made = self.rewritten(&mut room, |vector, out| out.extend(make(vector)));
        made.alone()
    }

    /// The row with other numbers: each of its vectors as `write` appends it to `room`, which is empty; entries stay as they
    /// are.
    pub fn rewritten<'r>(
        self,
        room: &'r mut Vec<f32>,
        write: impl Fn(&[f32], &mut Vec<f32>),
    ) -> RowVector<'r>
    where
        'a: 'r,
    {
        if self.indices.is_some() {
            return self;
        }
        self.vectors().for_each(|vector| write(vector, room));
        let width = room.len().checked_div(self.vectors().len());
        RowVector {
            width: width.unwrap_or(self.width),
            values: room,
            ..self
        }
    }

    /// Hands over how near the row is to each of `queries`, which are [made ready](Numbers::as_queries), with the query's
    /// number: of entries the dot product, of one vector the cosine, and of any number of vectors the sum of the greatest
    /// dot product of each of the query's (`MaxSim`). Nothing where they are of another form or width.
    pub fn compare(self, queries: &Numbers, take: &mut dyn FnMut(usize, f32)) {
        let is_same = match (self.indices, queries.row_len()) {
            (Some(_), own) => own.is_some(),
            (None, own) => own.is_none() == self.varies && queries.width() == Some(self.width),
        };
        if !is_same {
            return;
        }
        if self.indices.is_some() {
            for (number, query) in queries.iter().enumerate() {
                take(number, self.dot(query.values));
            }
        } else if self.varies {
            for (number, query) in queries.iter().enumerate() {
                take(number, self.max_sim(query));
            }
        } else {
            let length = dot(self.values, self.values).sqrt();
            let scale = if length == 0.0 { 0.0 } else { length.recip() };
            let queries = queries.values().chunks_exact(self.width.max(1));
            for (number, query) in queries.enumerate() {
                take(number, dot(query, self.values) * scale);
            }
        }
    }

    /// The dot product of its entries with a vector in full; entries beyond it count as zero.
    fn dot(&self, full: &[f32]) -> f32 {
        let entries = self.entries();
        let products = entries.filter_map(|(index, value)| Some(full.get(index as usize)? * value));
        products.sum()
    }

    /// The sum over the vectors of `query` of the greatest dot product with one of these; NaN where there is none.
    fn max_sim(&self, query: RowVector<'_>) -> f32 {
        let greatest = |token: &[f32]| {
            let scores = self.vectors().map(|own| dot(token, own));
            scores.fold(f32::NAN, f32::max)
        };
        query.vectors().map(greatest).sum()
    }

    /// The entries of both rows: for each place where one has an entry both values, 0 where a row has none.
    pub fn union(self, other: RowVector<'a>) -> impl Iterator<Item = (f32, f32)> + use<'a> {
        let (mut one, mut two) = (self.entries().peekable(), other.entries().peekable());
        std::iter::from_fn(move || {
            let first = one.peek().map(|(index, _)| *index);
            let second = two.peek().map(|(index, _)| *index);
            let next = first.into_iter().chain(second).min()?;
            let value = |entry: Option<(u32, f32)>| entry.map_or(0.0, |(_, value)| value);
            Some((
                value(one.next_if(|(index, _)| *index == next)),
                value(two.next_if(|(index, _)| *index == next)),
            ))
        })
    }

    /// The vectors of both rows side by side, component by component: one after another, as far as the narrower one goes;
    /// entries over their union. `None` where they have other forms, or other numbers of vectors.
    #[must_use]
    pub fn aligned(self, other: Self) -> Option<Vec<AlignedVectors<'a>>> {
        if self.indices.is_some() && other.indices.is_some() {
            let (one, other): (Vec<f32>, Vec<f32>) = self.union(other).unzip();
            return Some(vec![(one.into(), other.into())]);
        }
        let is_same =
            self.indices.is_some() == other.indices.is_some() && self.count() == other.count();
        let width = self.width.min(other.width);
        let pairs = self.vectors().zip(other.vectors());
        let pairs = pairs.map(|(one, other)| (one[..width].into(), other[..width].into()));
        is_same.then(|| pairs.collect())
    }

    /// A row made of two of one form. `at` says of each component whether it is the other row's, and a factor.
    pub fn mixed(self, other: RowVector<'_>, at: &dyn Fn(usize) -> (bool, f32)) -> Numbers {
        let mut made = self.no_rows();
        if self.indices.is_some() {
            let is_of_other = |term: u32| at(term as usize).0;
            let of_one = self.entries().filter(|(term, _)| !is_of_other(*term));
            let of_other = other.entries().filter(|(term, _)| is_of_other(*term));
            let entries: BTreeMap<u32, f32> = of_one.chain(of_other).collect();
            let entries = entries.into_iter();
            made.push_entries(entries.map(|(term, weight)| (term, weight * at(term as usize).1)));
            return made;
        }
        let pairs = self.values.iter().zip(other.values.iter().cycle());
        let mixed = pairs.enumerate().map(|(place, (&one, &other))| {
            let (takes_other, factor) = at(place);
            factor * if takes_other { other } else { one }
        });
        made.push_values(&mixed.collect::<Vec<f32>>());
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_with_queries_of_their_form() {
        let scores = |row: RowVector<'_>, queries: &Numbers| {
            let mut scores = Vec::new();
            row.compare(&queries.as_queries(), &mut |query, score| {
                scores.push((query, score));
            });
            scores
        };
        let dense = Numbers::in_full(2, vec![3.0, 4.0, 0.0, 0.0]);
        let row = RowVector::of_vector(&[0.0, 2.0]);
        assert_eq!(scores(row, &dense), [(0, 0.8), (1, 0.0)]);
        let mut sparse = Numbers::of_entries();
        sparse.push_entries([(1, 2.0), (3, 4.0)]);
        sparse.push_entries([]);
        let row = RowVector::of_entries(&[0, 3, 9], &[1.0, 0.5, 7.0]);
        assert_eq!(scores(row, &sparse), [(0, 2.0), (1, 0.0)]);
        let empty = Numbers::of_entries();
        assert_eq!(scores(row, &empty), []);
        let mut multi = Numbers::of_vectors(2);
        multi.push_values(&[1.0, 0.0, 0.0, 2.0]);
        let row = RowVector::of_vectors(2, &[0.5, 0.5, 0.25, 1.0]);
        assert_eq!(scores(row, &multi), [(0, 2.5)]);
        // A text without a token is near nothing.
        let nothing = scores(RowVector::of_vectors(2, &[]), &multi);
        assert!(nothing[0].1.is_nan());
        let dense_row = RowVector::of_vector(&[1.0, 2.0]);
        assert_eq!(scores(dense_row, &empty), []);
        assert_eq!(scores(dense_row, &multi), []);
        assert_eq!(scores(RowVector::of_vectors(2, &[1.0, 2.0]), &dense), []);
    }

    #[test]
    fn a_row_is_rewritten_vector_by_vector() {
        let twice = |vector: &[f32], out: &mut Vec<f32>| {
            vector.iter().for_each(|number| out.extend([*number; 2]));
        };
        let mut room = Vec::new();
        let row = RowVector::of_vectors(1, &[1.0, 2.0]).rewritten(&mut room, twice);
        assert_eq!(row, RowVector::of_vectors(2, &[1.0, 1.0, 2.0, 2.0]));
        let sparse = RowVector::of_entries(&[4], &[1.0]);
        assert_eq!(sparse.rewritten(&mut Vec::new(), twice), sparse);
    }

    #[test]
    fn vectors_of_one_form_are_compared_side_by_side() {
        let mut rows = Numbers::of_entries();
        rows.push_entries([(1, 0.5), (7, 2.0)]);
        rows.push_entries([(7, 3.0), (9, 4.0)]);
        let pairs = rows.get(0).aligned(rows.get(1)).unwrap();
        let [(one, other)] = &pairs[..] else {
            panic!("{pairs:?}");
        };
        assert_eq!(&one[..], [0.5, 2.0, 0.0]);
        assert_eq!(&other[..], [0.0, 3.0, 4.0]);
        let tokens = |values| RowVector::of_vectors(2, values);
        let pairs = tokens(&[1.0, 2.0, 3.0, 4.0]).aligned(tokens(&[5.0, 6.0, 7.0, 8.0]));
        assert_eq!(pairs.unwrap().len(), 2);
        assert!(tokens(&[1.0, 2.0]).aligned(tokens(&[])).is_none());
        assert!(tokens(&[1.0, 2.0]).aligned(rows.get(0)).is_none());
        let vector = RowVector::of_vector(&[1.0, 2.0]);
        assert!(tokens(&[1.0, 2.0]).aligned(vector).is_none());
        let cut = vector.aligned(RowVector::of_vector(&[3.0]));
        assert_eq!(cut.unwrap(), [(vec![1.0].into(), vec![3.0].into())]);
    }
}

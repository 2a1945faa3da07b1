//! The nearest of many rows to each of some queries.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{Numbers, RowVector};

/// A row that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    /// The number of the row in the output, from 0.
    pub row: u64,
    /// Its cosine, dot product, or sum of greatest dot products.
    pub score: f32,
}

/// The order of hits: the higher score first, of equal ones the earlier row.
fn order(one: &Neighbour, other: &Neighbour) -> Ordering {
    let by_score = other.score.total_cmp(&one.score);
    by_score.then(one.row.cmp(&other.row))
}

/// A neighbour in a heap, whose greatest is the one to go first.
struct Ranked(Neighbour);

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        order(&self.0, &other.0)
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// The nearest rows so far to each query.
pub struct NearestRows {
    most: usize,
    of_queries: Vec<BinaryHeap<Ranked>>,
}

impl NearestRows {
    /// None yet: at most `most` to each of `queries` queries.
    #[must_use]
    pub fn new(queries: usize, most: usize) -> Self {
        Self {
            most,
            of_queries: (0..queries).map(|_| BinaryHeap::new()).collect(),
        }
    }

    /// Compares a row with each query, as [`RowVector::compare`] does; `queries` are those of [`Numbers::as_queries`].
    pub fn compare(&mut self, row: u64, vector: RowVector<'_>, queries: &Numbers) {
        vector.compare(queries, &mut |query, score| {
            self.add(query, Neighbour { row, score });
        });
    }

    /// A row whose score is not a number is none.
    fn add(&mut self, query: usize, found: Neighbour) {
        if found.score.is_nan() {
            return;
        }
        let rows = &mut self.of_queries[query];
        if rows.len() < self.most {
            rows.push(Ranked(found));
        } else if let Some(mut last) = rows.peek_mut()
            && order(&found, &last.0).is_lt()
        {
            *last = Ranked(found);
        }
    }

    /// Adds the rows that `other` found for the same queries.
    pub fn merge(&mut self, other: Self) {
        for (query, rows) in other.of_queries.into_iter().enumerate() {
            for found in rows {
                self.add(query, found.0);
            }
        }
    }

    /// Of each query, the best row first.
    #[must_use]
    pub fn sorted(self) -> Vec<Vec<Neighbour>> {
        let sorted = |rows: BinaryHeap<Ranked>| {
            let rows = rows.into_sorted_vec().into_iter();
            rows.map(|ranked| ranked.0).collect()
        };
        self.of_queries.into_iter().map(sorted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scores_are_in_the_order_of_rows_and_what_is_no_number_is_left_out() {
        let rows = [
            (9, 1.0),
            (2, 0.5),
            (7, 1.0),
            (4, f32::NAN),
            (1, 0.5),
            (3, 1.0),
        ];
        // In one go, and as two threads find them.
        for cut in 0..=rows.len() {
            let (mut best, mut other) = (NearestRows::new(1, 3), NearestRows::new(1, 3));
            for (place, (row, score)) in rows.into_iter().enumerate() {
                let own = if place < cut { &mut best } else { &mut other };
                own.add(0, Neighbour { row, score });
            }
            best.merge(other);
            let found: Vec<u64> = best.sorted()[0].iter().map(|one| one.row).collect();
            assert_eq!(found, [3, 7, 9]);
        }
    }
}

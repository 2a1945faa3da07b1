//! How vectors are, in memory that does not grow with their number.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher};

use serde::Serialize;

/// Hashes of vectors that are remembered at most: 32 MiB.
const MOST_SEEN: usize = 1 << 22;

/// How the vectors of a column are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Health {
    /// The column's name; empty in a format without names.
    pub column: String,
    /// Type of the elements.
    pub dtype: &'static str,
    /// How many vectors there are; rows without one are not counted.
    pub vectors: u64,
    /// Elements of the shortest vector.
    pub narrowest: usize,
    /// Elements of the longest one.
    pub widest: usize,
    /// The least Euclidean norm of a finite vector; 0 without any.
    pub least_norm: f64,
    /// Their mean norm.
    pub mean_norm: f64,
    /// Their greatest norm.
    pub greatest_norm: f64,
    /// Vectors that hold NaN or infinity.
    pub not_finite: u64,
    /// Vectors of zeros alone.
    pub zero: u64,
    /// Vectors that are equal to an earlier one, in every bit.
    pub repeated: RepeatCount,
}

/// A count of repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RepeatCount {
    /// How many.
    pub vectors: u64,
    /// Whether all were counted; else it is an estimate from a sample.
    pub exact: bool,
}

/// Watches a column go by.
#[derive(Debug)]
pub struct ColumnWatch {
    dtype: &'static str,
    vectors: u64,
    widths: (usize, usize),
    norms: (f64, f64, f64),
    finite: u64,
    not_finite: u64,
    zero: u64,
    seen: SeenVectors,
}

impl Default for ColumnWatch {
    fn default() -> Self {
        Self {
            dtype: "",
            vectors: 0,
            widths: (usize::MAX, 0),
            norms: (f64::INFINITY, 0.0, 0.0),
            finite: 0,
            not_finite: 0,
            zero: 0,
            seen: SeenVectors::new(MOST_SEEN),
        }
    }
}

impl ColumnWatch {
    /// The next vector, whose elements are stored in the type of that name.
    pub fn add(&mut self, dtype: &'static str, values: &[f32]) {
        self.dtype = dtype;
        self.vectors += 1;
        self.widths = (
            self.widths.0.min(values.len()),
            self.widths.1.max(values.len()),
        );
        self.seen.add(values);
        let square: f64 = values.iter().map(|&value| f64::from(value).powi(2)).sum();
        if !square.is_finite() {
            self.not_finite += 1;
            return;
        }
        let norm = square.sqrt();
        self.zero += u64::from(square == 0.0);
        self.finite += 1;
        let (least, sum, greatest) = self.norms;
        self.norms = (least.min(norm), sum + norm, greatest.max(norm));
    }

    /// What was seen, of the column of that name.
    #[must_use]
    pub fn end(self, column: String) -> Health {
        let (least, sum, greatest) = self.norms;
        Health {
            column,
            dtype: self.dtype,
            vectors: self.vectors,
            narrowest: self.widths.0.min(self.widths.1),
            widest: self.widths.1,
            least_norm: if self.finite > 0 { least } else { 0.0 },
            mean_norm: sum / (self.finite as f64).max(1.0),
            greatest_norm: greatest,
            not_finite: self.not_finite,
            zero: self.zero,
            repeated: self.seen.repeated(),
        }
    }
}

/// The vectors seen so far, by their hashes. Once there are too many, only every second hash counts, then
/// every fourth and so on: a sample by content, so that all vectors that are equal are in it or not.
#[derive(Debug)]
struct SeenVectors {
    hashes: HashSet<u64, ahash::RandomState>,
    hasher: ahash::RandomState,
    most: usize,
    /// Hashes count that end in so many zero bits.
    bits: u32,
    /// Vectors of the sample that are repeats.
    repeats: u64,
    /// Distinct and repeated ones of it, as often as they came: counts for hashes alone would lose those that
    /// leave the sample, so they are counted in two steps.
    dropped: bool,
}

impl SeenVectors {
    fn new(most: usize) -> Self {
        Self {
            hashes: HashSet::default(),
            hasher: ahash::RandomState::new(),
            most,
            bits: 0,
            repeats: 0,
            dropped: false,
        }
    }

    fn counts(&self, hash: u64) -> bool {
        hash.trailing_zeros() >= self.bits
    }

    fn add(&mut self, values: &[f32]) {
        let mut hasher = self.hasher.build_hasher();
        for value in values {
            hasher.write_u32(value.to_bits());
        }
        let hash = hasher.finish();
        if !self.counts(hash) {
            return;
        }
        if !self.hashes.insert(hash) {
            self.repeats += 1;
        }
        if self.hashes.len() > self.most {
            self.bits += 1;
            let bits = self.bits;
            self.hashes.retain(|hash| hash.trailing_zeros() >= bits);
            // As many of the repeats leave with them, as far as can be told.
            self.repeats /= 2;
            self.dropped = true;
        }
    }

    fn repeated(&self) -> RepeatCount {
        RepeatCount {
            vectors: self.repeats << self.bits,
            exact: !self.dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(vectors: &[&[f32]]) -> Health {
        let mut watch = ColumnWatch::default();
        for values in vectors {
            watch.add("f32", values);
        }
        watch.end("embedding".into())
    }

    #[test]
    fn what_is_wrong_with_vectors_is_counted() {
        let health = watched(&[
            &[3.0, 4.0],
            &[0.0, 0.0],
            &[f32::NAN, 1.0],
            &[3.0, 4.0],
            &[0.0, 1.0],
        ]);
        assert_eq!((health.vectors, health.not_finite, health.zero), (5, 1, 1));
        assert_eq!((health.narrowest, health.widest), (2, 2));
        assert_eq!((health.least_norm, health.greatest_norm), (0.0, 5.0));
        assert!((health.mean_norm - 11.0 / 4.0).abs() < 1e-12);
        let exact = RepeatCount {
            vectors: 1,
            exact: true,
        };
        assert_eq!(health.repeated, exact);
        let nothing = watched(&[]);
        assert_eq!(
            (nothing.narrowest, nothing.widest, nothing.vectors),
            (0, 0, 0)
        );
        assert_eq!((nothing.least_norm, nothing.mean_norm), (0.0, 0.0));
    }

    #[test]
    fn repeats_beyond_what_is_remembered_are_estimated() {
        let mut seen = SeenVectors::new(1000);
        for round in 0..2 {
            for number in 0..20_000_u32 {
                // Half of the second round is new.
                let number = if round == 1 && number % 2 == 0 {
                    number + 100_000
                } else {
                    number
                };
                seen.add(&[number as f32]);
            }
        }
        let repeated = seen.repeated();
        assert!(!repeated.exact && seen.hashes.len() <= 1001);
        assert!((5_000..16_000).contains(&repeated.vectors), "{repeated:?}");
    }
}

//! Numbers of rows on their way from an engine to an output. What they are is told by [`RowForm`]; how they are kept is the
//! same for all forms. Beside them, weights as they are read: what runs for each number of either is here, since the crates
//! that read and write files are built without optimisation.
//!
//! ```text
//!  form ── RowForm, Forms: dense, sparse, a vector for each token, scores; columns and their names
//!  rows ── RowVectors, RowParts: a part for each form
//!  numbers, row ── Numbers, RowVector: rows of one form in one allocation, and one of them; how two compare
//!  nearest ── the nearest rows to one        health ── what is counted while rows pass
//!  elements, low_rank ── weights in memory, as files store them
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

pub mod elements;
mod form;
mod health;
pub mod low_rank;
mod nearest;
mod numbers;
mod row;
mod rows;

pub use form::{EMBEDDING, Forms, RowForm, Terms};
pub use health::{ColumnWatch, Health, RepeatCount};
pub use nearest::{NearestRows, Neighbour};
pub use numbers::Numbers;
pub use row::{AlignedVectors, RowVector};
pub use rows::{RowParts, RowVectors};

/// Whether no number is NaN or infinite.
#[must_use]
pub fn is_finite(vector: &[f32]) -> bool {
    vector.iter().all(|value| value.is_finite())
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
}

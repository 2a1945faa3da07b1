//! Normalization of rows.

use super::isa::{Isa, with_floats};
use super::simd::Simd;

/// Layer norm or RMS norm, with its weights.
#[derive(Debug, Clone)]
pub struct Norm {
    form: NormForm,
    /// One for each value of a row.
    weight: Vec<f32>,
    /// As many, or none.
    bias: Vec<f32>,
    epsilon: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NormForm {
    Layer,
    Rms,
}

impl Norm {
    /// `(x - mean) / sqrt(variance + epsilon) * weight + bias`; the bias may be empty.
    ///
    /// # Panics
    /// A bias of another length, or no weights.
    #[must_use]
    pub fn layer(weight: Vec<f32>, bias: Vec<f32>, epsilon: f32) -> Self {
        assert!(!weight.is_empty(), "a norm of nothing");
        assert!(
            bias.is_empty() || bias.len() == weight.len(),
            "a bias for each weight"
        );
        Self {
            form: NormForm::Layer,
            weight,
            bias,
            epsilon,
        }
    }

    /// `x / sqrt(mean of squares + epsilon) * weight`. (Gemma keeps its weights less 1: add it first.)
    ///
    /// # Panics
    /// No weights.
    #[must_use]
    pub fn rms(weight: Vec<f32>, epsilon: f32) -> Self {
        assert!(!weight.is_empty(), "a norm of nothing");
        Self {
            form: NormForm::Rms,
            weight,
            bias: Vec::new(),
            epsilon,
        }
    }

    /// One factor for each value of a row.
    #[must_use]
    pub fn weight(&self) -> &[f32] {
        &self.weight
    }

    /// The shift of each value; empty where there is none.
    #[must_use]
    pub fn bias(&self) -> &[f32] {
        &self.bias
    }

    /// Added to the variance, or to the mean of squares.
    #[must_use]
    pub fn epsilon(&self) -> f32 {
        self.epsilon
    }

    /// Whether it divides by the root of the mean square, and no mean is subtracted.
    #[must_use]
    pub fn is_rms(&self) -> bool {
        self.form == NormForm::Rms
    }

    /// Values of a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.weight.len()
    }

    /// Normalizes rows that follow each other without a gap, in place.
    ///
    /// # Panics
    /// `x` is not a whole number of rows.
    pub fn apply(&self, isa: Isa, x: &mut [f32]) {
        assert!(x.len().is_multiple_of(self.width()), "whole rows");
        with_floats!(isa, s => {
            for row in x.chunks_exact_mut(self.weight.len()) {
                self.row(s, row);
            }
        });
    }

    /// Writes the normalized rows of `x` to `out`.
    ///
    /// # Panics
    /// `x` is not a whole number of rows, or `out` has another length.
    pub fn apply_to(&self, isa: Isa, x: &[f32], out: &mut [f32]) {
        assert!(
            x.len().is_multiple_of(self.width()) && x.len() == out.len(),
            "whole rows, as many out as in"
        );
        with_floats!(isa, s => {
            let width = self.weight.len();
            for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
                out.copy_from_slice(x);
                self.row(s, out);
            }
        });
    }

    #[inline(always)]
    fn row<S: Simd>(&self, s: S, row: &mut [f32]) {
        let share = 1.0 / self.weight.len() as f32;
        let mean = match self.form {
            NormForm::Layer => sum(s, row) * share,
            NormForm::Rms => 0.0,
        };
        let factor = 1.0 / (squares(s, row, mean) * share + self.epsilon).sqrt();
        let (mean, factor) = (s.splat(mean), s.splat(factor));
        let mut weights = self.weight.chunks_exact(S::LANES);
        let mut biases = self.bias.chunks_exact(S::LANES);
        let mut rows = row.chunks_exact_mut(S::LANES);
        for (x, weight) in rows.by_ref().zip(weights.by_ref()) {
            let v = s.mul(s.sub(s.load(x), mean), factor);
            let v = match biases.next() {
                Some(bias) => s.fma(v, s.load(weight), s.load(bias)),
                None => s.mul(v, s.load(weight)),
            };
            s.store(x, v);
        }
        let rest = rows.into_remainder();
        if !rest.is_empty() {
            let v = s.mul(s.sub(s.load_part(rest, 0.0), mean), factor);
            let bias = s.load_part(biases.remainder(), 0.0);
            s.store_part(rest, s.fma(v, s.load_part(weights.remainder(), 0.0), bias));
        }
    }
}

/// The sum of all values, in an order that depends on their number alone.
#[inline(always)]
fn sum<S: Simd>(s: S, x: &[f32]) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    let fours = x.chunks_exact(4 * S::LANES);
    let rest = fours.remainder();
    for four in fours {
        for (sum, x) in sums.iter_mut().zip(four.chunks_exact(S::LANES)) {
            *sum = s.add(*sum, s.load(x));
        }
    }
    for x in rest.chunks(S::LANES) {
        sums[0] = s.add(sums[0], s.load_part(x, 0.0));
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}

/// The sum of squared distances from `mean`, likewise.
#[inline(always)]
fn squares<S: Simd>(s: S, x: &[f32], mean: f32) -> f32 {
    let (mean, rest_mean) = (s.splat(mean), mean);
    let mut sums = [s.splat(0.0); 4];
    let fours = x.chunks_exact(4 * S::LANES);
    let rest = fours.remainder();
    for four in fours {
        for (sum, x) in sums.iter_mut().zip(four.chunks_exact(S::LANES)) {
            let distance = s.sub(s.load(x), mean);
            *sum = s.fma(distance, distance, *sum);
        }
    }
    for x in rest.chunks(S::LANES) {
        let distance = s.sub(s.load_part(x, rest_mean), mean);
        sums[0] = s.fma(distance, distance, sums[0]);
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}

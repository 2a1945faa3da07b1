//! Normalization of rows.

use super::isa::{Isa, with};
use super::simd::Simd;

/// Layer norm or RMS norm, with its weights.
#[derive(Debug, Clone)]
pub struct Norm {
    form: Form,
    /// One for each value of a row.
    weight: Vec<f32>,
    /// As many, or none.
    bias: Vec<f32>,
    epsilon: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
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
            form: Form::Layer,
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
            form: Form::Rms,
            weight,
            bias: Vec::new(),
            epsilon,
        }
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
        with!(isa, s => {
            for row in x.chunks_exact_mut(self.weight.len()) {
                self.row(s, InOut::Same(row));
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
        with!(isa, s => {
            let width = self.weight.len();
            for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
                self.row(s, InOut::Other(x, out));
            }
        });
    }

    #[inline(always)]
    fn row<S: Simd>(&self, s: S, mut row: InOut<'_>) {
        let n = self.weight.len() as f32;
        let mean = match self.form {
            Form::Layer => sum(s, row.source()) / n,
            Form::Rms => 0.0,
        };
        let factor = 1.0 / (squares(s, row.source(), mean) / n + self.epsilon).sqrt();
        let (mean, factor) = (s.splat(mean), s.splat(factor));
        let vectors = self.weight.len() / S::LANES * S::LANES;
        for i in (0..vectors).step_by(S::LANES) {
            let v = s.mul(s.sub(s.load(&row.source()[i..]), mean), factor);
            let mut v = s.mul(v, s.load(&self.weight[i..]));
            if !self.bias.is_empty() {
                v = s.add(v, s.load(&self.bias[i..]));
            }
            s.store(&mut row.target()[i..], v);
        }
        if vectors < self.weight.len() {
            let v = s.mul(
                s.sub(s.load_part(&row.source()[vectors..], 0.0), mean),
                factor,
            );
            let mut v = s.mul(v, s.load_part(&self.weight[vectors..], 0.0));
            if !self.bias.is_empty() {
                v = s.add(v, s.load_part(&self.bias[vectors..], 0.0));
            }
            s.store_part(&mut row.target()[vectors..], v);
        }
    }
}

/// Where a row is read and written.
enum InOut<'a> {
    Same(&'a mut [f32]),
    Other(&'a [f32], &'a mut [f32]),
}

impl InOut<'_> {
    #[inline(always)]
    fn source(&self) -> &[f32] {
        match self {
            Self::Same(x) => x,
            Self::Other(x, _) => x,
        }
    }
    #[inline(always)]
    fn target(&mut self) -> &mut [f32] {
        match self {
            Self::Same(x) => x,
            Self::Other(_, out) => out,
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

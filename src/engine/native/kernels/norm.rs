//! Normalization of rows.

use super::isa::{Isa, with};
use super::simd::Simd;

/// Layer norm or RMS norm, with its weights.
#[derive(Debug, Clone)]
pub struct Norm {
    kind: Kind,
    /// One for each value of a row.
    weight: Vec<f32>,
    /// As many, or none.
    bias: Vec<f32>,
    epsilon: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
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
            kind: Kind::Layer,
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
            kind: Kind::Rms,
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
                self.row(s, Place::Same(row));
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
                self.row(s, Place::Other(x, out));
            }
        });
    }

    #[inline(always)]
    fn row<S: Simd>(&self, s: S, mut place: Place<'_>) {
        let n = self.weight.len() as f32;
        let x = place.source();
        let mean = match self.kind {
            Kind::Layer => sum(s, x, |v| v) / n,
            Kind::Rms => 0.0,
        };
        let mean_v = s.splat(mean);
        let squares = {
            let deviation = |v| s.sub(v, mean_v);
            sum_padded(s, x, mean, |v| {
                let d = deviation(v);
                s.mul(d, d)
            })
        };
        let factor = s.splat(1.0 / (squares / n + self.epsilon).sqrt());
        for i in (0..self.weight.len()).step_by(S::LANES) {
            let v = s.sub(s.load_part(&place.source()[i..], 0.0), mean_v);
            let v = s.mul(s.mul(v, factor), s.load_part(&self.weight[i..], 0.0));
            let v = if self.bias.is_empty() {
                v
            } else {
                s.add(v, s.load_part(&self.bias[i..], 0.0))
            };
            let out = place.target();
            let end = out.len().min(i + S::LANES);
            s.store_part(&mut out[i..end], v);
        }
    }
}

/// Where a row is read and written.
enum Place<'a> {
    Same(&'a mut [f32]),
    Other(&'a [f32], &'a mut [f32]),
}

impl Place<'_> {
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

/// Sum of `f` of every value, four vectors at a time and always in the same order.
#[inline(always)]
fn sum<S: Simd>(s: S, x: &[f32], f: impl Fn(S::F) -> S::F) -> f32 {
    sum_padded(s, x, 0.0, f)
}

/// The same; lanes beyond the end hold `rest`, of which `f` must make 0.
#[inline(always)]
fn sum_padded<S: Simd>(s: S, x: &[f32], rest: f32, f: impl Fn(S::F) -> S::F) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    for (i, x) in x.chunks(S::LANES).enumerate() {
        sums[i % 4] = s.add(sums[i % 4], f(s.load_part(x, rest)));
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}

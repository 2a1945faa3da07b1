//! What is done to a row before it is rounded to 8 bits, and its inverse in the weights: products stay what
//! they were, and rounding errors shrink.
//!
//! - *Balancing* (SmoothQuant, exponent 1/2): channels with large activations are divided by a factor that the
//!   weights are multiplied with, so that neither side has all of the outliers.
//! - *Rotation*: an orthogonal mix of channels, which spreads an outlier over many of them and so narrows the
//!   row's range. Channels are taken in groups of sixteen (or the largest power of two below it that divides
//!   the width), groups are mixed by Hadamard butterflies within blocks of the largest power of two that
//!   divides their number, and blocks by a reflection. A vector's lanes never move, so that it costs additions
//!   alone; all instruction sets share one mix.

use super::simd::Simd;

/// A change of the row's channels.
#[derive(Debug, Clone)]
pub(super) struct Preparation {
    /// What each channel is multiplied by.
    factors: Option<Vec<f32>>,
    group: usize,
    /// Groups of a block, a power of two; and the number of blocks, odd.
    block: usize,
    blocks: usize,
}

impl Preparation {
    /// For rows of `width` channels. `activations` and `weights` are the greatest magnitudes of each channel;
    /// without the former nothing is balanced.
    pub(super) fn new(width: usize, activations: Option<&[f32]>, weights: &[f32]) -> Self {
        let factors = activations.map(|activations| {
            let factor =
                |(a, w): (&f32, &f32)| 1.0 / (a.max(1e-4) / w.max(1e-5)).sqrt().clamp(1e-4, 1e4);
            activations.iter().zip(weights).map(factor).collect()
        });
        let group = 1 << width.trailing_zeros().min(4);
        let groups = width / group;
        let block = 1 << groups.trailing_zeros();
        Self {
            factors,
            group,
            block,
            blocks: groups / block,
        }
    }

    /// The row as products take it.
    #[inline(always)]
    pub(super) fn apply<S: Simd>(&self, s: S, x: &[f32], out: &mut [f32]) {
        match &self.factors {
            None => out.copy_from_slice(x),
            Some(factors) => {
                for ((out, x), factor) in out.iter_mut().zip(x).zip(factors) {
                    *out = x * factor;
                }
            }
        }
        self.mix(s, out);
    }

    /// The inverse, on a row of weights.
    #[inline(always)]
    pub(super) fn apply_to_weights<S: Simd>(&self, s: S, weights: &mut [f32]) {
        if let Some(factors) = &self.factors {
            for (w, factor) in weights.iter_mut().zip(factors) {
                *w /= factor;
            }
        }
        self.mix(s, weights);
        // The butterflies lengthen a row by the root of the block's size, on either side.
        let gain = 1.0 / self.block as f32;
        for w in weights {
            *w *= gain;
        }
    }

    #[inline(always)]
    fn mix<S: Simd>(&self, _: S, x: &mut [f32]) {
        let size = self.block * self.group;
        for block in x.chunks_exact_mut(size) {
            let mut half = self.group;
            while half < size {
                for pair in block.chunks_exact_mut(2 * half) {
                    let (a, b) = pair.split_at_mut(half);
                    for (a, b) in a.iter_mut().zip(b) {
                        (*a, *b) = (*a + *b, *a - *b);
                    }
                }
                half *= 2;
            }
        }
        if self.blocks > 1 {
            let share = 2.0 / self.blocks as f32;
            for i in 0..size {
                let sum: f32 = (0..self.blocks).map(|b| x[b * size + i]).sum();
                for b in 0..self.blocks {
                    x[b * size + i] -= share * sum;
                }
            }
        }
    }
}

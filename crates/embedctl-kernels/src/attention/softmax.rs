//! Softmax of a row of scores, in base 2, over the keys that its query sees.

use std::ops::Range;

use super::super::math::exp2_negative;
use super::super::simd::Simd;
use super::super::tile::Dot;
use embedctl_common::Arithmetic;

/// `v` with `otherwise` for the keys that are out of sight.
#[inline(always)]
pub(super) fn mask<S: Simd>(
    s: S,
    v: S::I,
    otherwise: S::I,
    key: usize,
    sight: &Range<usize>,
) -> S::I {
    if sight.start <= key && key + S::LANES <= sight.end {
        return v;
    }
    let (v, otherwise) = (s.as_float(v), s.as_float(otherwise));
    let end = s.splat(sight.end.saturating_sub(key) as f32);
    let mut v = s.select_less(s.iota(), end, v, otherwise);
    if sight.start > key {
        let start = s.splat((sight.start - key) as f32);
        v = s.select_less(s.iota(), start, otherwise, v);
    }
    s.as_int(v)
}

/// Scores of the keys from `key` on, floats or integers, become `2^(score * worth + shift)`, or 0 out of sight;
/// returns their sum.
#[inline(always)]
pub(super) fn exponentiate<S: Simd, D: Dot, const FLOATS: bool>(
    s: S,
    scores: &mut [f32],
    key: usize,
    sight: &Range<usize>,
    (worth, shift): (f32, f32),
) -> f32 {
    let (worth, shift) = (s.splat(worth), s.splat(shift));
    let coarse = D::ARITHMETIC != Arithmetic::Fp32;
    let mut sums = [s.splat(0.0); 2];
    for (i, pair) in scores.chunks_exact_mut(2 * S::LANES).enumerate() {
        for (j, (sum, x)) in sums
            .iter_mut()
            .zip(pair.chunks_exact_mut(S::LANES))
            .enumerate()
        {
            let score = match FLOATS {
                true => s.load(x),
                false => s.to_float(s.as_int(s.load(x))),
            };
            let weight = exp2_negative(s, s.fma(score, worth, shift), coarse);
            let key = key + (2 * i + j) * S::LANES;
            let weight = s.as_float(mask(s, s.as_int(weight), s.splat_i(0), key, sight));
            *sum = s.add(*sum, weight);
            s.store(x, weight);
        }
    }
    s.sum(s.add(sums[0], sums[1]))
}

/// A query's weights of a block of keys, summed up.
#[derive(Clone, Copy)]
pub(super) struct KeyWeights {
    pub(super) sum: f32,
    /// The greatest.
    pub(super) top: f32,
}

impl KeyWeights {
    #[inline(always)]
    pub(super) fn of<S: Simd>(s: S, weights: &[f32]) -> Self {
        let mut sum = s.splat(0.0);
        let mut top = s.splat(0.0);
        for weights in weights.chunks_exact(S::LANES) {
            let weights = s.load(weights);
            sum = s.add(sum, weights);
            top = s.max(top, weights);
        }
        Self {
            sum: s.sum(sum),
            top: s.greatest(top),
        }
    }

    /// Whether the greatest weight leaves too few of 16 bits for the small ones; `seen` keys have a weight.
    #[inline(always)]
    fn is_steep<S: Simd>(self, s: S, weights: &[f32], seen: usize) -> bool {
        // Only where a few keys may have nearly all.
        if self.sum >= self.top * (MOST_HEAVY as f32 + seen as f32 / 128.0) {
            return false;
        }
        let (bound, none, one) = (s.splat(self.top / SMALL), s.splat(0.0), s.splat(1.0));
        let (mut sum, mut above) = (none, none);
        for weights in weights.chunks_exact(S::LANES) {
            let weights = s.load(weights);
            sum = s.add(sum, s.select_less(weights, bound, weights, none));
            above = s.add(above, s.select_less(weights, bound, none, one));
        }
        let (sum, small) = (s.sum(sum), seen as f32 - s.sum(above));
        sum * STEPS < FINE * small * self.top
    }

    /// The steps of a whole: so fine as keeps the sum, times values up to `value_top`, within 32 bits, and the
    /// greatest of `count` weights within 16.
    #[inline(always)]
    pub(super) fn steps(self, count: usize, value_top: f32) -> f32 {
        // Rounding adds at most half a step for each weight; a hundredth covers the sum's own rounding.
        let most = (i32::MAX as f32 / value_top * 0.99 - count as f32 / 2.0) / self.sum;
        // A block that is nothing beside the others keeps within the range of floats.
        most.min(STEPS / self.top.max(1e-20))
    }
}

/// Steps of the greatest weight at most.
const STEPS: f32 = 32_767.0;

/// A weight is small if it is less than this part of the greatest.
const SMALL: f32 = 64.0;

/// Steps of a mean small weight that are fine enough.
const FINE: f32 = 64.0;

/// Tokens of a text below which nothing is taken out: its few weights are hardly ever small, and looking for them would
/// cost a tenth of its time.
pub(super) const SHORT: usize = 32;

/// Keys of a block, at most, whose weighted values are summed in single precision.
pub(super) const MOST_HEAVY: usize = 4;

/// A key with most of a query's weight of its block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heavy {
    /// Of the tile.
    pub(super) row: usize,
    pub(super) key: usize,
    pub(super) weight: f32,
}

/// Takes the heaviest keys out of the weights that a row's query gives to the keys from `first` on, as long as one of
/// them leaves too few bits for the others; `seen` keys are in sight. An attention sink is such a key: beside it all
/// other weights of its block would become zero, and those carry the text.
#[inline(always)]
pub(super) fn take_heavy<S: Simd>(
    s: S,
    weights: &mut [f32],
    of: &mut KeyWeights,
    (row, first, seen): (usize, usize, usize),
    heavy: &mut Vec<Heavy>,
) {
    for taken in 0..MOST_HEAVY.min(seen) {
        if !of.is_steep(s, weights, seen - taken) {
            return;
        }
        let mut at = 0;
        for key in 1..weights.len() {
            if weights[key] > weights[at] {
                at = key;
            }
        }
        heavy.push(Heavy {
            row,
            key: first + at,
            weight: weights[at],
        });
        weights[at] = 0.0;
        *of = KeyWeights::of(s, weights);
    }
}

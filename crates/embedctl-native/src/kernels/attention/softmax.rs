//! Softmax of a row of scores, in base 2, over the keys that its query sees.

use std::ops::Range;

use super::super::isa::Arithmetic;
use super::super::math::exp2_negative;
use super::super::simd::Simd;
use super::super::tile::Dot;

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
pub(super) fn soften<S: Simd, D: Dot, const FLOATS: bool>(
    s: S,
    scores: &mut [f32],
    key: usize,
    sight: &Range<usize>,
    (worth, shift): (f32, f32),
) -> f32 {
    let (worth, shift) = (s.splat(worth), s.splat(shift));
    let coarse = D::ARITHMETIC != Arithmetic::F32;
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

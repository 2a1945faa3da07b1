//! Attention's operands as the products take them: laid out in panels, and in [`Arithmetic::I16`] rounded.
//!
//! Queries and keys are rounded to 16 bits by their own greatest magnitude, values by the head's, and weights by
//! as fine a step as keeps a block's sum within 32 bits.

use super::super::isa::Arithmetic;
use super::super::lines::halves_mut;
use super::super::simd::{MOST_LANES, Simd};
use super::super::tile::Dot;
use super::{AttentionScratch, Text};

/// Largest magnitude of a 16-bit value.
const VALUE_TOP: f32 = 4095.0;

impl Text<'_> {
    /// Keys as panels of `2 * LANES`, a row of dwords for each channel (or pair of channels).
    #[inline(always)]
    pub(super) fn pack_keys<S: Simd, D: Dot>(
        &self,
        s: S,
        head: usize,
        score_top: f32,
        scratch: &mut AttentionScratch,
    ) {
        let width = self.shape.head_width;
        let steps = width.div_ceil(D::ARITHMETIC.per_lane());
        let panel = 2 * S::LANES;
        let packed = scratch.keys.dwords_mut();
        for first in (0..self.len.next_multiple_of(panel)).step_by(S::LANES) {
            let turned = &mut scratch.turned;
            // Lanes of a vector are keys, vectors are channels; keys beyond the text are zero.
            for (c, turned) in (0..width)
                .step_by(S::LANES)
                .zip(turned.chunks_exact_mut(S::LANES * S::LANES))
            {
                let mut block = [s.splat(0.0); MOST_LANES];
                let keys = first..self.len.min(first + S::LANES);
                for (row, key) in block.iter_mut().zip(keys) {
                    self.ahead(s, &self.keys, key + S::LANES, head);
                    let key = &self.keys.data[key * self.keys.stride + head * width..][..width];
                    *row = load_from(s, key, c);
                }
                s.transpose(&mut block);
                for (to, v) in turned.chunks_exact_mut(S::LANES).zip(block) {
                    s.store(to, v);
                }
            }
            let start = first / panel * panel * steps + first % panel;
            let to = packed[start..].chunks_mut(panel).take(steps);
            match D::ARITHMETIC {
                Arithmetic::F32 => {
                    for (c, to) in to.enumerate() {
                        s.store_i(to, s.as_int(channel(s, turned, c)));
                    }
                }
                _ => {
                    let zero = s.splat(0.0);
                    let (mut top, mut nan) = (s.splat(1e-30), zero);
                    for c in 0..width {
                        top = s.max(top, s.abs(channel(s, turned, c)));
                        nan = s.fma(channel(s, turned, c), zero, nan);
                    }
                    let most = s.splat(score_top);
                    let factor = s.div(most, top);
                    s.store(
                        &mut scratch.key_scales[first..],
                        s.add(s.div(top, most), nan),
                    );
                    for (step, to) in to.enumerate() {
                        // An odd last channel is paired with a vector of the padding or of zeros.
                        let low = s.to_int(s.mul(channel(s, turned, 2 * step), factor));
                        let high = if 2 * step + 1 < width {
                            channel(s, turned, 2 * step + 1)
                        } else {
                            zero
                        };
                        s.store_i(to, s.pair(low, s.to_int(s.mul(high, factor))));
                    }
                }
            }
        }
    }

    /// Values, a row of dwords for each key (or pair of keys); returns what one step of its integers is worth.
    #[inline(always)]
    pub(super) fn pack_values<S: Simd, D: Dot>(
        &self,
        s: S,
        head: usize,
        scratch: &mut AttentionScratch,
    ) -> f32 {
        let width = self.shape.head_width;
        let columns = width.next_multiple_of(2 * S::LANES);
        let value = |key: usize| match key < self.len {
            true => &self.values.data[key * self.values.stride + head * width..][..width],
            false => &[],
        };
        let rows = scratch.values.dwords_mut().chunks_exact_mut(columns);
        if D::ARITHMETIC == Arithmetic::F32 {
            for (key, to) in rows.take(self.len).enumerate() {
                let row = value(key);
                for (c, to) in (0..columns)
                    .step_by(S::LANES)
                    .zip(to.chunks_exact_mut(S::LANES))
                {
                    s.store_i(to, s.as_int(load_from(s, row, c)));
                }
            }
            return 1.0;
        }
        let zero = s.splat(0.0);
        let (mut top, mut nan) = (s.splat(1e-30), zero);
        for key in 0..self.len {
            self.ahead(s, &self.values, key + 8, head);
            let row = value(key);
            for c in (0..width).step_by(S::LANES) {
                let v = load_from(s, row, c);
                top = s.max(top, s.abs(v));
                nan = s.fma(v, zero, nan);
            }
        }
        let top = s.greatest(top);
        let factor = s.splat(VALUE_TOP / top);
        for (pair, to) in rows.take(self.len.div_ceil(2)).enumerate() {
            let (low, high) = (value(2 * pair), value(2 * pair + 1));
            for (c, to) in (0..columns)
                .step_by(S::LANES)
                .zip(to.chunks_exact_mut(S::LANES))
            {
                let low = s.to_int(s.mul(load_from(s, low, c), factor));
                let high = s.to_int(s.mul(load_from(s, high, c), factor));
                s.store_i(to, s.pair(low, high));
            }
        }
        top / VALUE_TOP + s.sum(nan)
    }
}

/// The vector at `from` of a row that may end before or within it: zeros stand for the rest.
#[inline(always)]
fn load_from<S: Simd>(s: S, row: &[f32], from: usize) -> S::F {
    match row.get(from..from + S::LANES) {
        Some(row) => s.load(row),
        None => s.load_part(row.get(from..).unwrap_or(&[]), 0.0),
    }
}

/// One channel of a vector of keys.
#[inline(always)]
fn channel<S: Simd>(s: S, turned: &[f32], index: usize) -> S::F {
    s.load(&turned[index * S::LANES..])
}

/// Largest magnitude of 16-bit queries and keys of `width` channels: their products' sum fits 32 bits.
pub(super) fn score_top(width: usize) -> f32 {
    (f64::from(i32::MAX) / width as f64)
        .sqrt()
        .min(32_767.0)
        .floor() as f32
}

/// Rounds a query to 16 bits; returns what one step is worth.
#[inline(always)]
pub(super) fn pack_query<S: Simd>(s: S, query: &[f32], most: f32, to: &mut [i32]) -> f32 {
    let zero = s.splat(0.0);
    let (mut top, mut nan) = (s.splat(1e-30), zero);
    for x in query.chunks(S::LANES) {
        let v = s.load_part(x, 0.0);
        top = s.max(top, s.abs(v));
        nan = s.fma(v, zero, nan);
    }
    let top = s.greatest(top);
    let factor = s.splat(most / top);
    for (to, x) in halves_mut(to)
        .chunks_mut(S::LANES)
        .zip(query.chunks(S::LANES))
    {
        let q = s.to_int(s.mul(s.load_part(x, 0.0), factor));
        if to.len() >= S::LANES {
            s.store_low16(to, q);
        } else {
            let mut all = [0; MOST_LANES];
            s.store_low16(&mut all, q);
            to.copy_from_slice(&all[..to.len()]);
        }
    }
    top / most + s.sum(nan)
}

/// Rounds weights, 0 to 1 each, to as fine a step as keeps their sum, times the greatest value, within 32
/// bits; returns the step.
#[inline(always)]
pub(super) fn pack_weights<S: Simd>(s: S, weights: &[f32], sum: f32, to: &mut [i32]) -> f32 {
    // Rounding adds at most half a step for each weight; a hundredth covers the sum's own rounding.
    let most = (i32::MAX as f32 / VALUE_TOP * 0.99 - weights.len() as f32 / 2.0) / sum;
    let steps = most.min(32_767.0);
    let factor = s.splat(steps);
    let to = halves_mut(to).chunks_exact_mut(S::LANES);
    for (to, x) in to.zip(weights.chunks_exact(S::LANES)) {
        s.store_low16(to, s.to_int(s.mul(s.load(x), factor)));
    }
    1.0 / steps
}

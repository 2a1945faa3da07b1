//! Attention's operands as the products take them: laid out in panels, and in [`Arithmetic::Int16`] rounded.
//!
//! Queries, keys and values are rounded to 16 bits by the greatest magnitude of their head in the text, and the weights
//! of a query, block by block, by as fine a step as keeps the block's sum within 32 bits. Keys that take most of a
//! block's weight are left out of it and summed in single precision.

use super::super::operand::{Top, round16};
use super::super::rounding::{IntegerStep, part};
use super::super::simd::{MOST_LANES, Simd};
use super::super::tile::Dot;
use super::softmax::KeyWeights;
use super::{AttentionScratch, HeadsInput, Text};
use embedctl_common::Arithmetic;

/// The step of values that are not rounded.
pub(super) const AS_IS: IntegerStep = IntegerStep {
    factor: 1.0,
    worth: 1.0,
};

/// Largest magnitude of a 16-bit value.
const VALUE_TOP: f32 = 4095.0;

impl<const WIDTH: usize> Text<'_, WIDTH> {
    /// The step by which the greatest magnitude of a head becomes `most`.
    #[inline(always)]
    pub(super) fn step<S: Simd>(
        &self,
        s: S,
        input: &HeadsInput<'_>,
        head: usize,
        most: f32,
    ) -> IntegerStep {
        let mut top = Top::new(s);
        for token in 0..self.len {
            self.prefetch_token(s, input, token + 8, head);
            top.take(s, self.row(input, token, head));
        }
        top.step(s, most)
    }

    /// One head of a token.
    #[inline(always)]
    pub(super) fn row<'a>(&self, input: &HeadsInput<'a>, token: usize, head: usize) -> &'a [f32] {
        let width = self.width();
        &input.data[token * input.stride + head * width..][..width]
    }

    /// Keys as panels of `2 * LANES`, a row of dwords for each channel (or pair of channels); returns the value of one
    /// step of their integers.
    #[inline(always)]
    pub(super) fn pack_keys<S: Simd, D: Dot>(
        &self,
        s: S,
        head: usize,
        scratch: &mut AttentionScratch,
    ) -> f32 {
        let width = self.width();
        let per = D::ARITHMETIC.per_lane();
        let steps = width.div_ceil(per);
        let panel = 2 * S::LANES;
        let step = match D::ARITHMETIC {
            Arithmetic::Fp32 => AS_IS,
            _ => self.step(s, &self.keys, head, score_top(width)),
        };
        let factor = s.splat(step.factor);
        let packed = scratch.keys.dwords_mut();
        for first in (0..self.len.next_multiple_of(panel)).step_by(S::LANES) {
            let start = first / panel * panel * steps + first % panel;
            let mut rows = packed[start..].chunks_mut(panel).take(steps);
            // Lanes of a vector are keys, vectors are channels or pairs; the last key stands for those beyond.
            for c in (0..width).step_by(per * S::LANES) {
                let mut block = [s.splat(0.0); MOST_LANES];
                for (to, key) in block.iter_mut().zip(first..first + S::LANES) {
                    self.prefetch_token(s, &self.keys, key + S::LANES, head);
                    let key = self.row(&self.keys, key.min(self.len - 1), head);
                    let low = part(s, key, c, 0.0);
                    *to = if D::ARITHMETIC == Arithmetic::Fp32 {
                        low
                    } else {
                        let high = part(s, key, c + S::LANES, 0.0);
                        let low = s.to_int(s.mul(low, factor));
                        s.as_float(s.pack16(low, s.to_int(s.mul(high, factor))))
                    };
                }
                s.transpose(&mut block);
                for (v, to) in block.into_iter().take(S::LANES).zip(rows.by_ref()) {
                    s.store_i(to, s.as_int(v));
                }
            }
        }
        step.worth
    }

    /// Values, a row of dwords for each key (or pair of keys); returns the value of one step of its integers.
    #[inline(always)]
    pub(super) fn pack_values<S: Simd, D: Dot>(
        &self,
        s: S,
        head: usize,
        scratch: &mut AttentionScratch,
    ) -> f32 {
        let width = self.width();
        let columns = width.next_multiple_of(2 * S::LANES);
        let rows = scratch.values.dwords_mut().chunks_exact_mut(columns);
        if D::ARITHMETIC == Arithmetic::Fp32 {
            for (key, to) in rows.take(self.len).enumerate() {
                let row = self.row(&self.values, key, head);
                for (i, to) in to.chunks_exact_mut(S::LANES).enumerate() {
                    s.store_i(to, s.as_int(part(s, row, i * S::LANES, 0.0)));
                }
            }
            return 1.0;
        }
        let step = self.step(s, &self.values, head, VALUE_TOP);
        let factor = s.splat(step.factor);
        for (pair, to) in rows.take(self.len.div_ceil(2)).enumerate() {
            let low = self.row(&self.values, 2 * pair, head);
            let high = match 2 * pair + 1 < self.len {
                true => self.row(&self.values, 2 * pair + 1, head),
                false => &[],
            };
            for (i, to) in to.chunks_exact_mut(S::LANES).enumerate() {
                let low = s.to_int(s.mul(part(s, low, i * S::LANES, 0.0), factor));
                let high = s.to_int(s.mul(part(s, high, i * S::LANES, 0.0), factor));
                s.store_i(to, s.pair(low, high));
            }
        }
        step.worth
    }
}

/// Largest magnitude of 16-bit queries and keys of `width` channels: their products' sum fits 32 bits.
pub(super) fn score_top(width: usize) -> f32 {
    (f64::from(i32::MAX) / width as f64)
        .sqrt()
        .min(32_767.0)
        .floor() as f32
}

/// Rounds the weights of a block of keys to as fine a step as its own greatest and their sum allow; returns the steps
/// of a whole.
#[inline(always)]
pub(super) fn pack_weights<S: Simd>(s: S, weights: &[f32], of: KeyWeights, to: &mut [i32]) -> f32 {
    let steps = of.steps(weights.len(), VALUE_TOP);
    round16(s, weights, s.splat(steps), to);
    steps
}

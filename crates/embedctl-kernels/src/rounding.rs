//! Rounding of both sides of a product to the numbers of its arithmetic.

use super::lines::{bytes_mut, halves_mut};
use super::simd::Simd;
use super::tile::RUN;
use embedctl_common::Arithmetic;

/// Most inputs whose 16-bit products are summed in 32 bits; longer sums are put together in single precision. The more
/// there are, the coarser both sides must be.
const I16_BLOCK: usize = 256;

/// Inputs of a block, where there are `inputs` of a row: blocks are nearly even, and whole runs of a tile's steps.
#[inline(always)]
pub(super) fn i16_block(inputs: usize) -> usize {
    let blocks = inputs.div_ceil(I16_BLOCK);
    inputs.div_ceil(blocks).next_multiple_of(2 * RUN)
}

/// Root of the sum of squares, at most, of a block of 16-bit integers on either side: by Cauchy and Schwarz no sum of
/// their products then leaves 32 bits, even if each is rounded up by half a step.
const I16_NORM: f32 = 46_000.0;

/// Largest magnitude of a 16-bit integer.
const I16_TOP: f32 = 32_767.0;

/// Rounded to bfloat16.
#[inline(always)]
pub(super) fn halves(x: &[f32], out: &mut [i32]) -> (f32, f32) {
    let out = halves_mut(out);
    let (out, rest) = out.split_at_mut(x.len());
    for (out, x) in out.iter_mut().zip(x) {
        *out = bfloat16(*x);
    }
    rest.fill(0);
    (1.0, 0.0)
}

/// The nearest bfloat16, ties to even, as an integer of its bits. NaN stays NaN.
#[inline(always)]
pub(super) fn bfloat16(x: f32) -> i16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    let bits = if x.is_nan() {
        bits | 0x40_0000
    } else {
        rounded
    };
    (bits >> 16) as i16
}

/// Rounds a row of weights to the arithmetic; returns its scale and, in 8 bits, its sum.
#[inline(always)]
pub(super) fn quantize(arithmetic: Arithmetic, row: &[f32], out: &mut [i32]) -> (f32, f32) {
    let top = row.iter().fold(1e-30_f32, |top, w| top.max(w.abs()));
    // A NaN or an infinity among the weights must not vanish in integers.
    let nan: f32 = row.iter().map(|w| w * 0.0).sum();
    match arithmetic {
        Arithmetic::Fp32 => {
            for (out, w) in out.iter_mut().zip(row) {
                *out = w.to_bits() as i32;
            }
            (1.0, 0.0)
        }
        Arithmetic::Bf16 => halves(row, out),
        Arithmetic::Int16 => {
            let scale = step16(top, row.chunks(i16_block(row.len())).map(squares));
            for (out, w) in halves_mut(out).iter_mut().zip(row) {
                *out = (w / scale).round_ties_even() as i16;
            }
            (scale + nan, 0.0)
        }
        Arithmetic::Int8 => {
            let scale = top / 127.0;
            let mut sum = 0;
            for (out, w) in bytes_mut(out).iter_mut().zip(row) {
                let q = (w / scale).round_ties_even() as i8;
                sum += i32::from(q);
                *out = q as u8;
            }
            (scale + nan, sum as f32 * scale + nan)
        }
    }
}

/// The step by which numbers are rounded to 16 bits: `top` is their greatest magnitude, `squares` are the sums of
/// squares of each block. NaN where `top` is not finite.
#[inline(always)]
pub(super) fn step16(top: f32, squares: impl Iterator<Item = f32>) -> f32 {
    if !top.is_finite() {
        return f32::NAN;
    }
    let top = top.max(1e-30);
    let norm = match (1e-17..1e17).contains(&top) {
        true => squares.fold(0.0_f32, f32::max).sqrt(),
        // Squares are beyond the range of floats.
        false => top * (I16_BLOCK as f32).sqrt(),
    };
    (top / I16_TOP).max(norm / I16_NORM)
}

fn squares(values: &[f32]) -> f32 {
    values.iter().map(|value| value * value).sum()
}

/// How numbers become integers.
#[derive(Clone, Copy)]
pub(super) struct IntegerStep {
    /// The factor before rounding.
    pub(super) factor: f32,
    /// The value of one step of the integers: NaN if one of the numbers is NaN or infinite.
    pub(super) worth: f32,
}

impl IntegerStep {
    /// The step by which the greatest magnitude `top` becomes `most`.
    #[inline(always)]
    pub(super) fn reaching(top: f32, most: f32) -> Self {
        match top.is_finite() {
            true => Self {
                factor: most / top.max(1e-30),
                worth: top.max(1e-30) / most,
            },
            false => Self {
                factor: 0.0,
                worth: f32::NAN,
            },
        }
    }

    /// Numbers are rounded to multiples of `worth`; NaN or infinity is kept.
    #[inline(always)]
    pub(super) fn of(worth: f32) -> Self {
        match worth.is_finite() {
            true => Self {
                factor: 1.0 / worth,
                worth,
            },
            false => Self {
                factor: 0.0,
                worth: f32::NAN,
            },
        }
    }
}

/// The vector at `from` of a row that may end before or within it; missing lanes are `rest`.
#[inline(always)]
pub(super) fn part<S: Simd>(s: S, row: &[f32], from: usize, rest: f32) -> S::F {
    match row.get(from..from + S::LANES) {
        Some(row) => s.load(row),
        None => s.load_part(row.get(from..).unwrap_or(&[]), rest),
    }
}

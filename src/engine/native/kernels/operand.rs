//! The left side of products: rows of activations, converted to a matrix's arithmetic.

use std::collections::TryReserveError;

use super::isa::{Arithmetic, with};
use super::lines::{bytes_mut, halves_mut};
use super::matrix::{Form, I16_TOP, Matrix};
use super::preparation::Range;
use super::simd::{MOST_LANES, Simd};

/// Converted rows. Kept and refilled: it grows to the largest size asked for and then allocates no more.
#[derive(Debug, Default)]
pub struct Operand {
    form: Option<Form>,
    rows: usize,
    /// `steps` dwords for each row, a float, a pair or a quad each.
    data: Vec<i32>,
    /// What one step of a row's integers is worth.
    scale: Vec<f32>,
    /// What a row's integer zero stands for.
    base: Vec<f32>,
    /// One row on its way through the preparation.
    prepared: Vec<f32>,
}

impl Operand {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Room for `rows` rows of `inputs` values, in any arithmetic.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn try_reserve(&mut self, rows: usize, inputs: usize) -> Result<(), TryReserveError> {
        let dwords = rows.saturating_mul(inputs);
        if self.data.capacity() < dwords {
            self.data = Vec::new();
            self.data.try_reserve_exact(dwords)?;
        }
        let more = |list: &Vec<f32>, length: usize| length.saturating_sub(list.len());
        self.scale.try_reserve_exact(more(&self.scale, rows))?;
        self.base.try_reserve_exact(more(&self.base, rows))?;
        self.prepared
            .try_reserve_exact(more(&self.prepared, inputs))
    }

    /// Rows that it holds.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Converts `rows` rows of `x`, `stride` floats apart, to what `matrix` multiplies. A row that holds a NaN
    /// or, except in [`Arithmetic::F32`], an infinity makes every product with it NaN.
    ///
    /// # Panics
    /// `x` is too short, or the stride smaller than the matrix's inputs.
    pub fn convert(&mut self, matrix: &Matrix, x: &[f32], stride: usize, rows: usize) {
        let (inputs, steps) = (matrix.inputs(), matrix.steps());
        assert!(stride >= inputs, "rows overlap");
        assert!(
            rows == 0 || x.len() >= (rows - 1) * stride + inputs,
            "too few values for the rows"
        );
        self.form = Some(matrix.form());
        self.rows = rows;
        self.data.resize(self.data.len().max(rows * steps), 0);
        self.scale.resize(self.scale.len().max(rows), 0.0);
        self.base.resize(self.base.len().max(rows), 0.0);
        self.prepared.resize(self.prepared.len().max(inputs), 0.0);
        with!(matrix.isa(), s => {
            for row in 0..rows {
                let x = &x[row * stride..][..inputs];
                let out = &mut self.data[row * steps..][..steps];
                (self.scale[row], self.base[row]) = match (matrix.arithmetic(), matrix.preparation()) {
                    (Arithmetic::F32, _) => floats(x, out),
                    (Arithmetic::I16, _) => pairs(s, x, out),
                    (Arithmetic::I8, None) => quads(s, x, Range::of(s, x), out),
                    (Arithmetic::I8, Some(preparation)) => {
                        let prepared = &mut self.prepared[..inputs];
                        let range = preparation.apply(s, x, prepared);
                        quads(s, prepared, range, out)
                    }
                };
            }
        });
    }

    /// The rows' dwords, scales and bases, checked to have been converted for `matrix` or its like.
    pub(super) fn parts(&self, matrix: &Matrix) -> (&[i32], &[f32], &[f32]) {
        assert!(
            self.form == Some(matrix.form()),
            "an operand that was converted for another matrix"
        );
        let dwords = self.rows * matrix.steps();
        (
            &self.data[..dwords],
            &self.scale[..self.rows],
            &self.base[..self.rows],
        )
    }
}

#[inline(always)]
fn floats(x: &[f32], out: &mut [i32]) -> (f32, f32) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = x.to_bits() as i32;
    }
    (1.0, 0.0)
}

/// Symmetric, by the greatest magnitude.
#[inline(always)]
fn pairs<S: Simd>(s: S, x: &[f32], out: &mut [i32]) -> (f32, f32) {
    let (low, high, nan) = Range::of(s, x).ends(s);
    let top = high.max(-low).max(1e-30);
    let factor = s.splat(I16_TOP / top);
    let (whole, tail) = x.split_at(x.len() / S::LANES * S::LANES);
    let (out, rest) = halves_mut(out).split_at_mut(whole.len());
    for (out, x) in out
        .chunks_exact_mut(S::LANES)
        .zip(whole.chunks_exact(S::LANES))
    {
        s.store_low16(out, s.to_int(s.mul(s.load(x), factor)));
    }
    if !tail.is_empty() {
        let mut all = [0; MOST_LANES];
        s.store_low16(&mut all, s.to_int(s.mul(s.load_part(tail, 0.0), factor)));
        rest.copy_from_slice(&all[..rest.len()]);
    }
    (top / I16_TOP + nan, 0.0)
}

/// From the least value (0) to the greatest (255): all of the range, whatever the activation before.
#[inline(always)]
fn quads<S: Simd>(s: S, x: &[f32], range: Range<S>, out: &mut [i32]) -> (f32, f32) {
    let (low, high, nan) = range.ends(s);
    let span = (high - low).max(1e-30);
    let factor = 255.0 / span;
    let least = s.splat(-low * factor - S::BYTE_OFFSET as f32);
    let factor = s.splat(factor);
    let (whole, tail) = x.split_at(x.len() / S::LANES * S::LANES);
    let (out, rest) = bytes_mut(out).split_at_mut(whole.len());
    for (out, x) in out
        .chunks_exact_mut(S::LANES)
        .zip(whole.chunks_exact(S::LANES))
    {
        s.store_low8(out, s.to_int(s.fma(s.load(x), factor, least)));
    }
    if !tail.is_empty() {
        let mut all = [0; MOST_LANES];
        s.store_low8(
            &mut all,
            s.to_int(s.fma(s.load_part(tail, low), factor, least)),
        );
        rest.copy_from_slice(&all[..rest.len()]);
    }
    let scale = span / 255.0 + nan;
    (scale, low + scale * S::BYTE_OFFSET as f32)
}

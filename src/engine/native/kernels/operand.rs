//! The left side of products: rows of activations, converted to a matrix's arithmetic.

use super::isa::{Arithmetic, with};
use super::lines::{bytes_mut, halves_mut};
use super::matrix::{Form, Matrix};
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

/// Largest magnitude of a 16-bit activation: 13 bits with the sign.
pub(super) const I16_TOP: f32 = 4095.0;

impl Operand {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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
                let x = match matrix.preparation() {
                    None => x,
                    Some(preparation) => {
                        let prepared = &mut self.prepared[..inputs];
                        preparation.apply(s, x, prepared);
                        prepared
                    }
                };
                (self.scale[row], self.base[row]) = match matrix.arithmetic() {
                    Arithmetic::F32 => floats(x, out),
                    Arithmetic::I16 => pairs(s, x, out),
                    Arithmetic::I8 => quads(s, x, out),
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
    let (low, high, nan) = range(s, x);
    let top = high.max(-low).max(1e-30);
    let factor = s.splat(I16_TOP / top);
    for (out, x) in halves_mut(out).chunks_mut(S::LANES).zip(x.chunks(S::LANES)) {
        let q = s.to_int(s.mul(s.load_part(x, 0.0), factor));
        if out.len() >= S::LANES {
            s.store_low16(out, q);
        } else {
            let mut all = [0; MOST_LANES];
            s.store_low16(&mut all, q);
            out.copy_from_slice(&all[..out.len()]);
        }
    }
    (top / I16_TOP + nan, 0.0)
}

/// From the least value (0) to the greatest (255): all of the range, whatever the activation before.
#[inline(always)]
fn quads<S: Simd>(s: S, x: &[f32], out: &mut [i32]) -> (f32, f32) {
    let (low, high, nan) = range(s, x);
    let span = (high - low).max(1e-30);
    let (factor, least) = (s.splat(255.0 / span), s.splat(low));
    for (out, x) in bytes_mut(out).chunks_mut(S::LANES).zip(x.chunks(S::LANES)) {
        let mut q = s.mul(s.sub(s.load_part(x, low), least), factor);
        if S::BYTE_OFFSET != 0 {
            q = s.sub(s.round(q), s.splat(S::BYTE_OFFSET as f32));
        }
        let q = s.to_int(q);
        if out.len() >= S::LANES {
            s.store_low8(out, q);
        } else {
            let mut all = [0; MOST_LANES];
            s.store_low8(&mut all, q);
            out.copy_from_slice(&all[..out.len()]);
        }
    }
    let scale = span / 255.0 + nan;
    (scale, low + scale * S::BYTE_OFFSET as f32)
}

/// Least and greatest value, and 0, or NaN if a value is NaN or infinite: comparisons may lose a NaN.
#[inline(always)]
fn range<S: Simd>(s: S, x: &[f32]) -> (f32, f32, f32) {
    let first = s.splat(x[0]);
    let (mut low, mut high) = ([first; 4], [first; 4]);
    let (zero, mut nan) = (s.splat(0.0), [s.splat(0.0); 4]);
    for (i, x4) in x.chunks(S::LANES).enumerate() {
        let (v, i) = (s.load_part(x4, x[0]), i % 4);
        low[i] = s.min(low[i], v);
        high[i] = s.max(high[i], v);
        nan[i] = s.fma(v, zero, nan[i]);
    }
    let join =
        |f: fn(S, S::F, S::F) -> S::F, v: [S::F; 4]| f(s, f(s, v[0], v[1]), f(s, v[2], v[3]));
    (
        s.least(join(S::min, low)),
        s.greatest(join(S::max, high)),
        s.sum(join(S::add, nan)),
    )
}

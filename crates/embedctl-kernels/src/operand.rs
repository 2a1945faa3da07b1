//! The left side of products: rows of activations, converted to a matrix's arithmetic.

use std::collections::TryReserveError;

use super::amx;
use super::isa::with_floats;
use super::lines::{CacheLines, dwords};
use super::matrix::{Matrix, OperandForm};
use super::preparation::Range;
use super::rounding::{IntegerStep, halves, i16_block, part, step16};
use super::simd::{MOST_LANES, Simd};
use super::tile::Block;
use super::tile_layout::{Line, MOST_BYTE, TileLayout, TileNumbers, spread_halves, spread_triples};
use embedctl_common::Arithmetic;

/// Memory for converted rows. Kept and refilled: it grows to the largest size asked for and then allocates no more.
#[derive(Debug, Default)]
pub struct Operand {
    /// `steps` dwords for each row, a float, a pair or a quad each; or tiles of sixteen rows.
    data: CacheLines,
    /// The value of one step of each row's integers.
    scale: Vec<f32>,
    /// The value of each row's integer zero.
    base: Vec<f32>,
    /// One row on its way through the preparation.
    prepared: CacheLines,
    /// One rounded row on its way into tiles.
    rounded: CacheLines,
}

/// Rows as a matrix multiplies them.
#[derive(Debug, Clone, Copy)]
pub struct Converted<'a> {
    form: OperandForm,
    rows: usize,
    /// Dwords of each row, and those from row to row.
    data: &'a [i32],
    stride: usize,
    /// For each row the value of one step of its integers, and the value of their zero; empty where they are floats.
    pub(super) scale: &'a [f32],
    pub(super) base: &'a [f32],
}

impl Converted<'_> {
    /// How many there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The dwords, checked to have been converted for `matrix` or its like.
    pub(super) fn block(&self, matrix: &Matrix) -> Block<'_> {
        assert!(
            self.form == matrix.form(),
            "an operand that was converted for another matrix"
        );
        Block {
            data: self.data,
            stride: self.stride,
        }
    }
}

impl Operand {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Dwords of a row of `inputs` values, in the arithmetic that takes most: as floats, in tiles as three bfloat16 each.
    #[must_use]
    pub fn dwords(inputs: usize) -> usize {
        inputs.div_ceil(2 * amx::SIDE) * 3 * amx::SIDE
    }

    /// Room for `rows` rows of `inputs` values, in any arithmetic.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn try_reserve(&mut self, rows: usize, inputs: usize) -> Result<(), TryReserveError> {
        let held = rows.checked_next_multiple_of(amx::SIDE).unwrap_or(rows);
        self.data
            .try_grow(held.saturating_mul(Self::dwords(inputs)))?;
        self.rounded.try_grow(inputs)?;
        let more = |list: &Vec<f32>, length: usize| length.saturating_sub(list.len());
        self.scale.try_reserve_exact(more(&self.scale, rows))?;
        self.base.try_reserve_exact(more(&self.base, rows))?;
        self.prepared.try_grow(inputs)
    }

    /// Converts `rows` rows of `x`, `stride` floats apart, to the form that `matrix` multiplies; floats stay where they
    /// are, unless tiles multiply them. A row that holds a NaN or, in integers, an infinity makes every product with it NaN.
    ///
    /// # Panics
    /// `x` is too short, or the stride smaller than the matrix's inputs.
    pub fn convert<'a>(
        &'a mut self,
        matrix: &Matrix,
        x: &'a [f32],
        stride: usize,
        rows: usize,
    ) -> Converted<'a> {
        if !matrix.is_exact() {
            return self.convert_apart(matrix, x, stride, rows);
        }
        check(matrix, x, stride, rows);
        Converted {
            form: matrix.form(),
            rows,
            data: dwords(x),
            stride,
            scale: &[],
            base: &[],
        }
    }

    /// The same, floats too apart from `x`.
    ///
    /// # Panics
    /// As [`Self::convert`].
    pub fn convert_apart(
        &mut self,
        matrix: &Matrix,
        x: &[f32],
        stride: usize,
        rows: usize,
    ) -> Converted<'_> {
        check(matrix, x, stride, rows);
        let (inputs, steps) = (matrix.inputs(), matrix.operand_steps());
        let refused = "memory for the rows";
        let tiles = matrix.tiles();
        // A tile's rows are there even where the operand has fewer.
        let held = match tiles {
            Some(_) => rows.next_multiple_of(amx::SIDE),
            None => rows,
        };
        self.data.try_grow(held * steps).expect(refused);
        self.prepared.try_grow(inputs).expect(refused);
        let plain = inputs.div_ceil(matrix.arithmetic().per_lane());
        self.rounded.try_grow(plain).expect(refused);
        self.scale.resize(self.scale.len().max(rows), 0.0);
        self.base.resize(self.base.len().max(rows), 0.0);
        with_floats!(matrix.isa(), s => {
            let tiles = beside(s, tiles);
            for row in 0..rows {
                let x = &x[row * stride..][..inputs];
                let out = match tiles {
                    Some(_) => &mut self.rounded.dwords_mut()[..plain],
                    None => &mut self.data.dwords_mut()[row * steps..][..steps],
                };
                let prepared = &mut self.prepared.floats_mut()[..inputs];
                // Written once each: what is inlined here takes long to compile.
                let range = match (matrix.preparation(), matrix.arithmetic()) {
                    (Some(preparation), _) => preparation.apply(s, x, prepared),
                    (None, Arithmetic::Int8) => Range::of(s, x),
                    (None, _) => Range::new(s, 0.0),
                };
                let is_prepared = matrix.preparation().is_some();
                (self.scale[row], self.base[row]) = match matrix.arithmetic() {
                    Arithmetic::Fp32 if is_prepared => (range.step(s, MOST_BYTE).worth, 0.0),
                    Arithmetic::Fp32 | Arithmetic::Bf16 if tiles.is_some() => (1.0, 0.0),
                    Arithmetic::Fp32 => floats(x, out),
                    Arithmetic::Bf16 => halves(x, out),
                    Arithmetic::Int16 => pairs(s, x, out),
                    Arithmetic::Int8 => quads(s, if is_prepared { prepared } else { x }, range, out),
                };
                let Some(layout) = tiles else {
                    continue;
                };
                let own = &mut self.data.dwords_mut()[row / amx::SIDE * amx::SIDE * steps..];
                let own = &mut own[row % amx::SIDE * amx::SIDE..];
                let rounded = &self.rounded.dwords()[..plain];
                match layout.numbers {
                    TileNumbers::ByteTriples => {
                        let step = IntegerStep::of(self.scale[row]);
                        spread_triples(s, prepared, step, #[inline(always)] |n, line| put(own, n, line));
                    }
                    TileNumbers::Halves => {
                        spread_halves(x, #[inline(always)] |n, line| put(own, n, line));
                    }
                    TileNumbers::FloatsByHalves => {
                        layout.spread(dwords(x), #[inline(always)] |n, line| put(own, n, line));
                    }
                    TileNumbers::Bytes | TileNumbers::Integers => {
                        layout.spread(rounded, #[inline(always)] |n, line| put(own, n, line));
                    }
                }
            }
        });
        Converted {
            form: matrix.form(),
            rows,
            data: &self.data.dwords()[..held * steps],
            stride: steps,
            scale: &self.scale[..rows],
            base: &self.base[..rows],
        }
    }
}

/// The layout of tiles, where there can be tiles beside these vectors.
#[inline(always)]
fn beside<S: Simd>(_: S, layout: Option<TileLayout>) -> Option<TileLayout> {
    layout.filter(|_| S::HAS_TILES)
}

/// Writes line `number` of a row, whose first one begins `tiles`.
#[inline(always)]
fn put(tiles: &mut [i32], number: usize, line: &Line) {
    tiles[number * amx::TILE..][..amx::SIDE].copy_from_slice(line);
}

fn check(matrix: &Matrix, x: &[f32], stride: usize, rows: usize) {
    let inputs = matrix.inputs();
    assert!(stride >= inputs, "rows overlap");
    assert!(
        rows == 0 || x.len() >= (rows - 1) * stride + inputs,
        "too few values for the rows"
    );
}

#[inline(always)]
fn floats(x: &[f32], out: &mut [i32]) -> (f32, f32) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = x.to_bits() as i32;
    }
    (1.0, 0.0)
}

/// Symmetric, by the greatest magnitude and the norm of the heaviest block.
#[inline(always)]
fn pairs<S: Simd>(s: S, x: &[f32], out: &mut [i32]) -> (f32, f32) {
    let mut top = Top::new(s);
    let mut most = 0.0_f32;
    for block in x.chunks(i16_block(x.len())) {
        let mut squares = [s.splat(0.0); 2];
        let whole = block.chunks_exact(2 * S::LANES);
        let left = whole.remainder();
        for values in whole {
            let values = [s.load(values), s.load(&values[S::LANES..])];
            top.see(s, values);
            add_squares(s, &mut squares, values);
        }
        if !left.is_empty() {
            let values = [part(s, left, 0, 0.0), part(s, left, S::LANES, 0.0)];
            top.see(s, values);
            add_squares(s, &mut squares, values);
        }
        most = most.max(s.sum(s.add(squares[0], squares[1])));
    }
    let step = IntegerStep::of(step16(top.value(s), std::iter::once(most)));
    round16(s, x, s.splat(step.factor), out);
    (step.worth, 0.0)
}

#[inline(always)]
fn add_squares<S: Simd>(s: S, squares: &mut [S::F; 2], values: [S::F; 2]) {
    for i in 0..2 {
        squares[i] = s.fma(values[i], values[i], squares[i]);
    }
}

/// The greatest magnitude of some numbers: as integers, magnitudes have the same order, with infinity and NaN above
/// all others.
pub(super) struct Top<S: Simd>([S::I; 2]);

impl<S: Simd> Top<S> {
    #[inline(always)]
    pub(super) fn new(s: S) -> Self {
        Self([s.splat_i(0); 2])
    }

    #[inline(always)]
    pub(super) fn take(&mut self, s: S, x: &[f32]) {
        for c in (0..x.len()).step_by(2 * S::LANES) {
            self.see(s, [part(s, x, c, 0.0), part(s, x, c + S::LANES, 0.0)]);
        }
    }

    #[inline(always)]
    fn see(&mut self, s: S, values: [S::F; 2]) {
        let [low, high] = values;
        self.0[0] = s.max_i(self.0[0], s.as_int(s.abs(low)));
        self.0[1] = s.max_i(self.0[1], s.as_int(s.abs(high)));
    }

    /// The greatest magnitude: NaN or infinity if there is one.
    #[inline(always)]
    fn value(&self, s: S) -> f32 {
        let [low, high] = self.0;
        let mut lanes = [0; MOST_LANES];
        s.store_i(&mut lanes, s.max_i(low, high));
        let top = lanes.iter().fold(0, |top, lane| top.max(*lane));
        f32::from_bits(top.cast_unsigned())
    }

    /// The step by which the greatest magnitude becomes `most`.
    #[inline(always)]
    pub(super) fn step(&self, s: S, most: f32) -> IntegerStep {
        IntegerStep::reaching(self.value(s), most)
    }
}

/// Rounds the products of `x` and `factor` to 16 bits, two to a dword; zeros fill up the last one.
#[inline(always)]
pub(super) fn round16<S: Simd>(s: S, x: &[f32], factor: S::F, out: &mut [i32]) {
    let whole = x.len() / (2 * S::LANES);
    let (xs, x) = x.split_at(whole * 2 * S::LANES);
    let (outs, out) = out.split_at_mut(whole * S::LANES);
    // Not by `zip`, which is a call with two divisions where it is not inlined.
    for i in 0..whole {
        let x = &xs[i * 2 * S::LANES..][..2 * S::LANES];
        let out = &mut outs[i * S::LANES..][..S::LANES];
        let low = s.to_int(s.mul(s.load(x), factor));
        let high = s.to_int(s.mul(s.load(&x[S::LANES..]), factor));
        s.store_i(out, s.pack16(low, high));
    }
    if !out.is_empty() {
        let low = s.to_int(s.mul(part(s, x, 0, 0.0), factor));
        let high = s.to_int(s.mul(part(s, x, S::LANES, 0.0), factor));
        s.store_part_i(out, s.pack16(low, high));
    }
}

/// From the least value (0) to the greatest (255): the whole range, for any activation before.
#[inline(always)]
fn quads<S: Simd>(s: S, x: &[f32], range: Range<S>, out: &mut [i32]) -> (f32, f32) {
    let (low, high, nan) = range.ends(s);
    let span = (high - low).max(1e-30);
    let factor = 255.0 / span;
    let least = s.splat(-low * factor - S::BYTE_OFFSET as f32);
    let factor = s.splat(factor);
    let whole = x.len() / (4 * S::LANES);
    let (xs, x) = x.split_at(whole * 4 * S::LANES);
    let (outs, out) = out.split_at_mut(whole * S::LANES);
    for i in 0..whole {
        let x = &xs[i * 4 * S::LANES..][..4 * S::LANES];
        let out = &mut outs[i * S::LANES..][..S::LANES];
        let mut bytes = [s.splat_i(0); 4];
        for (i, bytes) in bytes.iter_mut().enumerate() {
            *bytes = s.to_int(s.fma(s.load(&x[i * S::LANES..]), factor, least));
        }
        s.store_i(out, s.pack8(bytes));
    }
    if !out.is_empty() {
        let mut bytes = [s.splat_i(0); 4];
        for (i, bytes) in bytes.iter_mut().enumerate() {
            *bytes = s.to_int(s.fma(part(s, x, i * S::LANES, low), factor, least));
        }
        s.store_part_i(out, s.pack8(bytes));
    }
    let scale = span / 255.0 + nan;
    (scale, low + scale * S::BYTE_OFFSET as f32)
}

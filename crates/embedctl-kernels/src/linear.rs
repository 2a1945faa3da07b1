//! Products of rows and packed weights, finished while the sums are still in the cache.

use std::ops::Range;

use super::isa::{with, with_floats, with_tiles};
use super::lines::dwords_mut;
use super::math::{Polynomials, activate, gelu_coarse};
use super::matrix::{Matrix, panel_width};
use super::operand::Converted;
use super::rounding::i16_block;
use super::simd::Simd;
use super::tile::{
    Block, Dot, Floats, LINE, MOST_WIDTH, Next, Pairs, Quads, RUN, TileEnd, TileSums,
    WidenedHalves, multiply, split, with_bf16,
};
use embedctl_common::{Activation, Arithmetic};

/// The last operation on a product `y = x W' + bias`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProductFinish {
    /// `out = y`
    Store,
    /// `out += y`: the residual stream.
    Add,
    /// `out = activation(y)`
    Activate(Activation),
    /// `out = activation(gate) * up`, for a gated matrix.
    Gate(Activation),
}

/// Multiplies rows `rows` of `x` with `matrix`: result row `i` begins at `out[i * stride]`. A result depends on
/// its own row alone, bit for bit: not on the rows beside it, nor on `rows`.
///
/// # Panics
/// `x` was converted for another matrix or holds fewer rows, `out` is too short, the stride is smaller than
/// the matrix's outputs, or `finish` gates where the matrix doesn't (or the reverse).
pub fn linear(
    x: Converted<'_>,
    rows: Range<usize>,
    matrix: &Matrix,
    out: &mut [f32],
    stride: usize,
    finish: ProductFinish,
) {
    let all = 0..matrix.outputs();
    linear_part(x, rows, matrix, all, out, stride, finish);
}

/// The same for the outputs `part` alone, the first of which begins a result row: of a matrix whose results would be too
/// many to be held at a time.
///
/// # Panics
/// As [`linear`]; or if `part` does not begin at a panel's first output ([`Matrix::panel_outputs`]).
pub fn linear_part(
    x: Converted<'_>,
    rows: Range<usize>,
    matrix: &Matrix,
    part: Range<usize>,
    out: &mut [f32],
    stride: usize,
    finish: ProductFinish,
) {
    let left = x.block(matrix);
    assert!(
        part.start.is_multiple_of(matrix.panel_outputs()) && part.end <= matrix.outputs(),
        "outputs that begin with a panel"
    );
    let outputs = part.len();
    assert!(
        rows.start <= rows.end && rows.end <= x.rows(),
        "rows that were converted"
    );
    assert!(stride >= outputs, "result rows overlap");
    assert!(
        matches!(finish, ProductFinish::Gate(_)) == matrix.gated(),
        "gates need a gated matrix"
    );
    if rows.is_empty() || outputs == 0 {
        return;
    }
    assert!(
        out.len() >= (rows.len() - 1) * stride + outputs,
        "too little room for the result"
    );
    let call = Call {
        left,
        scales: x.scale,
        bases: x.base,
        rows,
        matrix,
        part,
        finish,
    };
    let isa = matrix.isa();
    let by_tiles: Option<()> = with_tiles!(isa, s, tiles => call.run_tiles(s, tiles, out, stride));
    if by_tiles.is_some() {
        return;
    }
    match matrix.arithmetic() {
        Arithmetic::Fp32 => with_floats!(isa, s => call.run(s, Floats, out, stride)),
        Arithmetic::Bf16 => {
            let done: Option<()> = with_bf16!(isa, s, halves => call.run(s, halves, out, stride));
            if done.is_none() {
                with_floats!(isa, s => call.run(s, WidenedHalves, out, stride));
            }
        }
        Arithmetic::Int16 => with!(isa, s => call.run(s, Pairs, out, stride)),
        Arithmetic::Int8 => with!(isa, s => call.run(s, Quads, out, stride)),
    }
}

/// Cache lines that are asked for at a time: above, they wait for each other.
const MOST_AHEAD: usize = 24;

/// One product: its two sides and how it ends.
pub(super) struct Call<'a> {
    pub(super) left: Block<'a>,
    pub(super) scales: &'a [f32],
    pub(super) bases: &'a [f32],
    pub(super) rows: Range<usize>,
    pub(super) matrix: &'a Matrix,
    /// The outputs that are wanted.
    pub(super) part: Range<usize>,
    pub(super) finish: ProductFinish,
}

impl Call<'_> {
    #[inline(always)]
    fn run<S: Simd, D: Dot>(&self, s: S, dot: D, out: &mut [f32], stride: usize) {
        let (steps, width) = (self.matrix.steps(), panel_width(s));
        let per_panel = if self.matrix.gated() {
            width / 2
        } else {
            width
        };
        let mut sums = TileSums::new();
        let span = match D::ARITHMETIC {
            Arithmetic::Int16 => i16_block(self.matrix.inputs()) / 2,
            _ => steps,
        };
        let passes_on = matches!(self.finish, ProductFinish::Store | ProductFinish::Add);
        // Over all tiles of a panel, the next one is asked for; few tiles don't get as far.
        let tiles = self.rows.len().div_ceil(S::ROWS);
        let lines = (width * RUN / LINE).div_ceil(tiles).min(MOST_AHEAD);
        let panels = self.matrix.data().chunks_exact(width * steps).enumerate();
        for (panel, data) in panels.skip(self.part.start / per_panel) {
            let left = self.part.end.saturating_sub(panel * per_panel);
            if left == 0 {
                break;
            }
            let outputs = left.min(per_panel);
            let first = panel * per_panel - self.part.start;
            let columns = PackedColumns::of(self.matrix, panel * width, width);
            for (tile, (row, count)) in split(self.rows.len(), S::ROWS).enumerate() {
                let asked = tile * lines * LINE * steps.div_ceil(RUN);
                let out = &mut out[row * stride + first..];
                let direct = passes_on && outputs == width;
                // Blocks of inputs whose sums fit 32 bits.
                for from in (0..steps).step_by(span) {
                    let left = Block {
                        data: &self.left.data[(self.rows.start + row) * self.left.stride + from..],
                        stride: self.left.stride,
                    };
                    let right = Block {
                        data: &data[from * width..],
                        stride: width,
                    };
                    let next = Next {
                        at: right.data.len() + asked + lines * LINE * (from / RUN),
                        lines,
                    };
                    let end = Scaled {
                        scales: self.scales.get(self.rows.start + row..).unwrap_or(&[]),
                        bases: self.bases.get(self.rows.start + row..).unwrap_or(&[]),
                        columns: match from {
                            0 => columns,
                            _ => columns.without_bias(),
                        },
                        add: from > 0 || self.finish == ProductFinish::Add && direct,
                    };
                    let size = (count, span.min(steps - from));
                    // Two calls: of one, the tile would become a part of this function, and on AVX2 its sums would not
                    // fit the registers.
                    if direct {
                        let out = dwords_mut(&mut *out);
                        multiply(s, dot, size, left, right, next, end, out, stride);
                    } else {
                        let to = sums.dwords_mut();
                        multiply(s, dot, size, left, right, next, end, to, MOST_WIDTH);
                    }
                }
                if !direct {
                    let coarse = D::ARITHMETIC != Arithmetic::Fp32;
                    // Compiled once for the three arithmetics.
                    s.enter(
                        #[inline(always)]
                        || {
                            let rows = sums.0[..count].iter().zip(out.chunks_mut(stride));
                            self.finish(s, coarse, rows, (width, outputs));
                        },
                    );
                }
            }
        }
    }

    /// Finishes a tile's rows of `width` values each and writes the first `outputs` of each.
    #[inline(always)]
    pub(super) fn finish<'a, S: Simd>(
        &self,
        s: S,
        coarse: bool,
        rows: impl Iterator<Item = (&'a [i32; MOST_WIDTH], &'a mut [f32])>,
        (width, outputs): (usize, usize),
    ) {
        // Loops in place, no closures: one that is not inlined would lack the vectors' instructions.
        let tables = Polynomials::get(s);
        let (erf, tail) = (tables.erf(s), tables.tail(s));
        macro_rules! each {
            (|$value:ident, $values:ident, $at:ident, $out:ident| $result:expr) => {
                for ($values, out) in rows {
                    for (j, $out) in out[..outputs].chunks_mut(S::LANES).enumerate() {
                        let $at = j * S::LANES;
                        let $value = s.as_float(s.load_i(&$values[$at..]));
                        s.store_part($out, $result);
                    }
                }
            };
        }
        macro_rules! activations {
            (|$value:ident, $values:ident, $at:ident, $by:ident| $result:expr; $($activation:ident)*) => {
                match $by {
                    Activation::Gelu if coarse => each!(|value, $values, $at, out| {
                        let $value = gelu_coarse(s, &tail, value);
                        $result
                    }),
                    $(Activation::$activation => each!(|value, $values, $at, out| {
                        let $value = activate(s, &erf, Activation::$activation, value);
                        $result
                    }),)*
                }
            };
        }
        match self.finish {
            ProductFinish::Store => each!(|value, values, at, out| value),
            ProductFinish::Add => {
                each!(|value, values, at, out| s.add(s.load_part(out, 0.0), value))
            }
            ProductFinish::Activate(by) => {
                activations!(|value, values, at, by| value; Gelu GeluTanh QuickGelu Silu Relu Tanh);
            }
            ProductFinish::Gate(by) => activations!(
                |value, values, at, by| s.mul(value, s.as_float(s.load_i(&values[width / 2 + at..])));
                Gelu GeluTanh QuickGelu Silu Relu Tanh
            ),
        }
    }
}

/// Sums become floats by their scales and bias, and are stored or added.
#[derive(Clone, Copy)]
pub(super) struct Scaled<'a> {
    /// One for each row of the tile, or none for floats.
    pub(super) scales: &'a [f32],
    pub(super) bases: &'a [f32],
    pub(super) columns: PackedColumns<'a>,
    pub(super) add: bool,
}

impl Scaled<'_> {
    /// The results of a row's sums in steps of both sides.
    #[inline(always)]
    pub(super) fn of_steps<S: Simd>(
        self,
        s: S,
        [scale, _, bias]: [S::F; 3],
        row: usize,
        sums: S::F,
    ) -> S::I {
        s.as_int(s.fma(s.mul(sums, scale), s.splat(self.scales[row]), bias))
    }
}

impl TileEnd for Scaled<'_> {
    const WIDE: bool = true;
    /// Scale, sum and bias.
    type Column<S: Simd> = [S::F; 3];
    #[inline(always)]
    fn of<S: Simd, D: Dot>(mut self, rows: usize) -> Self {
        let width = S::PANEL * S::LANES;
        let PackedColumns { scale, sum, bias } = &mut self.columns;
        (*scale, *sum, *bias) = (&scale[..width], &sum[..width], &bias[..width]);
        if !D::ARITHMETIC.sums_floats() {
            (self.scales, self.bases) = (&self.scales[..rows], &self.bases[..rows]);
        }
        self
    }
    #[inline(always)]
    fn column<S: Simd>(self, s: S, vector: usize) -> [S::F; 3] {
        let at = vector * S::LANES;
        let PackedColumns { scale, sum, bias } = self.columns;
        [
            s.load(&scale[at..]),
            s.load(&sum[at..]),
            s.load(&bias[at..]),
        ]
    }
    #[inline(always)]
    fn end<S: Simd, D: Dot>(
        self,
        s: S,
        [scale, sum, bias]: [S::F; 3],
        row: usize,
        sums: S::I,
    ) -> S::I {
        let mut value = bias;
        if D::ARITHMETIC.sums_floats() {
            value = s.add(s.as_float(sums), value);
        } else {
            if D::ARITHMETIC == Arithmetic::Int8 {
                value = s.fma(s.splat(self.bases[row]), sum, value);
            }
            let sums = s.mul(s.to_float(sums), scale);
            value = s.fma(sums, s.splat(self.scales[row]), value);
        }
        s.as_int(value)
    }
    #[inline(always)]
    fn adds(self) -> bool {
        self.add
    }
}

/// The bias of inputs that are not the first.
#[repr(align(64))]
struct NoBias([f32; MOST_WIDTH]);

static NO_BIAS: NoBias = NoBias([0.0; MOST_WIDTH]);

/// Scale, sum of weights and bias of some packed columns.
#[derive(Clone, Copy)]
pub(super) struct PackedColumns<'a> {
    scale: &'a [f32],
    sum: &'a [f32],
    bias: &'a [f32],
}

impl<'a> PackedColumns<'a> {
    #[inline(always)]
    pub(super) fn of(matrix: &'a Matrix, first: usize, count: usize) -> Self {
        Self {
            scale: &matrix.scale.floats()[first..][..count],
            sum: &matrix.sum.floats()[first..][..count],
            bias: &matrix.bias.floats()[first..][..count],
        }
    }

    #[inline(always)]
    pub(super) fn without_bias(self) -> Self {
        Self {
            bias: &NO_BIAS.0,
            ..self
        }
    }
}

//! Products of rows and packed weights, and what follows them while the sums are still in the cache.

use std::ops::Range;

use super::isa::{Arithmetic, with};
use super::math::{Activation, Tables, activate};
use super::matrix::{Matrix, panel_width};
use super::operand::Operand;
use super::simd::Simd;
use super::tile::{Block, Dot, Floats, LINE, Next, Pairs, Quads, RUN, Sums, multiply, split};

/// What is done with a product `y = x W' + bias`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
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
    x: &Operand,
    rows: Range<usize>,
    matrix: &Matrix,
    out: &mut [f32],
    stride: usize,
    finish: Finish,
) {
    let (data, scales, bases) = x.parts(matrix);
    let (steps, outputs) = (matrix.steps(), matrix.outputs());
    assert!(
        rows.start <= rows.end && rows.end <= scales.len(),
        "rows that the operand holds"
    );
    assert!(stride >= outputs, "result rows overlap");
    assert!(
        matches!(finish, Finish::Gate(_)) == matrix.gated(),
        "gates need a gated matrix"
    );
    if rows.is_empty() {
        return;
    }
    assert!(
        out.len() >= (rows.len() - 1) * stride + outputs,
        "too little room for the result"
    );
    let call = Call {
        left: Block {
            data: &data[rows.start * steps..rows.end * steps],
            stride: steps,
        },
        scales: &scales[rows.clone()],
        bases: &bases[rows],
        matrix,
        finish,
    };
    with!(matrix.isa(), s => match matrix.arithmetic() {
        Arithmetic::F32 => call.run(s, Floats, out, stride),
        Arithmetic::I16 => call.run(s, Pairs, out, stride),
        Arithmetic::I8 => call.run(s, Quads, out, stride),
    });
}

/// Cache lines that are asked for at a time: above, they wait for each other.
const MOST_AHEAD: usize = 24;

struct Call<'a> {
    left: Block<'a>,
    scales: &'a [f32],
    bases: &'a [f32],
    matrix: &'a Matrix,
    finish: Finish,
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
        let mut sums = Sums::new();
        // Over all tiles of a panel, the next one is asked for; few tiles don't get as far.
        let tiles = self.scales.len().div_ceil(S::ROWS);
        let lines = (width * RUN / LINE).div_ceil(tiles).min(MOST_AHEAD);
        for (panel, data) in self.matrix.data().chunks_exact(width * steps).enumerate() {
            let first = panel * per_panel;
            let Some(outputs) = self.matrix.outputs().checked_sub(first) else {
                break;
            };
            for (tile, (row, count)) in split(self.scales.len(), S::ROWS).enumerate() {
                let left = Block {
                    data: &self.left.data[row * steps..],
                    stride: steps,
                };
                let right = Block {
                    data,
                    stride: width,
                };
                let asked = tile * lines * LINE * steps.div_ceil(RUN);
                let next = Next {
                    at: data.len() + asked,
                    lines,
                };
                multiply::<S, D, true>(s, dot, (count, steps), left, right, next, &mut sums);
                for i in 0..count {
                    let out = &mut out[(row + i) * stride + first..][..outputs.min(per_panel)];
                    let sums = &mut sums.0[i][..width];
                    if matches!(self.finish, Finish::Store | Finish::Add) && out.len() == width {
                        self.pass_on::<S, D>(s, row + i, panel * width, sums, out);
                    } else {
                        self.dequantize::<S, D>(s, row + i, panel * width, sums);
                        // Compiled once for the three arithmetics.
                        s.enter(
                            #[inline(always)]
                            || self.finish(s, sums, out),
                        );
                    }
                }
            }
        }
    }

    /// Stores or adds a row of sums of a whole panel.
    #[inline(always)]
    fn pass_on<S: Simd, D: Dot>(
        &self,
        s: S,
        row: usize,
        column: usize,
        sums: &[i32],
        out: &mut [f32],
    ) {
        let add = self.finish == Finish::Add;
        let (scale, base) = (s.splat(self.scales[row]), s.splat(self.bases[row]));
        let vectors = Columns::of(self.matrix, column, sums.len()).vectors::<S>();
        for ((out, sums), columns) in out
            .chunks_exact_mut(S::LANES)
            .zip(sums.chunks_exact(S::LANES))
            .zip(vectors)
        {
            let mut value = columns.value::<S, D>(s, s.load_i(sums), scale, base);
            if add {
                value = s.add(s.load(out), value);
            }
            s.store(out, value);
        }
    }

    /// Turns a row of sums into floats, in place: scales and bias.
    #[inline(always)]
    fn dequantize<S: Simd, D: Dot>(&self, s: S, row: usize, column: usize, sums: &mut [i32]) {
        let (scale, base) = (s.splat(self.scales[row]), s.splat(self.bases[row]));
        let vectors = Columns::of(self.matrix, column, sums.len()).vectors::<S>();
        for (sums, columns) in sums.chunks_exact_mut(S::LANES).zip(vectors) {
            let value = columns.value::<S, D>(s, s.load_i(sums), scale, base);
            s.store_i(sums, s.as_int(value));
        }
    }

    #[inline(always)]
    fn finish<S: Simd>(&self, s: S, values: &[i32], out: &mut [f32]) {
        // Loops in place, no closures: one that is not inlined would lack the vectors' instructions.
        let tables = Tables::get(s);
        let half = values.len() / 2;
        macro_rules! each {
            (|$value:ident, $at:ident, $out:ident| $result:expr) => {
                for (j, $out) in out.chunks_mut(S::LANES).enumerate() {
                    let $at = j * S::LANES;
                    let $value = s.as_float(s.load_i(&values[$at..]));
                    s.store_part($out, $result);
                }
            };
        }
        macro_rules! activations {
            (|$value:ident, $at:ident, $by:ident| $result:expr; $($activation:ident)*) => {
                match $by {
                    $(Activation::$activation => each!(|value, $at, out| {
                        let $value = activate(s, tables, Activation::$activation, value);
                        $result
                    }),)*
                }
            };
        }
        match self.finish {
            Finish::Store => each!(|value, at, out| value),
            Finish::Add => each!(|value, at, out| s.add(s.load_part(out, 0.0), value)),
            Finish::Activate(by) => {
                activations!(|value, at, by| value; Gelu GeluTanh QuickGelu Silu Relu Tanh);
            }
            Finish::Gate(by) => activations!(
                |value, at, by| s.mul(value, s.as_float(s.load_i(&values[half + at..])));
                Gelu GeluTanh QuickGelu Silu Relu Tanh
            ),
        }
    }
}

/// What a matrix keeps for some packed columns.
#[derive(Clone, Copy)]
struct Columns<'a> {
    scale: &'a [f32],
    sum: &'a [f32],
    bias: &'a [f32],
}

impl<'a> Columns<'a> {
    #[inline(always)]
    fn of(matrix: &'a Matrix, first: usize, count: usize) -> Self {
        Self {
            scale: &matrix.scale[first..][..count],
            sum: &matrix.sum[first..][..count],
            bias: &matrix.bias[first..][..count],
        }
    }

    /// A vector of columns at a time.
    #[inline(always)]
    fn vectors<S: Simd>(self) -> impl Iterator<Item = Self> {
        let chunks = self
            .sum
            .chunks_exact(S::LANES)
            .zip(self.bias.chunks_exact(S::LANES));
        self.scale
            .chunks_exact(S::LANES)
            .zip(chunks)
            .map(|(scale, (sum, bias))| Self { scale, sum, bias })
    }

    /// A vector of sums as floats.
    #[inline(always)]
    fn value<S: Simd, D: Dot>(self, s: S, sums: S::I, scale: S::F, base: S::F) -> S::F {
        let bias = s.load(self.bias);
        match D::ARITHMETIC {
            Arithmetic::F32 => s.add(s.as_float(sums), bias),
            Arithmetic::I16 => s.fma(s.mul(s.to_float(sums), s.load(self.scale)), scale, bias),
            Arithmetic::I8 => {
                let rest = s.fma(base, s.load(self.sum), bias);
                s.fma(s.mul(s.to_float(sums), s.load(self.scale)), scale, rest)
            }
        }
    }
}

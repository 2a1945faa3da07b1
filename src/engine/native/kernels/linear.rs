//! Products of rows and packed weights, and what follows them while the sums are still in the cache.

use std::ops::Range;

use super::isa::{Arithmetic, with};
use super::math::{Activation, Tables, activate};
use super::matrix::{Matrix, panel_width};
use super::operand::Operand;
use super::simd::Simd;
use super::tile::{Block, Dot, Floats, Pairs, Quads, Sums, multiply, split};

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
        for (panel, data) in self.matrix.data().chunks_exact(width * steps).enumerate() {
            let first = panel * per_panel;
            let Some(outputs) = self.matrix.outputs().checked_sub(first) else {
                break;
            };
            for (row, count) in split(self.scales.len(), S::ROWS) {
                let left = Block {
                    data: &self.left.data[row * steps..],
                    stride: steps,
                };
                let right = Block {
                    data,
                    stride: width,
                };
                multiply::<S, D, true>(s, dot, (count, steps), left, right, &mut sums);
                for i in 0..count {
                    let out = &mut out[(row + i) * stride + first..][..outputs.min(per_panel)];
                    let sums = &mut sums.0[i][..width];
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

    /// Turns a row of sums into floats, in place: scales and bias.
    #[inline(always)]
    fn dequantize<S: Simd, D: Dot>(&self, s: S, row: usize, column: usize, sums: &mut [i32]) {
        let matrix = self.matrix;
        let (scale, base) = (s.splat(self.scales[row]), s.splat(self.bases[row]));
        let vectors = sums.chunks_exact_mut(S::LANES).enumerate();
        for (j, sums) in vectors {
            let at = |v: &[f32]| s.load(&v[column + j * S::LANES..]);
            let (sum, bias) = (s.load_i(sums), at(&matrix.bias));
            let value = match D::ARITHMETIC {
                Arithmetic::F32 => s.add(s.as_float(sum), bias),
                Arithmetic::I16 => s.fma(s.mul(s.to_float(sum), at(&matrix.scale)), scale, bias),
                Arithmetic::I8 => {
                    let rest = s.fma(base, at(&matrix.sum), bias);
                    s.fma(s.mul(s.to_float(sum), at(&matrix.scale)), scale, rest)
                }
            };
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

//! Elementary functions on vectors, and the activations of feed-forward layers made of them.

use std::f32::consts::{FRAC_2_SQRT_PI, LOG2_E, SQRT_2};
use std::sync::LazyLock;

use super::isa::{Isa, with_floats};
use super::simd::{Coefficients, MOST_LANES, Simd};
use embedctl_common::Activation;

/// Applies an activation to every value.
pub fn activate_all(by: Activation, isa: Isa, x: &mut [f32]) {
    with_floats!(isa, s => {
        let tables = Polynomials::get(s).erf(s);
        for x in x.chunks_mut(lanes(s)) {
            let v = s.load_part(x, 0.0);
            s.store_part(x, activate(s, &tables, by, v));
        }
    });
}

/// `out = by(gate) * up`, value by value.
///
/// # Panics
/// The slices differ in length.
pub fn gate_by_activation(by: Activation, isa: Isa, gate: &[f32], up: &[f32], out: &mut [f32]) {
    assert!(
        gate.len() == up.len() && up.len() == out.len(),
        "slices of one length"
    );
    with_floats!(isa, s => {
        let tables = Polynomials::get(s).erf(s);
        let inputs = gate.chunks(lanes(s)).zip(up.chunks(lanes(s)));
        for (out, (gate, up)) in out.chunks_mut(lanes(s)).zip(inputs) {
            let v = activate(s, &tables, by, s.load_part(gate, 0.0));
            s.store_part(out, s.mul(v, s.load_part(up, 0.0)));
        }
    });
}

/// Multiplies each value of `x` with the sigmoid of its gate.
///
/// # Panics
/// The slices differ in length.
pub fn gate_by_sigmoid(isa: Isa, gate: &[f32], x: &mut [f32]) {
    assert!(gate.len() == x.len(), "slices of one length");
    with_floats!(isa, s => {
        for (x, gate) in x.chunks_mut(lanes(s)).zip(gate.chunks(lanes(s))) {
            let share = sigmoid(s, s.load_part(gate, 0.0));
            s.store_part(x, s.mul(s.load_part(x, 0.0), share));
        }
    });
}

/// `S::LANES`, where `S` has no name.
#[inline(always)]
pub(super) fn lanes<S: Simd>(_: S) -> usize {
    S::LANES
}

/// `erf` is [`Polynomials::erf`].
#[inline(always)]
pub(super) fn activate<S: Simd>(s: S, erf: &[S::Table; 7], by: Activation, x: S::F) -> S::F {
    match by {
        Activation::Gelu => gelu(s, erf, x),
        Activation::GeluTanh => {
            // (1 + tanh u) / 2 is σ(2 u).
            let cubic = s.fma(s.mul(x, x), s.splat(0.044_715), s.splat(1.0));
            let u = s.mul(s.mul(x, cubic), s.splat(FRAC_2_SQRT_PI * SQRT_2 / 2.0));
            s.mul(x, sigmoid(s, s.add(u, u)))
        }
        Activation::QuickGelu => s.mul(x, sigmoid(s, s.mul(x, s.splat(1.702)))),
        Activation::Silu => s.mul(x, sigmoid(s, x)),
        Activation::Relu => s.max(s.splat(0.0), x),
        Activation::Tanh => tanh(s, x),
    }
}

/// `2^x`, with `x` limited to -126..=127; NaN stays NaN. Its relative error is below 2e-7.
#[inline(always)]
pub(super) fn exp2<S: Simd>(s: S, x: S::F) -> S::F {
    const POLYNOMIAL: [f32; 7] = [
        0.000_153_458_05,
        0.001_339_993_1,
        0.009_618_489,
        0.055_503_286,
        0.240_226_46,
        std::f32::consts::LN_2,
        1.0,
    ];
    exp2_by(
        s,
        POLYNOMIAL,
        s.min(s.splat(127.0), s.max(s.splat(-126.0), x)),
    )
}

/// `2^x` for `x <= 0`, not below `2^-100`, so that products with it stay normal numbers. `coarse` halves the
/// polynomial: within 1e-4 of the result, for weights that are rounded to 16 bits or fewer.
#[inline(always)]
pub(super) fn exp2_negative<S: Simd>(s: S, x: S::F, coarse: bool) -> S::F {
    const FINE: [f32; 6] = [
        0.001_327_646_4,
        0.009_675_541,
        0.055_507_135,
        0.240_221_2,
        0.693_146_94,
        1.000_000_1,
    ];
    const COARSE: [f32; 4] = [0.055_838_283, 0.242_639_48, 0.693_136_73, 0.999_924_56];
    let x = s.max(s.splat(-100.0), x);
    if coarse {
        exp2_by(s, COARSE, x)
    } else {
        exp2_by(s, FINE, x)
    }
}

#[inline(always)]
fn exp2_by<S: Simd, const N: usize>(s: S, polynomial: [f32; N], x: S::F) -> S::F {
    let whole = s.round(x);
    let rest = s.sub(x, whole);
    let mut p = s.splat(polynomial[0]);
    for c in &polynomial[1..] {
        p = s.fma(p, rest, s.splat(*c));
    }
    s.scale2(p, whole)
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(super) fn sigmoid<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    s.div(one, s.add(one, exp2(s, s.mul(x, s.splat(-LOG2_E)))))
}

/// The hyperbolic tangent: a polynomial about 0, where the other form would cancel.
#[inline(always)]
pub(super) fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let a = s.abs(x);
    let one = s.splat(1.0);
    let e = exp2(s, s.mul(a, s.splat(2.0 * LOG2_E)));
    let far = s.sub(one, s.div(s.splat(2.0), s.add(e, one)));
    let z = s.mul(a, a);
    let mut p = s.splat(TANH[0]);
    for c in &TANH[1..] {
        p = s.fma(p, z, s.splat(*c));
    }
    let near = s.fma(s.mul(p, z), a, a);
    s.copysign(s.select_less(a, s.splat(0.625), near, far), x)
}

/// `(tanh(x) / x - 1) / x²` by powers of `x²` for `x < 0.625`.
const TANH: [f32; 5] = [
    -0.005_704_988_7,
    0.020_639_07,
    -0.053_739_82,
    0.133_314_46,
    -0.333_332_8,
];

/// `x Φ(x)` as `x / 2 + |x| erf(|x| / √2) / 2`, the latter by one polynomial for each piece of the line.
#[inline(always)]
fn gelu<S: Simd>(s: S, erf: &[S::Table; 7], x: S::F) -> S::F {
    let a = s.abs(x);
    let last = (S::PIECES - 1) as f32;
    let t = s.mul(a, s.splat(last / GELU_END));
    // The last piece is the constant 1/2: nothing that is multiplied by a huge x may be left over.
    let t = s.min(s.splat(last), t);
    let index = s.truncate(t);
    let u = s.sub(t, s.to_float(index));
    let degree = if S::PIECES == 16 { 4 } else { 6 };
    let mut p = s.look_up(erf[degree], index);
    for d in (0..degree).rev() {
        p = s.fma(p, u, s.look_up(erf[d], index));
    }
    s.fma(a, p, s.mul(x, s.splat(0.5)))
}

/// Where `erf(x / √2) / 2` has become 1/2 in single precision.
const GELU_END: f32 = 5.4;

/// The same for results that are rounded to 16 bits or fewer: `max(x, 0) - |x| Φ(-|x|)`, the latter within 1e-5 by
/// [`Polynomials::tail`].
#[inline(always)]
pub(super) fn gelu_coarse<S: Simd>(s: S, tail: &[S::Table; 7], x: S::F) -> S::F {
    // A sum so large that its last bit is a whole piece: its low bits are the nearest one's number.
    const WHOLE: f32 = 12_582_912.0;
    let end = COARSE_END;
    let a = s.min(s.splat(end), s.abs(x));
    let last = (S::PIECES - 1) as f32;
    let index = s.as_int(s.fma(a, s.splat(last / end), s.splat(WHOLE)));
    let degree = coarse_degree(S::PIECES);
    let mut p = s.look_up(tail[degree], index);
    for d in (0..degree).rev() {
        p = s.fma(p, a, s.look_up(tail[d], index));
    }
    s.sub(s.max(s.splat(0.0), x), p)
}

/// Where `x Φ(-x)` is nothing beside 1e-5.
const COARSE_END: f32 = 5.0;

const fn coarse_degree(pieces: usize) -> usize {
    if pieces == 16 { 3 } else { 5 }
}

/// Polynomials that are computed when first wanted; on cache-line boundaries, as each is one.
#[repr(align(64))]
pub(super) struct Polynomials {
    /// Coefficients of `erf(x / √2) / 2`, by degree and piece.
    erf: [Coefficients; 7],
    /// The coefficients of `x Φ(-x)`, coarser, in powers of `x` itself.
    tail: [Coefficients; 7],
}

impl Polynomials {
    /// The polynomials for the number of pieces that `S` can look up.
    #[inline(always)]
    pub(super) fn get<S: Simd>(_: S) -> &'static Self {
        static SIXTEEN: LazyLock<Polynomials> = LazyLock::new(|| Polynomials::new(16, 4));
        static EIGHT: LazyLock<Polynomials> = LazyLock::new(|| Polynomials::new(8, 6));
        if S::PIECES == 16 { &SIXTEEN } else { &EIGHT }
    }

    /// In registers, for [`gelu`].
    #[inline(always)]
    pub(super) fn erf<S: Simd>(&self, s: S) -> [S::Table; 7] {
        in_registers(s, &self.erf)
    }

    /// In registers, for [`gelu_coarse`].
    #[inline(always)]
    pub(super) fn tail<S: Simd>(&self, s: S) -> [S::Table; 7] {
        in_registers(s, &self.tail)
    }

    fn new(pieces: usize, degree: usize) -> Self {
        let erf = |x: f64| 0.5 * libm::erf(x / std::f64::consts::SQRT_2);
        let width = f64::from(GELU_END) / (pieces - 1) as f64;
        let mut tables = Self {
            erf: pieced(pieces, degree, |piece, u| erf((piece as f64 + u) * width)),
            tail: [[0.0; MOST_LANES]; 7],
        };
        for column in &mut tables.erf {
            column[pieces - 1] = 0.0;
        }
        tables.erf[0][pieces - 1] = 0.5;
        // Pieces about whole numbers of widths; the last one is zero, since the function vanishes there.
        let width = f64::from(COARSE_END) / (pieces - 1) as f64;
        let local = pieced(pieces, coarse_degree(pieces), |piece, u| {
            let x = (piece as f64 + u - 0.5) * width;
            x * (0.5 - erf(x))
        });
        for piece in 0..pieces - 1 {
            // From powers of the distance from the piece's start, in widths, to powers of x.
            let start = (piece as f64 - 0.5) * width;
            let mut powers = [0.0; 7];
            for column in local.iter().rev() {
                for d in (1..7).rev() {
                    powers[d] = (powers[d - 1] - start * powers[d]) / width;
                }
                powers[0] = f64::from(column[piece]) - start * powers[0] / width;
            }
            for (column, power) in tables.tail.iter_mut().zip(powers) {
                column[piece] = power as f32;
            }
        }
        tables
    }
}

#[inline(always)]
fn in_registers<S: Simd>(s: S, columns: &[Coefficients; 7]) -> [S::Table; 7] {
    let mut tables = [s.table(&columns[0]); 7];
    for (table, column) in tables.iter_mut().zip(columns) {
        *table = s.table(column);
    }
    tables
}

/// Coefficients, by degree and piece, of a function of a piece and the place in it from 0 to 1: interpolated at
/// Chebyshev's nodes, in powers of the place.
fn pieced(pieces: usize, degree: usize, f: impl Fn(usize, f64) -> f64) -> [Coefficients; 7] {
    let mut coefficients = [[0.0; MOST_LANES]; 7];
    for piece in 0..pieces {
        let nodes: Vec<f64> = (0..=degree)
            .map(|i| (2 * i + 1) as f64 * std::f64::consts::PI / (2 * degree + 2) as f64)
            .map(|angle| 0.5 + 0.5 * angle.cos())
            .collect();
        // Newton's divided differences, then expanded from the innermost bracket outward.
        let mut differences: Vec<f64> = nodes.iter().map(|u| f(piece, *u)).collect();
        for order in 1..=degree {
            for i in (order..=degree).rev() {
                differences[i] =
                    (differences[i] - differences[i - 1]) / (nodes[i] - nodes[i - order]);
            }
        }
        let mut powers = vec![0.0; degree + 1];
        for i in (0..=degree).rev() {
            for d in (1..=degree).rev() {
                powers[d] = powers[d - 1] - nodes[i] * powers[d];
            }
            powers[0] = differences[i] - nodes[i] * powers[0];
        }
        for (column, power) in coefficients.iter_mut().zip(powers) {
            column[piece] = power as f32;
        }
    }
    coefficients
}

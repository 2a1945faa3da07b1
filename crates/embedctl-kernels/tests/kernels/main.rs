//! Every kernel beside plain code, on every instruction set that this machine has.

mod attention;
mod delta;
mod norms;
mod products;
mod tiles;

use embedctl_common::Activation;
use embedctl_kernels::*;

/// Numbers from -1 to 1, the same for the same seed.
fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// `[outputs, inputs]` weights for `pack`.
fn rows_of(weights: &[f32], inputs: usize) -> impl FnMut(usize, &mut [f32]) {
    move |row, out| out.copy_from_slice(&weights[row * inputs..][..inputs])
}

fn pack(
    isa: Isa,
    arithmetic: Arithmetic,
    outputs: usize,
    inputs: usize,
    weights: &[f32],
    bias: &[f32],
) -> Matrix {
    let layout = PackedLayout {
        outputs,
        inputs,
        gated: false,
    };
    Matrix::pack(
        isa,
        arithmetic,
        layout,
        rows_of(weights, inputs),
        bias,
        None,
    )
}

fn product(matrix: &Matrix, x: &[f32], rows: usize) -> Vec<f32> {
    let mut operand = Operand::new();
    let mut out = vec![0.0; rows * matrix.outputs()];
    linear(
        operand.convert(matrix, x, matrix.inputs(), rows),
        0..rows,
        matrix,
        &mut out,
        matrix.outputs(),
        ProductFinish::Store,
    );
    out
}

const ARITHMETICS: [Arithmetic; 4] = [
    Arithmetic::Fp32,
    Arithmetic::Bf16,
    Arithmetic::Int16,
    Arithmetic::Int8,
];

fn plain_activation(activation: Activation, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::Gelu => x * 0.5 * (1.0 + libm::erf(x / 2_f64.sqrt())),
        Activation::GeluTanh => {
            x * 0.5
                * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh())
        }
        Activation::QuickGelu => x * sigmoid(1.702 * x),
        Activation::Silu => x * sigmoid(x),
        Activation::Relu => x.max(0.0),
        Activation::Tanh => x.tanh(),
    }
}

const ACTIVATIONS: [Activation; 6] = [
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::QuickGelu,
    Activation::Silu,
    Activation::Relu,
    Activation::Tanh,
];

#[test]
fn nan_stays_nan() {
    for isa in Isa::all_and_emulated() {
        for activation in ACTIVATIONS {
            for place in [0, 7, 16, 18] {
                let mut x = vec![0.5; 19];
                x[place] = f32::NAN;
                activate_all(activation, isa, &mut x);
                let nans: Vec<_> = (0..19).filter(|i| x[*i].is_nan()).collect();
                assert_eq!(nans, [place], "{isa} {activation:?}");
            }
        }
        for arithmetic in ARITHMETICS {
            let (outputs, inputs) = (20, 37);
            let mut weights = random(outputs * inputs, 7);
            let matrix = pack(isa, arithmetic, outputs, inputs, &weights, &[]);
            for place in [0, 15, 20, 36] {
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let mut x = random(3 * inputs, 8);
                    x[inputs + place] = bad;
                    let y = product(&matrix, &x, 3);
                    assert!(
                        y[..outputs].iter().all(|y| y.is_finite()),
                        "{isa} {arithmetic:?}"
                    );
                    assert!(
                        y[outputs..2 * outputs].iter().all(|y| !y.is_finite()),
                        "{isa} {arithmetic:?} {bad} at {place}"
                    );
                    assert!(
                        y[2 * outputs..].iter().all(|y| y.is_finite()),
                        "{isa} {arithmetic:?}"
                    );
                }
            }
            weights[inputs * 3 + 5] = f32::NAN;
            let matrix = pack(isa, arithmetic, outputs, inputs, &weights, &[]);
            let y = product(&matrix, &random(inputs, 8), 1);
            let nans: Vec<_> = (0..outputs).filter(|o| y[*o].is_nan()).collect();
            assert_eq!(nans, [3], "{isa} {arithmetic:?}");
        }
        let norm = Norm::layer(vec![1.0; 19], vec![], 1e-5);
        let mut x = random(57, 9);
        x[30] = f32::NAN;
        norm.apply(isa, &mut x);
        assert!(
            (0..57).all(|i| x[i].is_nan() == (19..38).contains(&i)),
            "{isa}"
        );
    }
}

#[test]
fn operations_of_the_peak_are_counted() {
    for isa in Isa::all_and_emulated() {
        let count = |arithmetic| peak::operations(isa, arithmetic, 1000);
        if isa.has_tiles() {
            let vectors = |arithmetic| peak::operations(isa.without_tiles(), arithmetic, 1000);
            for arithmetic in ARITHMETICS {
                assert!(count(arithmetic) >= vectors(arithmetic), "{isa}");
            }
            continue;
        }
        assert!(count(Arithmetic::Fp32) >= 2 * 1000 * 12 * 4, "{isa}");
        assert_eq!(
            count(Arithmetic::Bf16),
            2 * count(Arithmetic::Fp32),
            "{isa}"
        );
        assert_eq!(
            count(Arithmetic::Int16),
            2 * count(Arithmetic::Fp32),
            "{isa}"
        );
        // Four multiplications a lane, or eight where blocks are multiplied.
        let lane = if isa.name() == "neon-i8mm" { 8 } else { 4 };
        assert_eq!(
            count(Arithmetic::Int8),
            lane * count(Arithmetic::Fp32),
            "{isa}"
        );
    }
}

#[test]
fn the_processor_is_asked_by_name() {
    for isa in Isa::all_and_emulated() {
        assert_eq!(Isa::named(isa.name()), Ok(isa));
        assert!(isa.speeds_up(Arithmetic::Fp32));
    }
    let error = Isa::named("abacus").unwrap_err();
    assert!(
        error.contains("EMBEDCTL_CPU") && error.contains("portable"),
        "{error}"
    );
    assert_eq!(
        Isa::all_and_emulated().last().map(|isa| isa.name()),
        Some("portable")
    );
}

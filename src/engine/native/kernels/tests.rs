//! Every kernel beside plain code, on every instruction set that this machine has.

use super::*;

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
    let layout = Layout {
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
    operand.convert(matrix, x, matrix.inputs(), rows);
    let mut out = vec![0.0; rows * matrix.outputs()];
    linear(
        &operand,
        0..rows,
        matrix,
        &mut out,
        matrix.outputs(),
        Finish::Store,
    );
    out
}

fn plain_product(x: &[f32], weights: &[f32], bias: &[f32], inputs: usize) -> Vec<f64> {
    let dot = |x: &[f32], w: &[f32]| -> f64 {
        x.iter()
            .zip(w)
            .map(|(x, w)| f64::from(*x) * f64::from(*w))
            .sum()
    };
    let outputs = weights.len() / inputs;
    x.chunks_exact(inputs)
        .flat_map(|x| {
            (0..outputs)
                .map(|o| dot(x, &weights[o * inputs..][..inputs]) + f64::from(bias[o]))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Error that rounding may leave in a sum of `inputs` products of numbers up to 1.
fn tolerance(arithmetic: Arithmetic, inputs: usize) -> f64 {
    let root = (inputs as f64).sqrt();
    match arithmetic {
        Arithmetic::F32 => 1e-6 * root + 1e-6,
        Arithmetic::I16 => 4e-4 * root,
        Arithmetic::I8 => 2e-2 * root,
    }
}

const ARITHMETICS: [Arithmetic; 3] = [Arithmetic::F32, Arithmetic::I16, Arithmetic::I8];

#[test]
fn products_agree_with_plain_code_at_every_edge_of_the_tiles() {
    for isa in Isa::all() {
        for arithmetic in ARITHMETICS {
            for (outputs, inputs) in [
                (1, 1),
                (7, 3),
                (15, 16),
                (16, 17),
                (17, 31),
                (33, 64),
                (63, 48),
                (64, 5),
                (65, 96),
                (130, 40),
            ] {
                let weights = random(outputs * inputs, 1);
                let bias = random(outputs, 2);
                let matrix = pack(isa, arithmetic, outputs, inputs, &weights, &bias);
                for rows in [1, 2, 5, 6, 7, 11, 12, 13, 25] {
                    let x = random(rows * inputs, 3);
                    let got = product(&matrix, &x, rows);
                    let want = plain_product(&x, &weights, &bias, inputs);
                    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                        let error = (f64::from(*got) - want).abs();
                        assert!(
                            error <= tolerance(arithmetic, inputs),
                            "{isa} {arithmetic:?} {outputs}x{inputs}, {rows} rows, {i}: {got} for {want}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_is_bit_identical_alone_and_in_company() {
    let (outputs, inputs, rows) = (70, 50, 29);
    let (weights, bias, x) = (
        random(outputs * inputs, 4),
        random(outputs, 5),
        random(rows * inputs, 6),
    );
    for isa in Isa::all() {
        for arithmetic in ARITHMETICS {
            let matrix = pack(isa, arithmetic, outputs, inputs, &weights, &bias);
            let together = product(&matrix, &x, rows);
            for row in 0..rows {
                let alone = product(&matrix, &x[row * inputs..][..inputs], 1);
                let same = alone
                    .iter()
                    .zip(&together[row * outputs..])
                    .all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{isa} {arithmetic:?} row {row}");
            }
        }
    }
}

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
fn activations_are_exact_within_single_precision() {
    let mut x: Vec<f32> = (-12_000..12_000).map(|i| i as f32 / 1000.0).collect();
    x.extend([
        0.0, -0.0, 1e-40, -1e-40, 1e-20, 88.0, -88.0, 1e10, -1e10, 1e30, -1e30,
    ]);
    for isa in Isa::all() {
        for activation in ACTIVATIONS {
            let mut got = x.clone();
            activation.apply(isa, &mut got);
            for (x, got) in x.iter().zip(got) {
                let want = plain_activation(activation, f64::from(*x));
                let error = (f64::from(got) - want).abs();
                let limit = match activation {
                    Activation::Tanh => 3e-7 * want.abs(),
                    _ => 2.5e-7 * f64::from(x.abs()).min(8.0).max(want.abs()),
                };
                assert!(
                    error <= limit + 1e-37,
                    "{isa} {activation:?}({x}) = {got}, not {want}"
                );
            }
        }
    }
}

#[test]
fn nan_stays_nan() {
    for isa in Isa::all() {
        for activation in ACTIVATIONS {
            for place in [0, 7, 16, 18] {
                let mut x = vec![0.5; 19];
                x[place] = f32::NAN;
                activation.apply(isa, &mut x);
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

struct Case {
    shape: Attention,
    len: usize,
    reach: Option<usize>,
}

/// Attention in double precision.
fn plain_attention(case: &Case, q: &[f32], k: &[f32], v: &[f32], bias: &[f32]) -> Vec<f64> {
    let Attention {
        heads,
        kv_heads,
        head_width: width,
        scale,
        sight,
        softcap,
    } = case.shape;
    let mut out = vec![0.0; case.len * heads * width];
    for head in 0..heads {
        let kv = head / (heads / kv_heads);
        for i in 0..case.len {
            let query = &q[(i * heads + head) * width..][..width];
            let sees = |j: usize| {
                j + sight.before.min(case.len) >= i && j <= i.saturating_add(sight.after)
            };
            let weight = |j: usize| {
                let key = &k[(j * kv_heads + kv) * width..][..width];
                let mut score: f64 = query
                    .iter()
                    .zip(key)
                    .map(|(a, b)| f64::from(*a) * f64::from(*b))
                    .sum();
                score *= f64::from(scale);
                if let Some(reach) = case.reach {
                    score += f64::from(bias[head * (2 * reach + 1) + j + reach - i]);
                }
                if let Some(cap) = softcap {
                    score = f64::from(cap) * (score / f64::from(cap)).tanh();
                }
                score.exp()
            };
            let weights: Vec<f64> = (0..case.len)
                .map(|j| if sees(j) { weight(j) } else { 0.0 })
                .collect();
            let total: f64 = weights.iter().sum();
            for (j, weight) in weights.iter().enumerate() {
                for d in 0..width {
                    let value = f64::from(v[(j * kv_heads + kv) * width + d]);
                    out[(i * heads + head) * width + d] += weight / total * value;
                }
            }
        }
    }
    out
}

fn attend(
    isa: Isa,
    arithmetic: Arithmetic,
    case: &Case,
    (q, k, v): (&[f32], &[f32], &[f32]),
    bias: &[f32],
) -> Vec<f32> {
    let Attention {
        heads,
        kv_heads,
        head_width: width,
        ..
    } = case.shape;
    let mut out = vec![0.0; case.len * heads * width];
    let input = |data, heads| Input {
        data,
        stride: heads * width,
    };
    let inputs = (input(q, heads), input(k, kv_heads), input(v, kv_heads));
    let bias = case.reach.map(|reach| RelativeBias { table: bias, reach });
    let mut scratch = AttentionScratch::default();
    case.shape.run(
        isa,
        arithmetic,
        &mut scratch,
        inputs,
        case.len,
        bias,
        &mut out,
        heads * width,
    );
    out
}

fn attention_cases() -> Vec<Case> {
    let shape = |heads, kv_heads, head_width| Attention {
        heads,
        kv_heads,
        head_width,
        scale: 1.5 / (head_width as f32).sqrt(),
        sight: Sight::ALL,
        softcap: None,
    };
    let mut cases = Vec::new();
    // The edges of vectors and panels.
    for len in [
        1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 49, 63, 64, 65, 71, 79, 80, 81, 96, 97,
    ] {
        cases.push(Case {
            shape: shape(2, 2, 32),
            len,
            reach: None,
        });
        cases.push(Case {
            shape: Attention {
                sight: Sight {
                    before: usize::MAX,
                    after: 0,
                },
                ..shape(4, 2, 16)
            },
            len,
            reach: None,
        });
        let sight = Sight {
            before: 5,
            after: 9,
        };
        cases.push(Case {
            shape: Attention {
                sight,
                ..shape(1, 1, 20)
            },
            len,
            reach: Some(len + 3),
        });
        let sight = Sight {
            before: 30,
            after: 0,
        };
        cases.push(Case {
            shape: Attention {
                sight,
                softcap: Some(2.0),
                ..shape(3, 1, 7)
            },
            len,
            reach: None,
        });
    }
    cases.push(Case {
        shape: shape(1, 1, 64),
        len: 600,
        reach: Some(599),
    });
    cases.push(Case {
        shape: Attention {
            sight: Sight {
                before: 40,
                after: 40,
            },
            ..shape(1, 1, 80)
        },
        len: 1100,
        reach: None,
    });
    cases
}

#[test]
fn attention_agrees_with_plain_code() {
    for case in attention_cases() {
        let Attention {
            heads,
            kv_heads,
            head_width: width,
            ..
        } = case.shape;
        let q: Vec<f32> = random(case.len * heads * width, 10)
            .iter()
            .map(|x| x * 3.0)
            .collect();
        let (k, v) = (
            random(case.len * kv_heads * width, 11),
            random(case.len * kv_heads * width, 12),
        );
        let bias = case
            .reach
            .map(|reach| random(heads * (2 * reach + 1), 13))
            .unwrap_or_default();
        let want = plain_attention(&case, &q, &k, &v, &bias);
        for isa in Isa::all() {
            for (arithmetic, limit) in [(Arithmetic::F32, 2e-6), (Arithmetic::I16, 2e-3)] {
                let got = attend(isa, arithmetic, &case, (&q, &k, &v), &bias);
                let worst = got
                    .iter()
                    .zip(&want)
                    .map(|(a, b)| (f64::from(*a) - b).abs())
                    .max_by(f64::total_cmp)
                    .unwrap();
                assert!(
                    worst < limit,
                    "{isa} {arithmetic:?} {:?} of {}: {worst}",
                    case.shape,
                    case.len
                );
            }
        }
    }
}

#[test]
fn operations_of_the_peak_are_counted() {
    for isa in Isa::all() {
        let count = |arithmetic| peak::operations(isa, arithmetic, 1000);
        assert!(count(Arithmetic::F32) >= 2 * 1000 * 12 * 4, "{isa}");
        assert_eq!(count(Arithmetic::I16), 2 * count(Arithmetic::F32), "{isa}");
        assert_eq!(count(Arithmetic::I8), 4 * count(Arithmetic::F32), "{isa}");
    }
}

#[test]
fn balanced_and_rotated_products_stay_what_they_were() {
    // Widths with every kind of block: powers of two, three blocks, odd groups, and less than a vector.
    for inputs in [5, 24, 48, 64, 80, 96, 128, 192, 384, 512, 1536] {
        let (outputs, rows) = (20, 7);
        let (weights, bias) = (random(outputs * inputs, 14), random(outputs, 15));
        let mut x = random(rows * inputs, 16);
        // An outlier channel, as language models have them.
        x.iter_mut()
            .skip(inputs / 2)
            .step_by(inputs)
            .for_each(|x| *x = *x * 5.0 + 40.0);
        let mut ranges = vec![0.0_f32; inputs];
        for row in x.chunks_exact(inputs) {
            ranges
                .iter_mut()
                .zip(row)
                .for_each(|(range, x)| *range = range.max(x.abs()));
        }
        let want = plain_product(&x, &weights, &bias, inputs);
        let norm = want.iter().map(|x| x * x).sum::<f64>().sqrt();
        for isa in Isa::all() {
            let error = |ranges: Option<&[f32]>| {
                let layout = Layout {
                    outputs,
                    inputs,
                    gated: false,
                };
                let matrix = Matrix::pack(
                    isa,
                    Arithmetic::I8,
                    layout,
                    rows_of(&weights, inputs),
                    &bias,
                    ranges,
                );
                let got = product(&matrix, &x, rows);
                got.iter()
                    .zip(&want)
                    .map(|(a, b)| (f64::from(*a) - b).powi(2))
                    .sum::<f64>()
                    .sqrt()
                    / norm
            };
            assert!(error(None) < 0.02, "{isa} {inputs}: {}", error(None));
            assert!(
                error(Some(&ranges)) < 0.02,
                "{isa} {inputs}, balanced: {}",
                error(Some(&ranges))
            );
        }
    }
}

#[test]
fn every_finish_does_what_it_says() {
    let (inputs, rows) = (33, 8);
    for outputs in [5, 16, 40, 64, 100] {
        let (weights, bias) = (random(2 * outputs * inputs, 17), random(2 * outputs, 18));
        let (x, residual) = (random(rows * inputs, 19), random(rows * (outputs + 3), 20));
        let half = outputs * inputs;
        for isa in Isa::all() {
            for arithmetic in ARITHMETICS {
                let plain = pack(
                    isa,
                    arithmetic,
                    outputs,
                    inputs,
                    &weights[..half],
                    &bias[..outputs],
                );
                let ups = pack(
                    isa,
                    arithmetic,
                    outputs,
                    inputs,
                    &weights[half..],
                    &bias[outputs..],
                );
                let layout = Layout {
                    outputs,
                    inputs,
                    gated: true,
                };
                let gated = Matrix::pack(
                    isa,
                    arithmetic,
                    layout,
                    rows_of(&weights, inputs),
                    &bias,
                    None,
                );
                let [y, up] = [&plain, &ups].map(|matrix| product(matrix, &x, rows));
                let run = |matrix: &Matrix, finish| {
                    let mut operand = Operand::new();
                    operand.convert(matrix, &x, inputs, rows);
                    let mut out = residual.clone();
                    // The second half of the rows alone, with gaps between the results.
                    linear(
                        &operand,
                        rows / 2..rows,
                        matrix,
                        &mut out,
                        outputs + 3,
                        finish,
                    );
                    out
                };
                let check = |got: &[f32], want: &dyn Fn(usize, f32) -> f32| {
                    for (place, got) in got.iter().enumerate() {
                        let (row, column) = (place / (outputs + 3), place % (outputs + 3));
                        if row >= rows / 2 || column >= outputs {
                            assert_eq!(
                                got.to_bits(),
                                residual[place].to_bits(),
                                "{isa}: a value out of bounds"
                            );
                            continue;
                        }
                        let want = want((row + rows / 2) * outputs + column, residual[place]);
                        assert!(
                            (got - want).abs() < 1e-5,
                            "{isa} {arithmetic:?}: {got} for {want}"
                        );
                    }
                };
                check(&run(&plain, Finish::Store), &|i, _| y[i]);
                check(&run(&plain, Finish::Add), &|i, before| before + y[i]);
                for activation in ACTIVATIONS {
                    let act = |x: f32| plain_activation(activation, f64::from(x)) as f32;
                    check(
                        &run(&plain, Finish::Activate(activation)),
                        &|i, _| act(y[i]),
                    );
                    check(&run(&gated, Finish::Gate(activation)), &|i, _| {
                        act(y[i]) * up[i]
                    });
                }
            }
        }
    }
}

#[test]
fn norms_and_rotary_agree_with_plain_code() {
    for isa in Isa::all() {
        for width in [1, 3, 8, 16, 17, 64, 65, 100, 384] {
            let (x, weight, bias) = (random(3 * width, 21), random(width, 22), random(width, 23));
            for layer in [true, false] {
                let norm = match layer {
                    true => Norm::layer(weight.clone(), bias.clone(), 1e-5),
                    false => Norm::rms(weight.clone(), 1e-5),
                };
                let (mut same, mut other) = (x.clone(), vec![0.0; x.len()]);
                norm.apply(isa, &mut same);
                norm.apply_to(isa, &x, &mut other);
                assert_eq!(same, other);
                for (row, got) in x.chunks_exact(width).zip(same.chunks_exact(width)) {
                    let mean = |f: &dyn Fn(f64) -> f64| {
                        row.iter().map(|x| f(f64::from(*x))).sum::<f64>() / width as f64
                    };
                    let center = if layer { mean(&|x| x) } else { 0.0 };
                    let root = (mean(&|x| (x - center).powi(2)) + 1e-5).sqrt();
                    for i in 0..width {
                        let shift = if layer { f64::from(bias[i]) } else { 0.0 };
                        let want =
                            (f64::from(row[i]) - center) / root * f64::from(weight[i]) + shift;
                        assert!(
                            (f64::from(got[i]) - want).abs() < 3e-6,
                            "{isa} {width}: {} for {want}",
                            got[i]
                        );
                    }
                }
            }
        }
        for (head, half) in [(8, 4), (20, 7), (64, 32), (40, 16)] {
            let x = random(3 * head, 24);
            let angles = random(half, 25);
            let (cosine, sine): (Vec<f32>, Vec<f32>) =
                angles.iter().map(|a| (a.cos(), a.sin())).unzip();
            let mut got = x.clone();
            rotary(isa, &mut got, head, &cosine, &sine);
            for (x, got) in x.chunks_exact(head).zip(got.chunks_exact(head)) {
                for (i, got) in got.iter().enumerate() {
                    let want = match i {
                        i if i < half => x[i] * cosine[i] - x[i + half] * sine[i],
                        i if i < 2 * half => x[i] * cosine[i - half] + x[i - half] * sine[i - half],
                        i => x[i],
                    };
                    assert!(
                        (got - want).abs() < 1e-6,
                        "{isa} {head} {half}: {got} for {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn attention_lets_nothing_that_is_not_a_number_vanish() {
    let shape = Attention {
        heads: 2,
        kv_heads: 2,
        head_width: 8,
        scale: 0.3,
        sight: Sight::ALL,
        softcap: None,
    };
    for (arithmetic, len) in [(Arithmetic::F32, 21), (Arithmetic::I16, 69)] {
        let case = Case {
            shape,
            len,
            reach: None,
        };
        let size = case.len * 16;
        for isa in Isa::all() {
            for which in 0..3 {
                let mut inputs = [random(size, 26), random(size, 27), random(size, 28)];
                // Token 20's second head: beyond a full vector of keys.
                inputs[which][20 * 16 + 9] = f32::NAN;
                let [q, k, v] = &inputs;
                let out = attend(isa, arithmetic, &case, (q, k, v), &[]);
                for (place, value) in out.iter().enumerate() {
                    let (token, head) = (place / 16, place % 16 / 8);
                    let reached = head == 1 && (which > 0 || token == 20);
                    assert!(
                        value.is_nan() || !reached || (which == 2 && place % 8 != 1),
                        "{isa} {arithmetic:?} {which} {place}"
                    );
                    assert!(
                        !value.is_nan() || reached,
                        "{isa} {arithmetic:?} {which} {place}: from nowhere"
                    );
                }
            }
        }
    }
}

#[test]
fn the_processor_is_asked_by_name() {
    for isa in Isa::all() {
        assert_eq!(Isa::named(isa.name()), Ok(isa));
        assert!(isa.speeds_up(Arithmetic::F32));
    }
    let error = Isa::named("abacus").unwrap_err();
    assert!(
        error.contains("EMBEDCTL_CPU") && error.contains("portable"),
        "{error}"
    );
    assert_eq!(Isa::all().last().map(|isa| isa.name()), Some("portable"));
}

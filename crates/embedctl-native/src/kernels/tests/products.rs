//! Matrix products, with what is done to their results at once.

use super::*;

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
                    let mut out = residual.clone();
                    // The second half of the rows alone, with gaps between the results.
                    linear(
                        operand.convert(matrix, &x, inputs, rows),
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
                        let limit = match arithmetic {
                            Arithmetic::F32 => 1e-5,
                            _ => 5e-5,
                        };
                        assert!(
                            (got - want).abs() < limit,
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

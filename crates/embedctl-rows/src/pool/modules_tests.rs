//! Modules after pooling over many rows at once: exact, and the same for a row in any company.

use super::modules::PackedSteps;
use crate::{Dense, DenseActivation, LayerNorm, Residual, Step};

/// Numbers around zero, the same for the same seed.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn dense(input: usize, output: usize, activation: DenseActivation, residual: Residual) -> Dense {
    let spread = 1.0 / (input as f32).sqrt();
    let weight = numbers(input * output, (input + output) as u64);
    Dense {
        input,
        output,
        weight: weight.iter().map(|w| w * spread).collect(),
        bias: numbers(output, 7),
        activation,
        residual,
    }
}

fn finished(steps: &PackedSteps, vectors: &[f32], rows: usize) -> Vec<Option<Vec<f32>>> {
    let mut all = Vec::new();
    steps.run(vectors.to_vec(), rows, |row| {
        all.push(row.map(<[f32]>::to_vec));
    });
    assert_eq!(all.len(), rows);
    all
}

const WIDTHS: [(usize, usize); 9] = [
    (1, 1),
    (2, 3),
    (31, 64),
    (64, 65),
    (100, 7),
    (384, 384),
    (512, 768),
    (768, 3072),
    (3072, 768),
];

#[test]
fn dense_layers_are_exact_at_every_width() {
    for (input, output) in WIDTHS {
        for residual in [0, 1, 2] {
            let residual = match residual {
                0 => Residual::None,
                1 if input == output => Residual::Identity,
                1 => continue,
                _ => Residual::Projected(numbers(input * output, 5).into()),
            };
            let layer = dense(input, output, DenseActivation::Tanh, residual);
            let steps = PackedSteps::from(vec![Step::Dense(layer.clone())]);
            let rows = 5;
            let vectors = numbers(rows * input, 3);
            let all = finished(&steps, &vectors, rows);
            for (x, got) in vectors.chunks(input).zip(all) {
                let product = |weight: &[f32], row: usize| -> f64 {
                    let row = &weight[row * input..][..input];
                    let each = row.iter().zip(x);
                    each.map(|(w, x)| f64::from(*w) * f64::from(*x)).sum()
                };
                for (row, got) in got.unwrap().into_iter().enumerate() {
                    let sum = product(&layer.weight, row) + f64::from(layer.bias[row]);
                    let more = match &layer.residual {
                        Residual::None => 0.0,
                        Residual::Identity => f64::from(x[row]),
                        Residual::Projected(weight) => product(weight, row),
                    };
                    let wanted = sum.tanh() + more;
                    let apart = (f64::from(got) - wanted).abs();
                    let limit = 4e-6 * (1.0 + (input as f64).sqrt());
                    assert!(apart < limit, "{input} → {output}: {got} for {wanted}");
                }
            }
        }
    }
}

#[test]
fn a_row_is_the_same_in_any_company() {
    for (input, output) in WIDTHS {
        let norm = LayerNorm {
            weight: numbers(output, 11),
            bias: numbers(output, 12),
            epsilon: 1e-5,
        };
        let projected = Residual::Projected(numbers(output * input, 13).into());
        let steps = PackedSteps::from(vec![
            Step::Dense(dense(input, output, DenseActivation::Gelu, Residual::None)),
            Step::LayerNorm(norm),
            Step::Activation(DenseActivation::Softmax),
            Step::Dense(dense(output, input, DenseActivation::Identity, projected)),
            Step::Normalize,
        ]);
        // More than a block of rows, with damaged ones between.
        for rows in [1, 2, 7, 24, 259] {
            let most = rows.min(if input * output > 100_000 { 9 } else { rows });
            let mut vectors = numbers(rows * input, 17);
            if rows > 6 {
                vectors[3 * input] = f32::NAN;
                vectors[5 * input] = f32::INFINITY;
            }
            let together = finished(&steps, &vectors, rows);
            for row in (0..most).chain(rows.saturating_sub(2)..rows) {
                let own = &vectors[row * input..(row + 1) * input];
                let alone = finished(&steps, own, 1).pop().unwrap();
                assert_eq!(alone.is_none(), rows > 6 && [3, 5].contains(&row));
                let bits = |row: &Option<Vec<f32>>| -> Option<Vec<u32>> {
                    let row = row.as_ref()?;
                    Some(row.iter().map(|value| value.to_bits()).collect())
                };
                assert_eq!(bits(&alone), bits(&together[row]), "{input}: {row}/{rows}");
            }
        }
    }
}

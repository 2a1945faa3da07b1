//! Pooling and the modules after it.

use super::*;
use crate::PoolingMode;
use crate::{Dense, DenseActivation, LayerNorm, Residual, Step};
use embedctl_vectors::{RowForm, is_finite};

const STATES: [f32; 8] = [1.0, -1.0, 3.0, 5.0, 2.0, 0.5, 9.0, 9.0];

fn pooled(mode: PoolingMode, real: std::ops::Range<usize>, excluded: usize) -> Vec<f32> {
    let mut out = Vec::new();
    pool_one(mode, &STATES, 2, &real, excluded, &mut out);
    out
}

#[test]
fn padding_takes_no_part_on_either_side() {
    assert_eq!(pooled(PoolingMode::Mean, 0..3, 0), [2.0, 1.5]);
    assert_eq!(pooled(PoolingMode::Mean, 1..3, 0), [2.5, 2.75]);
    assert_eq!(pooled(PoolingMode::Max, 0..3, 0), [3.0, 5.0]);
    assert_eq!(pooled(PoolingMode::Cls, 1..4, 0), [3.0, 5.0]);
    assert_eq!(pooled(PoolingMode::LastToken, 0..3, 0), [2.0, 0.5]);
}

#[test]
fn an_excluded_prompt_keeps_the_weights_of_what_follows() {
    assert_eq!(pooled(PoolingMode::Cls, 0..3, 1), [3.0, 5.0]);
    assert_eq!(
        pooled(PoolingMode::WeightedMean, 0..3, 1),
        [(3.0 * 2.0 + 2.0 * 3.0) / 5.0, (10.0 + 1.5) / 5.0]
    );
    assert_eq!(pooled(PoolingMode::Mean, 0..2, 5), [0.0, 0.0]);
    assert_eq!(pooled(PoolingMode::LastToken, 0..2, 5), [0.0, 0.0]);
}

/// Every mode over rows of all lengths, with a common part as hidden states have it: sums one after another are off
/// by 4e-5 at 8,000 tokens and 1e-4 at 32,000.
#[test]
fn pooling_is_exact_at_every_length() {
    let width = 24;
    for length in [
        1, 2, 31, 32, 33, 63, 64, 65, 100, 511, 512, 2048, 8000, 8192, 32_000,
    ] {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let states: Vec<f32> = (0..length * width)
            .map(|index| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let noise = (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0;
                noise + (index % width) as f32 * 0.1 - 1.0
            })
            .collect();
        for excluded in [0, 1, 5] {
            for (mode, limit) in [
                (PoolingMode::Cls, 0.0),
                (PoolingMode::LastToken, 0.0),
                (PoolingMode::Max, 0.0),
                (PoolingMode::Mean, 5e-7),
                (PoolingMode::MeanSqrtLen, 5e-7),
                (PoolingMode::WeightedMean, 5e-7),
            ] {
                let start = excluded.min(length);
                let tokens = start..length;
                let value = |token: usize, i: usize| f64::from(states[token * width + i]);
                let weighted = |weight: &dyn Fn(usize) -> f64, i: usize| -> (f64, f64) {
                    let sum = tokens
                        .clone()
                        .map(|token| weight(token) * value(token, i))
                        .sum();
                    (sum, tokens.clone().map(weight).sum::<f64>().max(1e-9))
                };
                let want = |i: usize| match mode {
                    PoolingMode::Cls => value(if start < length { start } else { 0 }, i),
                    PoolingMode::LastToken if start < length => value(length - 1, i),
                    PoolingMode::LastToken => 0.0,
                    PoolingMode::Max => {
                        let values = tokens.clone().map(|token| value(token, i));
                        values.fold(f64::NEG_INFINITY, f64::max)
                    }
                    PoolingMode::WeightedMean => {
                        let (sum, weights) = weighted(&|token| (token + 1) as f64, i);
                        sum / weights
                    }
                    PoolingMode::Mean | PoolingMode::MeanSqrtLen => {
                        let (sum, count) = weighted(&|_| 1.0, i);
                        match mode {
                            PoolingMode::Mean => sum / count,
                            _ => sum / count.sqrt(),
                        }
                    }
                };
                let mut got = Vec::new();
                pool_one(mode, &states, width, &(0..length), excluded, &mut got);
                let most = (0..width)
                    .map(|i| want(i).abs())
                    .filter(|most| most.is_finite());
                let most = most.fold(0.0, f64::max);
                for (i, got) in got.into_iter().enumerate() {
                    let (got, want) = (f64::from(got), want(i));
                    assert!(
                        got == want || (got - want).abs() <= limit * most,
                        "{mode:?} over {length} tokens but {excluded}: {got} for {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn normalizing_zero_gives_zero() {
    let mut zero = [0.0, 0.0];
    normalize(&mut zero).unwrap();
    assert_eq!(zero, [0.0, 0.0]);
}

/// The form of dense vectors of these widths.
fn dense(widths: Vec<usize>) -> PooledForm {
    PooledForm {
        form: RowForm::Dense(widths),
        scores: false,
        sparse: None,
        multi: None,
    }
}

/// The mean of a text's states, of width 2, and what follows it.
pub(super) fn plain(steps: Vec<Step>) -> Pooler {
    Pooler {
        rule: PoolingRule {
            modes: vec![PoolingMode::Mean],
            excluded: 0,
            not_last: None,
        },
        pools: true,
        token_steps: Vec::new().into(),
        kinds: Vec::new(),
        form: dense(vec![2]),
        steps: steps.into(),
        kept: vec![2],
        normalize_last: false,
    }
}

fn finished(steps: Vec<Step>, pooled: [f32; 2]) -> Vec<f32> {
    let mut out = Vec::new();
    plain(steps).finish_rows(pooled.to_vec(), 1, &mut out);
    assert_eq!(out.len(), 2);
    out
}

#[test]
fn several_widths_are_each_as_it_would_be_alone() {
    let states = [0.3, -0.7, 0.2, 0.9];
    for (steps, normalize_last) in [
        (vec![Step::Normalize], true),
        (vec![Step::Normalize], false),
        (Vec::new(), true),
    ] {
        let with = |kept: Vec<usize>| {
            let pooler = Pooler {
                rule: PoolingRule {
                    modes: vec![PoolingMode::Mean],
                    excluded: 0,
                    not_last: None,
                },
                pools: true,
                token_steps: Vec::new().into(),
                kinds: Vec::new(),
                form: dense(kept.clone()),
                steps: steps.clone().into(),
                kept,
                normalize_last,
            };
            let mut out = Vec::new();
            pooler.finish_rows(states.to_vec(), 1, &mut out);
            out
        };
        let alone = [vec![1], vec![3], vec![4], vec![2]].map(with);
        assert_eq!(with(vec![1, 3, 4, 2]), alone.concat());
        let length: f32 = alone[1].iter().map(|value| value * value).sum();
        assert_eq!((length - 1.0).abs() < 1e-6, normalize_last);
    }
}

fn dense_with(activation: DenseActivation, bias: f32) -> Step {
    Step::Dense(Dense {
        input: 2,
        output: 2,
        weight: vec![1.0, 0.0, 0.0, 1.0].into(),
        bias: vec![bias; 2],
        activation,
        residual: Residual::None,
    })
}

#[test]
fn nothing_turns_nan_or_infinity_into_numbers() {
    use DenseActivation::{Gelu, Identity, Relu, Sigmoid, Silu, Tanh};
    let norm = || {
        Step::LayerNorm(LayerNorm {
            weight: vec![1.0; 2],
            bias: vec![0.0; 2],
            epsilon: 1e-5,
        })
    };
    for activation in [Identity, Tanh, Relu, Gelu, Sigmoid, Silu] {
        let after = || vec![dense_with(activation, 0.0), Step::Normalize];
        assert!(is_finite(&finished(after(), [3.0, -4.0])));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(!is_finite(&finished(after(), [bad, 1.0])), "{bad}");
            // A text without tokens has zeros here.
            let biased = vec![dense_with(activation, bad), Step::Normalize];
            assert!(!is_finite(&finished(biased, [0.0, 0.0])), "bias {bad}");
        }
    }
    for overflowing in [[1e20, -1e20], [3e38, -3e38]] {
        assert!(!is_finite(&finished(vec![Step::Normalize], overflowing)));
        assert!(!is_finite(&finished(vec![norm()], overflowing)));
        assert!(is_finite(&finished(Vec::new(), overflowing)));
    }
    let mut out = Vec::new();
    let states = [f32::NEG_INFINITY, 1.0, 2.0, 3.0];
    pool_one(PoolingMode::Max, &states, 2, &(0..2), 0, &mut out);
    assert!(!is_finite(&out));
}

/// A graph multiplies a row's states by these weights, and takes the greatest of those with the weight 1.
#[test]
fn weights_of_tokens_pool_what_the_processor_pools() {
    use PoolingMode::{Cls, LastToken, Max, Mean, MeanSqrtLen, WeightedMean};
    let modes = [Cls, LastToken, Max, Mean, MeanSqrtLen, WeightedMean];
    let (width, length) = (3, 9);
    // The token 0 is padding, which some heads pass over at the end of a row alone.
    let rows: [&[u32]; 6] = [
        &[5, 6, 7, 8],
        &[5, 0, 6, 0],
        &[0, 0, 5, 0, 0],
        &[0, 0],
        &[7],
        &[1, 2, 3, 4, 5, 6, 7, 8, 0],
    ];
    for not_last in [None, Some(0)] {
        for excluded in [0, 1] {
            let rule = PoolingRule {
                modes: modes.to_vec(),
                excluded,
                not_last,
            };
            for ids in rows {
                let state = |place: usize| ((place * 7 + 3) % 11) as f32 - 4.5;
                let states: Vec<f32> = (0..ids.len() * width).map(state).collect();
                let mut expected = Vec::new();
                rule.pool(&states, width, ids, &mut expected);
                // What stood there before is written over.
                let mut weights = vec![9.0; modes.len() * length];
                rule.weigh(ids, length, &mut weights);
                let all = weights
                    .chunks_exact(length)
                    .zip(expected.chunks_exact(width));
                for (mode, (weights, expected)) in modes.iter().zip(all) {
                    assert!(weights[ids.len()..].iter().all(|weight| *weight == 0.0));
                    for (component, expected) in expected.iter().enumerate() {
                        let each = weights
                            .iter()
                            .zip(states[component..].iter().step_by(width));
                        let got = match mode {
                            Max => {
                                let taken = each.filter(|(weight, _)| **weight > 0.0);
                                taken.fold(f32::NEG_INFINITY, |most, (_, state)| most.max(*state))
                            }
                            _ => each.map(|(weight, state)| weight * state).sum(),
                        };
                        let apart = (got - expected).abs();
                        assert!(
                            got == *expected || apart < 1e-5,
                            "{mode:?} of {ids:?}, {not_last:?}, {excluded}: {got} for {expected}"
                        );
                    }
                }
            }
        }
    }
    let head = PoolingRule {
        modes: vec![LastToken],
        excluded: 0,
        not_last: Some(0),
    };
    let mut weights = [0.0; 5];
    head.weigh(&[0, 0, 5, 0, 0], 5, &mut weights);
    assert_eq!(weights, [0.0, 0.0, 1.0, 0.0, 0.0]);
    head.weigh(&[0, 0], 5, &mut weights);
    assert_eq!(weights, [1.0, 0.0, 0.0, 0.0, 0.0]);
}

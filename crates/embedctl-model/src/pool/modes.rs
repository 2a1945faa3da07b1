//! Pooling modes: from a row's states to one vector.

use crate::PoolingMode;

/// Pools one mode; `states` is `[length, width]`, `real` the row's real tokens; the first `excluded` of these are left
/// out. Appends `width` components to `out`.
pub(super) fn pool_one(
    mode: PoolingMode,
    states: &[f32],
    width: usize,
    real: &std::ops::Range<usize>,
    excluded: usize,
    out: &mut Vec<f32>,
) {
    let start = (real.start + excluded).min(real.end);
    let token = |index: usize| &states[index * width..(index + 1) * width];
    match mode {
        // With every token excluded the reference falls back to the first one.
        PoolingMode::Cls => {
            out.extend_from_slice(token(if start < real.end { start } else { real.start }));
        }
        PoolingMode::LastToken => {
            if start < real.end {
                out.extend_from_slice(token(real.end - 1));
            } else {
                out.resize(out.len() + width, 0.0);
            }
        }
        PoolingMode::Max => {
            let base = out.len();
            out.resize(base + width, f32::NEG_INFINITY);
            for index in start..real.end {
                // NaN and infinity must survive: they are found and reported later.
                for (max, &value) in out[base..].iter_mut().zip(token(index)) {
                    if !value.is_finite() {
                        *max = f32::NAN;
                    } else if value > *max {
                        *max = value;
                    }
                }
            }
        }
        PoolingMode::Mean | PoolingMode::MeanSqrtLen | PoolingMode::WeightedMean => {
            // Weights count from the first real token, the prompt's included.
            #[allow(clippy::cast_precision_loss)]
            let weight = |index: usize| match mode {
                PoolingMode::WeightedMean => (index - real.start + 1) as f32,
                _ => 1.0,
            };
            let base = out.len();
            out.resize(base + width, 0.0);
            let tokens = start..real.end;
            let weights: f64 = tokens.clone().map(|index| f64::from(weight(index))).sum();
            #[allow(clippy::cast_possible_truncation)] // the reference's is one of f32, too
            let weights = (weights as f32).max(1e-9);
            let divisor = match mode {
                PoolingMode::MeanSqrtLen => weights.sqrt(),
                _ => weights,
            };
            sum_tokens(states, width, tokens, weight, &mut out[base..]);
            out[base..].iter_mut().for_each(|sum| *sum /= divisor);
        }
    }
}

/// Tokens whose states are summed in f32 before a longer sum continues in f64. So short a sum is accurate enough, and
/// rows of up to so many tokens keep the bits of a plain f32 sum.
const SUMMED: usize = 32;

/// Adds the weighted states of `tokens` to `out`.
fn sum_tokens(
    states: &[f32],
    width: usize,
    tokens: std::ops::Range<usize>,
    weight: impl Fn(usize) -> f32,
    out: &mut [f32],
) {
    let add = |tokens: std::ops::Range<usize>, out: &mut [f32]| {
        for index in tokens {
            let weight = weight(index);
            for (sum, &value) in out.iter_mut().zip(&states[index * width..]) {
                *sum += weight * value;
            }
        }
    };
    if tokens.len() <= SUMMED {
        add(tokens, out);
        return;
    }
    let mut sums = vec![0.0_f64; width];
    let (mut from, end) = (tokens.start, tokens.end);
    while from < end {
        let next = (from + SUMMED).min(end);
        out.fill(0.0);
        add(from..next, out);
        for (sum, &value) in sums.iter_mut().zip(&*out) {
            *sum += f64::from(value);
        }
        from = next;
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        #[allow(clippy::cast_possible_truncation)] // a vector's components are f32
        let sum = sum as f32;
        *out = sum;
    }
}

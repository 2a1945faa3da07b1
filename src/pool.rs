//! From hidden states to finished vectors: pooling, the modules after it, normalization. Pure.
//!
//! The arithmetic is that of sentence-transformers' modules, in f32, row by row, so that a row's vector
//! depends on nothing but its own states.

use crate::batch::Batch;
use crate::engine::Hidden;
use crate::model::{
    Activation, Dense, LayerNorm, ModelConfig, OutputChoice, PoolingMode, Residual, Step,
};

/// The least norm that a vector is divided by.
const NORM_FLOOR: f32 = 1e-12;

/// Turns a model's output into finished vectors.
#[derive(Debug, Clone)]
pub struct Pooler {
    modes: Vec<PoolingMode>,
    pools: bool,
    excluded: usize,
    steps: Vec<Step>,
    /// Widths of the vectors that are cut out of one.
    kept: Vec<usize>,
    normalize_last: bool,
}

impl Pooler {
    /// A pooler for `config`; `prompt_tokens` is the number of leading tokens that belong to the prompt,
    /// left out of pooling where the model says so.
    #[must_use]
    pub fn new(config: &ModelConfig, prompt_tokens: usize) -> Self {
        Self {
            modes: config.pooling.clone(),
            pools: matches!(config.output, OutputChoice::Tokens(_)),
            excluded: if config.include_prompt {
                0
            } else {
                prompt_tokens
            },
            steps: config.steps.clone(),
            kept: config.vectors().0,
            normalize_last: config.normalize_last,
        }
    }

    /// Width of a row's finished vectors, all together.
    #[must_use]
    pub fn width(&self) -> usize {
        self.kept.iter().sum()
    }

    /// Whether token states of this width fit the modules.
    #[must_use]
    pub fn accepts(&self, width: usize) -> bool {
        self.pools && self.accepts_pooled(width * self.modes.len())
    }

    /// Whether pooled rows of this width fit the modules.
    #[must_use]
    pub fn accepts_pooled(&self, pooled: usize) -> bool {
        match self
            .steps
            .iter()
            .find(|step| !matches!(step, Step::Normalize))
        {
            Some(Step::Dense(dense)) => dense.input == pooled,
            Some(Step::LayerNorm(norm)) => norm.weight.len() == pooled,
            _ => self.kept.iter().all(|&kept| kept <= pooled),
        }
    }

    /// Pools row `row` of `batch` and finishes it; appends [`Pooler::width`] components to `out`.
    pub fn pool(&self, batch: &Batch, hidden: &Hidden<'_>, row: usize, out: &mut Vec<f32>) {
        let width = hidden.width;
        let states = &hidden.states[row * batch.length * width..(row + 1) * batch.length * width];
        self.pool_states(states, width, &batch.real(row), out);
    }

    /// Pools a row's states `[tokens, width]`, of which `real` are those of real tokens, and finishes it;
    /// appends [`Pooler::width`] components to `out`.
    pub fn pool_states(
        &self,
        states: &[f32],
        width: usize,
        real: &std::ops::Range<usize>,
        out: &mut Vec<f32>,
    ) {
        let mut pooled = Vec::with_capacity(width * self.modes.len());
        for &mode in &self.modes {
            pool_one(mode, states, width, real, self.excluded, &mut pooled);
        }
        self.finish(pooled, out);
    }

    /// Finishes a row that the graph or the device has pooled, with all of the modes.
    pub fn finish_pooled(&self, row: &[f32], out: &mut Vec<f32>) {
        self.finish(row.to_vec(), out);
    }

    /// The vector of a text without any token: what pooling gives when no token takes part, zero, then
    /// the later modules.
    pub fn finish_empty(&self, hidden_width: usize, out: &mut Vec<f32>) {
        let width = if self.pools {
            hidden_width * self.modes.len()
        } else {
            hidden_width
        };
        self.finish(vec![0.0; width], out);
    }

    fn finish(&self, vector: Vec<f32>, out: &mut Vec<f32>) {
        let (start, end) = (out.len(), out.len() + self.width());
        if let Some(vector) = self.after_steps(vector)
            && self.cut(&vector, out).is_none()
        {
            out.truncate(start);
        }
        // Whoever takes the vectors finds it, and rejects the row.
        out.resize(end, f32::NAN);
    }

    /// The modules after pooling; `None` as soon as there is NaN or infinity. Looked for before each, since
    /// activations and norms can turn either into a number.
    fn after_steps(&self, mut vector: Vec<f32>) -> Option<Vec<f32>> {
        for step in &self.steps {
            vector = finite(vector)?;
            match step {
                Step::Dense(layer) => vector = dense(layer, &vector)?,
                Step::LayerNorm(norm) => layer_norm(norm, &mut vector)?,
                Step::Normalize => normalize(&mut vector)?,
            }
        }
        finite(vector)
    }

    /// The beginnings of a vector, each as it would be alone; `None` where one's length is beyond f32.
    fn cut(&self, vector: &[f32], out: &mut Vec<f32>) -> Option<()> {
        let is_normalized = self.steps.last() == Some(&Step::Normalize);
        for &kept in &self.kept {
            let start = out.len();
            out.extend_from_slice(&vector[..kept]);
            if self.normalize_last && !(is_normalized && kept == vector.len()) {
                normalize(&mut out[start..])?;
            }
        }
        Some(())
    }
}

fn finite(vector: Vec<f32>) -> Option<Vec<f32>> {
    is_finite(&vector).then_some(vector)
}

/// Whether a vector holds neither NaN nor infinity.
pub(crate) fn is_finite(vector: &[f32]) -> bool {
    vector.iter().all(|value| value.is_finite())
}

/// Pools one mode; `states` is `[length, width]`, `real` the row's real tokens, of which the first
/// `excluded` take no part. Appends `width` components to `out`.
fn pool_one(
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
            let base = out.len();
            out.resize(base + width, 0.0);
            let mut weights = 0.0_f32;
            for index in start..real.end {
                // Weights count from the first real token, the prompt's included.
                #[allow(clippy::cast_precision_loss)]
                let weight = match mode {
                    PoolingMode::WeightedMean => (index - real.start + 1) as f32,
                    _ => 1.0,
                };
                weights += weight;
                for (sum, &value) in out[base..].iter_mut().zip(token(index)) {
                    *sum += weight * value;
                }
            }
            let weights = weights.max(1e-9);
            let divisor = if mode == PoolingMode::MeanSqrtLen {
                weights.sqrt()
            } else {
                weights
            };
            out[base..].iter_mut().for_each(|sum| *sum /= divisor);
        }
    }
}

/// Scales to length 1; `None` where the length is beyond f32.
fn normalize(vector: &mut [f32]) -> Option<()> {
    let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if !norm.is_finite() {
        return None;
    }
    let norm = norm.max(NORM_FLOOR);
    vector.iter_mut().for_each(|value| *value /= norm);
    Some(())
}

fn product<'a>(weight: &'a [f32], input: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
    weight
        .chunks_exact(input.len())
        .map(move |row| row.iter().zip(input).map(|(w, x)| w * x).sum())
}

/// `None` where a sum is not finite: activations may hide it.
fn dense(layer: &Dense, input: &[f32]) -> Option<Vec<f32>> {
    let mut output: Vec<f32> = product(&layer.weight, input).collect();
    for (value, bias) in output.iter_mut().zip(&layer.bias) {
        *value += bias;
    }
    output = finite(output)?;
    activate_all(layer.activation, &mut output);
    match &layer.residual {
        Residual::None => {}
        Residual::Identity => output
            .iter_mut()
            .zip(input)
            .for_each(|(value, x)| *value += x),
        Residual::Projected(weight) => {
            output
                .iter_mut()
                .zip(product(weight, input))
                .for_each(|(value, x)| *value += x);
        }
    }
    Some(output)
}

/// The activation of a whole vector, in place.
fn activate_all(activation: Activation, vector: &mut [f32]) {
    match activation {
        Activation::Softmax => softmax(vector, 1.0),
        Activation::Softmin => softmax(vector, -1.0),
        Activation::LogSoftmax => {
            softmax(vector, 1.0);
            vector.iter_mut().for_each(|value| *value = value.ln());
        }
        other => vector
            .iter_mut()
            .for_each(|value| *value = activate(other, *value)),
    }
}

fn softmax(vector: &mut [f32], sign: f32) {
    let most = vector
        .iter()
        .fold(f32::NEG_INFINITY, |most, value| most.max(sign * value));
    let mut sum = 0.0;
    for value in vector.iter_mut() {
        *value = (sign * *value - most).exp();
        sum += *value;
    }
    vector.iter_mut().for_each(|value| *value /= sum);
}

fn activate(activation: Activation, x: f32) -> f32 {
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    // Above 20 PyTorch takes it for linear.
    let softplus = |x: f32| if x > 20.0 { x } else { x.exp().ln_1p() };
    match activation {
        Activation::Identity => x,
        // With alpha 1, as both have it, the two are one.
        Activation::Celu | Activation::Elu => {
            if x > 0.0 {
                x
            } else {
                x.exp_m1()
            }
        }
        Activation::Gelu => 0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2)),
        Activation::Hardshrink => {
            if x.abs() > 0.5 {
                x
            } else {
                0.0
            }
        }
        Activation::Hardsigmoid => (x + 3.0).clamp(0.0, 6.0) / 6.0,
        Activation::Hardswish => x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
        Activation::Hardtanh => x.clamp(-1.0, 1.0),
        Activation::LeakyRelu => {
            if x > 0.0 {
                x
            } else {
                0.01 * x
            }
        }
        Activation::LogSigmoid => x.min(0.0) - (-x.abs()).exp().ln_1p(),
        Activation::Mish => x * softplus(x).tanh(),
        Activation::Relu => x.max(0.0),
        Activation::Relu6 => x.clamp(0.0, 6.0),
        // Outside training, the middle of 1/8 and 1/3.
        Activation::Rrelu => {
            if x > 0.0 {
                x
            } else {
                x * (11.0 / 48.0)
            }
        }
        Activation::Selu => {
            let inner = if x > 0.0 { x } else { 1.673_263_2 * x.exp_m1() };
            1.050_701 * inner
        }
        Activation::Sigmoid => sigmoid(x),
        Activation::Silu => x * sigmoid(x),
        Activation::Softplus => softplus(x),
        Activation::Softshrink => x - x.clamp(-0.5, 0.5),
        Activation::Softsign => x / (1.0 + x.abs()),
        Activation::Tanh => x.tanh(),
        Activation::Tanhshrink => x - x.tanh(),
        Activation::Softmax | Activation::Softmin | Activation::LogSoftmax => {
            unreachable!("these need the whole vector")
        }
    }
}

/// `None` where the variance is beyond f32: the vector would become the bias.
fn layer_norm(norm: &LayerNorm, vector: &mut [f32]) -> Option<()> {
    #[allow(clippy::cast_precision_loss)]
    let count = vector.len() as f32;
    let mean = vector.iter().sum::<f32>() / count;
    let variance = vector
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum::<f32>()
        / count;
    if !variance.is_finite() {
        return None;
    }
    let scale = 1.0 / (variance + norm.epsilon).sqrt();
    for (value, (weight, bias)) in vector.iter_mut().zip(norm.weight.iter().zip(&norm.bias)) {
        *value = (*value - mean) * scale * weight + bias;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn normalizing_zero_gives_zero() {
        let mut zero = [0.0, 0.0];
        normalize(&mut zero).unwrap();
        assert_eq!(zero, [0.0, 0.0]);
    }

    fn finished(steps: Vec<Step>, pooled: [f32; 2]) -> Vec<f32> {
        let pooler = Pooler {
            modes: vec![PoolingMode::Mean],
            pools: true,
            excluded: 0,
            steps,
            kept: vec![2],
            normalize_last: false,
        };
        let mut out = Vec::new();
        pooler.finish_pooled(&pooled, &mut out);
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
                    modes: vec![PoolingMode::Mean],
                    pools: true,
                    excluded: 0,
                    steps: steps.clone(),
                    kept,
                    normalize_last,
                };
                let mut out = Vec::new();
                pooler.finish_pooled(&states, &mut out);
                out
            };
            let alone = [vec![1], vec![3], vec![4], vec![2]].map(with);
            assert_eq!(with(vec![1, 3, 4, 2]), alone.concat());
            let length: f32 = alone[1].iter().map(|value| value * value).sum();
            assert_eq!((length - 1.0).abs() < 1e-6, normalize_last);
        }
    }

    fn dense_with(activation: Activation, bias: f32) -> Step {
        Step::Dense(Dense {
            input: 2,
            output: 2,
            weight: vec![1.0, 0.0, 0.0, 1.0],
            bias: vec![bias; 2],
            activation,
            residual: Residual::None,
        })
    }

    #[test]
    fn nothing_turns_nan_or_infinity_into_numbers() {
        use Activation::{Gelu, Identity, Relu, Sigmoid, Silu, Tanh};
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
}

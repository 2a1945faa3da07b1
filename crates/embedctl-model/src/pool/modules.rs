//! The modules after pooling: dense layers, layer norms, scaling to length 1.

use crate::Dense;
use crate::DenseActivation;
use crate::LayerNorm;
use crate::Residual;
use crate::Step;
use embedctl_common::hash::Hash;

/// The least norm that a vector is divided by.
const NORM_FLOOR: f32 = 1e-12;

/// The modules after pooling; `None` as soon as there is NaN or infinity. Looked for before each, since
/// activations and norms can turn either into a number.
pub(super) fn after(steps: &[Step], mut vector: Vec<f32>) -> Option<Vec<f32>> {
    for step in steps {
        vector = finite(vector)?;
        match step {
            Step::Dense(layer) => vector = dense(layer, &vector)?,
            Step::LayerNorm(norm) => layer_norm(norm, &mut vector)?,
            Step::Normalize => normalize(&mut vector)?,
            Step::Activation(activation) => activate_all(*activation, &mut vector),
            Step::AutoEncoder(module) => vector = module.apply(&vector),
        }
    }
    finite(vector)
}

impl Step {
    /// Adds all that decides the step's result to `hash`.
    pub(super) fn add_to(&self, hash: &mut Hash) {
        let mut floats = |floats: &[f32]| {
            hash.add(format!("{}\n", floats.len()));
            floats
                .iter()
                .for_each(|value| hash.add(value.to_le_bytes()));
        };
        match self {
            Self::Dense(dense) => {
                floats(&dense.weight);
                floats(&dense.bias);
                if let Residual::Projected(weight) = &dense.residual {
                    floats(weight);
                }
                let identity = dense.residual == Residual::Identity;
                hash.add(format!("{:?} {identity}\n", dense.activation));
            }
            Self::LayerNorm(norm) => {
                floats(&norm.weight);
                floats(&norm.bias);
                floats(&[norm.epsilon]);
            }
            Self::Normalize => hash.add("normalize\n"),
            Self::Activation(activation) => hash.add(format!("{activation:?}\n")),
            Self::AutoEncoder(module) => {
                floats(&module.pre_bias);
                floats(&module.weight);
                floats(&module.latent_bias);
                hash.add(format!("{} {}\n", module.kept, module.normalize));
            }
        }
    }
}

fn finite(vector: Vec<f32>) -> Option<Vec<f32>> {
    is_finite(&vector).then_some(vector)
}

/// Whether a vector holds neither NaN nor infinity.
#[must_use]
pub fn is_finite(vector: &[f32]) -> bool {
    vector.iter().all(|value| value.is_finite())
}

/// Scales to length 1; `None` where the length is beyond f32.
pub(super) fn normalize(vector: &mut [f32]) -> Option<()> {
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
fn activate_all(activation: DenseActivation, vector: &mut [f32]) {
    match activation {
        DenseActivation::Softmax => softmax(vector, 1.0),
        DenseActivation::Softmin => softmax(vector, -1.0),
        DenseActivation::LogSoftmax => {
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

fn activate(activation: DenseActivation, x: f32) -> f32 {
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    // Above 20 PyTorch takes it for linear.
    let softplus = |x: f32| if x > 20.0 { x } else { x.exp().ln_1p() };
    match activation {
        DenseActivation::Identity => x,
        // With alpha 1, as both have it, the two are one.
        DenseActivation::Celu | DenseActivation::Elu => {
            if x > 0.0 {
                x
            } else {
                x.exp_m1()
            }
        }
        DenseActivation::Gelu => 0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2)),
        DenseActivation::Hardshrink => {
            if x.abs() > 0.5 {
                x
            } else {
                0.0
            }
        }
        DenseActivation::Hardsigmoid => (x + 3.0).clamp(0.0, 6.0) / 6.0,
        DenseActivation::Hardswish => x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
        DenseActivation::Hardtanh => x.clamp(-1.0, 1.0),
        DenseActivation::LeakyRelu => {
            if x > 0.0 {
                x
            } else {
                0.01 * x
            }
        }
        DenseActivation::LogSigmoid => x.min(0.0) - (-x.abs()).exp().ln_1p(),
        DenseActivation::Mish => x * softplus(x).tanh(),
        DenseActivation::Relu => x.max(0.0),
        DenseActivation::Relu6 => x.clamp(0.0, 6.0),
        // Outside training, the middle of 1/8 and 1/3.
        DenseActivation::Rrelu => {
            if x > 0.0 {
                x
            } else {
                x * (11.0 / 48.0)
            }
        }
        DenseActivation::Selu => {
            let inner = if x > 0.0 { x } else { 1.673_263_2 * x.exp_m1() };
            1.050_701 * inner
        }
        DenseActivation::Sigmoid => sigmoid(x),
        DenseActivation::Silu => x * sigmoid(x),
        DenseActivation::Softplus => softplus(x),
        DenseActivation::Softshrink => x - x.clamp(-0.5, 0.5),
        DenseActivation::Softsign => x / (1.0 + x.abs()),
        DenseActivation::Tanh => x.tanh(),
        DenseActivation::Tanhshrink => x - x.tanh(),
        DenseActivation::Softmax | DenseActivation::Softmin | DenseActivation::LogSoftmax => {
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

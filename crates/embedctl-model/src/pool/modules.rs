//! The modules after pooling: dense layers, layer norms, scaling to length 1.

use crate::Dense;
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
            Step::Activation(activation) => activation.apply(&mut vector),
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
    layer.activation.apply(&mut output);
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

//! The layers that may follow pooling.

mod auto_encoder;

use std::sync::Arc;

use embedctl_common::named::named;

pub use auto_encoder::AutoEncoder;

/// A dense layer: `activation(weight · x + bias)`, plus the residual where there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Dense {
    /// Weight, row-major `[output, input]`.
    pub weight: Arc<[f32]>,
    /// Bias `[output]`; empty where there is none.
    pub bias: Vec<f32>,
    /// Input width.
    pub input: usize,
    /// Output width.
    pub output: usize,
    /// Activation.
    pub activation: DenseActivation,
    /// The residual added to the activated output.
    pub residual: Residual,
}

/// The residual that a dense layer adds to its output.
#[derive(Debug, Clone, PartialEq)]
pub enum Residual {
    /// Nothing.
    None,
    /// The input itself.
    Identity,
    /// The input through a second weight, row-major `[output, input]`.
    Projected(Arc<[f32]>),
}

named! {
    /// Activation of a dense layer, under PyTorch's definitions and names, and with its defaults.
    pub enum DenseActivation {
        Identity = "Identity",
        Celu = "CELU",
        Elu = "ELU",
        Gelu = "GELU",
        /// GELU's approximation by `tanh`, which transformers' heads name (`gelu_new`). No class of torch without arguments
        /// is it.
        GeluTanh = "NewGELUActivation",
        Hardshrink = "Hardshrink",
        Hardsigmoid = "Hardsigmoid",
        Hardswish = "Hardswish",
        Hardtanh = "Hardtanh",
        LeakyRelu = "LeakyReLU",
        LogSigmoid = "LogSigmoid",
        LogSoftmax = "LogSoftmax",
        Mish = "Mish",
        Relu = "ReLU",
        Relu6 = "ReLU6",
        Rrelu = "RReLU",
        Selu = "SELU",
        Sigmoid = "Sigmoid",
        Silu = "SiLU",
        Softmax = "Softmax",
        Softmin = "Softmin",
        Softplus = "Softplus",
        Softshrink = "Softshrink",
        Softsign = "Softsign",
        Tanh = "Tanh",
        Tanhshrink = "Tanhshrink",
    }
}

impl DenseActivation {
    /// Applies the activation to a whole vector, in place.
    pub(crate) fn apply(self, vector: &mut [f32]) {
        match self {
            Self::Softmax => softmax(vector, 1.0),
            Self::Softmin => softmax(vector, -1.0),
            Self::LogSoftmax => {
                softmax(vector, 1.0);
                vector.iter_mut().for_each(|value| *value = value.ln());
            }
            other => vector
                .iter_mut()
                .for_each(|value| *value = activate(other, *value)),
        }
    }

    /// The activation that a full path names: a class of `torch.nn` that needs no arguments.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        let (module, name) = path.rsplit_once('.')?;
        let own = match name {
            "Identity" => "torch.nn.modules.linear",
            "NewGELUActivation" => return None,
            "Dropout" | "AlphaDropout" | "FeatureAlphaDropout" => "torch.nn.modules.dropout",
            _ => "torch.nn.modules.activation",
        };
        if ![own, "torch.nn", "torch.nn.modules"].contains(&module) {
            return None;
        }
        let name = match name {
            // Does nothing outside training.
            "Dropout" | "AlphaDropout" | "FeatureAlphaDropout" => "Identity",
            name => name,
        };
        Self::of_name(name)
    }
}

/// Layer normalization with learned scale and shift.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerNorm {
    /// Scale.
    pub weight: Vec<f32>,
    /// Shift.
    pub bias: Vec<f32>,
    /// Added to the variance.
    pub epsilon: f32,
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
        DenseActivation::GeluTanh => {
            let inner = std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;
            0.5 * x * (1.0 + (inner * (x + 0.044_715 * x * x * x)).tanh())
        }
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

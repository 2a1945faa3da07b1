//! The layers that may follow pooling.

/// A dense layer: `activation(weight · x + bias)`, plus the residual where there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Dense {
    /// Weight, row-major `[output, input]`.
    pub weight: Vec<f32>,
    /// Bias `[output]`; empty where there is none.
    pub bias: Vec<f32>,
    /// Input width.
    pub input: usize,
    /// Output width.
    pub output: usize,
    /// Activation.
    pub activation: Activation,
    /// What is added to the activated output.
    pub residual: Residual,
}

/// What a dense layer adds to its output.
#[derive(Debug, Clone, PartialEq)]
pub enum Residual {
    /// Nothing.
    None,
    /// The input itself.
    Identity,
    /// The input through a second weight, row-major `[output, input]`.
    Projected(Vec<f32>),
}

/// Activation of a dense layer, under PyTorch's definitions and with its defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Activation {
    Identity,
    Celu,
    Elu,
    Gelu,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyRelu,
    LogSigmoid,
    LogSoftmax,
    Mish,
    Relu,
    Relu6,
    Rrelu,
    Selu,
    Sigmoid,
    Silu,
    Softmax,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
}

impl Activation {
    /// The activation that a full path names: a class of `torch.nn` that needs no arguments.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let (module, name) = path.rsplit_once('.')?;
        let own = match name {
            "Identity" => "torch.nn.modules.linear",
            "Dropout" | "AlphaDropout" | "FeatureAlphaDropout" => "torch.nn.modules.dropout",
            _ => "torch.nn.modules.activation",
        };
        if ![own, "torch.nn", "torch.nn.modules"].contains(&module) {
            return None;
        }
        Some(match name {
            // Dropout does nothing outside training.
            "Identity" | "Dropout" | "AlphaDropout" | "FeatureAlphaDropout" => Self::Identity,
            "CELU" => Self::Celu,
            "ELU" => Self::Elu,
            "GELU" => Self::Gelu,
            "Hardshrink" => Self::Hardshrink,
            "Hardsigmoid" => Self::Hardsigmoid,
            "Hardswish" => Self::Hardswish,
            "Hardtanh" => Self::Hardtanh,
            "LeakyReLU" => Self::LeakyRelu,
            "LogSigmoid" => Self::LogSigmoid,
            "LogSoftmax" => Self::LogSoftmax,
            "Mish" => Self::Mish,
            "ReLU" => Self::Relu,
            "ReLU6" => Self::Relu6,
            "RReLU" => Self::Rrelu,
            "SELU" => Self::Selu,
            "Sigmoid" => Self::Sigmoid,
            "SiLU" => Self::Silu,
            "Softmax" => Self::Softmax,
            "Softmin" => Self::Softmin,
            "Softplus" => Self::Softplus,
            "Softshrink" => Self::Softshrink,
            "Softsign" => Self::Softsign,
            "Tanh" => Self::Tanh,
            "Tanhshrink" => Self::Tanhshrink,
            _ => return None,
        })
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

//! The layers that may follow pooling.

use std::sync::Arc;

use embedctl_common::named::named;

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

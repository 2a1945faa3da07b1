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

/// Activation of a dense layer, under PyTorch's definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Activation {
    Identity,
    Tanh,
    Relu,
    Gelu,
    Sigmoid,
    Silu,
}

impl Activation {
    /// By the name of PyTorch's class, whatever module it lies in.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name.rsplit('.').next()? {
            "Identity" => Self::Identity,
            "Tanh" => Self::Tanh,
            "ReLU" => Self::Relu,
            "GELU" => Self::Gelu,
            "Sigmoid" => Self::Sigmoid,
            "SiLU" => Self::Silu,
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

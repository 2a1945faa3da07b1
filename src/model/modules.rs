//! Modules after the Transformer: Pooling, Dense, LayerNorm, Normalize.

/// A dense layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Dense {
    /// Weight, row-major `[out, in]`.
    pub weight: Vec<f32>,
    /// Bias `[out]`; empty where there is none.
    pub bias: Vec<f32>,
    /// Input width.
    pub input: usize,
    /// Output width.
    pub output: usize,
    /// Activation.
    pub activation: Activation,
}

/// Activation of a dense layer.
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

/// Layer normalization.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerNorm {
    /// Scale.
    pub weight: Vec<f32>,
    /// Shift.
    pub bias: Vec<f32>,
    /// Added to the variance.
    pub epsilon: f32,
}

//! The activations of feed-forward layers, as descriptions of networks and kernels name them.

/// The activation after a feed-forward layer's first product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x Φ(x)` by the error function (transformers: `gelu`).
    Gelu,
    /// Its approximation by `tanh` (`gelu_new`, `gelu_pytorch_tanh`, `gelu_fast`).
    GeluTanh,
    /// `x σ(1.702 x)` (`quick_gelu`).
    QuickGelu,
    /// `x σ(x)` (`silu`, `swish`).
    Silu,
    /// `max(x, 0)`; NaN stays NaN.
    Relu,
    /// `tanh(x)`.
    Tanh,
}

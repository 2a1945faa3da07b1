//! A model's weights, packed for the kernels and shared by all workers.

use super::kernels::{Matrix, Norm};
use crate::safetensors::ElementTable;

/// The norms around half a layer.
#[derive(Debug, Default)]
pub(crate) struct Norms {
    /// Of the input.
    pub before: Option<Norm>,
    /// Of the branch.
    pub after: Option<Norm>,
    /// Of the sum.
    pub sum: Option<Norm>,
}

/// A layer's products, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    /// Query, key and value.
    Input,
    /// Attention's output projection.
    Output,
    /// The feed-forward's first product.
    Up,
    /// The feed-forward's second product.
    Down,
}

/// The greatest magnitudes of each product's inputs, channel by channel; indexed by [`Product`].
pub(crate) type InputRanges = [Vec<f32>; 4];

/// A layer's weights.
#[derive(Debug)]
pub(crate) struct LayerWeights {
    /// The products, indexed by [`Product`].
    pub products: [Matrix; 4],
    /// Norms around attention.
    pub attention_norms: Norms,
    /// Norms around the feed-forward.
    pub feed_forward_norms: Norms,
    /// Norms of each head's query and key.
    pub head_norms: Option<[Norm; 2]>,
}

/// The weights before, after and beside the layers.
#[derive(Debug)]
pub(crate) struct OuterWeights {
    /// Token embeddings.
    pub word: ElementTable,
    /// Learned positions.
    pub positions: Option<ElementTable>,
    /// Token types, row-major; empty where there are none.
    pub types: Vec<f32>,
    /// The norm of the embeddings.
    pub norm: Option<Norm>,
    /// The projection to the model's width.
    pub projection: Option<Matrix>,
    /// The norm after the last layer.
    pub final_norm: Option<Norm>,
    /// Bias of attention scores by relative position, `[buckets, heads]`; empty where there is none.
    pub relative_bias: Vec<f32>,
}

//! A model's weights, packed for the kernels and shared by all workers.

use std::sync::Arc;

use super::convolution::ConvolutionWeights;
use super::delta_rule::DeltaWeights;
use super::disentangled::RelativePositions;
use super::experts::ExpertWeights;
use super::latent::LatentWeights;
use super::rotary::RotaryTable;
use embedctl_kernels::{Matrix, Norm};
use embedctl_vectors::elements::ElementTable;
use embedctl_vectors::low_rank::LowRank;

/// The norms around half a layer.
#[derive(Debug, Default)]
pub struct Norms {
    /// Of the input.
    pub before: Option<Norm>,
    /// Of the branch.
    pub after: Option<Norm>,
    /// Of the branch and its input, added.
    pub with_input: Option<Norm>,
    /// Of the sum.
    pub sum: Option<Norm>,
}

/// A layer's products, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// Query, key and value.
    Input,
    /// Attention's output projection.
    Output,
    /// The feed-forward's first product.
    Up,
    /// The feed-forward's second product.
    Down,
}

impl Product {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Input, Self::Output, Self::Up, Self::Down];

    /// Those of a layer's first half.
    pub(crate) const ATTENTION: [Self; 2] = [Self::Input, Self::Output];

    /// Those of its second half.
    pub(crate) const FEED_FORWARD: [Self; 2] = [Self::Up, Self::Down];

    /// Where the products of expert `expert` lie among those of a layer's second half.
    pub(crate) fn of_expert(expert: usize) -> [usize; 2] {
        [2 * expert, 2 * expert + 1]
    }
}

/// The greatest magnitudes of each product's inputs, channel by channel; indexed by [`Product`].
pub(crate) type InputRanges = [Vec<f32>; 4];

/// A layer's weights, packed.
#[derive(Debug)]
pub(crate) struct LayerWeights {
    /// The products, indexed by [`Product`]; behind an expert's two those of the next.
    pub products: Vec<Matrix>,
    /// All others.
    pub small: SmallWeights,
}

impl LayerWeights {
    /// The products of a layer's two halves.
    pub(crate) fn halves(&self) -> (&[Matrix], &[Matrix]) {
        self.products.split_at(Product::ATTENTION.len())
    }
}

/// A layer's weights but its products, which are far larger.
#[derive(Debug)]
pub(crate) struct SmallWeights {
    /// The experts' weights beside their products.
    pub experts: Option<ExpertWeights>,
    /// Keys and queries of relative positions.
    pub relative_positions: RelativePositions,
    /// All others.
    pub beside: BesideProducts,
}

/// A layer's weights beside its products, as they are for every engine.
#[derive(Debug)]
pub struct BesideProducts {
    /// Bias of attention scores by relative position, `[buckets, heads]`, where the layer has its own; else empty.
    pub relative_bias: Vec<f32>,
    /// Norms around attention.
    pub attention_norms: Norms,
    /// Norms around the feed-forward.
    pub feed_forward_norms: Norms,
    /// Norms of queries and keys: of each head, or of all heads at once.
    pub query_key_norms: Option<[Norm; 2]>,
    /// The convolution in the place of attention.
    pub convolution: Option<ConvolutionWeights>,
    /// The gated delta rule in the place of attention.
    pub delta_rule: Option<DeltaWeights>,
}

/// The table of tokens.
#[derive(Debug)]
pub(crate) enum TokenTable {
    /// As it is stored.
    Stored(ElementTable),
    /// The rows of the vocabulary's product in single precision, which are the same numbers: one of them is enough.
    Shared(Arc<Matrix>),
}

impl TokenTable {
    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Stored(table) => table.rows(),
            Self::Shared(matrix) => matrix.outputs(),
        }
    }

    /// Elements in a row.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Stored(table) => table.width(),
            Self::Shared(matrix) => matrix.inputs(),
        }
    }

    /// Writes row `row` to `out`, which has [`TokenTable::width`] elements.
    pub(crate) fn row(&self, row: usize, out: &mut [f32]) {
        match self {
            Self::Stored(table) => table.row(row, out),
            Self::Shared(matrix) => matrix.row(row, out),
        }
    }

    /// Takes the rows from `matrix`, which was packed from them in single precision. Gives the bytes that are freed.
    pub(crate) fn share(&mut self, matrix: &Arc<Matrix>) -> usize {
        match std::mem::replace(self, Self::Shared(Arc::clone(matrix))) {
            Self::Stored(table) => table.bytes(),
            Self::Shared(_) => 0,
        }
    }
}

/// The weights before, after and beside the layers.
#[derive(Debug)]
pub(crate) struct OuterWeights {
    /// Token embeddings.
    pub word: TokenTable,
    /// The chosen task's change to them.
    pub word_change: Option<LowRank>,
    /// Learned positions.
    pub positions: Option<ElementTable>,
    /// Token types, row-major; empty where there are none.
    pub types: Vec<f32>,
    /// Stored sines and cosines of each set of frequencies.
    pub angles: Vec<Option<RotaryTable>>,
    /// The norm of the embeddings.
    pub norm: Option<Norm>,
    /// The projection to the model's width.
    pub projection: Option<Matrix>,
    /// The norm after the last layer.
    pub final_norm: Option<Norm>,
    /// Latent attention behind that norm.
    pub latent: Option<LatentWeights>,
    /// Bias of attention scores by relative position, `[buckets, heads]`; empty where there is none.
    pub relative_bias: Vec<f32>,
}

//! The description of a network, in the terms of the executor.

use crate::names::{Alternatives, Sources, TensorNames};
use crate::rotary::Rotary;
use embedctl_common::Activation;

/// How a norm works.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NormKind {
    /// Mean and variance, scale, and a shift where `bias` says so.
    Layer {
        /// Whether there is a shift.
        bias: bool,
    },
    /// Mean and variance alone: no tensor belongs to it.
    Plain,
    /// Root of the mean square, and a scale to which `offset` is added.
    Rms {
        /// 1 where a checkpoint stores the scale's distance from 1.
        offset: f32,
    },
}

/// A norm: the same for all places of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormDescription {
    /// How it works.
    pub kind: NormKind,
    /// Added to the variance.
    pub epsilon: f32,
}

/// Learned positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LearnedPositions {
    /// The row of a text's first token, where `after` says nothing.
    pub first: usize,
    /// Rows of the table.
    pub count: usize,
    /// The RoBERTa family counts from this id + 1 on, and tokens with this id keep it as their position.
    pub after: Option<u32>,
}

/// The embeddings, before the first layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// Rows of the token table, where they are stated.
    pub vocabulary: Option<usize>,
    /// Its width, which a projection brings to the model's where it differs.
    pub width: usize,
    /// Factor of token embeddings.
    pub scale: f32,
    /// Learned positions.
    pub positions: Option<LearnedPositions>,
    /// Rows of the table of token types; 0: there is none.
    pub types: usize,
    /// Whether token types, where a row states any, are looked up in the table of tokens and added.
    pub word_types: bool,
    /// Rows of the table of tasks, whose first row is added to every token; 0: there is none.
    pub tasks: usize,
    /// The norm of the sum.
    pub norm: Option<NormDescription>,
    /// Whether a projection follows.
    pub projected: bool,
}

/// A norm of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueryKeyNorm {
    /// How it works.
    pub norm: NormDescription,
    /// Whether it is one norm over all heads, and not one of each head.
    pub all_heads: bool,
}

/// A value that is added to attention scores by the distance from query to key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionBias {
    /// T5's: a learned value for each head and bucket of distances.
    Buckets {
        /// Rows of the table.
        rows: usize,
        /// Buckets that are counted, half of them for keys behind the query.
        count: usize,
        /// The distance at which the last bucket begins.
        reach: usize,
        /// Whether each layer has a table of its own.
        of_each_layer: bool,
    },
    /// `ALiBi`: the distance times a slope that each head has by its number, less for farther keys to both sides.
    Slopes,
    /// The same with more for later keys: the slope times how far the key stands behind the query.
    Rising,
}

impl PositionBias {
    /// Whether the checkpoint has a table of it.
    #[must_use]
    pub fn is_learned(self) -> bool {
        matches!(self, Self::Buckets { .. })
    }
}

/// The rows of the product that makes queries, keys and values, as checkpoints have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueryKeyRows {
    /// Rotary positions turn channels `2 i` and `2 i + 1`, not `i` and `i + size / 2`.
    pub adjacent_pairs: bool,
    /// A fused tensor has query, key and value of one head after another.
    pub fused_by_head: bool,
}

/// DeBERTa's scores of contents with relative positions. The names are those of a layer's products, of the table of
/// relative positions, and of its norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disentangled {
    /// Relative positions to each side that have an embedding.
    pub span: usize,
    /// The distance at which the last of them begins, where far ones share some by their logarithm.
    pub farthest: Option<usize>,
    /// The product that makes keys of relative positions, with which queries are compared.
    pub keys: Option<Sources>,
    /// Whether it has a bias.
    pub keys_biased: bool,
    /// The product that makes queries of them, with which keys are compared.
    pub queries: Option<Sources>,
    /// The table.
    pub table: &'static str,
    /// Its norm.
    pub norm: Option<Alternatives>,
}

impl Disentangled {
    /// Embeddings of relative positions.
    #[must_use]
    pub fn rows(&self) -> usize {
        2 * self.span
    }

    /// The row of the embedding for a query `ahead` tokens ahead of its key, which may be negative.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )]
    #[must_use]
    #[inline] // into the engines, which are optimised: it runs for each distance
    pub fn row(&self, ahead: isize) -> usize {
        let bucket = match self.farthest {
            None => ahead,
            Some(farthest) => {
                let middle = self.span as isize / 2;
                let distance = ahead.abs();
                if distance <= middle {
                    ahead
                } else {
                    let steps = (distance as f32 / middle as f32).ln()
                        / (((farthest - 1) as f64 / middle as f64) as f32).ln()
                        * (middle - 1) as f32;
                    (steps.ceil() as isize + middle) * ahead.signum()
                }
            }
        };
        let span = self.span as isize;
        (bucket + span).clamp(0, 2 * span - 1) as usize
    }
}

/// Feed-forwards of which each token takes some.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpertsDescription {
    /// How many there are.
    pub count: usize,
    /// How many a token takes: those with the greatest share.
    pub chosen: usize,
    /// Whether the shares of those taken are divided by their sum.
    pub normalized: bool,
    /// Their inner width.
    pub width: usize,
    /// Whether the activated half is multiplied with another.
    pub gated: bool,
    /// Their activation.
    pub activation: Activation,
    /// Whether a bias is added to their sum.
    pub bias: bool,
}

/// A layer's attention, as far as all layers agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionDescription {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; each serves `heads / key_value_heads` query heads.
    pub key_value_heads: usize,
    /// Width of a head.
    pub head_size: usize,
    /// Factor of attention scores.
    pub scale: f32,
    /// Whether query, key and value have a bias.
    pub input_bias: bool,
    /// Whether the output has one.
    pub output_bias: bool,
    /// The norm of queries and keys.
    pub query_key_norm: Option<QueryKeyNorm>,
    /// The addition to scores by distance.
    pub position_bias: Option<PositionBias>,
    /// Scores with relative positions.
    pub disentangled: Option<Disentangled>,
    /// The magnitude to which scores are bent by `tanh`.
    pub softcap: Option<f32>,
    /// How checkpoints order the rows of queries, keys and values.
    pub rows: QueryKeyRows,
    /// Whether its output is multiplied with the sigmoid of a gate, which lies behind each query in the checkpoint.
    pub gated: bool,
}

impl AttentionDescription {
    /// Channels of all queries, and of all keys.
    #[must_use]
    pub fn query_key_widths(&self) -> [usize; 2] {
        let of = |heads: usize| heads.saturating_mul(self.head_size);
        [of(self.heads), of(self.key_value_heads)]
    }

    /// Floats of a token in front of attention: queries, keys, values, and gates where there are any.
    #[must_use]
    pub fn input_width(&self) -> usize {
        let [query, key] = self.query_key_widths();
        let gate = if self.gated { query } else { 0 };
        query
            .saturating_add(key.saturating_mul(2))
            .saturating_add(gate)
    }
}

/// A convolution over a token and those before it, channel by channel and between two gates: LFM2 has it in the place of
/// attention in most layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortConvolution {
    /// Tokens that it sums: its own and those before it.
    pub tokens: usize,
    /// Whether it and the products around it have a bias.
    pub biased: bool,
}

/// The gated delta rule in the place of attention: each head keeps a state, `[key, value]`, which every token lets decay,
/// corrects towards its value at its key, and reads at its query. A convolution over a few tokens and an activation come
/// before it; a norm of each head and a gate behind it. Qwen3.5 has it in most layers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeltaRule {
    /// Heads of queries and keys; each serves `value_heads / key_heads` heads of values.
    pub key_heads: usize,
    /// Heads of values, each with a state.
    pub value_heads: usize,
    /// Channels of a head's queries and keys.
    pub key_size: usize,
    /// Channels of a head's values.
    pub value_size: usize,
    /// Tokens that the convolution sums: its own and those before it.
    pub tokens: usize,
    /// The activation behind the convolution.
    pub activation: Activation,
    /// The norm of a head's output.
    pub norm: NormDescription,
}

impl DeltaRule {
    /// Channels of all queries, and of all keys.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.key_heads.saturating_mul(self.key_size)
    }

    /// Channels of all values, which are those of the output.
    #[must_use]
    pub fn values(&self) -> usize {
        self.value_heads.saturating_mul(self.value_size)
    }

    /// Outputs of the products in front of it: queries, keys and values together, gates, and for each head of values how
    /// much its state is corrected and how much it decays.
    #[must_use]
    pub fn inputs(&self) -> [usize; 4] {
        let mixed = (self.keys().saturating_mul(2)).saturating_add(self.values());
        [mixed, self.values(), self.value_heads, self.value_heads]
    }

    /// Their sum.
    #[must_use]
    pub fn input_width(&self) -> usize {
        self.inputs().into_iter().fold(0, usize::saturating_add)
    }
}

/// What mixes the tokens of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mixer {
    /// Attention.
    Attention,
    /// [`Architecture::convolution`].
    Convolution,
    /// [`Architecture::delta_rule`].
    DeltaRule,
}

/// A layer's feed-forward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FeedForward {
    /// Its inner width.
    pub width: usize,
    /// Its activation.
    pub activation: Activation,
    /// Whether the activated half is multiplied with another.
    pub gated: bool,
    /// Whether the first product has a bias.
    pub up_bias: bool,
    /// Whether the second has one.
    pub down_bias: bool,
    /// The experts of layers that have them in place of it.
    pub experts: Option<ExpertsDescription>,
}

impl FeedForward {
    /// The inner widths of all layers: its own and that of experts.
    #[must_use]
    pub fn widths(&self) -> [usize; 2] {
        [
            self.width.max(1),
            self.experts
                .map_or(self.width, |experts| experts.width)
                .max(1),
        ]
    }
}

/// One layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The set of weights that it takes (ALBERT's layers share them).
    pub weights: usize,
    /// Whether a token sees only earlier tokens and itself.
    pub causal: bool,
    /// How far it sees at most, in tokens.
    pub reach: Option<usize>,
    /// The entry of [`Architecture::rotary`] that turns its queries and keys.
    pub rotary: Option<usize>,
    /// Whether the norm before attention is there (ModernBERT's first layer has none).
    pub first_norm: bool,
    /// Whether experts take the place of the feed-forward.
    pub experts: bool,
    /// What mixes its tokens.
    pub mixer: Mixer,
}

/// The feed-forward behind latent attention is so many times as wide as the model.
const LATENT_FEED_FORWARD: usize = 4;

/// Attention of each token to vectors that the model has learned, and a gated feed-forward behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentAttention {
    /// The learned vectors.
    pub latents: usize,
    /// Heads.
    pub heads: usize,
    /// Channels of a head.
    pub head_size: usize,
}

impl LatentAttention {
    /// Scores of a token.
    #[must_use]
    pub fn scores(&self) -> usize {
        self.heads * self.latents
    }

    /// The feed-forward's inner width.
    #[must_use]
    pub fn inner(&self, hidden: usize) -> usize {
        LATENT_FEED_FORWARD * hidden
    }

    /// The widest of what a token has behind each of its products.
    #[must_use]
    pub fn widest(&self, hidden: usize) -> usize {
        self.scores().max(self.inner(hidden)).max(hidden)
    }
}

/// Low-rank weights of several tasks, which a checkpoint holds beside those of the network.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskAdapters {
    /// The tasks' names, in the order of their weights.
    pub names: Vec<String>,
    /// The rank.
    pub rank: usize,
    /// The factor of the product.
    pub scale: f32,
}

/// A model, described.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// `model_type` of config.json.
    pub model_type: String,
    /// Settings of config.json that transformers' class for this type does not read, and that are ignored here, too.
    pub ignored: Vec<String>,
    /// Width of a hidden state.
    pub hidden: usize,
    /// The embeddings.
    pub embeddings: Embeddings,
    /// The norm of all layers.
    pub norm: NormDescription,
    /// Attention.
    pub attention: AttentionDescription,
    /// The convolution of layers that have it in place of attention.
    pub convolution: Option<ShortConvolution>,
    /// The gated delta rule of layers that have it in place of attention.
    pub delta_rule: Option<DeltaRule>,
    /// Feed-forward.
    pub feed_forward: FeedForward,
    /// The layers in the order in which they run.
    pub layers: Vec<Layer>,
    /// Sets of weights, as the part of a tensor's name that stands for a layer; alternatives of each.
    pub weight_sets: Vec<Vec<String>>,
    /// Sets of rotary frequencies.
    pub rotary: Vec<Rotary>,
    /// Whether a norm follows the last layer.
    pub final_norm: bool,
    /// Latent attention behind that norm.
    pub latent: Option<LatentAttention>,
    /// Whether attention and feed-forward both take the layer's input, and their sum is added to it. Only norms of their
    /// inputs are then there.
    pub parallel: bool,
    /// Factor of a branch's output, before it is added to the residual stream.
    pub branch_scale: f32,
    /// Tokens of a row, at most, where no table of positions says so.
    pub longest: Option<usize>,
    /// Whether this is the network of the repository's own code, which `auto_map` names.
    pub own_code: bool,
    /// The tasks for which its checkpoint has adapters.
    pub tasks: Option<TaskAdapters>,
    /// The names of its tensors.
    pub names: &'static TensorNames,
    /// Under which names classes with a head keep the network (`base_model_prefix`), the class's own first; a checkpoint
    /// puts one of them, or nothing, before the names.
    pub base_names: &'static [&'static str],
}

impl Architecture {
    /// The convolution of the layers that take a set of weights, where they have one in place of attention.
    #[must_use]
    pub fn convolution_of(&self, set: usize) -> Option<ShortConvolution> {
        self.convolution
            .filter(|_| self.mixes_by(set, Mixer::Convolution))
    }

    /// The gated delta rule of the layers that take a set of weights, where they have it in place of attention.
    #[must_use]
    pub fn delta_rule_of(&self, set: usize) -> Option<DeltaRule> {
        self.delta_rule
            .filter(|_| self.mixes_by(set, Mixer::DeltaRule))
    }

    fn mixes_by(&self, set: usize, mixer: Mixer) -> bool {
        let mut own = self.layers.iter().filter(|layer| layer.weights == set);
        own.any(|layer| layer.mixer == mixer)
    }

    /// Whether the layer of a set of weights can be run in two halves, attention and feed-forward, of which the second needs
    /// no weights of the first and nothing but its result: not with parallel branches. Of a set that several layers take
    /// in turn, each half would be loaded for each of them.
    #[must_use]
    pub fn runs_in_halves(&self, set: usize) -> bool {
        let own = self.layers.iter().filter(|layer| layer.weights == set);
        !self.parallel && own.count() <= 1
    }

    /// The widths of attention's input and of its output, where those of a convolution and of a delta rule have room, too.
    #[must_use]
    pub fn mixing_widths(&self) -> [usize; 2] {
        let [query, _] = self.attention.query_key_widths();
        let [mut input, mut output] = [self.attention.input_width(), query];
        let mut need = |other: [usize; 2]| {
            [input, output] = [input.max(other[0]), output.max(other[1])];
        };
        if self.convolution.is_some() {
            need([self.hidden.saturating_mul(3), self.hidden]);
        }
        if let Some(rule) = &self.delta_rule {
            need([rule.input_width(), rule.values()]);
        }
        [input, output]
    }
}

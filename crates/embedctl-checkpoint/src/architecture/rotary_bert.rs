//! Encoders with rotary positions and norms of sums: GTE, NomicBERT and Jina embeddings v3, by transformers' classes.

use super::common::{activation, base, epsilon, inverse_root, turn_all};
use super::{Architecture, FeedForward};
use crate::names::TensorNames;
use crate::settings::{ConfigSettings, Supported};

/// What these encoders differ in: most are defaults of their settings.
pub(super) struct RotaryBert {
    pub names: &'static TensorNames,
    /// Width, layers, heads, and the feed-forward's width.
    pub sizes: [usize; 4],
    pub epsilon: f64,
    /// Token types; with `may_lack_types`, 0 means that there are none.
    pub types: usize,
    pub may_lack_types: bool,
    /// Whether attention's products, and the feed-forward's second, have a bias.
    pub bias: bool,
    pub activation: &'static str,
    pub gated: bool,
    pub theta: f64,
    pub positions: usize,
}

impl RotaryBert {
    /// Reads the settings.
    pub(super) fn read(&self, settings: &ConfigSettings) -> Supported<Architecture> {
        let [hidden, layers, heads, inner] = self.sizes;
        let mut all = base(
            settings,
            self.names,
            settings.count("hidden_size", hidden)?,
            settings.count_or_zero("num_hidden_layers", layers)?,
            settings.count("num_attention_heads", heads)?,
        )?;
        if let Some(size) = settings.optional_count("head_dim")? {
            all.attention.head_size = size;
            all.attention.scale = inverse_root(size);
        }
        all.norm.epsilon = epsilon(settings, "layer_norm_eps", self.epsilon)?;
        all.embeddings.norm = Some(all.norm);
        all.embeddings.types = match self.may_lack_types {
            true => settings.count_or_zero("type_vocab_size", self.types)?,
            false => settings.count("type_vocab_size", self.types)?,
        };
        (all.attention.input_bias, all.attention.output_bias) = (self.bias, self.bias);
        all.feed_forward = FeedForward {
            width: settings.count("intermediate_size", inner)?,
            activation: activation(settings, "hidden_act", self.activation)?,
            gated: self.gated,
            up_bias: !self.gated,
            down_bias: self.bias,
            experts: None,
        };
        turn_all(settings, &mut all, self.theta, self.positions)?;
        Ok(all)
    }
}

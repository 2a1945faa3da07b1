//! Decoders that are built like Llama: what they differ in, and how their settings are read.

use super::common::{
    activation, base, epsilon, inverse_root, is_causal, key_value_heads, look_ways, turn_all,
};
use super::{Architecture, BOTH_WAYS, FeedForward, NormDescription, NormKind, QueryKeyNorm};
use crate::names::{self, TensorNames};
use crate::settings::{ConfigSettings, Supported};

/// The tokens that a layer's attention reaches over (`None`: all), for each of so many layers.
type Windows = fn(&ConfigSettings, usize) -> Supported<Vec<Option<usize>>>;

/// What these decoders differ in: most are defaults of their settings.
#[derive(Clone, Copy)]
pub(super) struct LlamaLike {
    /// Width, layers and heads.
    pub sizes: [usize; 3],
    /// The feed-forward's width.
    pub inner: usize,
    pub positions: usize,
    /// `None`: the width is divided among the heads.
    pub head_size: Option<usize>,
    /// `None`: as many as of queries.
    pub key_value_heads: Option<usize>,
    pub epsilon: f64,
    /// Added to the weights of norms.
    pub norm_offset: f32,
    pub activation: &'static str,
    pub theta: f64,
    /// Whether queries, keys and values have a bias in any case.
    pub query_bias: bool,
    /// Whether `attention_bias` and `mlp_bias` are read.
    pub reads_attention_bias: bool,
    pub reads_mlp_bias: bool,
    /// Whether the queries and keys of each head have a norm.
    pub head_norm: bool,
    /// Whether the settings may make it causal, and do so by default.
    pub causal: bool,
    /// `None`: no layer has a window.
    pub windows: Option<Windows>,
}

impl LlamaLike {
    /// Reads the settings.
    pub(super) fn read(&self, settings: &ConfigSettings) -> Supported<Architecture> {
        let own_size = settings.optional_count("head_dim")?.or(self.head_size);
        let mut all = grouped(settings, &names::LLAMA, self.sizes, own_size)?;
        let key_value = self.key_value_heads.unwrap_or(all.attention.heads);
        key_value_heads(settings, &mut all, key_value)?;
        all.norm = NormDescription {
            kind: NormKind::Rms {
                offset: self.norm_offset,
            },
            epsilon: epsilon(settings, "rms_norm_eps", self.epsilon)?,
        };
        all.final_norm = true;
        let bias = self.reads_attention_bias && settings.flag("attention_bias", false)?;
        (all.attention.input_bias, all.attention.output_bias) = (bias || self.query_bias, bias);
        all.attention.query_key_norm = self.head_norm.then_some(QueryKeyNorm {
            norm: all.norm,
            all_heads: false,
        });
        let bias = self.reads_mlp_bias && settings.flag("mlp_bias", false)?;
        all.feed_forward = FeedForward {
            width: settings.count("intermediate_size", self.inner)?,
            activation: activation(settings, "hidden_act", self.activation)?,
            gated: true,
            up_bias: bias,
            down_bias: bias,
            experts: None,
        };
        let causal = self.causal && is_causal(settings)?;
        let windows = match self.windows {
            None => vec![None; all.layers.len()],
            Some(windows) => windows(settings, all.layers.len())?,
        };
        look_ways(&mut all, causal, windows);
        turn_all(settings, &mut all, self.theta, self.positions)?;
        Ok(all)
    }

    /// The same of a type for which repositories have code of their own that obeys `use_bidirectional_attention`. transformers'
    /// class does not read it.
    pub(super) fn read_with_own_code(&self, settings: &ConfigSettings) -> Supported<Architecture> {
        let both_ways = settings.flag(BOTH_WAYS, false)?;
        let own = Self {
            causal: self.causal && !both_ways,
            ..*self
        };
        Ok(Architecture {
            own_code: both_ways,
            ..own.read(settings)?
        })
    }
}

/// The windows of layers, of which `sliding` says which have one.
///
/// # Errors
/// If a layer has one and `window` is not known.
pub(super) fn windows_of(
    settings: &ConfigSettings,
    window: Option<usize>,
    sliding: Vec<bool>,
) -> Supported<Vec<Option<usize>>> {
    if window.is_none() && sliding.contains(&true) {
        return Err(settings.unknown("layer_types"));
    }
    let windows = sliding.into_iter();
    Ok(windows.map(|sliding| window.filter(|_| sliding)).collect())
}

/// The base of a decoder; `defaults` are width, layers and heads.
pub(super) fn grouped(
    settings: &ConfigSettings,
    names: &'static TensorNames,
    defaults: [usize; 3],
    head_size: Option<usize>,
) -> Supported<Architecture> {
    let [hidden, layers, heads] = defaults;
    let hidden = settings.count("hidden_size", hidden)?;
    let layers = settings.count_or_zero("num_hidden_layers", layers)?;
    let heads = settings.count("num_attention_heads", heads)?;
    // A head size of its own frees the heads from dividing the width.
    let divisor = if head_size.is_some() { 1 } else { heads };
    let mut all = base(settings, names, hidden, layers, divisor)?;
    let size = head_size.unwrap_or(hidden / heads);
    if heads.checked_mul(size).is_none_or(|inner| inner > 1 << 24) {
        return Err(settings.unknown("num_attention_heads"));
    }
    all.attention.heads = heads;
    all.attention.head_size = size;
    all.attention.scale = inverse_root(size);
    Ok(all)
}

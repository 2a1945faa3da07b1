//! A model's architecture as data, by the settings and `model_type` of config.json and never by a model's name.
//!
//! Every function below restates how the class that `AutoModel` would take uses its settings;
//! [`ConfigSettings::finish`] refuses settings that none of them has read. The executor knows no model types.

mod common;
mod decoders;
mod encoders;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::decoders::{Decoder, decoder, gemma3};
use self::encoders::{BertLike, RotaryBert, albert, bert, distilbert, modernbert, rotary_bert};
use super::kernels::Activation;
use super::names::TensorNames;
use super::rotary::Rotary;
use super::settings::{ConfigSettings, Unsupported};
use embedctl_common::small_file;

/// Bytes of config.json at most; those of models have some kilobytes.
const LARGEST_CONFIG: u64 = 64 << 20;

/// More layers than any model has; a bound for damaged files.
const MAX_LAYERS: usize = 4096;

/// The name of the network in most recent classes with a head.
const MODEL: &[&str] = &["model"];

/// Larger heads than any model has.
const MAX_HEAD: usize = 4096;

/// How a norm works.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NormKind {
    /// Mean and variance, scale, and a shift where `bias` says so.
    Layer {
        /// Whether there is a shift.
        bias: bool,
    },
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
    /// Rows of the table of tasks, whose first row is added to every token; 0: there is none.
    pub tasks: usize,
    /// The norm of the sum.
    pub norm: Option<NormDescription>,
    /// Whether a projection follows.
    pub projected: bool,
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
    /// The norm of each head's query and key.
    pub head_norm: Option<NormDescription>,
    /// Buckets of a relative position bias that all layers share.
    pub relative_buckets: Option<usize>,
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
}

/// One layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Which set of weights it takes (ALBERT's layers share them).
    pub weights: usize,
    /// Whether a token sees only earlier tokens and itself.
    pub causal: bool,
    /// How far it sees at most, in tokens.
    pub reach: Option<usize>,
    /// Which of [`Architecture::rotary`] turns its queries and keys.
    pub rotary: Option<usize>,
    /// Whether the norm before attention is there (ModernBERT's first layer has none).
    pub first_norm: bool,
}

/// A model, described.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// `model_type` of config.json.
    pub model_type: String,
    /// Width of a hidden state.
    pub hidden: usize,
    /// The embeddings.
    pub embeddings: Embeddings,
    /// The norm of all layers.
    pub norm: NormDescription,
    /// Attention.
    pub attention: AttentionDescription,
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
    /// The names of its tensors.
    pub names: &'static TensorNames,
    /// Under which names classes with a head keep the network (`base_model_prefix`), the class's own first; a checkpoint
    /// puts one of them, or nothing, before the names.
    pub base_names: &'static [&'static str],
}

impl Architecture {
    /// Reads `folder`'s config.json.
    ///
    /// # Errors
    /// If there is none, or it has a setting that the engine does not compute exactly; the reason names the setting.
    pub fn read(folder: &Path) -> Result<Self, Unsupported> {
        let file = folder.join("config.json");
        let refuse = |reason: String| Unsupported {
            file: file.clone(),
            reason,
        };
        let text = small_file::read(&file, LARGEST_CONFIG)
            .map_err(|error| refuse(format!("cannot be read ({error})")))?;
        let value = serde_json::from_slice(&text)
            .map_err(|error| refuse(format!("is not JSON: {error}")))?;
        Self::parse(file, value)
    }

    /// Reads the settings in `value`; `file` is named where they are refused.
    ///
    /// # Errors
    /// As [`Architecture::read`].
    pub fn parse(file: PathBuf, value: Value) -> Result<Self, Unsupported> {
        let settings = ConfigSettings::new(file, value)?;
        let model_type = settings.word("model_type", "")?.to_string();
        settings.pinned("is_encoder_decoder", &[json!(false)])?;
        // The names are `base_model_prefix` of the classes in transformers 5.23; it takes `new` off GTE's as well.
        let (architecture, base_names): (_, &[&str]) = match model_type.as_str() {
            "bert" => (bert(&settings, BertLike::Bert)?, &["bert"]),
            "ernie" => (bert(&settings, BertLike::Ernie)?, &["ernie"]),
            "electra" => (bert(&settings, BertLike::Electra)?, &["electra"]),
            "roberta" | "xlm-roberta" | "camembert" => {
                (bert(&settings, BertLike::Roberta)?, &["roberta"])
            }
            "mpnet" => (bert(&settings, BertLike::MpNet)?, &["mpnet"]),
            "distilbert" => (distilbert(&settings)?, &["distilbert"]),
            "albert" => (albert(&settings)?, &["albert"]),
            "nomic_bert" => (rotary_bert(&settings, RotaryBert::Nomic)?, &["nomic_bert"]),
            "gte" => (rotary_bert(&settings, RotaryBert::Gte)?, &["gte", "new"]),
            "jina_embeddings_v3" => (rotary_bert(&settings, RotaryBert::Jina)?, &["roberta"]),
            "modernbert" => (modernbert(&settings)?, MODEL),
            "llama" => (decoder(&settings, Decoder::Llama)?, MODEL),
            "eurobert" => (decoder(&settings, Decoder::EuroBert)?, MODEL),
            "mistral" => (decoder(&settings, Decoder::Mistral)?, MODEL),
            "ministral" => (decoder(&settings, Decoder::Ministral)?, MODEL),
            "qwen2" => (decoder(&settings, Decoder::Qwen2)?, MODEL),
            "qwen3" => (decoder(&settings, Decoder::Qwen3)?, MODEL),
            "gemma" => (decoder(&settings, Decoder::Gemma)?, MODEL),
            "gemma3_text" => (gemma3(&settings)?, MODEL),
            _ => return Err(settings.unknown("model_type")),
        };
        if architecture.attention.head_size > MAX_HEAD {
            return Err(settings.refuse(format!(
                "attention heads have {} channels; the native engine supports at most {MAX_HEAD}",
                architecture.attention.head_size
            )));
        }
        settings.finish()?;
        Ok(Self {
            model_type,
            base_names,
            ..architecture
        })
    }
}

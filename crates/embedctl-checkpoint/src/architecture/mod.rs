//! A model's architecture as data, by the settings and `model_type` of config.json and never by a model's name.
//!
//! Every function below restates how the class that `AutoModel` would take uses its settings;
//! [`ConfigSettings::finish`] refuses settings that none of them has read. The executor knows no model types.

mod albert;
mod bert;
mod bert_like;
mod big_bird;
mod bloom;
mod clip_text;
mod common;
mod deberta;
mod deberta_v2;
mod description;
#[cfg(test)]
mod direction_tests;
mod distilbert;
mod electra;
mod ernie;
mod eurobert;
mod gemma;
mod gemma2;
mod gemma3;
mod gpt2;
mod gpt_neo;
mod gpt_neox;
mod gptj;
mod granite;
mod gte;
mod gte_new;
#[cfg(test)]
mod ignored_tests;
mod jina_bert;
mod jina_lora;
mod jina_v3;
mod lfm2;
mod llama;
mod llama_like;
mod longformer;
mod luke;
mod ministral3;
mod mistral;
mod mixtral;
mod modernbert;
mod modernbert_decoder;
mod mpnet;
mod neobert;
mod nomic_bert;
mod nomic_moe;
mod nvembed;
mod olmo;
mod opt;
mod phi;
mod phi3;
mod qwen;
mod qwen3_5;
mod qwen3_moe;
mod qwen_vl;
mod refused;
mod roberta;
mod roformer;
mod rotary_bert;
#[cfg(test)]
mod rotary_tests;
mod smollm3;
mod starcoder2;
mod t5;
#[cfg(test)]
#[path = "architecture_tests.rs"]
mod tests;
mod xlm_roberta_xl;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub use self::common::activation_named;
pub use self::description::{
    Architecture, AttentionDescription, DeltaRule, Disentangled, Embeddings, ExpertsDescription,
    FeedForward, LatentAttention, Layer, LearnedPositions, Mixer, NormDescription, NormKind,
    PositionBias, QueryKeyNorm, QueryKeyRows, ShortConvolution, TaskAdapters,
};
use super::settings::{ConfigSettings, Supported, Unsupported};
use embedctl_common::small_file;

/// Bytes of config.json at most; those of models have some kilobytes.
pub const LARGEST_CONFIG: u64 = 64 << 20;

/// More layers than any model has; a bound for damaged files.
const MAX_LAYERS: usize = 4096;

/// The name of the network in most recent classes with a head.
const MODEL: &[&str] = &["model"];

/// The setting that asks for attention both ways; few of transformers' classes read it.
const BOTH_WAYS: &str = "use_bidirectional_attention";

/// The kind of a scaling in its older spelling.
const SCALING: &str = "rope_scaling.type";

/// Larger heads than any model has.
const MAX_HEAD: usize = 4096;

/// A `model_type` that the engine runs.
pub(crate) struct KnownType {
    /// `model_type` of config.json.
    pub model_type: &'static str,
    /// Reads its settings.
    pub read: fn(&ConfigSettings) -> Supported<Architecture>,
    /// `base_model_prefix` of the classes in transformers 5.23 ([`Architecture::base_names`]).
    pub base_names: &'static [&'static str],
    /// Whether config.json describes an encoder and a decoder, of which the encoder alone is run.
    pub encoder_of_pair: bool,
    /// Whether the reference is the repositories' own code, since transformers has no class for it.
    pub own_code: bool,
    /// Whether the class's attention looks where its mask says, in every batch. That of most classes leaves the mask out
    /// where nothing is padded, and then looks as `is_causal` says.
    pub always_masked: bool,
    /// General names of settings, with the class's own (`attribute_map`).
    pub names: &'static [(&'static str, &'static str)],
}

impl KnownType {
    const fn new(
        model_type: &'static str,
        base_names: &'static [&'static str],
        read: fn(&ConfigSettings) -> Supported<Architecture>,
    ) -> Self {
        Self {
            model_type,
            read,
            base_names,
            encoder_of_pair: false,
            own_code: false,
            always_masked: false,
            names: &[],
        }
    }

    const fn named(self, names: &'static [(&'static str, &'static str)]) -> Self {
        Self { names, ..self }
    }

    const fn always_masked(self) -> Self {
        Self {
            always_masked: true,
            ..self
        }
    }

    const fn own_code(self) -> Self {
        Self {
            own_code: true,
            ..self
        }
    }

    const fn encoder_of_pair(self) -> Self {
        Self {
            encoder_of_pair: true,
            ..self
        }
    }
}

/// All that the engine runs, by file of this folder.
const KNOWN: &[&[KnownType]] = &[
    bert::TYPES,
    ernie::TYPES,
    electra::TYPES,
    roberta::TYPES,
    luke::TYPES,
    mpnet::TYPES,
    distilbert::TYPES,
    albert::TYPES,
    modernbert::TYPES,
    nomic_bert::TYPES,
    gte::TYPES,
    jina_v3::TYPES,
    llama::TYPES,
    eurobert::TYPES,
    mistral::TYPES,
    qwen::TYPES,
    gemma::TYPES,
    gemma3::TYPES,
    gte_new::TYPES,
    t5::TYPES,
    deberta_v2::TYPES,
    gemma2::TYPES,
    gpt2::TYPES,
    gpt_neo::TYPES,
    xlm_roberta_xl::TYPES,
    roformer::TYPES,
    longformer::TYPES,
    modernbert_decoder::TYPES,
    granite::TYPES,
    smollm3::TYPES,
    olmo::TYPES,
    phi3::TYPES,
    qwen3_moe::TYPES,
    neobert::TYPES,
    clip_text::TYPES,
    gpt_neox::TYPES,
    gptj::TYPES,
    phi::TYPES,
    opt::TYPES,
    starcoder2::TYPES,
    deberta::TYPES,
    big_bird::TYPES,
    bloom::TYPES,
    ministral3::TYPES,
    mixtral::TYPES,
    lfm2::TYPES,
    nvembed::TYPES,
    qwen_vl::TYPES,
    qwen3_5::TYPES,
];

/// The kinds of products that every network runs in.
pub(crate) const PRECISIONS: &str = "fp32, bf16, int16, int8";

/// The table of docs/models.md: every known `model_type`, and what the engine does with it.
#[must_use]
pub fn table() -> String {
    let mut rows: Vec<(&str, String)> = Vec::new();
    for known in KNOWN.iter().copied().flatten() {
        let reference = if known.own_code {
            "the repository's own code"
        } else {
            "transformers"
        };
        rows.push((known.model_type, format!("{PRECISIONS} | {reference}")));
    }
    for (model_type, reason) in refused::REFUSED {
        rows.push((model_type, format!("no: {reason} | ")));
    }
    rows.sort();
    let mut table =
        String::from("| `model_type` | native | reference | ONNX |\n|---|---|---|---|\n");
    for (model_type, row) in rows {
        table += &format!("| `{model_type}` | {row} | any export |\n").replace("|  |", "| |");
    }
    table
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
        let value = serde_json::from_slice(small_file::without_mark(&text))
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
        let known = KNOWN
            .iter()
            .copied()
            .flatten()
            .find(|known| known.model_type == model_type);
        let Some(known) = known else {
            return Err(refused::reason(&model_type).map_or_else(
                || settings.refuse(unknown_type(&model_type)),
                |reason| settings.refuse(reason),
            ));
        };
        let settings = settings.renamed(known.names)?;
        if !known.encoder_of_pair {
            settings.pinned("is_encoder_decoder", &[json!(false)])?;
        }
        let architecture = (known.read)(&settings)?;
        if architecture.attention.head_size > MAX_HEAD {
            return Err(settings.refuse(format!(
                "attention heads have {} channels; the native engine supports at most {MAX_HEAD}",
                architecture.attention.head_size
            )));
        }
        // The list of keys is that of transformers' classes.
        let own_code = known.own_code || architecture.own_code;
        if !own_code && !known.always_masked {
            architecture.check_causal(&settings)?;
        }
        let class = if own_code { "" } else { model_type.as_str() };
        let mut ignored = settings.finish(class)?;
        ignored.extend(architecture.ignored.iter().cloned());
        Ok(Self {
            model_type,
            ignored,
            base_names: known.base_names,
            own_code,
            ..architecture
        })
    }

    /// Refuses `is_causal` of an encoder, which its mask does not hear of, but the function for attention without a mask.
    fn check_causal(&self, settings: &ConfigSettings) -> Supported<()> {
        let both_ways = self.layers.iter().all(|layer| !layer.causal);
        let asked = settings
            .value("is_causal")
            .filter(|value| **value != json!(false));
        match asked {
            Some(Value::Bool(true)) if both_ways => Err(settings.refuse(
                "the setting \"is_causal\": true has no one meaning for this type: transformers' class looks back alone in a \
                 batch without padding, and both ways in one with padding; remove the setting to look both ways, as published \
                 models do",
            )),
            Some(Value::Bool(true)) | None => Ok(()),
            Some(_) => Err(settings.unknown("is_causal")),
        }
    }

    /// A note where config.json asks for stretched positions in a spelling that the reference's class overwrites.
    pub(crate) fn note_on_scaling(&self) -> Option<String> {
        let is_ignored = self.ignored.iter().any(|name| name == SCALING);
        is_ignored.then(|| {
            format!(
                "config.json asks for stretched positions (\"rope_scaling\" with \"type\"), but transformers' class for the \
                 model_type {} reads the kind from \"rope_type\" alone: positions are not stretched, as in the reference. \
                 If the model was trained with them, its vectors are wrong; \"rope_type\" in place of \"type\" stretches them",
                self.model_type
            )
        })
    }

    /// A note where config.json asks for attention both ways and the reference's class does not read it: attention looks
    /// back alone, or both ways as the code of repositories has it.
    pub(crate) fn note_on_direction(&self) -> Option<String> {
        let is_types_own = (KNOWN.iter().copied().flatten())
            .any(|known| known.model_type == self.model_type && known.own_code);
        if self.own_code && !is_types_own {
            return Some(format!(
                "config.json asks for attention in both directions (\"{BOTH_WAYS}\"), and attention looks both ways, as by \
                 the code of repositories that ask for it. transformers' class for the model_type {} does not read this \
                 setting: without such code, sentence-transformers gives other vectors",
                self.model_type
            ));
        }
        let is_ignored = self.ignored.iter().any(|name| name == BOTH_WAYS);
        let mut attending = (self.layers.iter()).filter(|layer| layer.mixer == Mixer::Attention);
        let looks_back = attending.any(|layer| layer.causal);
        (is_ignored && looks_back).then(|| {
            format!(
                "config.json asks for attention in both directions (\"{BOTH_WAYS}\"), but transformers' class for the \
                 model_type {} does not read this setting: attention is causal, as in the reference. If the model was \
                 trained with attention in both directions, its vectors are wrong",
                self.model_type
            )
        })
    }
}

/// The `model_type`s that [`Architecture::parse`] knows, in alphabetical order.
fn known_types() -> Vec<&'static str> {
    let types = KNOWN.iter().copied().flatten();
    let mut types: Vec<&str> = types.map(|known| known.model_type).collect();
    types.sort_unstable();
    types
}

/// Why a `model_type` is refused, with those that are not.
fn unknown_type(model_type: &str) -> String {
    let known = known_types().join(", ");
    match model_type {
        "" => format!("states no \"model_type\"; the native engine runs {known}"),
        other => {
            format!("the \"model_type\" {other:?} is not one that the native engine runs: {known}")
        }
    }
}

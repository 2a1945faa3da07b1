//! config.json, read completely: every setting is used, known to have no effect on a hidden state, ignored as the
//! reference's class does, or a reason not to run the model here.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::config_keys;
use embedctl_common::setting::PRECISION;
use embedctl_common::word_list::lists;

/// Why the native engine doesn't run a model. Another engine may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// The file that says so.
    pub file: PathBuf,
    /// The reason, as the end of a sentence that begins with the file's name.
    pub reason: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.file.display(), self.reason)
    }
}

/// The result of reading a setting.
pub(super) type Supported<T> = Result<T, Unsupported>;

/// Settings that say nothing about a hidden state: training, generation, heads that are not loaded, notes.
const NEUTRAL: &str = "_name_or_path name_or_path architectures auto_map model_type torch_dtype dtype
    transformers_version tokenizer_class language sentence_transformers unsloth_version unsloth_fixed initializer_range
    initializer_cutoff_factor gradient_checkpointing hidden_dropout_prob attention_probs_dropout_prob
    attention_dropout embedding_dropout mlp_dropout dropout qa_dropout seq_classif_dropout attn_pdrop embd_pdrop
    resid_pdrop sinusoidal_pos_embds pretraining_tp tie_weights_ layers_to_keep net_structure_type gap_size
    num_memory_blocks down_scale_factor classifier_dropout classifier_dropout_prob classifier_bias
    classifier_activation classifier_pooling clf_pooling decoder_bias tie_word_embeddings id2label label2id
    num_labels problem_type finetuning_task task_specific_params summary_type summary_use_proj summary_activation
    summary_last_dropout summary_first_dropout summary_proj_to_labels pooler_fc_size pooler_num_attention_heads
    pooler_num_fc_layers pooler_size_per_head pooler_type directionality sparse_prediction
    sparse_pred_ignore_index final_logit_softcapping pad_token_id bos_token_id eos_token_id cls_token_id
    sep_token_id mask_token_id unk_token_id decoder_start_token_id use_cache output_attentions
    output_hidden_states output_past return_dict chunk_size_feed_forward attn_implementation _attn_implementation
    _attn_implementation_autoset reference_compile repad_logits_with_grad deterministic_flash_attn use_flash_attn
    use_memory_efficient_attention unpad_inputs cache_implementation hidden_dropout emb_size embedding_size
    task_type_vocab_size use_task_id bos_token eos_token pad_token mask_token unk_token cls_token sep_token
    initializer_factor init_std
    eos_token_ids model_max_length max_length min_length do_sample early_stopping num_beams num_beam_groups
    num_return_sequences top_k top_p typical_p temperature repetition_penalty length_penalty diversity_penalty
    no_repeat_ngram_size encoder_no_repeat_ngram_size remove_invalid_values output_scores
    return_dict_in_generate xla_device torchscript license tokenizers_version transformers.js_config _num_labels
    tie_embedding";

/// Settings of code around a network: of trainers, exporters and models that contain it. No code of a repository's own that
/// is restated here reads them; of transformers' classes the list of keys says it.
const AROUND: &str = "model_name base_model_name_or_path embedding_dim projection_dim hidden_dim embed_dim num_channels
    num_features text token message first_k_dense_replace modality_config";

/// A config.json that is being read.
pub(super) struct ConfigSettings {
    file: PathBuf,
    map: Map<String, Value>,
    read: RefCell<BTreeSet<&'static str>>,
}

impl ConfigSettings {
    /// The settings in `value`, which was read from `file`.
    pub(crate) fn new(file: PathBuf, value: Value) -> Supported<Self> {
        match value {
            Value::Object(map) => Ok(Self {
                file,
                map,
                read: RefCell::default(),
            }),
            _ => Err(Unsupported {
                file,
                reason: "is not a JSON object".into(),
            }),
        }
    }

    /// The settings with the names that the class has for them, of which `names` gives the general one before the class's own.
    ///
    /// # Errors
    /// If both are there and differ.
    pub(crate) fn renamed(mut self, names: &[(&'static str, &'static str)]) -> Supported<Self> {
        for &(general, own) in names {
            let Some(value) = self.value(general).cloned() else {
                continue;
            };
            if *self.map.entry(own).or_insert_with(|| value.clone()) != value {
                return Err(self.unknown(general));
            }
        }
        Ok(self)
    }

    /// A refusal for a reason of the caller's own.
    pub(crate) fn refuse(&self, reason: impl Into<String>) -> Unsupported {
        Unsupported {
            file: self.file.clone(),
            reason: reason.into(),
        }
    }

    /// A refusal that names a setting and its value.
    pub(crate) fn unknown(&self, name: &str) -> Unsupported {
        let value = self.map.get(name).unwrap_or(&Value::Null);
        let mut value = value.to_string();
        if value.len() > 120 {
            let end = (0..=120)
                .rev()
                .find(|&end| value.is_char_boundary(end))
                .unwrap_or(0);
            value.truncate(end);
            value.push('…');
        }
        if name == "quantization_config" {
            return self.refuse(format!(
                "its weights are quantized (\"{name}\": {value}), which the native engine does not read; take the \
                 checkpoint that they were made from, with {PRECISION} int8 or int16"
            ));
        }
        self.refuse(format!(
            "the setting \"{name}\": {value} is not supported by the native engine"
        ))
    }

    /// The settings in an object that is a setting.
    pub(crate) fn nested(&self, name: &'static str) -> Supported<Self> {
        let value = self.value(name).ok_or_else(|| self.unknown(name))?;
        Self::new(self.file.clone(), value.clone()).map_err(|_| self.unknown(name))
    }

    /// The setting's value; null counts as absent.
    pub(crate) fn value(&self, name: &'static str) -> Option<&Value> {
        self.read.borrow_mut().insert(name);
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Whether the setting is present, even as null.
    pub(crate) fn states(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// A count from 1 to 2^24, or the default.
    pub(crate) fn count(&self, name: &'static str, default: usize) -> Supported<usize> {
        match self.value(name) {
            None => Ok(default),
            Some(value) => value
                .as_u64()
                .filter(|count| (1..=1 << 24).contains(count))
                .and_then(|count| usize::try_from(count).ok())
                .ok_or_else(|| self.unknown(name)),
        }
    }

    /// A count that may be zero.
    pub(crate) fn count_or_zero(&self, name: &'static str, default: usize) -> Supported<usize> {
        if self.value(name).and_then(Value::as_u64) == Some(0) {
            return Ok(0);
        }
        self.count(name, default)
    }

    /// A count that has no default.
    pub(crate) fn optional_count(&self, name: &'static str) -> Supported<Option<usize>> {
        self.value(name).map(|_| self.count(name, 1)).transpose()
    }

    /// A finite number above zero, or the default.
    pub(crate) fn positive(&self, name: &'static str, default: f64) -> Supported<f64> {
        match self.value(name) {
            None => Ok(default),
            Some(value) => value
                .as_f64()
                .filter(|number| number.is_finite() && *number > 0.0)
                .ok_or_else(|| self.unknown(name)),
        }
    }

    /// A switch, or the default.
    pub(crate) fn flag(&self, name: &'static str, default: bool) -> Supported<bool> {
        match self.value(name) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| self.unknown(name)),
        }
    }

    /// A word, or the default.
    pub(crate) fn word<'a>(&'a self, name: &'static str, default: &'a str) -> Supported<&'a str> {
        match self.value(name) {
            None => Ok(default),
            Some(value) => value.as_str().ok_or_else(|| self.unknown(name)),
        }
    }

    /// Refuses the setting unless it is absent or equal to one of `values`.
    pub(crate) fn pinned(&self, name: &'static str, values: &[Value]) -> Supported<()> {
        match self.value(name) {
            Some(value) if !values.contains(value) => Err(self.unknown(name)),
            _ => Ok(()),
        }
    }

    /// The settings that no caller has read, and that transformers' class for this `model_type` does not read either. Of a
    /// type without such a class, the other settings of a repository's own code are not known, but for those of code around
    /// a network.
    ///
    /// # Errors
    /// If there is another one that no caller has read and that could change a hidden state.
    pub(crate) fn finish(self, model_type: &str) -> Supported<Vec<String>> {
        let read = self.read.borrow();
        let empty = |name: &str, value: &Value| match value {
            Value::Null => true,
            // Layers that all are of the kind that they are without this.
            Value::Array(list) if name == "layer_types" => {
                list.iter().all(|kind| kind == "full_attention")
            }
            Value::Bool(false) => config_keys::is_off_by_default(model_type, name),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::String(text) => text.is_empty(),
            Value::Bool(true) | Value::Number(_) => false,
        };
        let left = self.map.iter().filter(|(name, value)| {
            !read.contains(name.as_str()) && !lists(NEUTRAL, name) && !empty(name, value)
        });
        let (refused, ignored): (Vec<_>, Vec<_>) =
            left.map(|(name, _)| name)
                .partition(|name| match config_keys::lists(model_type) {
                    true => config_keys::reads(model_type, name),
                    false => !lists(AROUND, name),
                });
        match refused.first() {
            Some(name) => Err(self.unknown(name)),
            None => Ok(ignored.into_iter().cloned().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_that_is_on_by_default_is_not_off_unread() {
        let left = |kind: &str, config: Value| {
            let settings = ConfigSettings::new("config.json".into(), config).unwrap();
            settings.finish(kind).map_err(|refused| refused.reason)
        };
        for (kind, name) in [
            ("lfm2", "block_auto_adjust_ff_dim"),
            ("modernbert-decoder", "is_causal"),
            ("opt", "do_layer_norm_before"),
            ("bert", "num_hidden_layers"),
        ] {
            let refused = left(kind, serde_json::json!({name: false})).unwrap_err();
            assert!(refused.contains(name), "{kind}: {refused}");
        }
        // To leave these out is the same, or the class does not read them.
        for (kind, name) in [
            ("lfm2", "conv_bias"),
            ("modernbert", "is_causal"),
            ("bert", "anything"),
        ] {
            let ignored = left(kind, serde_json::json!({name: false})).unwrap();
            assert!(ignored.is_empty(), "{kind}: {name}");
        }
    }

    #[test]
    fn no_setting_stands_twice_or_glued_to_another() {
        let mut names = BTreeSet::new();
        for name in NEUTRAL
            .split_ascii_whitespace()
            .chain(AROUND.split_ascii_whitespace())
        {
            assert!(names.insert(name), "{name}");
        }
        for name in [
            "name_or_path",
            "dropout",
            "pad_token_id",
            "cache_implementation",
        ] {
            assert!(names.contains(name), "{name}");
        }
    }
}

//! `sentence_bert_config.json` and its older siblings: the arguments with which the Transformer module is loaded and
//! called.
//!
//! Every key is known by name. A key that decides vectors is applied or refused. An unknown key is refused too, since
//! its effect in the reference is unknown.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::metadata;
use super::multi::ConfigKey;
use embedctl_common::error::{Error, Result};
use embedctl_common::word_list::lists;

/// The names under which the reference looks for this file, in its order.
pub(super) const FILES: &str = "sentence_bert_config.json sentence_roberta_config.json
    sentence_distilbert_config.json sentence_camembert_config.json sentence_albert_config.json
    sentence_xlm-roberta_config.json sentence_xlnet_config.json";

/// The file's settings, as they apply to a text.
#[derive(Debug, Default)]
pub(super) struct SentenceConfig {
    /// The file, where there is one.
    pub file: Option<PathBuf>,
    pub do_lower_case: bool,
    /// Arguments for the tokenizer's class; `max_seq_length` is among them as `model_max_length`.
    pub arguments: Map<String, Value>,
    /// How texts are tokenized.
    pub texts: TextArguments,
    /// The network's output that is read, and whether it is a finished vector, where the file names
    /// another one than `last_hidden_state`.
    pub output: Option<(String, bool)>,
    /// `transformer_task`, where it is another than `feature-extraction`.
    pub task: Option<String>,
    /// Whether texts are put into a chat, and how its messages are written, where the file says that.
    pub chat: Option<(bool, Option<String>)>,
    /// The number type in which the reference computes, if the file names one.
    pub dtype: Option<String>,
    /// How texts of a role are cut and expanded.
    pub of_roles: RoleSettings,
    pub notes: Vec<String>,
}

/// Settings that act on texts of one role.
#[derive(Debug, Default)]
pub(super) struct RoleSettings {
    pub query_length: ConfigKey,
    pub document_length: ConfigKey,
    pub query_expansion: ConfigKey,
}

/// `processing_kwargs`: how the tokenizer is called.
#[derive(Debug, Default)]
pub(super) struct TextArguments {
    pub max_length: Option<f64>,
    pub no_truncation: bool,
    pub no_special_tokens: bool,
    pub token_types: Option<bool>,
    pub split_special_tokens: Option<bool>,
    /// Arguments of the chat template.
    pub chat: Map<String, Value>,
}

/// Arguments about the files' origin, which is decided elsewhere.
const HUB: &str =
    "cache_dir code_revision force_download local_files_only proxies revision subfolder token
    trust_remote_code use_auth_token";

/// Arguments of tokenizer classes: applied by [`super::tokenizer`], or without effect on tokens.
const TOKENIZER: &str = "add_bos_token add_eos_token add_prefix_space added_tokens_decoder
    additional_special_tokens bos_token chat_template clean_text clean_up_tokenization_spaces cls_token
    do_basic_tokenize do_lower_case eos_token errors extra_ids extra_special_tokens keep_accents legacy
    legacy_behaviour mask_token mask_token_sent max_len max_length model_input_names model_max_length name_or_path
    never_split offset pad_token padding padding_side remove_space sep_token sp_model_kwargs split_by_punct
    split_special_tokens src_lang stride strip_accents tgt_lang tokenize_chinese_chars trim_offsets truncation
    truncation_side unk_id unk_token use_fast wordpieces_prefix";

/// Arguments of the model's class that change no vector.
const MODEL: &str = "add_pooling_layer attn_implementation device_map low_cpu_mem_usage use_cache
    use_safetensors";

/// Arguments of the configuration that change no vector.
const CONFIG: &str = "output_attentions output_hidden_states return_dict use_cache";

/// Arguments of the tokenizer's call that change no vector of a text by itself.
const CALL: &str =
    "logits_to_keep pad_to_multiple_of padding padding_side return_attention_mask return_length
    return_offsets_mapping return_special_tokens_mask verbose";

/// Reads the first of [`FILES`] in `folder`; the reference ignores an empty one.
pub(super) fn read(folder: &Path) -> Result<SentenceConfig> {
    for name in FILES.split_ascii_whitespace() {
        let file = folder.join(name);
        match metadata::read_object(&file)? {
            Some(values) if !values.is_empty() => {
                return SentenceConfigReader { file: &file }
                    .config(values)
                    .map(|config| SentenceConfig {
                        file: Some(file),
                        ..config
                    });
            }
            _ => {}
        }
    }
    Ok(SentenceConfig::default())
}

struct SentenceConfigReader<'a> {
    file: &'a Path,
}

impl SentenceConfig {
    /// Refuses a module that does not give its tokens' states.
    ///
    /// # Errors
    /// If the file asks for another task of the network.
    pub fn check_gives_states(&self) -> Result<()> {
        let (Some(task), Some(file)) = (&self.task, &self.file) else {
            return Ok(());
        };
        Err(Error::model(
            file.display(),
            format!(
                "asks for the transformer_task \"{task}\"; embedctl embeds with 'feature-extraction'"
            ),
        ))
    }
}

impl SentenceConfigReader<'_> {
    fn refusal(&self, reason: impl Into<String>) -> Error {
        Error::model(self.file.display(), reason.into())
    }

    fn unknown<T>(&self, key: &str) -> Result<T> {
        Err(metadata::unknown_key(self.file, key))
    }

    /// A limit in tokens; `None` for null.
    fn length(&self, key: &str, value: &Value) -> Result<Option<f64>> {
        metadata::limit(value).map_err(|reason| self.refusal(format!("{key} {reason}")))
    }

    fn object(&self, key: &str, value: Value) -> Result<Map<String, Value>> {
        match value {
            Value::Object(map) => Ok(map),
            other => Err(self.refusal(format!("{key} is {other} where an object is expected"))),
        }
    }

    fn config(&self, values: Map<String, Value>) -> Result<SentenceConfig> {
        let mut config = SentenceConfig::default();
        let mut limit = None;
        let mut modalities = None;
        let mut module_output = None;
        // An older name takes precedence over the newer one.
        let old = |name: &str| values.contains_key(name);
        for (key, value) in values.clone() {
            match key.as_str() {
                "max_seq_length" => limit = self.length(&key, &value)?,
                "do_lower_case" => config.do_lower_case = metadata::is_true(&value),
                "processor_kwargs" if old("tokenizer_args") => {}
                "model_kwargs" if old("model_args") => {}
                "config_kwargs" if old("config_args") => {}
                "tokenizer_args" | "processor_kwargs" => {
                    config.arguments = self.arguments(&key, value)?;
                }
                "model_args" | "model_kwargs" => self.model(&key, value, &mut config)?,
                "config_args" | "config_kwargs" => {
                    for name in self.object(&key, value)?.keys() {
                        if !lists(HUB, name) && !lists(CONFIG, name) {
                            return self.unknown(&format!("{key}.{name}"));
                        }
                    }
                }
                "processing_kwargs" => config.texts = self.texts(value)?,
                "modality_config" => modalities = Some(self.object(&key, value)?),
                "module_output_name" => module_output = value.as_str().map(str::to_string),
                "transformer_task" if value == "feature-extraction" => {}
                "transformer_task" => {
                    let task = value.as_str().map(str::to_owned);
                    config.task = Some(task.unwrap_or_else(|| value.to_string()));
                }
                "tokenizer_name_or_path" if value.is_null() => {}
                "tokenizer_name_or_path" => {
                    let reason = format!("takes the tokenizer from another place ({value})");
                    return Err(self.refusal(reason).with_remedy(
                        "put its files beside this one and remove tokenizer_name_or_path",
                    ));
                }
                "query_length" => config.of_roles.query_length = ConfigKey(Some(value)),
                "document_length" => config.of_roles.document_length = ConfigKey(Some(value)),
                "query_expansion" => config.of_roles.query_expansion = ConfigKey(Some(value)),
                "unpad_inputs" | "cache_dir" => {}
                other => return self.unknown(other),
            }
        }
        if let Some(limit) = limit
            && !config.arguments.contains_key("model_max_length")
        {
            config
                .arguments
                .insert("model_max_length".into(), limit.into());
        }
        if let Some(modalities) = &modalities {
            let message = modalities.get("message");
            let format = message.and_then(|message| message.get("format"));
            let format = format.map(|format| format.as_str().unwrap_or_default().to_owned());
            config.chat = Some((message.is_some(), format));
        }
        if let Some(modalities) = modalities.filter(|_| config.task.is_none()) {
            config.output = self.output(&modalities, module_output.as_deref())?;
        }
        Ok(config)
    }

    fn arguments(&self, key: &str, value: Value) -> Result<Map<String, Value>> {
        let mut arguments = self.object(key, value)?;
        arguments.retain(|name, _| !lists(HUB, name));
        match arguments.iter().find(|(name, value)| {
            let named_token = name.ends_with("_token") && value.is_string();
            !named_token && !lists(TOKENIZER, name)
        }) {
            Some((name, _)) => self.unknown(&format!("{key}.{name}")),
            None => Ok(arguments),
        }
    }

    fn model(&self, key: &str, value: Value, config: &mut SentenceConfig) -> Result<()> {
        for (name, value) in self.object(key, value)? {
            match name.as_str() {
                "dtype" | "torch_dtype" => {
                    let kind = value
                        .as_str()
                        .unwrap_or("auto")
                        .trim_start_matches("torch.");
                    config.dtype = (kind != "auto").then(|| kind.to_owned());
                    if !matches!(kind, "auto" | "float32") {
                        config.notes.push(format!(
                            "{} asks for {kind} arithmetic ({key}.{name}); embedctl computes in float32, so its vectors \
                             differ from the reference's by {kind}'s rounding",
                            self.file.display()
                        ));
                    }
                }
                known if lists(HUB, known) || lists(MODEL, known) => {}
                other => return self.unknown(&format!("{key}.{other}")),
            }
        }
        Ok(())
    }

    fn texts(&self, value: Value) -> Result<TextArguments> {
        let mut all = self.object("processing_kwargs", value)?;
        let mut call = Map::new();
        // Arguments for all kinds of input override those for texts.
        for part in ["text", "common"] {
            if let Some(value) = all.shift_remove(part) {
                call.extend(self.object(&format!("processing_kwargs.{part}"), value)?);
            }
        }
        let chat = all.shift_remove("chat_template");
        for part in ["audio", "image", "video"] {
            all.shift_remove(part);
        }
        if let Some(other) = all.keys().next() {
            return self.unknown(&format!("processing_kwargs.{other}"));
        }
        let mut texts = TextArguments::default();
        if let Some(chat) = chat {
            texts.chat = self.object("processing_kwargs.chat_template", chat)?;
        }
        for (name, value) in call {
            let key = format!("processing_kwargs.{name}");
            let refuse = || {
                let reason = format!("{key} is {value}, which embedctl does not do");
                Err(self.refusal(reason).with_remedy("remove it"))
            };
            match name.as_str() {
                "max_length" => texts.max_length = self.length(&key, &value)?,
                "truncation" => {
                    texts.no_truncation = match &value {
                        Value::Bool(cut) => !cut,
                        Value::Null => true,
                        Value::String(how) if how == "do_not_truncate" => true,
                        Value::String(how) if how == "longest_first" || how == "only_first" => {
                            false
                        }
                        _ => return refuse(),
                    }
                }
                "add_special_tokens" => texts.no_special_tokens = value == Value::Bool(false),
                "return_token_type_ids" => texts.token_types = value.as_bool(),
                "split_special_tokens" => texts.split_special_tokens = value.as_bool(),
                "return_tensors" if value == "pt" => {}
                "stride" if value == 0 => {}
                "is_split_into_words" | "return_overflowing_tokens" if value != true => {}
                known if lists(CALL, known) => {}
                "return_tensors"
                | "stride"
                | "is_split_into_words"
                | "return_overflowing_tokens" => {
                    return refuse();
                }
                _ => return self.unknown(&key),
            }
        }
        Ok(texts)
    }

    fn output(
        &self,
        modalities: &Map<String, Value>,
        module_output: Option<&str>,
    ) -> Result<Option<(String, bool)>> {
        if modalities.contains_key("message") {
            return Err(self.refusal(
                "lists the modality 'message': the reference wraps every text in chat messages, which embedctl does \
                 not do",
            ));
        }
        let text = modalities.get("text").and_then(Value::as_object);
        let method = text
            .and_then(|text| text.get("method"))
            .and_then(Value::as_str);
        if method != Some("forward") {
            return Err(self.refusal(
                "does not embed text through the model's forward pass, which is all that embedctl runs",
            ));
        }
        let name = match text.and_then(|text| text.get("method_output_name")) {
            Some(Value::String(name)) => name.clone(),
            Some(Value::Array(path)) if path.len() == 1 && path[0].is_string() => {
                path[0].as_str().unwrap_or_default().to_string()
            }
            other => {
                let other = other.cloned().unwrap_or_default();
                let reason = format!(
                    "reads {other} of the network (method_output_name), which no export for embedding has"
                );
                return Err(self
                    .refusal(reason)
                    .with_remedy("save the model with the layers up to that one"));
            }
        };
        match (name.as_str(), module_output) {
            ("last_hidden_state", Some("token_embeddings")) => Ok(None),
            (_, Some("token_embeddings")) => Ok(Some((name, false))),
            (_, Some("sentence_embedding")) => Ok(Some((name, true))),
            (_, other) => Err(self.refusal(format!(
                "publishes the network's output as {other:?} (module_output_name); embedctl knows token_embeddings and \
                 sentence_embedding"
            ))),
        }
    }
}

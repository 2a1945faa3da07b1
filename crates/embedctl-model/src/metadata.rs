//! The repository's small JSON files as they are written on the Hub, in every generation of their schema.
//!
//! Only fields that decide something are declared. Unknown fields are ignored where the reference does;
//! in the modules' own files they are refused ([`read_known`]).

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tokenizers::Tokenizer;

use super::options::ModelOptions;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::small_file;
use embedctl_common::word_list::lists;
use embedctl_rows::tokenizer_file;

/// The most bytes of a small file.
const MOST_BYTES: u64 = 64 << 20;

/// The most bytes of tokenizer.json.
pub(super) const LARGEST_TOKENIZER: u64 = 4 * MOST_BYTES;

/// The most components of a hidden state or a vector. The widest models have 8,192. A larger number means damage, and
/// would allocate terabytes.
pub(super) const MOST_WIDTH: usize = 1 << 17;

/// Keys whose values are such widths.
const WIDTHS: &str =
    "hidden_size d_model dim embedding_dimension word_embedding_dimension in_features out_features";

/// Reads a JSON file; `None` where it does not exist.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let Some((bytes, _)) = checked(path)? else {
        return Ok(None);
    };
    let read = serde_json::from_slice(small_file::without_mark(&bytes));
    read.map(Some)
        .map_err(|error| unexpected(path, &bytes, &error))
}

/// The same for any JSON.
pub(super) fn read_value(path: &Path) -> Result<Option<Value>> {
    Ok(checked(path)?.map(|(_, value)| value))
}

/// The same for an object with any keys.
pub(super) fn read_object(path: &Path) -> Result<Option<Map<String, Value>>> {
    match checked(path)? {
        None => Ok(None),
        Some((_, Value::Object(values))) => Ok(Some(values)),
        // Its error has the place.
        Some(_) => read(path),
    }
}

/// The bytes of a JSON file, and the values in them, of which widths are checked.
fn checked(path: &Path) -> Result<Option<(Vec<u8>, Value)>> {
    let bytes = match small_file::read(path, MOST_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path, error)),
    };
    let text = small_file::without_mark(&bytes);
    if let Some(pointer) = small_file::lfs_pointer(text) {
        return Err(Error::model(path.display(), pointer));
    }
    let value = small_file::json(text).map_err(|error| unexpected(path, text, &error))?;
    for key in WIDTHS.split_ascii_whitespace() {
        if let Some(width) = value.get(key).filter(|width| width.is_number())
            && !width
                .as_u64()
                .is_some_and(|width| (1..=MOST_WIDTH as u64).contains(&width))
        {
            return Err(Error::model(
                path.display(),
                format!("has {key} {width}; it must be from 1 to {MOST_WIDTH}"),
            )
            .with_remedy("fetch the file again"));
        }
    }
    Ok(Some((bytes, value)))
}

/// The refusal of a file that does not have the expected structure.
fn unexpected(path: &Path, bytes: &[u8], error: &serde_json::Error) -> Error {
    if let Some(cause) = not_a_number(small_file::without_mark(bytes), error) {
        return Error::model(path.display(), cause);
    }
    let reason = format!("does not have the expected JSON structure ({error})");
    Error::model(path.display(), reason).with_remedy("fetch the file again")
}

/// The cause if a file is not JSON, as `error` says, because of a number that Python writes and JSON does not have.
fn not_a_number(file: &[u8], error: &serde_json::Error) -> Option<Cause> {
    let line = file
        .split(|byte| *byte == b'\n')
        .nth(error.line().checked_sub(1)?)?;
    // The error lies within the word, or before it.
    let near = error.column().saturating_sub(2);
    let names = ["-Infinity", "Infinity", "NaN"];
    let found = (near..=near + 2).find_map(|at| {
        let rest = line.get(at..)?;
        let name = names
            .into_iter()
            .find(|name| rest.starts_with(name.as_bytes()))?;
        Some((at, name))
    });
    let (at, name) = found?;
    let before = str::from_utf8(&line[..at]).ok()?.trim_end_matches('-');
    let key = before.trim_end().strip_suffix(':').map(str::trim_end);
    let key = key.and_then(|key| key.strip_suffix('"')?.rsplit_once('"'));
    let place = match key {
        Some((_, key)) => format!("\"{key}\""),
        None => format!("a value on line {}", error.line()),
    };
    let cause = Cause::of(format!(
        "is not JSON: {place} is {name}, and JSON has no such number"
    ));
    Some(cause.with("write a number or null in its place"))
}

/// Reads a tokenizer's file, guarded against its reader's panics and endless work.
pub(crate) fn tokenizer(path: &Path) -> Result<Tokenizer, Cause> {
    let bytes = small_file::read(path, LARGEST_TOKENIZER)
        .map_err(|error| format!("cannot be read ({error})"))?;
    match small_file::lfs_pointer(&bytes) {
        Some(pointer) => Err(pointer),
        None => tokenizer_file::read(bytes),
    }
}

/// The refusal of a key that may decide vectors.
pub(super) fn unknown_key(path: &Path, key: &str) -> Error {
    let reason = format!("has the key '{key}', whose meaning embedctl does not know");
    Error::model(path.display(), reason).with_remedy("remove it if it has no effect on vectors")
}

/// Reads a JSON object that may have the keys in the list `known` alone; `None` where the file does not exist.
pub(super) fn read_known<T: DeserializeOwned>(path: &Path, known: &str) -> Result<Option<T>> {
    let Some(values) = read_object(path)? else {
        return Ok(None);
    };
    if let Some(key) = values.keys().find(|key| !lists(known, key)) {
        let reason = format!(
            "has the key '{key}', which this module of sentence-transformers does not take, so that it refuses the \
             model, too"
        );
        return Err(Error::model(path.display(), reason).with_remedy("remove the key"));
    }
    serde_json::from_value(Value::Object(values))
        .map(Some)
        .map_err(|error| {
            Error::model(
                path.display(),
                format!("has an unexpected structure ({error})"),
            )
        })
}

/// Whether Python takes this value for true.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// A limit in tokens; `None` for null. Python counts true as 1 and false as 0.
///
/// # Errors
/// The value is not a number. The message completes a sentence that names the setting.
pub(super) fn limit(value: &Value) -> Result<Option<f64>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(f64::from(u8::from(*value)))),
        Value::Number(number) => Ok(number.as_f64()),
        other => Err(format!("is {other} where a number of tokens is expected")),
    }
}

/// A switch that the reference asks `if` about, whatever its type.
fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Value::deserialize(deserializer).map(|value| is_true(&value))
}

/// The same of a switch that may be left out: null is a statement.
fn stated_switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    switch(deserializer).map(Some)
}

/// An entry of `modules.json`.
#[derive(Debug, Deserialize)]
pub(super) struct ModuleEntry {
    pub name: String,
    pub path: String,
    #[serde(rename = "type")]
    pub kind: String,
}

/// `config.json` of the Transformer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct TransformerConfig {
    pub model_type: Option<String>,
    pub model_name: Option<String>,
    #[serde(default)]
    pub architectures: Option<Vec<String>>,
    /// `None`: the setting is left out. Null is false.
    #[serde(default, deserialize_with = "stated_switch")]
    pub is_causal: Option<bool>,
    pub max_position_embeddings: Option<i64>,
    pub n_positions: Option<i64>,
    pub max_seq_len: Option<i64>,
    pub context_length: Option<i64>,
    pub model_max_length: Option<i64>,
    pub position_biased_input: Option<bool>,
    pub position_embedding_type: Option<Value>,
    pub pad_token_id: Option<Value>,
    pub hidden_size: Option<usize>,
    pub d_model: Option<usize>,
    pub dim: Option<usize>,
    pub n_embd: Option<usize>,
    pub tokenizer_class: Option<String>,
    pub dtype: Option<Value>,
    pub torch_dtype: Option<Value>,
}

impl TransformerConfig {
    /// The number type in which the weights are stored: `bfloat16`.
    pub(crate) fn dtype(&self) -> Option<String> {
        let named = self.dtype.as_ref().or(self.torch_dtype.as_ref())?;
        Some(named.as_str()?.trim_start_matches("torch.").to_owned())
    }

    /// Width of a hidden state, under the names that architectures give it.
    pub(crate) fn width(&self) -> Option<usize> {
        self.hidden_size
            .or(self.d_model)
            .or(self.dim)
            .or(self.n_embd)
    }

    /// The padding token's id, where it is a plain non-negative number.
    pub(crate) fn pad_id(&self) -> Option<u32> {
        self.pad_token_id.as_ref()?.as_u64()?.try_into().ok()
    }
}

/// `config_sentence_transformers.json`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SentenceTransformersConfig {
    pub model_type: Option<String>,
    #[serde(default)]
    pub prompts: BTreeMap<String, Option<String>>,
    pub default_prompt_name: Option<String>,
    /// The function over scores.
    pub activation_fn: Option<String>,
    pub truncate_dim: Option<Value>,
    /// Entries of a sparse vector that are kept at most.
    max_active_dims: Option<usize>,
}

impl SentenceTransformersConfig {
    /// Entries of a sparse vector that are kept at most: as the user says, else as this file does.
    pub fn most_active(&self, options: &ModelOptions) -> Option<usize> {
        options.max_active_dims.or(self.max_active_dims)
    }
}

/// `config.json` of a `SpladePooling` module.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SpladeConfig {
    pub pooling_strategy: Option<String>,
    pub activation_function: Option<String>,
}

/// `config.json` of a `SparseAutoEncoder` module.
#[derive(Debug, Deserialize)]
pub(super) struct AutoEncoderConfig {
    pub input_dim: usize,
    #[serde(default = "hidden_dim")]
    pub hidden_dim: usize,
    #[serde(default = "kept")]
    pub k: usize,
    #[serde(default, deserialize_with = "switch")]
    pub normalize: bool,
}

fn hidden_dim() -> usize {
    512
}

fn kept() -> usize {
    8
}

/// `config.json` of a Pooling module, old schema and new.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PoolingConfig {
    pub embedding_dimension: Option<usize>,
    pub word_embedding_dimension: Option<usize>,
    pub pooling_mode: Option<OneOrMany>,
    /// Null is no missing key.
    #[serde(default = "yes", deserialize_with = "switch")]
    pub include_prompt: bool,
    #[serde(default, deserialize_with = "switch")]
    pub pooling_mode_cls_token: bool,
    #[serde(default, deserialize_with = "switch")]
    pub pooling_mode_max_tokens: bool,
    #[serde(default, deserialize_with = "switch")]
    pub pooling_mode_mean_tokens: bool,
    #[serde(default, deserialize_with = "switch")]
    pub pooling_mode_mean_sqrt_len_tokens: bool,
    #[serde(default, deserialize_with = "switch")]
    pub pooling_mode_weightedmean_tokens: bool,
    #[serde(default, deserialize_with = "switch")]
    pub pooling_mode_lasttoken: bool,
}

/// A name or a list of names.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

/// `config.json` of a Dense module.
#[derive(Debug, Deserialize)]
pub(super) struct DenseConfig {
    pub in_features: usize,
    pub out_features: usize,
    #[serde(default = "yes", deserialize_with = "switch")]
    pub bias: bool,
    #[serde(default)]
    pub activation_function: Option<Value>,
    pub module_input_name: Option<String>,
    pub module_output_name: Option<String>,
    #[serde(default, deserialize_with = "switch")]
    pub use_residual: bool,
}

fn yes() -> bool {
    true
}

/// `config.json` of a Normalize or LayerNorm module.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SentenceModuleConfig {
    pub module_input_name: Option<String>,
    pub module_output_name: Option<String>,
}

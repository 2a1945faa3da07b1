//! A description of a model for its users, read from its small files and from the headers of its weights.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use walkdir::WalkDir;

use super::heads;
use super::metadata::{self, TransformerConfig};
use super::trained_widths::trained_widths;
use super::{Model, onnx_file, tasks, tokenizer};
use embedctl_checkpoint::safetensors;
use embedctl_common::error::Result;
use embedctl_common::folder::name_in;
use embedctl_rows::{OutputChoice, Side, Step};
use embedctl_vectors::RowForm;

/// The most files of a model's folder that are listed: the user may name any folder.
const MOST_FILES: usize = 10_000;

/// The description of a model.
#[derive(Debug, Clone, Serialize)]
pub struct Card {
    /// Hub id or folder.
    pub id: String,
    /// Full commit, where the model comes from the Hub's cache.
    pub revision: Option<String>,
    /// Where its files are.
    pub folder: PathBuf,
    /// The class of its network, as config.json names it.
    pub architecture: Option<String>,
    /// `model_type` of config.json.
    pub model_type: Option<String>,
    /// Numbers in its safetensors, positions and the like left out; `None` where it has no such files.
    pub parameters: Option<u64>,
    /// The names of a row's scores, of a model that scores; absent where it gives vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// Whether its vectors are sparse; absent where it is not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sparse: bool,
    /// Whether each token has a vector, `dimensions` wide; absent where it has not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub multi: bool,
    /// Other kinds of vectors that the model's layers make if they are asked for; absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_kinds: Vec<&'static str>,
    /// Entries of a sparse vector that are kept at most, where the files say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_active_dims: Option<usize>,
    /// Width of a vector, or number of a row's scores.
    pub dimensions: usize,
    /// Widths to which vectors may be cut (`--dimensions`), where the files name those that the model was trained for;
    /// absent where they do not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trained_dimensions: Vec<usize>,
    /// Width of a token's hidden state.
    pub hidden_width: usize,
    /// Tokens of a row at most, special tokens included; `None`: no limit.
    pub max_length: Option<usize>,
    /// The side on which a longer text is cut.
    pub truncation_side: &'static str,
    /// Pooling modes, concatenated; empty where the graph gives finished vectors.
    pub pooling: Vec<&'static str>,
    /// Whether the tokens of a prompt take part in pooling.
    pub include_prompt: bool,
    /// The modules after pooling, in order: `dense 384 → 128`, `layer norm`, `normalize`.
    pub modules: Vec<String>,
    /// Whether vectors have length 1.
    pub normalized: bool,
    /// Prompts by name, for `--prompt-name`.
    pub prompts: BTreeMap<String, String>,
    /// The name of the one that is used when none is asked for.
    pub default_prompt: Option<String>,
    /// The tasks for which its checkpoint has adapters, for `--task`; absent where it has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// The tokenizer.
    pub tokenizer: TokenizerCard,
    /// The files of its folder, sorted by path.
    pub files: Vec<FileCard>,
}

/// The description of a tokenizer.
#[derive(Debug, Clone, Serialize)]
pub struct TokenizerCard {
    /// The class that transformers would read it with; `None` for static models, whose files are taken as
    /// they are.
    pub class: Option<String>,
    /// The file and key that decide that.
    pub because: Option<String>,
    /// Tokens that it knows, added ones included.
    pub vocabulary: usize,
}

/// A file of a model.
#[derive(Debug, Clone, Serialize)]
pub struct FileCard {
    /// Path inside the folder.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Of weights: element types of safetensors (`f32`), or the kinds by which `--precision` finds an ONNX
    /// file on this machine. Empty for other files.
    pub precision: Vec<String>,
}

impl Model {
    /// Describes the model, without reading weights.
    ///
    /// # Errors
    /// If a file cannot be read any more.
    pub fn card(&self) -> Result<Card> {
        let config: TransformerConfig =
            metadata::read(&self.network().join("config.json"))?.unwrap_or_default();
        let decided = &self.config;
        let class = match &self.checkpoint {
            Ok(checkpoint) if checkpoint.config.is_null() => None,
            _ => Some(tokenizer::class(&self.transformer, &config)?),
        };
        let (class, because) = class.unzip();
        let (files, parameters) = files(&self.folder)?;
        Ok(Card {
            id: self.id.clone(),
            revision: self.revision.clone(),
            folder: self.folder.clone(),
            architecture: config.architectures.into_iter().flatten().next(),
            model_type: config.model_type,
            parameters,
            labels: decided.scores.as_ref().map(|scores| scores.labels.clone()),
            sparse: decided.any_sparse().is_some(),
            multi: decided.any_multi().is_some(),
            other_kinds: self.other_kinds(),
            max_active_dims: decided.any_sparse().and_then(|sparse| sparse.most),
            dimensions: decided.width,
            trained_dimensions: match decided.form() {
                RowForm::Dense(_) => self.trained_widths(),
                _ => Vec::new(),
            },
            hidden_width: decided.hidden_width,
            max_length: decided.limit(),
            truncation_side: match decided.truncation_side {
                Side::Left => "left",
                Side::Right => "right",
            },
            pooling: match decided.output {
                OutputChoice::Tokens(_) => decided.pooling.iter().map(|mode| mode.name()).collect(),
                OutputChoice::Sentence(_) => Vec::new(),
            },
            include_prompt: decided.include_prompt,
            modules: decided.steps.iter().map(step).collect(),
            normalized: decided.normalized(),
            prompts: decided.prompts.by_name.clone(),
            default_prompt: decided.prompts.default.clone(),
            tasks: tasks::names(self.network()),
            tokenizer: TokenizerCard {
                class,
                because,
                vocabulary: self.tokenizer.get_vocab_size(true),
            },
            files,
        })
    }
}

impl Model {
    /// See [`Card::trained_dimensions`]; in the model's folder, or in that of its network.
    fn trained_widths(&self) -> Vec<usize> {
        let of_folder = trained_widths(&self.folder, self.config.width);
        match of_folder.is_empty() {
            true => trained_widths(self.network(), self.config.width),
            false => of_folder,
        }
    }

    /// The kinds of vectors that layers beside the network make, the present ones left out.
    fn other_kinds(&self) -> Vec<&'static str> {
        let present: Vec<&str> = self.config.vector_forms().map(|form| form.name()).collect();
        if present.is_empty() {
            return Vec::new();
        }
        let made = heads::forms(&self.folder);
        let dense = (!made.is_empty()).then(|| RowForm::Dense(vec![0]));
        let all = dense.iter().chain(&made).map(RowForm::name);
        all.filter(|name| !present.contains(name)).collect()
    }
}

fn step(step: &Step) -> String {
    match step {
        Step::Dense(dense) => format!("dense {} → {}", dense.input, dense.output),
        Step::LayerNorm(_) => "layer norm".into(),
        Step::Normalize => "normalize".into(),
        Step::AutoEncoder(module) => {
            format!("sparse autoencoder {} → {}", module.input, module.output)
        }
        Step::Activation(activation) => activation.name().to_lowercase(),
    }
}

/// The files below a folder, hidden ones left out, and how many numbers its safetensors hold.
fn files(folder: &Path) -> Result<(Vec<FileCard>, Option<u64>)> {
    let is_hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
    // Files of the Hub's cache are links.
    let entries = WalkDir::new(folder)
        .max_depth(3)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| entry.depth() == 0 || !is_hidden(entry.file_name()))
        .filter_map(std::result::Result::ok);
    let mut found: Vec<(String, PathBuf, u64)> = Vec::new();
    for entry in entries.take(MOST_FILES) {
        let path = entry.into_path();
        let Some(size) = fs::metadata(&path).ok().filter(fs::Metadata::is_file) else {
            continue;
        };
        found.push((name_in(folder, &path), path, size.len()));
    }
    found.sort();
    let names: Vec<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
    let kinds = onnx_file::kinds(&names);
    let mut parameters = None;
    let mut files = Vec::new();
    for (name, path, size) in &found {
        let mut precision: Vec<String> = kinds
            .iter()
            .filter(|(_, chosen)| chosen == name)
            .map(|(kind, _)| (*kind).to_owned())
            .collect();
        if name.ends_with(".safetensors") {
            let (types, numbers) = tensors(path)?;
            precision.extend(types);
            parameters = Some(parameters.unwrap_or(0) + numbers);
        }
        files.push(FileCard {
            path: name.clone(),
            size: *size,
            precision,
        });
    }
    Ok((files, parameters))
}

/// Element types of a safetensors file, and how many numbers it holds, by its header.
fn tensors(path: &Path) -> Result<(BTreeSet<String>, u64)> {
    let tensors = safetensors::outlines(path)?;
    let tensors = || tensors.values();
    // Whole numbers of that width are positions and the like.
    let is_weight =
        |tensor: &&safetensors::Outline| !matches!(tensor.dtype.as_str(), "I64" | "BOOL");
    let numbers = tensors()
        .filter(is_weight)
        .map(|tensor| tensor.shape.iter().product::<u64>());
    Ok((
        tensors()
            .map(|tensor| tensor.dtype.to_lowercase())
            .collect(),
        numbers.sum(),
    ))
}

//! A sentence-transformers model as its own files describe it: tokenizer, prompts, pooling, modules, length.
//!
//! ```text
//!  repository ──► locate, metadata ──► resolve: pooling, length, prompts, output ──► ModelConfig
//!  tokenizer.json ──► tokenizer: rebuilt as the reference's classes do
//! ```
//!
//! There is no table of models: [`Model::open`] reads the files of a folder in the Hub's layout, or of a snapshot in
//! the Hub's cache, and refuses a model that they do not fully describe, naming the setting to give. It loads no
//! weights; engines do. What rows pass then is in `embedctl-rows`; a loop over a whole vocabulary belongs there, too,
//! because nothing is optimised here in a dev build.
//!
//! ```
//! use embedctl_model::{Model, ModelOptions, WeightsPreference};
//!
//! # fn main() -> embedctl_common::Result<()> {
//! let options = ModelOptions {
//!     model: "../../fixtures/parity/bert-cls/model".into(),
//!     ..ModelOptions::default()
//! };
//! let model = Model::open(&options, WeightsPreference::Onnx)?;
//! let tokens = model.text_tokenizer(1)?.tokenize(&["some text"].iter().collect());
//! assert_eq!(tokens.len(), 1);
//! # Ok(())
//! # }
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

pub mod adapter;
mod card;
mod checkpoint_notes;
mod files;
mod found;
mod heads;
mod late;
mod locate;
mod located;
mod metadata;
pub mod modules;
mod multi;
mod options;
mod positions;
mod resolve;
pub mod score;
pub mod sentence_config;
mod several;
mod statics;
mod tasks;
mod tokenizer;
mod trained_widths;
pub mod work;

#[cfg(test)]
#[path = "model_tests/mod.rs"]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

pub use card::{Card, FileCard, TokenizerCard};
pub use embedctl_checkpoint::{Adapter, AdapterSettings};
pub use embedctl_hub::{
    FileChoice, Knows, ModelName, OnnxChoice, Precision, WeightsKind, WeightsPreference,
};
pub use embedctl_onnx::graph::{ElementType, Graph, Value};
pub use files::ModelFile;
pub use found::{CheckpointFiles, Onnx};
pub use options::{ModelOptions, ModelTask, ScoreTask, TextRole, TextTask};

use embedctl_common::error::Cause;
use embedctl_hub::{onnx_file, precision, weights};
pub use embedctl_onnx::graph;
use embedctl_rows::ModelConfig;

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;

/// A model whose files are resolved and understood.
#[derive(Debug)]
pub struct Model {
    /// Hub id or folder, as it is shown to people.
    pub id: String,
    /// Full commit, where the model comes from the Hub's cache.
    pub revision: Option<String>,
    /// The folder that holds the files.
    pub folder: PathBuf,
    /// The Transformer's folder inside it (the same, or `0_Transformer`).
    pub transformer: PathBuf,
    /// The ONNX file; if there is none, why.
    pub onnx: Result<Onnx, Cause>,
    /// The checkpoint, where the native engine was asked for and knows it; if not, why.
    pub checkpoint: Result<CheckpointFiles, Cause>,
    /// The options that it was opened with.
    pub options: ModelOptions,
    /// The configuration decided by the repository's metadata.
    pub config: ModelConfig,
    /// The tokenizer, rewritten as the metadata demands, without truncation and padding.
    pub tokenizer: Arc<tokenizers::Tokenizer>,
    /// The number type in which sentence-transformers computes the model unless it is told otherwise (`bfloat16`): that
    /// of sentence_bert_config.json, or else the one in which the weights are stored, by config.json.
    pub reference_dtype: Option<String>,
    /// Things a user should be told once, such as a default that was taken.
    pub notes: Vec<String>,
    /// Whether the role of a text chooses the modules that it passes (sentence-transformers' `Router`).
    pub has_routes: bool,
    /// The files that decide vectors, as they were when they were read.
    files: Vec<files::DecidingFile>,
}

/// A model's identity in an output file.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ModelProvenance {
    /// Hub id or folder.
    pub id: String,
    /// Full commit, where known.
    pub revision: Option<String>,
    /// Weights, tokenizer and metadata files with their SHA-256.
    pub files: Vec<ModelFile>,
}

//! A model as its repository describes it: resolved files and the configuration read from them.
//!
//! Nothing here loads weights. [`Model::open`] finds the files (a folder in the Hub's layout, or a
//! snapshot in the Hub's cache), reads the small ones into a [`ModelConfig`], and reads the header of an
//! ONNX file into a [`Graph`]; engines take it from there.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

pub mod batch;
mod card;
mod config;
mod files;
mod layers;
mod locate;
mod metadata;
pub mod modules;
mod options;
pub mod pool;
mod positions;
mod resolve;
pub mod sentence_config;
mod statics;
pub mod tokenize;
mod tokenizer;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

pub use card::{Card, FileCard, TokenizerCard};
pub use config::{
    Dimensions, Frame, ModelConfig, OutputChoice, PoolingMode, Positions, Prompts, Side, Step,
};
pub use embedctl_hub::{
    Checkpoint, FileChoice, Knows, ModelName, Onnx, OnnxChoice, Precision, Weights,
};
pub use embedctl_onnx::graph::{ElementType, Graph, Value};
pub use files::ModelFile;
pub use layers::{Activation, Dense, LayerNorm, Residual};
pub use metadata::TOKENIZER_TIME;
pub use options::ModelOptions;

use crate as model;
use crate::error::Cause;
use embedctl_common as record;
use embedctl_common::{error, folder, hash, named, small_file, stage, threads, word_list};
use embedctl_hub as hub;
use embedctl_hub::{onnx_file, precision, weights};
use embedctl_native::safetensors;
pub use embedctl_onnx::graph;
#[cfg(test)]
use embedctl_testing::mutation;

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
    pub checkpoint: Result<Checkpoint, Cause>,
    /// What the repository's metadata decides.
    pub config: ModelConfig,
    /// The tokenizer, rewritten as the metadata demands, without truncation and padding.
    pub tokenizer: Arc<tokenizers::Tokenizer>,
    /// Things a user should be told once, such as a default that was taken.
    pub notes: Vec<String>,
}

/// What identifies a model in an output file.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ModelProvenance {
    /// Hub id or folder.
    pub id: String,
    /// Full commit, where known.
    pub revision: Option<String>,
    /// Weights, tokenizer and metadata files with their SHA-256.
    pub files: Vec<ModelFile>,
}

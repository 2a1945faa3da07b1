//! A model as its repository describes it: resolved files and the configuration read from them.
//!
//! Nothing here loads weights. [`Model::open`] finds the files (a folder in the Hub's layout, or a
//! snapshot in the Hub's cache), reads the small ones into a [`ModelConfig`], and reads the header of an
//! ONNX file into a [`Graph`]; engines take it from there.

pub(crate) mod adapter;
mod card;
mod config;
mod files;
mod graph;
pub mod hub;
mod layers;
mod locate;
mod metadata;
mod modules;
mod name;
mod onnx_file;
mod options;
mod positions;
mod precision;
mod resolve;
mod sentence_config;
mod statics;
mod tokenizer;
mod weights;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

pub use adapter::{Adapter, AdapterSettings};
pub use card::{Card, FileCard, TokenizerCard};
pub use config::{
    Dimensions, Frame, ModelConfig, OutputChoice, PoolingMode, Positions, Prompts, Side, Step,
};
pub use files::ModelFile;
pub use graph::{ElementType, Graph, Value};
pub use layers::{Activation, Dense, LayerNorm, Residual};
pub(crate) use metadata::TOKENIZER_TIME;
#[cfg(test)]
pub(crate) use metadata::tokenizer as tokenizer_file;
pub use name::ModelName;
pub use onnx_file::OnnxChoice;
pub use options::ModelOptions;
pub use precision::Precision;
pub use weights::{Checkpoint, FileChoice, Knows, Onnx, Weights};

use crate::error::Cause;

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
    /// The files that decide vectors, as they were when they were read.
    files: Vec<files::DecidingFile>,
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

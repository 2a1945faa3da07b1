//! Which files make up a model, and where they are.

use std::path::PathBuf;

use serde::Serialize;

use super::{ModelProvenance, PoolingMode};

/// What the user says about the model.
#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    /// Hub id `org/name`, `org/name@revision`, or a folder.
    pub model: String,
    /// `--model-file`: path of the ONNX file inside the repository.
    pub model_file: Option<String>,
    /// `--cache-dir`: the Hub's cache.
    pub cache_dir: Option<PathBuf>,
    /// `--pooling`.
    pub pooling: Option<Vec<PoolingMode>>,
    /// `--normalize`.
    pub normalize: Option<bool>,
    /// `--max-length`.
    pub max_length: Option<usize>,
    /// `--prompt`.
    pub prompt: Option<String>,
    /// `--prompt-name`.
    pub prompt_name: Option<String>,
    /// `--dimensions`.
    pub dimensions: Option<usize>,
}

/// A file of the model with its hash.
#[derive(Debug, Clone, Serialize)]
pub struct ModelFile {
    /// Path inside the repository.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
}

impl super::Model {
    /// Resolves the files of a model and reads its metadata. Loads no weights and touches no network.
    ///
    /// # Errors
    /// If a file is missing or says something that embedctl cannot do; the message names the file and
    /// the option that helps.
    pub fn open(options: &ModelOptions) -> crate::Result<Self> {
        let _ = options;
        unimplemented!()
    }

    /// Hashes the model's files.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn provenance(&self) -> crate::Result<ModelProvenance> {
        unimplemented!()
    }
}

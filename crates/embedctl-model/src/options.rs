//! What the user says about the model.

use std::path::PathBuf;

use super::PoolingMode;
use super::onnx_file::OnnxChoice;
use super::precision::Precision;
use super::weights::{FileChoice, WeightsPreference};

/// What the user says about the model.
#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    /// Hub id `org/name`, `org/name@revision`, or a folder.
    pub model: String,
    /// `--model-file`: path of the ONNX file inside the repository.
    pub model_file: Option<String>,
    /// `--precision`: the native engine's arithmetic, or which of the usual ONNX files, by kind.
    pub precision: Option<Precision>,
    /// Which weights are looked for. Set from the providers of the engine.
    pub weights: WeightsPreference,
    /// `--cache-dir`: the Hub's cache; `None`: from the environment, as `huggingface_hub` does.
    pub cache_dir: Option<PathBuf>,
    /// `--pooling`: modes whose results are concatenated.
    pub pooling: Option<Vec<PoolingMode>>,
    /// `--normalize`.
    pub normalize: Option<bool>,
    /// `--max-length`, in tokens, special tokens included.
    pub max_length: Option<usize>,
    /// `--prompt`: the prompt's text.
    pub prompt: Option<String>,
    /// `--prompt-name`: a prompt of the model's own.
    pub prompt_name: Option<String>,
    /// `--dimensions`: components kept; several make a vector each. Empty: what the model's files say.
    pub dimensions: Vec<usize>,
}

impl ModelOptions {
    /// What is said about the files with weights.
    #[must_use]
    pub fn files(&self) -> FileChoice {
        FileChoice {
            weights: self.weights,
            onnx: OnnxChoice {
                file: self.model_file.clone(),
                precision: self.precision,
            },
        }
    }
}

//! Options of `embedctl export`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use embedctl::built::FloatType;
use embedctl::model::TextTask;

use super::model::TokenArgs;
use super::values::NamedValueParser;

/// Write a model's network as an ONNX file
///
/// The graph is built from the model's config.json and safetensors files, with standard operators of opset 18 and no
/// Python. Weights of 1 GiB and more go to a file beside it, OUT.onnx_data. An adapter (LoRA) is merged.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct ExportArgs {
    /// Hub id (org/name or org/name@revision) or a folder
    #[arg(value_name = "MODEL", value_hint = ValueHint::DirPath)]
    pub model: String,

    /// ONNX file to write
    #[arg(value_name = "OUT.onnx", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Precision of the graph; its output is always fp32
    #[arg(
        long,
        value_name = "KIND",
        default_value = "fp32",
        value_parser = NamedValueParser::new(FloatType::ALL.map(FloatType::name), str::parse::<FloatType>)
    )]
    pub precision: FloatType,

    /// Write finished vectors (sentence_embedding), not token states (last_hidden_state)
    ///
    /// Pooling and the modules after it become part of the graph.
    #[arg(long)]
    pub pooled: bool,

    /// Task whose adapter is merged, for a model with adapters for tasks in its checkpoint
    #[arg(long, value_name = "TASK")]
    pub task: Option<TextTask>,

    #[command(flatten)]
    pub tokens: TokenArgs,

    /// Replace OUT.onnx and its weights if they exist
    #[arg(long, visible_alias = "overwrite")]
    pub force: bool,
}

const EXAMPLES: &str = "\
Examples:
  embedctl export sentence-transformers/all-MiniLM-L6-v2 model.onnx
  embedctl export ./my-fine-tune model.onnx --pooled
  embedctl export org/name model_fp16.onnx --precision fp16";

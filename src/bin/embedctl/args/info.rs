//! Options of `embedctl info`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use embedctl::model::ModelName;

use super::OnnxArgs;

/// Show what a model is, and what would run it here
///
/// Its architecture, dimensions, length, pooling, prompts, tokenizer and files, as embed would understand them,
/// and for every provider whether it runs the model here, or why not. No weights are loaded, and nothing is
/// fetched: the model must be here.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct InfoArgs {
    /// Hub id (org/name or org/name@revision) of a model in the cache, or a folder
    #[arg(
        value_name = "MODEL",
        env = "EMBEDCTL_MODEL",
        hide_env_values = true,
        value_hint = ValueHint::DirPath,
        default_value = ModelName::DEFAULT
    )]
    pub model: String,

    #[command(flatten)]
    pub onnx: OnnxArgs,

    /// ONNX Runtime library, or the folder that holds it; no other is looked at
    #[arg(
        long,
        value_name = "PATH",
        env = "EMBEDCTL_ORT_LIB",
        hide_env_values = true,
        value_hint = ValueHint::AnyPath,
        help_heading = "Engine"
    )]
    pub ort_lib: Option<PathBuf>,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  embedctl info sentence-transformers/all-MiniLM-L6-v2
  embedctl info ./my-model --json | jq '.dimensions, .prompts'
  embedctl info org/name --json | jq '.providers[] | select(.runs).provider'";

//! Options of `embedctl info`.

use clap::{Args, ValueHint};
use embedctl::model::ModelName;

use super::engine::LibraryArgs;
use super::model::OnnxArgs;

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

    #[command(flatten, next_help_heading = "Engine")]
    pub library: LibraryArgs,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  embedctl info sentence-transformers/all-MiniLM-L6-v2
  embedctl info ./my-model --json | jq '.dimensions, .prompts'
  embedctl info org/name --json | jq '.providers[] | select(.runs).provider'";

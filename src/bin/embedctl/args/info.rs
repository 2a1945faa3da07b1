//! Options of `embedctl info`.

use clap::{Args, ValueHint};
use embedctl::model::ModelName;

use super::engine::LibraryArgs;
use super::model::OnnxArgs;

/// Describe a model, and the providers that run it on this machine
///
/// Shows the architecture, dimensions, maximum length, pooling, prompts, tokenizer and files as embed would read
/// them, and for every provider whether it runs the model on this machine, or why not. Loads no weights and downloads
/// nothing: the model must be in the cache or a folder.
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

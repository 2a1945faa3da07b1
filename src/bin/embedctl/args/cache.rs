//! Options of `embedctl cache`.

use clap::{Args, ValueEnum};
use embedctl::cache::CacheKind;

/// List or remove what is kept on this machine: models, packed weights, kernels, compiled engines
///
/// Models are in the Hub's cache, which Python's huggingface_hub shares. Everything else is made again by the next run that
/// wants it.
#[derive(Debug, Args)]
#[command(
    after_long_help = EXAMPLES,
    override_usage = "embedctl cache [OPTIONS] [list|size]\n       embedctl cache [OPTIONS] remove <NAME>..."
)]
pub struct CacheArgs {
    /// What is done
    #[arg(value_name = "ACTION", default_value = "list")]
    pub cache_action: CacheAction,

    /// Names as list shows them: a model's id, or the beginning of a key
    #[arg(value_name = "NAME")]
    pub cache_name: Vec<String>,

    /// Kinds to list or remove: models, weights, kernels, engines; several separated by commas [default: all; remove
    /// needs names or kinds]
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kind: Vec<CacheKind>,

    /// With remove: show what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Print JSON
    #[arg(long, help_heading = "Messages")]
    pub json: bool,
}

/// What is done with the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CacheAction {
    /// Show each entry with its size and the day of its last use
    List,
    /// Show the bytes of each kind
    Size,
    /// Remove entries
    #[value(aliases = ["rm", "delete", "clear", "prune", "clean"])]
    Remove,
}

const EXAMPLES: &str = "\
Examples:
  embedctl cache
  embedctl cache size
  embedctl cache list --kind models --json
  embedctl cache remove sentence-transformers/all-MiniLM-L6-v2
  embedctl cache remove --kind weights,kernels,engines --dry-run

Environment:
  HF_HOME, HF_HUB_CACHE  the models' cache [default: ~/.cache/huggingface/hub]
  XDG_CACHE_HOME         the folder that has embedctl's own cache [default: ~/.cache]";

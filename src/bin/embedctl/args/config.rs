//! Options of `embedctl config`.

use clap::Args;

use super::COMMANDS;

/// Show which settings are in force, and where each comes from
///
/// Options may stand in embedctl.toml in the working folder or above it, and in the user's own config.toml. The
/// command line goes before the environment, then the project's file, then the user's. docs/configuration.md has
/// the rest.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct ConfigArgs {
    /// The command whose settings are wanted; without it: all
    #[arg(value_name = "COMMAND", value_parser = COMMANDS)]
    pub command: Option<String>,

    /// Show defaults too
    #[arg(long)]
    pub all: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  embedctl config
  embedctl config embed --all
  embedctl config --json | jq '.settings[] | select(.key == \"provider\")'

A file:
  model = \"BAAI/bge-small-en-v1.5\"     # for every command that has the option

  [embed]                              # for embed alone
  keep = [\"title\", \"year:int\"]
  on-error = \"skip\"";

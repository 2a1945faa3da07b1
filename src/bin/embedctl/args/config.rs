//! Options of `embedctl config`.

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::COMMANDS;

/// Show the settings in effect and the source of each
///
/// Options may be set in embedctl.toml in the working folder or a parent folder, and in the user's config.toml. Order
/// of precedence: command line, environment, project file, user file. See docs/configuration.md.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct ConfigArgs {
    /// Command to show the settings of [default: all commands]
    #[arg(value_name = "COMMAND", value_parser = PossibleValuesParser::new(COMMANDS))]
    pub command: Option<String>,

    /// Show default values, too
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

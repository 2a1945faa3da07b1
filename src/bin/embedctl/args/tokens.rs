//! Options of `embedctl tokens`: those of `embed`, whose run it describes.

use clap::{Args, Command};

use super::embed::{RunArgs, VectorArgs};

/// Show how long texts are in tokens, what a run would cut, and what it would take
///
/// As `embedctl embed --dry-run`: reads the first 1,000 records (or --limit), shows how long their texts are in tokens,
/// how many tokens the model's limit cuts off and which options keep them, and estimates the time and the size of the
/// output. Takes all options of embed, so that its command line can be tried. Writes nothing.
#[derive(Debug, Args)]
#[command(
    after_long_help = EXAMPLES,
    override_usage = "embedctl tokens [OPTIONS] [INPUT]..."
)]
pub struct TokensArgs {
    #[command(flatten)]
    pub run: RunArgs<VectorArgs>,
}

/// Options of embed that change nothing here.
const WITHOUT_EFFECT: [&str; 6] = [
    "force",
    "resume",
    "dry_run",
    "rejects",
    "stats",
    "stats_interval",
];

/// The command as it is shown.
pub fn shown(mut command: Command) -> Command {
    for name in WITHOUT_EFFECT {
        command = command.mut_arg(name, |arg| arg.hide(true));
    }
    command.mut_arg("output", |arg| {
        arg.help("Output of the run, whose size is estimated [default: a Parquet file]")
    })
}

const EXAMPLES: &str = "\
Examples:
  How long are these texts for the default model, and what would be cut?
    embedctl tokens texts.jsonl

  The same in chunks, for another model, of the whole input:
    embedctl tokens docs/ -m BAAI/bge-m3 --chunk markdown --limit 0

  Lengths as JSON:
    embedctl tokens texts.jsonl --log-format json | jq .lengths";

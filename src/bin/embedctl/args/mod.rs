//! The command line as clap types. Parsing opens no file and does not query the machine; the second stage, which
//! builds the library's options, is in each command.

mod bench;
mod cache;
mod compare;
mod config;
mod devices;
mod download;
mod embed;
mod engine;
mod export;
mod info;
mod inspect;
mod model;
mod refused;
mod score;
mod search;
#[cfg(feature = "serve")]
mod serve;
mod tokens;
mod values;
mod variables;
mod verify;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::builder::{FalseyValueParser, PossibleValuesParser, Resettable};
use clap::parser::ValueSource;
use clap::{
    Arg, ArgAction, ArgMatches, Args as ClapArgs, CommandFactory, FromArgMatches, Parser,
    Subcommand, ValueEnum, ValueHint,
};

pub use bench::BenchArgs;
pub use cache::{CacheAction, CacheArgs};
pub use compare::CompareArgs;
pub use config::ConfigArgs;
pub use devices::DevicesArgs;
pub use download::DownloadArgs;
pub use embed::{EmbedArgs, RecordArgs, RunArgs, StatsArgs, VectorArgs};
pub use engine::EngineArgs;
pub use export::ExportArgs;
pub use info::InfoArgs;
pub use inspect::InspectArgs;
pub use model::OverrideArgs;
pub use score::ScoreArgs;
pub use search::{HitFormat, SearchArgs};
#[cfg(feature = "serve")]
pub use serve::ServeArgs;
pub use tokens::TokensArgs;
pub use values::Devices;
pub use variables::unknown as unknown_variables;
pub use verify::VerifyModelArgs;

/// Turns texts into vectors and scores: in bulk from files, tables and object stores, or as a server
///
/// Standard output is for data alone; messages go to standard error.
#[derive(Debug, Parser)]
#[command(
    name = "embedctl",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = SHORT_HELP,
    after_long_help = TOP_HELP
)]
pub struct Args {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,

    /// Options that every command takes.
    #[command(flatten)]
    pub messages: MessageArgs,

    /// Environment variables that set options.
    #[arg(skip)]
    pub variables: Vec<OsString>,

    /// Settings files that set options.
    #[arg(skip)]
    pub files: Vec<PathBuf>,
}

impl Args {
    /// Whether TensorRT takes part in this process's own run and must be kept from `TensorFloat-32`.
    pub fn wants_no_tf32(&self) -> bool {
        match &self.command {
            Command::Embed(embed) => embed.run.engine.wants_no_tf32(),
            Command::Score(score) => score.run.engine.wants_no_tf32(),
            Command::Tokens(tokens) => tokens.run.engine.wants_no_tf32(),
            #[cfg(feature = "serve")]
            Command::Serve(serve) => serve.engine.wants_no_tf32(),
            _ => false,
        }
    }
}

/// One variant for each subcommand.
#[derive(Debug, Subcommand)]
pub enum Command {
    Embed(Box<EmbedArgs>),
    Score(Box<ScoreArgs>),
    Tokens(Box<TokensArgs>),
    #[cfg(feature = "serve")]
    Serve(Box<ServeArgs>),
    /// Serve vectors over HTTP (not in this build)
    #[cfg(not(feature = "serve"))]
    #[command(disable_help_flag = true)]
    Serve {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        arguments: Vec<OsString>,
    },
    Download(DownloadArgs),
    Cache(CacheArgs),
    Info(InfoArgs),
    Export(ExportArgs),
    Inspect(Box<InspectArgs>),
    Search(Box<SearchArgs>),
    Compare(Box<CompareArgs>),
    VerifyModel(Box<VerifyModelArgs>),
    Devices(DevicesArgs),
    Bench(Box<BenchArgs>),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Messages: how many, and in which format.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Messages")]
pub struct MessageArgs {
    /// Show only errors and rejected records
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Show more: load time, skipped libraries and why
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    /// Show progress: on a terminal, always, or never
    ///
    /// If standard error is not a terminal, 'auto' prints a line a minute, and 'always' one every few seconds.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = false
    )]
    pub progress: When,

    /// Format of messages on standard error; json prints one object per line
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,

    /// Colour messages; 'auto' respects NO_COLOR
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: When,

    /// Never use the network: models must be in the cache
    // Behind a subcommand's own options, however many these are.
    #[arg(long, global = true, help_heading = "Model", display_order = 900)]
    pub offline: bool,

    /// Folder of the Hub's model cache
    ///
    /// Default: HF_HUB_CACHE, then HF_HOME/hub, then ~/.cache/huggingface/hub.
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        help_heading = "Model",
        display_order = 901
    )]
    pub cache_dir: Option<PathBuf>,

    /// Settings file; no other file is read
    ///
    /// Default: embedctl.toml in the working folder or the nearest parent folder, and the user's config.toml.
    /// `embedctl config` shows both.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "EMBEDCTL_CONFIG",
        hide_env_values = true,
        value_hint = ValueHint::FilePath,
        help_heading = "Settings"
    )]
    pub config: Option<PathBuf>,

    /// Read no settings files
    #[arg(
        long,
        global = true,
        env = "EMBEDCTL_NO_CONFIG",
        hide_env_values = true,
        value_parser = FalseyValueParser::new(),
        help_heading = "Settings"
    )]
    pub no_config: bool,
}

/// When to use terminal features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum When {
    Auto,
    Always,
    Never,
}

/// Form of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// Print a shell's completion script
#[derive(Debug, ClapArgs)]
#[command(
    after_long_help = COMPLETIONS_HELP,
    override_usage = "embedctl completions [OPTIONS] <SHELL>\n       embedctl completions [OPTIONS] --dir <DIR>"
)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", required_unless_present = "dir")]
    pub shell: Option<clap_complete::Shell>,

    /// Write the scripts for all shells into this folder instead
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "shell")]
    pub dir: Option<PathBuf>,
}

/// Print the manual page (roff)
#[derive(Debug, ClapArgs)]
#[command(
    after_long_help = MAN_HELP,
    override_usage = "embedctl man [OPTIONS] [COMMAND]\n       embedctl man [OPTIONS] --dir <DIR>"
)]
pub struct ManArgs {
    /// Command of the page [default: the page of embedctl]
    #[arg(value_name = "COMMAND", value_parser = PossibleValuesParser::new(COMMANDS))]
    pub command: Option<String>,

    /// Write all pages into this folder instead
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "command")]
    pub dir: Option<PathBuf>,
}

/// The subcommands.
const COMMANDS: &[&str] = &[
    "embed",
    "score",
    "tokens",
    "serve",
    "download",
    "cache",
    "info",
    "export",
    "inspect",
    "search",
    "compare",
    "verify-model",
    "devices",
    "bench",
    "config",
    "completions",
    "man",
];

/// The words of a command line, with the settings of files among them.
#[derive(Debug)]
pub struct CommandLine {
    /// Program name, options and inputs.
    pub words: Vec<OsString>,
    /// For arguments without a name.
    pub defaults: Vec<PositionalDefault>,
}

/// Values for an argument without a name, where neither the command line nor the environment gives any.
#[derive(Debug)]
pub struct PositionalDefault {
    /// The subcommand's name.
    pub command: String,
    /// The argument's id.
    pub arg: String,
    /// Its values.
    pub values: Vec<String>,
}

/// Parses a command line.
pub fn parse(line: &CommandLine) -> Result<Args, clap::Error> {
    let mut matches = matches(line)?;
    let variables = variables(&matches);
    // Set once and for all, it must not mean a file of whatever folder this is: loading it runs it.
    let library = variables.iter().find(|name| *name == "EMBEDCTL_ORT_LIB");
    if library
        .and_then(std::env::var_os)
        .is_some_and(|path| Path::new(&path).is_relative())
    {
        let reason = "EMBEDCTL_ORT_LIB must name an absolute path; --ort-lib may name another\n";
        return Err(command().error(clap::error::ErrorKind::ValueValidation, reason));
    }
    let mut args =
        Args::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command()))?;
    args.variables = variables;
    Ok(args)
}

/// The matches of clap.
pub fn matches(line: &CommandLine) -> Result<ArgMatches, clap::Error> {
    let mut command = without_empty_variables(command());
    for default in &line.defaults {
        // clap keeps defaults for as long as the process runs; there is one at most.
        let values = default.values.iter().map(|value| &*value.clone().leak());
        let values: Vec<&'static str> = values.collect();
        command = command.mut_subcommand(&default.command, |command| {
            command.mut_arg(&default.arg, |arg| arg.default_values(values))
        });
    }
    let words = &line.words;
    (command.try_get_matches_from(words)).map_err(|error| refused::improved(error, words))
}

/// Environment variables that a subcommand's options were taken from.
fn variables(matches: &ArgMatches) -> Vec<OsString> {
    let Some((name, matches)) = matches.subcommand() else {
        return Vec::new();
    };
    let is_set =
        |id: &clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::EnvVariable);
    if !matches.ids().any(is_set) {
        return Vec::new();
    }
    let command = command();
    let command = command.find_subcommand(name).into_iter();
    let is_used = |arg: &&Arg| {
        arg.get_env().is_some()
            && matches.value_source(arg.get_id().as_str()) == Some(ValueSource::EnvVariable)
    };
    let used = command
        .flat_map(clap::Command::get_arguments)
        .filter(is_used);
    used.filter_map(|arg| arg.get_env().map(OsString::from))
        .collect()
}

/// The command line as clap sees it: for parsing, help, completions and manual pages. It takes a millisecond to put together, and
/// a run asks for it several times.
pub fn command() -> clap::Command {
    static COMMAND: LazyLock<clap::Command> = LazyLock::new(|| {
        let command = Args::command()
            .mut_subcommand("embed", embed::with_output)
            .mut_subcommand("score", score::shown)
            .mut_subcommand("tokens", tokens::shown);
        negative_numbers(command)
    });
    COMMAND.clone()
}

/// `--batch-size -1` is a wrong number, not an option of the name `-1`.
fn negative_numbers(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            let takes_value = !arg.is_positional() && arg.get_action().takes_values();
            arg.allow_negative_numbers(takes_value)
        })
        .mut_subcommands(negative_numbers)
}

/// A variable that is set to nothing counts as unset, as it does elsewhere in Unix.
pub fn without_empty_variables(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            let value = arg.get_env().and_then(std::env::var_os);
            if value.is_some_and(|value| value.is_empty()) {
                arg.env(Resettable::Reset)
            } else {
                arg
            }
        })
        .mut_subcommands(without_empty_variables)
}

const SHORT_HELP: &str = "\
Examples:
  embedctl embed texts.txt -o vectors.parquet --keep text
  embedctl search vectors.parquet a few words
  embedctl tokens texts.txt
  embedctl compare vectors.parquet --with int8,ubinary
  embedctl embed docs/ --chunk markdown -o chunks.parquet";

const TOP_HELP: &str = "\
Examples:
  embedctl embed texts.txt -o vectors.parquet --keep text
  embedctl search vectors.parquet a few words
  embedctl tokens texts.txt
  embedctl compare vectors.parquet --with int8,ubinary
  embedctl download sentence-transformers/all-MiniLM-L6-v2
  embedctl cache
  embedctl bench --provider cpu,rten
  embedctl embed --help
  embedctl info sentence-transformers/all-MiniLM-L6-v2
  embedctl inspect vectors.parquet
  embedctl devices

Exit codes:
  0    done
  1    failed
  2    wrong options, a missing input, or an output that exists already
  3    done, but some records were rejected
  130  interrupted";

const COMPLETIONS_HELP: &str = "\
Examples:
  embedctl completions bash > ~/.local/share/bash-completion/completions/embedctl
  embedctl completions zsh > ~/.zfunc/_embedctl
  embedctl completions fish > ~/.config/fish/completions/embedctl.fish
  embedctl completions powershell >> $PROFILE";

const MAN_HELP: &str = "\
Examples:
  embedctl man | man -l -
  embedctl man embed | man -l -
  embedctl man --dir ~/.local/share/man/man1";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_has_a_manual_page() {
        let command = command();
        let commands: BTreeSet<&str> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        assert_eq!(commands, COMMANDS.iter().copied().collect());
    }

    #[test]
    fn no_line_of_examples_is_wrapped() {
        let command = command();
        for command in std::iter::once(&command).chain(command.get_subcommands()) {
            let help = command.get_after_long_help().map(ToString::to_string);
            for line in help.unwrap_or_default().lines() {
                assert!(line.len() <= 100, "{line}");
            }
        }
    }
}

//! One file for each subcommand: arguments become the library's options, the library runs them, the printer shows the
//! result.

mod bench;
mod cache;
mod compare;
mod completions;
mod config;
mod devices;
mod download;
mod embed;
mod export;
mod info;
mod inspect;
mod man;
mod plot_file;
mod probe;
mod requested;
mod resume;
mod score;
mod search;
#[cfg(feature = "serve")]
mod serve;
mod stores;
mod task;
mod tokenize;
mod verify;

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::Context;
use embedctl::Error;
use embedctl::cancel::CancelToken;
use embedctl::engine::{self, EngineOptions, ProviderOption, Resolved};
use embedctl::hub::{self, HubOptions, HubSettings};
use embedctl::model::{ModelName, ModelOptions};
use embedctl::runtime::RuntimeOptions;

pub use bench::{WORKER as BENCH_WORKER, worker as bench_worker};

use crate::args::{Args, Command, MessageArgs};
use crate::config::Config;
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::printer::Printer;
use crate::standard;

pub use probe::{arguments as probe_arguments, command as probe_command, run as probe};
pub use tokenize::{NAME as TOKENIZE, run as tokenize};

/// Runs the command that was asked for.
pub fn run(args: &Args, config: &Config, printer: &Printer) -> Result<ExitCode, CommandFailure> {
    match &args.command {
        Command::Embed(embed) => embed::run(embed, &args.messages, printer),
        Command::Score(score) => score::run(score, &args.messages, printer),
        Command::Tokens(tokens) => embed::tokens(tokens, &args.messages, printer),
        #[cfg(feature = "serve")]
        Command::Serve(serve) => serve::run(serve, &args.messages, printer),
        #[cfg(not(feature = "serve"))]
        Command::Serve { .. } => Err(Error::usage(
            "this build of embedctl was made without `serve`",
        )
        .with_remedy(embedctl::setting::FULL)
        .into()),
        Command::Download(download) => download::run(download, &args.messages, printer),
        Command::Cache(cache) => cache::run(cache, &args.messages, printer),
        Command::Export(export) => export::run(export, &args.messages, printer),
        Command::Info(info) => info::run(info, &args.messages, printer),
        Command::Inspect(inspect) => inspect::run(inspect, &args.messages, printer),
        Command::Search(search) => search::run(search, &args.messages, printer),
        Command::Compare(compare) => compare::run(compare, &args.messages, printer),
        Command::VerifyModel(verify) => verify::run(verify, &args.messages, printer),
        Command::Devices(devices) => devices::run(devices, printer),
        Command::Bench(bench) => bench::run(bench, &args.messages, printer),
        Command::Config(args) => config::run(args, config, printer),
        Command::Completions(completions) => completions::run(completions, printer),
        Command::Man(man) => man::run(man, printer),
    }
}

/// A provider's option that could have no effect.
fn idle_option(option: &ProviderOption) -> CommandFailure {
    CommandFailure::usage(format!(
        "--provider-option {option}: the provider {0} is not in --provider; add it there or leave the option out",
        option.provider
    ))
}

/// Adds to an interrupted download that its data is kept.
fn stopped(error: Error) -> anyhow::Error {
    let interrupted = error.is_interrupted();
    let error = anyhow::Error::new(error);
    if interrupted {
        return error.context(
            "interrupted; downloaded data is kept, and the same command resumes the download",
        );
    }
    error
}

/// Where libraries are, and how they are tried.
fn runtime(library: Option<PathBuf>) -> RuntimeOptions {
    RuntimeOptions {
        library,
        probe: probe_command(),
    }
}

/// If standard input is read: checks that it is open, and prints a note if it is a terminal.
fn check_input(reads: bool, printer: &Printer) -> Result<(), CommandFailure> {
    if !reads {
        return Ok(());
    }
    standard::check_input().context("-: cannot read the records")?;
    if io::stdin().is_terminal() {
        printer.note("reading records from standard input, one per line, until Ctrl-D");
    }
    Ok(())
}

/// What follows from the options of a model and of its engine: no other place resolves them.
fn resolve(
    model: &ModelOptions,
    engine: &EngineOptions,
    cancel: &CancelToken,
) -> Result<Resolved, Error> {
    Resolved::of(model, engine, engine::installed(), cancel)
}

/// The same of a model whose files are fetched if they are not in the cache.
fn resolve_here(
    model: &ModelOptions,
    engine: &EngineOptions,
    messages: &MessageArgs,
    printer: &Printer,
    cancel: &CancelToken,
) -> Result<Resolved, CommandFailure> {
    let resolved = resolve(model, engine, cancel)?;
    fetch(&resolved, messages, printer, cancel)?;
    Ok(resolved)
}

/// Whether a model is one of the Hub's, whose files may have to be fetched.
fn is_of_hub(model: &str) -> bool {
    matches!(ModelName::of(model), Ok(ModelName::Hub(_)))
}

/// Fetches the files of a resolved model that are not in the cache, if it is one of the Hub's.
fn fetch(
    resolved: &Resolved,
    messages: &MessageArgs,
    printer: &Printer,
    cancel: &CancelToken,
) -> Result<(), CommandFailure> {
    if !is_of_hub(resolved.name()) {
        return Ok(());
    }
    let settings = HubSettings::from_environment(&hub_options(messages))?;
    let downloads = printer.downloads();
    let ensured = hub::ensure(
        &settings,
        resolved.name(),
        &resolved.files(),
        downloads.as_ref(),
        cancel,
    );
    downloads.end();
    Ok(ensured.map_err(stopped)?)
}

/// The Hub options of the command line.
fn hub_options(messages: &MessageArgs) -> HubOptions {
    HubOptions {
        cache_dir: messages.cache_dir.clone(),
        offline: messages.offline,
    }
}

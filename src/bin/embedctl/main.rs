//! The command line of embedctl.
//!
//! Arguments are parsed into plain types ([`args`]), a command turns them into the library's options and
//! calls it ([`commands`]), and everything that a person or a program reads goes through one printer
//! ([`printer`]). The exit code is a type ([`exit`]).

#![deny(clippy::print_stdout, clippy::print_stderr)]
// A panic needs a reason: `expect` states the invariant.
#![warn(clippy::unwrap_used)]

mod args;
mod commands;
mod config;
mod crash;
mod exit;
mod failure;
mod interrupt;
mod numbers;
mod printer;
mod secrets;
mod standard;

use std::ffi::OsString;

#[cfg(test)]
use embedctl_testing::mutation;

use embedctl::runtime;
use embedctl::secrets::Secrets;

use crate::args::Args;
use crate::config::Config;
use crate::exit::ExitCode;
use crate::printer::Printer;

fn main() {
    // SAFETY: nothing has run yet, so there is no other thread.
    unsafe {
        runtime::disable_telemetry();
        runtime::allow_any_adapter();
    }
    if let Some(arguments) = commands::probe_arguments() {
        commands::probe(&arguments);
    }
    // Not subcommands: they are internal, so help, completions and manual pages must not show them.
    let first = std::env::args_os().nth(1).unwrap_or_default();
    if first == commands::BENCH_WORKER {
        commands::bench_worker().leave_at_once();
    }
    if first == commands::TOKENIZE {
        commands::tokenize().leave();
    }
    let typed: Vec<OsString> = std::env::args_os().collect();
    let mut secrets = secrets::of_arguments(&typed);
    let (args, config) = match parse(typed, &mut secrets) {
        Ok(parsed) => parsed,
        Err(answer) => printer::print_parser_answer(&answer, &secrets).leave(),
    };
    if args.wants_no_tf32() {
        // SAFETY: nothing but arguments was looked at so far, so there is still no other thread.
        unsafe { runtime::forbid_tf32() };
    }
    let printer = Printer::new(&args.messages, secrets);
    printer.take_over_panics();
    for (path, doubt) in &config.passed_over {
        printer.warning(format!(
            "{} is ignored: {doubt}; use --config {} to read it anyway",
            path.display(),
            path.display()
        ));
    }
    // One that is set to nothing counts as unset.
    let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let set = set.map(|(name, _)| name.to_string_lossy().into_owned());
    for warning in args::unknown_variables(set) {
        printer.warning(warning);
    }
    finish(&args, &config, &printer).leave()
}

/// Parses the command line, completed with the settings of files. Secrets in files are added to `secrets`.
fn parse(typed: Vec<OsString>, secrets: &mut Secrets) -> Result<(Args, Config), clap::Error> {
    let config = Config::read(&typed)?;
    secrets::add_files(secrets, &config);
    let completed = config.complete(typed)?;
    let taken = &completed.taken;
    let mut args = args::parse(&completed.line).map_err(|error| config::located(error, taken))?;
    args.files = taken.iter().map(|entry| entry.place.file.clone()).collect();
    args.files.dedup();
    Ok((args, config))
}

/// Runs the command and prints its failure.
fn finish(args: &Args, config: &Config, printer: &Printer) -> ExitCode {
    match failure::catch_panic(|| commands::run(args, config, printer)) {
        Ok(code) => code,
        Err(failure) => {
            let failure = failure.named_by_variables(&args.variables);
            let failure = failure.named_by_files(&args.files);
            let code = failure.exit_code();
            if code.is_worth_a_message() {
                printer.failure(&failure);
            }
            code
        }
    }
}

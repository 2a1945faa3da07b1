//! `embedctl info`: describes a model and the providers that run it on this machine.

use anyhow::Context;
use embedctl::engine::EngineOptions;
use embedctl::info;
use embedctl::model::ModelOptions;
use embedctl::output::RunFiles;

use crate::args::{InfoArgs, MessageArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::interrupt;
use crate::printer::{Printer, info_table};

/// Collects and prints the information.
pub fn run(
    args: &InfoArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let cancel = interrupt::watch(RunFiles::new())?;
    let options = ModelOptions {
        model: args.model.clone(),
        model_file: args.onnx.model_file.clone(),
        precision: args.onnx.precision,
        kind: args.onnx.weights,
        cache_dir: messages.cache_dir.clone(),
        ..ModelOptions::default()
    };
    let command = super::probe_command().context(
        "cannot find the path of this program, which tests libraries in a child process",
    )?;
    let engine = EngineOptions {
        runtime: super::runtime(args.library.ort_lib.clone()),
        ..EngineOptions::default()
    };
    let resolved = super::resolve(&options, &engine, &cancel)?;
    let info = info::info(&resolved, &command, &cancel)?;
    let is_verbose = printer.is_verbose();
    printer.found(args.json, &info, |info| info_table(info, is_verbose))?;
    Ok(ExitCode::Done)
}

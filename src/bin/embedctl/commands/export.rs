//! `embedctl export`.

use embedctl::built::{self, ExportForm};
use embedctl::engine::{EngineOptions, Provider, ProviderChoice};
use embedctl::model::ModelOptions;
use embedctl::output::RunFiles;

use crate::args::{ExportArgs, MessageArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::interrupt;
use crate::printer::Printer;

/// Runs the command.
pub fn run(
    args: &ExportArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let cancel = interrupt::watch(RunFiles::new())?;
    if args.output.symlink_metadata().is_ok() && !args.force {
        return Err(CommandFailure::usage(format!(
            "{} exists; --force replaces it",
            args.output.display()
        )));
    }
    // A file of the model, or of anybody, is not taken for an earlier export.
    let is_onnx = args
        .output
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("onnx"));
    if args
        .output
        .symlink_metadata()
        .is_ok_and(|it| !it.is_file() || !is_onnx)
    {
        return Err(CommandFailure::usage(format!(
            "{} exists, and --force replaces earlier exports alone: files that end in .onnx; choose another name",
            args.output.display()
        )));
    }
    let model = ModelOptions {
        model: args.model.clone(),
        cache_dir: messages.cache_dir.clone(),
        pooling: args.tokens.pooling.pooling.clone(),
        max_length: args.tokens.length.max_length,
        text_task: args.task.clone(),
        ..ModelOptions::default()
    };
    // The checkpoint alone is read, as by this engine.
    let engine = EngineOptions {
        providers: ProviderChoice::List(vec![Provider::Native]),
        ..EngineOptions::default()
    };
    let resolved = super::resolve_here(&model, &engine, messages, printer, &cancel)?;
    let model = resolved.open_files()?;
    for note in &model.notes {
        printer.note(note);
    }
    let form = ExportForm {
        float: args.precision,
        pooled: args.pooled,
        replace: args.force,
        beside: None,
    };
    let written = built::export(&model, form, &args.output, &cancel)?;
    let size = embedctl::size::words(written.bytes);
    let weights = match &written.beside {
        Some(file) => format!("{size} of weights in {}", file.display()),
        None => format!("{size} of weights inside"),
    };
    printer.info(format!(
        "{}: {} nodes, {}, {weights}",
        args.output.display(),
        written.nodes,
        args.precision
    ));
    Ok(ExitCode::Done)
}

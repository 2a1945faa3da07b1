//! `embedctl embed`: a run that was asked for, and from its [`Summary`] to messages.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use anyhow::Context;
use embedctl::cancel::CancelToken;
use embedctl::device;
use embedctl::engine::{EngineOptions, Provider, ProviderChoice};
use embedctl::input::Source;
use embedctl::model::ModelTask;
use embedctl::output::{Destination, RunFiles};
use embedctl::pipeline::{OnError, RunPlan, Summary};
use embedctl::progress::Progress;
use embedctl::survey;

use super::requested::{RequestedRun, request, with_vectors};
use super::{resume, stores, task};
use crate::args::{EmbedArgs, MessageArgs, RunArgs, TokensArgs, VectorArgs};
use crate::crash;
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::interrupt;
use crate::numbers::RunNumbers;
use crate::printer::{Printer, RunReport, destination as destination_name};
use crate::standard;

/// Embeds the inputs and reports the result.
pub fn run(
    args: &EmbedArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let run = &args.run;
    vectors(run, run.output.dry_run, messages, printer)
}

/// Describes the run of `embed` with these options.
pub fn tokens(
    args: &TokensArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    vectors(&args.run, true, messages, printer)
}

fn vectors(
    run: &RunArgs<VectorArgs>,
    is_dry: bool,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let request = request(run, is_dry, messages, printer)?;
    let request = with_vectors(&run.numbers, request)?;
    run_with(run, request, messages, printer)
}

/// Runs what was asked for.
pub(super) fn run_with<N: clap::Args>(
    args: &RunArgs<N>,
    request: RequestedRun,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let numbers = match request.is_dry {
        true => None, // it writes nothing
        false => RunNumbers::begin(&args.stats, &request.model, &request.run, printer)?,
    };
    let (options, files) = (request.run.clone(), RunFiles::new());
    let model = request.model.clone();
    let result = embed(args, messages, (request, &files), numbers.as_ref(), printer)
        .map_err(|failure| task::explain(failure, &model))
        .map_err(|failure| resume::explain(failure, &options, &files));
    if let Some(numbers) = numbers {
        numbers.end(&result);
    }
    result
}

fn embed<N: clap::Args>(
    args: &RunArgs<N>,
    messages: &MessageArgs,
    (request, files): (RequestedRun, &RunFiles),
    numbers: Option<&Arc<RunNumbers>>,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let RequestedRun {
        model,
        engine,
        run: mut options,
        calibration,
        is_dry,
    } = request;
    let calibration = calibration.as_deref();
    if options.output.destination == Destination::Stdout {
        standard::check_output().context("-o -: cannot write the vectors")?;
    }
    let cancel = interrupt::watch(files.clone())?;
    let settings = &args.stores.options;
    let storage = stores::open(
        &mut options,
        files,
        calibration,
        settings,
        messages,
        &cancel,
    )?;
    super::check_input(options.sources.contains(&Source::Stdin), printer)?;

    let from_hub = super::is_of_hub(&model.model);
    let resolved = super::resolve(&model, &engine, &cancel)?;
    let mut plan = RunPlan::new(resolved, &options, files)?;
    if from_hub || calibration.is_some() {
        // Nothing is fetched for a run that cannot begin.
        let checked = plan.check();
        tell(files, printer);
        checked?;
    }
    if let Some(path) = calibration {
        let ranges = stores::calibration(path, plan.options(), storage.as_ref(), &cancel)?;
        plan.calibrate(ranges);
    }
    super::fetch(plan.resolved(), messages, printer, &cancel)?;

    if is_dry {
        let most = args.input.limit.unwrap_or(SAMPLE);
        let most = Some(most).filter(|&most| most > 0);
        return dry_run(&plan, most, &cancel, printer);
    }
    let finished = resume::finished(&plan, printer, &cancel);
    tell(files, printer);
    if let Some(code) = finished? {
        return Ok(code);
    }

    let options = plan.options();
    let hooks = crash::explain(printer, plan.job());
    let to_terminal =
        options.output.destination == Destination::Stdout && io::stdout().is_terminal();
    let live = printer.progress(to_terminal, hooks);
    let told = numbers.map(|numbers| Arc::clone(numbers) as Arc<dyn Progress>);
    let told: Vec<Arc<dyn Progress>> = told.into_iter().chain([live.clone() as _]).collect();
    let progress: Arc<dyn Progress> = Arc::new(told);
    let result = plan.embed(&progress, &cancel);
    live.end();
    tell(files, printer);
    let summary = match result {
        Err(error) if error.is_interrupted() => {
            let how_far = live.interrupted(&options.output.destination);
            return Err(anyhow::Error::new(error).context(how_far).into());
        }
        result => result?,
    };

    for note in &summary.notes {
        if !live.has_warned(note) {
            printer.note(note);
        }
    }
    note_fallback(&engine, &summary, printer);
    task::note(&model, printer);
    let report = RunReport {
        summary: &summary,
        destination: &options.output.destination,
        rejects: options.rejects.as_deref(),
        nulls: options.on_error == OnError::Null,
    };
    if let Some(numbers) = numbers {
        numbers.summary(&report);
    }
    printer.report(&report);
    if let Some(job) = plan.job().filter(|job| !job.is_single()) {
        return Ok(resume::code(job.state()?.rejected()));
    }
    // Of all of a job's runs, not of the last alone.
    Ok(resume::code(
        summary.counts.rejected + summary.rejected_before,
    ))
}

/// Prints a note where an engine ran the model that is slower than another could be.
fn note_fallback(engine: &EngineOptions, summary: &Summary, printer: &Printer) {
    let fell_back =
        engine.providers == ProviderChoice::Auto && summary.engine.provider == Provider::Rten;
    if fell_back {
        printer.note(
            "no usable ONNX Runtime was found, so the built-in engine rten ran the model's ONNX \
             file; `pip install onnxruntime` makes it faster, -v shows why other engines were \
             skipped",
        );
    }
}

/// Records that `--dry-run` reads, unless `--limit` says otherwise.
const SAMPLE: u64 = 1000;

/// Prints the report of a dry run.
fn dry_run(
    plan: &RunPlan,
    most: Option<u64>,
    cancel: &CancelToken,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let memory_left = device::room().map(|room| room.bytes);
    let survey = survey::survey(plan, most, memory_left, cancel)?;
    let options = plan.options();
    tell(plan.files(), printer);
    let scores = matches!(plan.resolved().model().task, ModelTask::Score(_));
    let output = destination_name(&options.output.destination);
    printer.survey(&survey, scores, &output)?;
    Ok(resume::code(survey.sample.rejected))
}

/// Prints notes about files of earlier runs.
fn tell(files: &RunFiles, printer: &Printer) {
    for note in files.take_notes() {
        printer.note(note);
    }
}

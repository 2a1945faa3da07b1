//! `embedctl bench`: from arguments to configurations, and from a report to tables, files and an exit code.

mod configurations;

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use embedctl::bench::{
    self, BaselineComparison, BenchOptions, BenchReport, Configuration, Corpus, Verdict,
    WorkloadOptions, plot,
};
use embedctl::cancel::CancelToken;
use embedctl::engine::Resolved;
use embedctl::input::{DEFAULT_MAX_RECORD_BYTES, InputOptions, RecordReader, Template};
use embedctl::output::RunFiles;
use embedctl::storage::Storage;

use super::plot_file::PlotFile;
use super::stores;
use crate::args::{BenchArgs, MessageArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::interrupt;
use crate::printer::{Printer, bench_tables};

/// The first argument of a worker process.
pub const WORKER: &str = "__bench-worker";

/// Runs a worker process: requests come on standard input, replies go to standard output.
pub fn worker() -> ExitCode {
    let (input, output) = (BufReader::new(io::stdin()), io::stdout());
    match bench::serve(input, output, &resolved) {
        Ok(()) => ExitCode::Done,
        // The failure cannot be reported.
        Err(_) => ExitCode::Failed,
    }
}

/// The model and the engine of a configuration.
fn resolved(configuration: &Configuration, cancel: &CancelToken) -> embedctl::Result<Resolved> {
    let mut engine = configuration.engine_options(configuration.threads.unwrap_or_default())?;
    engine.runtime.probe = super::probe_command();
    super::resolve(&configuration.model_options()?, &engine, cancel)
}

/// Runs the measurements and prints the report.
pub fn run(
    args: &BenchArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let cancel = interrupt::watch(RunFiles::new())?;
    let named = args.workload.input.iter().map(PathBuf::as_path);
    let storage = stores::storage(named, &args.stores.options, messages, &cancel)?;
    let options = options(args, messages, storage.as_ref())?;
    let picture = args.result.plot.as_deref().map(PlotFile::of).transpose()?;
    let baseline = args.result.baseline.as_deref().map(baseline).transpose()?;
    let mut inputs = args.workload.input.iter();
    super::check_input(inputs.any(|path| path == Path::new("-")), printer)?;
    if let WorkloadOptions::Records { sources, input } = &options.workload {
        // Nothing is fetched for records that cannot be read.
        RecordReader::open(sources, input.clone())?;
    }
    fetch(&options.configurations, messages, printer, &cancel)?;

    let status = printer.bench_status();
    let result = bench::run(&options, &|step| status.show(step), &cancel);
    status.end();
    let mut report = result?;
    if let Some(baseline) = &baseline {
        let allowed = args.result.max_regression;
        report.comparison = Some(BaselineComparison::of(&report, baseline, allowed)?);
    }

    printer.found(args.result.json, &report, bench_tables)?;
    if let Some(picture) = picture {
        picture.write(&plot::svg(&report))?;
        printer.info(format!("wrote {}", picture.path().display()));
    }
    for row in report.rows.iter().filter(|row| row.is_noisy()) {
        printer.warning(format!(
            "{}: samples vary much (± in the table); other programs use this machine, or --duration is too \
             short: compare nothing with these figures",
            row.name
        ));
    }
    for note in &report.notes {
        printer.note(note);
    }
    outcome(&report)
}

/// The exit code of a report.
fn outcome(report: &BenchReport) -> Result<ExitCode, CommandFailure> {
    if let Some(comparison) = report.comparison.as_ref().filter(|one| one.has_regressed()) {
        return Err(anyhow!(regressions(comparison)).into());
    }
    if report.rows.iter().all(|row| row.measured.is_none()) {
        let reason = report.rows.iter().find_map(|row| row.failed.as_deref());
        let reason = reason.unwrap_or("there was no configuration to measure");
        return Err(anyhow!("no configuration could be measured: {reason}").into());
    }
    Ok(ExitCode::Done)
}

/// The configurations that regressed, by how much, and with what certainty.
fn regressions(comparison: &BaselineComparison) -> String {
    let percent = |share: f64| format!("{:.1} %", -100.0 * share);
    let lost: Vec<String> = comparison
        .rows
        .iter()
        .filter(|row| row.verdict.is_regression())
        .map(|row| match (row.verdict, row.change, row.interval) {
            (Verdict::Failed, ..) => format!("{} failed, but ran in the baseline", row.name),
            (_, Some(change), Some((worst, best))) => format!(
                "{} is {} slower (between {} and {})",
                row.name,
                percent(change),
                percent(best),
                percent(worst)
            ),
            _ => format!("{} is slower", row.name),
        })
        .collect();
    format!(
        "slower than the baseline of {} by more than {:.1} % (--max-regression): {}",
        comparison
            .baseline_date
            .split('T')
            .next()
            .unwrap_or_default(),
        100.0 * comparison.max_regression,
        lost.join("; ")
    )
}

fn options(
    args: &BenchArgs,
    messages: &MessageArgs,
    storage: Option<&Storage>,
) -> Result<BenchOptions, CommandFailure> {
    let configurations = configurations::listed(args, messages)?;
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    Ok(BenchOptions {
        configurations,
        workload: workload(args, storage)?,
        duration: Duration::from_secs_f64(args.measurement.duration),
        samples: args.measurement.samples,
        worker: vec![program.into_os_string(), OsString::from(WORKER)],
    })
}

fn workload(
    args: &BenchArgs,
    storage: Option<&Storage>,
) -> Result<WorkloadOptions, CommandFailure> {
    let workload = &args.workload;
    let records = &workload.records;
    if workload.input.is_empty() {
        return Ok(WorkloadOptions::Corpus(
            workload.corpus.unwrap_or(Corpus::Mixed),
        ));
    }
    let options = records.options();
    let pair = |query| {
        let template = options.text_template.as_ref();
        Template::of_pair(query, &options.text_field, template)
    };
    let pair = workload.query_field.as_deref().map(pair);
    Ok(WorkloadOptions::Records {
        sources: stores::sources(&workload.input, records.input_format, storage)?,
        input: InputOptions {
            max_record_bytes: workload
                .max_record_bytes
                .unwrap_or(DEFAULT_MAX_RECORD_BYTES),
            text_template: pair.or_else(|| options.text_template.clone()),
            ..options
        },
    })
}

/// Fetches models that are missing, before anything is measured.
fn fetch(
    configurations: &[Configuration],
    messages: &MessageArgs,
    printer: &Printer,
    cancel: &CancelToken,
) -> Result<(), CommandFailure> {
    let mut seen = Vec::new();
    for configuration in configurations {
        let resolved = resolved(configuration, cancel)?;
        let model = resolved.model();
        let which = (
            model.model.clone(),
            model.model_file.clone(),
            model.precision,
            configuration.provider.clone(),
        );
        if seen.contains(&which) {
            continue;
        }
        seen.push(which);
        let Err(failure) = super::fetch(&resolved, messages, printer, cancel) else {
            continue;
        };
        // A model that cannot be had fails in its worker, with the same words, and is a row; unless
        // nothing else is wanted.
        let all = |one: &Configuration| one.model == configuration.model;
        if failure.exit_code() == ExitCode::Interrupted || configurations.iter().all(all) {
            return Err(failure);
        }
        printer.warning(failure);
    }
    Ok(())
}

/// Reads an earlier report.
fn baseline(path: &Path) -> Result<BenchReport, CommandFailure> {
    let text = fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            CommandFailure::usage(format!("--baseline: {} does not exist", path.display()))
        }
        _ => embedctl::Error::io("read", path, error).into(),
    })?;
    serde_json::from_slice(&text).map_err(|error| {
        CommandFailure::usage(format!(
            "--baseline: {} is not a report of bench ({error}); make a report with `embedctl bench --json`",
            path.display()
        ))
    })
}

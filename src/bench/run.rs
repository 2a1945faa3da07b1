//! A whole benchmark: workers are opened one after another, warmed up, and then sampled in turn, so that a machine that
//! slows down meanwhile affects all alike.

use std::time::Duration;

use super::machine::Machine;
use super::options::{BenchOptions, BenchStep, LEAST_SAMPLES, TIGHT};
use super::peak;
use super::report::{BenchReport, Row, SCHEMA, now};
use super::runner::{Runner, RunnerContext, configurations};
use super::stats::Spread;
use super::workload::Workload;
use crate::atomic::private_folder;
use crate::cancel::CancelToken;
use crate::engine::Arithmetic;
use crate::error::{Error, Result};
use crate::setting::DURATION;

/// Single texts that are timed after each sample.
const SINGLE_TEXTS: usize = 16;

/// How long the machine's peak is measured at most, each time.
const PEAK_TIME: Duration = Duration::from_millis(200);

/// Measures all configurations of `options`. A failed configuration is a row with its reason.
///
/// # Errors
/// If the workload cannot be read, worker processes cannot be started at all, or the run is cancelled;
/// all workers have ended then.
pub fn run(
    options: &BenchOptions,
    report: &dyn Fn(BenchStep<'_>),
    cancel: &CancelToken,
) -> Result<BenchReport> {
    let date = now();
    // For this user alone: the texts are private.
    let base = std::env::temp_dir();
    let folder = private_folder("embedctl-bench-", &base)
        .map_err(|error| Error::io("create a folder in", &base, error))?;
    let mut shared = RunnerContext {
        workload: Workload::open(&options.workload, folder.path(), cancel)?,
        folder: folder.path(),
        worker: &options.worker,
        target: (options.duration / 8).clamp(Duration::from_millis(50), Duration::from_secs(1)),
        cancel,
    };
    let mut machine = Machine::here();
    let peak_time = (options.duration / 10).min(PEAK_TIME);
    report(BenchStep::Begin("measuring the machine's peak"));
    let mut measured = peak::measure(Arithmetic::Fp32, machine.cores, peak_time);
    let all = &options.configurations;
    let mut runners = Vec::new();
    for (number, configuration) in all.iter().enumerate() {
        let name = configuration.label(all);
        report(BenchStep::Begin(&format!("{name}: loading")));
        let mut runner = Runner::start(configuration.clone(), number, &shared)?;
        report(BenchStep::Begin(&format!("{name}: warming up")));
        runner.warm_up(&mut shared)?;
        runners.push(runner);
    }
    share_out(&mut runners, options, &mut shared)?;
    rounds(&mut runners, options, &mut shared, report)?;
    for runner in &mut runners {
        runner.count_work(&shared)?;
        runner.end();
    }
    // A shared machine may have been busy the first time.
    let again = peak::measure(Arithmetic::Fp32, machine.cores, peak_time);
    if again.map(|peak| peak.gflops) > measured.map(|peak| peak.gflops) {
        measured = again;
    }
    machine.peak_gflops = measured.map(|peak| peak.gflops);
    machine.peak_vectors = measured.map(|peak| peak.vectors.to_owned());
    let reduced = |arithmetic: Arithmetic| {
        let uses = |runner: &Runner| {
            let opened = runner.opened.as_ref();
            opened.is_some_and(|opened| opened.precision.as_deref() == Some(arithmetic.name()))
        };
        let peak = || peak::measure(arithmetic, machine.cores, peak_time);
        runners.iter().any(uses).then(peak).flatten()
    };
    let [bf16, int16, int8] = [Arithmetic::Bf16, Arithmetic::Int16, Arithmetic::Int8]
        .map(|arithmetic| reduced(arithmetic).map(|peak| peak.gflops));
    machine.peak_bf16 = bf16;
    (machine.peak_int16, machine.peak_int8) = (int16, int8);
    let all = configurations(&runners);
    let rows = runners.iter().map(|one| Row::of(one, &all, &machine));
    let rows: Vec<Row> = rows.collect();
    let notes = notes(&rows, &shared);
    Ok(BenchReport {
        schema: SCHEMA,
        tool: concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).to_owned(),
        date,
        machine,
        workload: shared.workload.info,
        rows,
        notes,
        comparison: None,
    })
}

/// Gives all runners the same sample, the largest that one of them wishes for, or as much of it as a runner can
/// do in a quarter of its time.
fn share_out(
    runners: &mut [Runner],
    options: &BenchOptions,
    shared: &mut RunnerContext<'_>,
) -> Result<()> {
    let most = runners.iter().map(|runner| runner.rows).max();
    let most = most.unwrap_or_default();
    for runner in runners.iter_mut().filter(|runner| runner.is_alive()) {
        let rows = most.min(runner.rows_within(options.duration.as_secs_f64() / 4.0));
        runner.set_rows(rows, shared)?;
    }
    Ok(())
}

/// Samples all runners in turn until each has had its time, or all intervals are tight.
fn rounds(
    runners: &mut [Runner],
    options: &BenchOptions,
    shared: &mut RunnerContext<'_>,
    report: &dyn Fn(BenchStep<'_>),
) -> Result<()> {
    let all = configurations(runners);
    let duration = options.duration.as_secs_f64();
    for round in 0.. {
        let is_open = |runner: &Runner| {
            runner.is_alive()
                && match options.samples {
                    Some(samples) => round < samples,
                    None => runner.spent() < duration,
                }
        };
        if !runners.iter().any(is_open) {
            return Ok(());
        }
        let mut alive = runners.iter().filter(|runner| runner.is_alive());
        if options.samples.is_none() && round > 0 && alive.all(is_tight) {
            return Ok(());
        }
        // The order changes, so that no runner always follows the same one.
        let count = runners.len();
        for place in 0..count {
            let number = (round + place) % count;
            if !is_open(&runners[number]) {
                continue;
            }
            let runner = &mut runners[number];
            let name = runner.configuration.label(&all);
            if let Some(rows_per_second) = runner.sample(shared)? {
                report(BenchStep::Sample {
                    name: &name,
                    rows_per_second,
                });
                runner.single_texts(SINGLE_TEXTS, shared)?;
            }
        }
    }
    Ok(())
}

fn is_tight(runner: &Runner) -> bool {
    let rates = runner.rates();
    rates.len() >= LEAST_SAMPLES && Spread::of(&rates).is_some_and(|rates| rates.is_tight(TIGHT))
}

fn notes(rows: &[Row], shared: &RunnerContext<'_>) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let info = &shared.workload.info;
    if info.cut {
        notes.push(format!(
            "the input is large: its first {} records are used",
            info.records
        ));
    }
    if info.rejected > 0 {
        notes.push(format!(
            "{} records of the input cannot be read and are left out",
            info.rejected
        ));
    }
    for row in rows {
        let Some(measured) = &row.measured else {
            continue;
        };
        for note in &measured.opened.notes {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        let count = measured.rows_per_second.values.len();
        if count < LEAST_SAMPLES {
            notes.push(format!(
                "{}: {count} samples are too few for an interval; ± is half their range, and a longer \
                 {DURATION} gives more",
                row.name
            ));
        }
    }
    notes
}

//! A run's numbers for other programs (`--stats`): the summary as JSON, in a file that is whole at any moment.
//!
//! It is written before any work, every few seconds, and at the end, whatever it is. Each time it is written beside its
//! name and renamed, so that readers find the last state or the one before it.

mod stats;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use embedctl::Error;
use embedctl::engine::EngineInfo;
use embedctl::locked;
use embedctl::model::ModelOptions;
use embedctl::pipeline::{self, EmbedOptions};
use embedctl::progress::{BatchDone, Counts, InputSize, Progress, WindowSize};
use embedctl::stage::StageWatch;
use embedctl_common::atomic::NamedFile;
use serde_json::{Map, Value};

use crate::args::StatsArgs;
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::printer::{Meter, Printer, RunReport, destination};

/// Writes a run's numbers while it lasts.
pub struct RunNumbers {
    printer: Printer,
    /// Where the numbers go, as the user wrote it.
    path: PathBuf,
    file: NamedFile,
    /// The model, as it was asked for.
    model: String,
    /// Where vectors go.
    output: String,
    /// Whether an earlier output's vectors are taken.
    reuses: bool,
    began: Instant,
    began_at: f64,
    // Numbers to be shown: a panic elsewhere leaves nothing half-done in them.
    state: Mutex<NumbersState>,
    stop: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

/// The state of the run so far.
#[derive(Default)]
struct NumbersState {
    meter: Meter,
    /// Counts of what is written, from which all counts come, so that they agree.
    counts: Counts,
    engine: Option<EngineInfo>,
    stages: Option<StageWatch>,
    /// When the first batch could run, and how much there is to read.
    working: Option<Instant>,
    total_bytes: Option<u64>,
    /// The fields of a finished run's summary.
    summary: Option<Map<String, Value>>,
    end: Option<RunEnd>,
    /// Whether a write has failed, which is told once.
    failed: bool,
}

/// How a run ended.
struct RunEnd {
    at: f64,
    code: ExitCode,
    error: Option<String>,
}

impl NumbersState {
    /// How the run fares, in one word.
    fn name(&self) -> &'static str {
        match &self.end {
            None if self.engine.is_none() => "starting",
            None => "running",
            Some(end) if end.error.is_none() => match end.code {
                ExitCode::Rejected => "rejected",
                _ => "done",
            },
            Some(end) if end.code == ExitCode::Interrupted => "interrupted",
            Some(_) => "failed",
        }
    }
}

impl RunNumbers {
    /// Writes the file for the first time and starts to update it; `None` if no file is requested.
    pub fn begin(
        args: &StatsArgs,
        model: &ModelOptions,
        options: &EmbedOptions,
        printer: &Printer,
    ) -> Result<Option<Arc<Self>>, CommandFailure> {
        let Some(path) = args.stats.clone() else {
            return Ok(None);
        };
        if path == Path::new("-") {
            return Err(CommandFailure::usage(
                "--stats takes a file to replace, but '-' means standard output",
            ));
        }
        pipeline::check_places(model, options)?;
        let refused = |error| {
            Error::io("write", &path, error)
                .with_remedy("--stats takes a file in an existing folder")
        };
        let numbers = Arc::new(Self {
            printer: printer.clone(),
            file: NamedFile::find(&path).map_err(refused)?,
            path: path.clone(),
            model: model.model.clone(),
            output: destination(&options.output.destination),
            reuses: options.reuse.is_some(),
            began: Instant::now(),
            began_at: now(),
            state: Mutex::default(),
            stop: Mutex::default(),
        });
        numbers.replace().map_err(refused)?;
        numbers.keep_writing(Duration::from_secs(args.stats_interval as u64))?;
        Ok(Some(numbers))
    }

    /// The summary of a run that has done its work.
    pub fn summary(&self, report: &RunReport<'_>) {
        let mut state = locked(&self.state);
        state.counts = report.summary.counts;
        state.engine = Some(report.summary.engine.clone());
        state.summary = Some(report.fields());
    }

    /// Writes the file for the last time.
    pub fn end(&self, result: &Result<ExitCode, CommandFailure>) {
        let stop = locked(&self.stop);
        if let Some((sender, thread)) = { stop }.take() {
            drop(sender);
            // It has nothing to say.
            let _ = thread.join();
        }
        locked(&self.state).end = Some(RunEnd {
            at: now(),
            code: match result {
                Ok(code) => *code,
                Err(failure) => failure.exit_code(),
            },
            // A closed pipe is not an error.
            error: (result.as_ref().err())
                .filter(|failure| failure.exit_code().is_worth_a_message())
                .map(ToString::to_string),
        });
        self.write();
    }

    /// Time from the first batch on.
    fn worked(&self, state: &NumbersState) -> Duration {
        state
            .working
            .map_or(Duration::ZERO, |start| start.elapsed())
    }

    fn keep_writing(self: &Arc<Self>, every: Duration) -> Result<(), CommandFailure> {
        let (sender, stopped) = bounded(0);
        let numbers = Arc::clone(self);
        let writer = thread::Builder::new().name("numbers".to_owned());
        let writer = writer
            .spawn(move || {
                while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                    numbers.write();
                }
            })
            .map_err(anyhow::Error::new)?;
        *locked(&self.stop) = Some((sender, writer));
        Ok(())
    }

    fn replace(&self) -> std::io::Result<()> {
        let text = stats::text(self, &locked(&self.state));
        self.file.replace(text.as_bytes())
    }

    /// Writes the file. The run is not stopped if it cannot be written any more.
    fn write(&self) {
        if let Err(error) = self.replace()
            && !std::mem::replace(&mut locked(&self.state).failed, true)
        {
            self.printer.warning(format!(
                "cannot write {}: {error}; the run continues without this file",
                self.path.display()
            ));
        }
    }
}

impl Progress for RunNumbers {
    fn stages(&self, watch: &StageWatch) {
        locked(&self.state).stages = Some(watch.clone());
    }

    fn started(&self, engine: &EngineInfo, input: InputSize) {
        let mut state = locked(&self.state);
        state.meter.started(input);
        state.engine = Some(engine.clone());
        state.total_bytes = input.bytes;
        state.working = Some(Instant::now());
        drop(state);
        self.write();
    }

    fn window(&self, window: WindowSize) {
        locked(&self.state).meter.window(window);
    }

    fn batch(&self, done: BatchDone) {
        locked(&self.state).meter.batch(done);
    }

    fn written(&self, counts: &Counts) {
        let mut state = locked(&self.state);
        state.meter.written(counts);
        state.counts = *counts;
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| (since.as_secs_f64() * 1e3).round() / 1e3)
}

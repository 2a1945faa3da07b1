//! One configuration while it is measured: its worker process, the size of its samples, and their results.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Work;
use super::child::{WorkerFailure, WorkerProcess};
use super::configuration::Configuration;
use super::protocol::{OpenedConfiguration, Reply, WorkerRequest, WorkloadSample};
use super::workload::Workload;
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::size::per;

/// Rows of the first, smallest sample.
const FIRST_ROWS: usize = 4;

/// Batches of each worker in a sample, so that the last ones weigh little.
const BATCHES: usize = 8;

/// Windows in a sample that has more than one.
const WINDOWS: usize = 4;

/// Records from which single texts are taken.
const SINGLE_ROWS: usize = 64;

/// The parts shared by all runners of a benchmark.
pub(super) struct RunnerContext<'a> {
    /// The texts.
    pub workload: Workload,
    /// Where outputs go.
    pub folder: &'a Path,
    /// The command that starts a worker process.
    pub worker: &'a [OsString],
    /// How long a sample should take.
    pub target: Duration,
    /// Stops everything.
    pub cancel: &'a CancelToken,
}

/// A configuration and its worker.
#[derive(Debug)]
pub(super) struct Runner {
    pub configuration: Configuration,
    worker: Option<WorkerProcess>,
    input: PathBuf,
    output: PathBuf,
    pub opened: Option<OpenedConfiguration>,
    /// Rows in a sample.
    pub rows: usize,
    /// Rows a second in the last sample of the warm-up.
    pace: f64,
    pub samples: Vec<WorkloadSample>,
    /// Seconds, one for each single text.
    pub latencies: Vec<f64>,
    pub work: Option<Work>,
    /// Why it has ended.
    pub failed: Option<String>,
}

impl Runner {
    /// Starts a worker and lets it open the configuration. A failure there ends only this runner.
    pub(super) fn start(
        configuration: Configuration,
        number: usize,
        shared: &RunnerContext<'_>,
    ) -> Result<Self> {
        let mut runner = Self {
            output: shared.folder.join(format!("vectors-{number}.parquet")),
            worker: Some(WorkerProcess::start(
                shared.worker,
                &configuration.variables(),
            )?),
            input: PathBuf::new(),
            opened: None,
            rows: FIRST_ROWS,
            pace: 0.0,
            samples: Vec::new(),
            latencies: Vec::new(),
            work: None,
            failed: None,
            configuration,
        };
        let request = WorkerRequest::Open(Box::new(runner.configuration.clone()));
        if let Some(reply) = runner.ask(&request, shared)? {
            match reply {
                Reply::Opened(opened) => runner.opened = Some(*opened),
                other => runner.fail(&other),
            }
        }
        Ok(runner)
    }

    /// Whether samples can be taken.
    pub(super) fn is_alive(&self) -> bool {
        self.worker.is_some()
    }

    /// Seconds that samples have taken.
    pub(super) fn spent(&self) -> f64 {
        self.samples.iter().map(|sample| sample.seconds).sum()
    }

    /// Rows a second of every sample.
    pub(super) fn rates(&self) -> Vec<f64> {
        let samples = self.samples.iter();
        samples
            .map(|sample| per(sample.rows as f64, sample.seconds))
            .collect()
    }

    /// Runs samples of growing size until one takes about as long as it should, and wishes for a size: one
    /// that takes as long, with enough batches to be like a long run. The samples count for nothing: caches
    /// and pages are filled, kernels chosen, memory taken.
    pub(super) fn warm_up(&mut self, shared: &mut RunnerContext<'_>) -> Result<()> {
        let target = shared.target.as_secs_f64();
        let mut rows = FIRST_ROWS;
        while self.is_alive() {
            self.set_rows(rows, shared)?;
            let Some(sample) = self.run(shared)? else {
                return Ok(());
            };
            self.pace = per(self.rows as f64, sample.seconds);
            let wanted = (self.pace * target) as usize;
            if sample.seconds >= 0.5 * target || self.rows < rows || wanted <= self.rows {
                self.rows = self.wished_rows(wanted, &sample);
                return Ok(());
            }
            // Growth is bounded: the first samples say more about caches than about speed.
            rows = wanted.min(self.rows * 16).next_power_of_two();
        }
        Ok(())
    }

    /// Rows that a sample should have: `wanted`, or more if these would be few batches or few windows.
    fn wished_rows(&self, wanted: usize, sample: &WorkloadSample) -> usize {
        let Some(opened) = &self.opened else {
            return wanted;
        };
        let batches = BATCHES * opened.threads * opened.batch_tokens;
        let tokens = per(sample.tokens as f64, sample.rows as f64).max(1.0);
        let mut rows = wanted.max((batches as f64 / tokens) as usize);
        if rows > opened.window {
            // Across windows reading and tokenizing overlap with the model, as they do in a long run.
            rows = rows.max(WINDOWS * opened.window);
        }
        rows.next_power_of_two()
    }

    /// Rows of the largest sample that takes `seconds` at most, as far as the warm-up can tell.
    pub(super) fn rows_within(&self, seconds: f64) -> usize {
        let rows = (self.pace * seconds) as usize;
        // The power of two that is not above it.
        (rows / 2 + 1).next_power_of_two().max(FIRST_ROWS)
    }

    /// Takes samples of `rows` records from now on, or of all there are.
    pub(super) fn set_rows(&mut self, rows: usize, shared: &mut RunnerContext<'_>) -> Result<()> {
        (self.input, self.rows) = shared.workload.sample(rows)?;
        Ok(())
    }

    /// Takes a sample; its rows a second, where the worker lives.
    pub(super) fn sample(&mut self, shared: &RunnerContext<'_>) -> Result<Option<f64>> {
        let Some(sample) = self.run(shared)? else {
            return Ok(None);
        };
        let rate = per(sample.rows as f64, sample.seconds);
        self.samples.push(sample);
        Ok(Some(rate))
    }

    fn run(&mut self, shared: &RunnerContext<'_>) -> Result<Option<WorkloadSample>> {
        let request = WorkerRequest::WorkloadSample {
            input: self.input.clone(),
            output: self.output.clone(),
        };
        Ok(match self.ask(&request, shared)? {
            Some(Reply::Sampled(sample)) => Some(sample),
            Some(other) => {
                self.fail(&other);
                None
            }
            None => None,
        })
    }

    /// Times some single texts, others than the last time.
    pub(super) fn single_texts(
        &mut self,
        texts: usize,
        shared: &mut RunnerContext<'_>,
    ) -> Result<()> {
        let (input, _) = shared.workload.sample(SINGLE_ROWS)?;
        let request = WorkerRequest::Latency {
            input,
            texts,
            skip: self.latencies.len(),
            seconds: shared.target.as_secs_f64() / 4.0,
        };
        match self.ask(&request, shared)? {
            Some(Reply::Latencies(seconds)) => self.latencies.extend(seconds),
            Some(other) => self.fail(&other),
            None => {}
        }
        Ok(())
    }

    /// Has the model's work counted. A graph that cannot be counted is no failure.
    pub(super) fn count_work(&mut self, shared: &RunnerContext<'_>) -> Result<()> {
        let Some(worker) = &mut self.worker else {
            return Ok(());
        };
        match worker.ask(&WorkerRequest::Work, shared.cancel) {
            Ok(Reply::Work(work)) => self.work = Some(work),
            Err(WorkerFailure::Interrupted) => return Err(Error::interrupted()),
            Ok(_) | Err(WorkerFailure::Failed(_)) => {}
        }
        Ok(())
    }

    /// Ends the worker; its samples are kept.
    pub(super) fn end(&mut self) {
        self.worker = None;
    }

    /// A worker that fails ends its runner and nothing else.
    fn ask(
        &mut self,
        request: &WorkerRequest,
        shared: &RunnerContext<'_>,
    ) -> Result<Option<Reply>> {
        let Some(worker) = &mut self.worker else {
            return Ok(None);
        };
        match worker.ask(request, shared.cancel) {
            Ok(reply) => Ok(Some(reply)),
            Err(WorkerFailure::Interrupted) => Err(Error::interrupted()),
            Err(WorkerFailure::Failed(reason)) => {
                self.failed = Some(reason);
                self.worker = None;
                Ok(None)
            }
        }
    }

    fn fail(&mut self, reply: &Reply) {
        self.failed = Some(format!(
            "the worker process answered something else: {reply:?}"
        ));
        self.worker = None;
    }
}

/// The configurations in the order of the runners.
pub(super) fn configurations(runners: &[Runner]) -> Vec<Configuration> {
    let all = runners.iter().map(|runner| runner.configuration.clone());
    all.collect()
}

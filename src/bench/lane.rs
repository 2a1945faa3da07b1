//! One configuration while it is measured: its worker process, the size of its samples, and what they gave.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Work;
use super::child::{Silence, WorkerProcess};
use super::configuration::Configuration;
use super::protocol::{OpenedAs, Reply, Request, Sample};
use super::stats::rate;
use super::workload::Workload;
use crate::cancel::CancelToken;
use crate::error::{Error, Result};

/// Rows of the first, smallest sample.
const FIRST_ROWS: usize = 4;

/// Batches of each worker in a sample, so that the last ones weigh little.
const BATCHES: usize = 8;

/// Windows in a sample that has more than one.
const WINDOWS: usize = 4;

/// Records from which single texts are taken.
const SINGLE_ROWS: usize = 64;

/// What all lanes of a benchmark share.
pub(super) struct Track<'a> {
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
pub(super) struct Lane {
    pub configuration: Configuration,
    worker: Option<WorkerProcess>,
    input: PathBuf,
    output: PathBuf,
    pub opened: Option<OpenedAs>,
    /// Rows in a sample.
    pub rows: usize,
    /// Rows a second in the last sample of the warm-up.
    pace: f64,
    pub samples: Vec<Sample>,
    /// Seconds, one for each single text.
    pub latencies: Vec<f64>,
    pub work: Option<Work>,
    /// Why there is nothing more to come.
    pub failed: Option<String>,
    /// Whether another lane came down to the same, so that this one need not be measured.
    pub redundant: bool,
}

impl Lane {
    /// Starts a worker and lets it open the configuration. What goes wrong there is the lane's own.
    pub(super) fn start(
        configuration: Configuration,
        number: usize,
        track: &Track<'_>,
    ) -> Result<Self> {
        let mut lane = Self {
            output: track.folder.join(format!("vectors-{number}.parquet")),
            worker: Some(WorkerProcess::start(track.worker)?),
            input: PathBuf::new(),
            opened: None,
            rows: FIRST_ROWS,
            pace: 0.0,
            samples: Vec::new(),
            latencies: Vec::new(),
            work: None,
            failed: None,
            redundant: false,
            configuration,
        };
        let request = Request::Open(Box::new(lane.configuration.clone()));
        if let Some(reply) = lane.ask(&request, track)? {
            match reply {
                Reply::Opened(opened) => lane.opened = Some(*opened),
                other => lane.fail(&other),
            }
        }
        Ok(lane)
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
        let rates = self
            .samples
            .iter()
            .map(|sample| rate(sample.rows as f64, sample.seconds));
        rates.collect()
    }

    /// Runs samples of growing size until one takes about as long as it should, and wishes for a size: one
    /// that takes as long, with enough batches to be like a long run. The samples count for nothing: caches
    /// and pages are filled, kernels chosen, memory taken.
    pub(super) fn warm_up(&mut self, track: &mut Track<'_>) -> Result<()> {
        let target = track.target.as_secs_f64();
        let mut rows = FIRST_ROWS;
        while self.is_alive() {
            self.set_rows(rows, track)?;
            let Some(sample) = self.run(track)? else {
                return Ok(());
            };
            self.pace = rate(self.rows as f64, sample.seconds);
            let wanted = (self.pace * target) as usize;
            if sample.seconds >= 0.5 * target || self.rows < rows || wanted <= self.rows {
                self.rows = self.wish(wanted, &sample);
                return Ok(());
            }
            // Growth is bounded: the first samples say more about caches than about speed.
            rows = wanted.min(self.rows * 16).next_power_of_two();
        }
        Ok(())
    }

    /// Rows that a sample should have: `wanted`, or more if these would be few batches or few windows.
    fn wish(&self, wanted: usize, sample: &Sample) -> usize {
        let Some(opened) = &self.opened else {
            return wanted;
        };
        let batches = BATCHES * opened.threads * opened.batch_tokens;
        let tokens = rate(sample.tokens as f64, sample.rows as f64).max(1.0);
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
    pub(super) fn set_rows(&mut self, rows: usize, track: &mut Track<'_>) -> Result<()> {
        (self.input, self.rows) = track.workload.sample(rows)?;
        Ok(())
    }

    /// Takes a sample; its rows a second, where the worker lives.
    pub(super) fn sample(&mut self, track: &Track<'_>) -> Result<Option<f64>> {
        let Some(sample) = self.run(track)? else {
            return Ok(None);
        };
        let rate = rate(sample.rows as f64, sample.seconds);
        self.samples.push(sample);
        Ok(Some(rate))
    }

    fn run(&mut self, track: &Track<'_>) -> Result<Option<Sample>> {
        let request = Request::Sample {
            input: self.input.clone(),
            output: self.output.clone(),
        };
        Ok(match self.ask(&request, track)? {
            Some(Reply::Sampled(sample)) => Some(sample),
            Some(other) => {
                self.fail(&other);
                None
            }
            None => None,
        })
    }

    /// Times some single texts, others than the last time.
    pub(super) fn single_texts(&mut self, texts: usize, track: &mut Track<'_>) -> Result<()> {
        let (input, _) = track.workload.sample(SINGLE_ROWS)?;
        let request = Request::Latency {
            input,
            texts,
            skip: self.latencies.len(),
            seconds: track.target.as_secs_f64() / 4.0,
        };
        match self.ask(&request, track)? {
            Some(Reply::Latencies(seconds)) => self.latencies.extend(seconds),
            Some(other) => self.fail(&other),
            None => {}
        }
        Ok(())
    }

    /// Has the model's work counted. A graph that cannot be counted is no failure.
    pub(super) fn count_work(&mut self, track: &Track<'_>) -> Result<()> {
        let Some(worker) = &mut self.worker else {
            return Ok(());
        };
        match worker.ask(&Request::Work, track.cancel) {
            Ok(Reply::Work(work)) => self.work = Some(work),
            Err(Silence::Interrupted) => return Err(Error::Interrupted),
            Ok(_) | Err(Silence::Failed(_)) => {}
        }
        Ok(())
    }

    /// Ends the worker; what was measured stays.
    pub(super) fn end(&mut self) {
        self.worker = None;
    }

    /// A worker that fails ends its lane and nothing else.
    fn ask(&mut self, request: &Request, track: &Track<'_>) -> Result<Option<Reply>> {
        let Some(worker) = &mut self.worker else {
            return Ok(None);
        };
        match worker.ask(request, track.cancel) {
            Ok(reply) => Ok(Some(reply)),
            Err(Silence::Interrupted) => Err(Error::Interrupted),
            Err(Silence::Failed(reason)) => {
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

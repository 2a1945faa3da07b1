//! The protocol between a benchmark and its worker processes: one JSON object per line, a reply to each request, on the
//! worker's standard input and output.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Work;
use super::configuration::Configuration;
use crate::engine::{Cosine, PlacedWork};
use crate::size::per;
use crate::stage::StageTimes;

/// A request to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerRequest {
    /// Open this configuration; comes first and once.
    Open(Box<Configuration>),
    /// Embed a file of records and write its vectors; say how long it took.
    WorkloadSample {
        /// The records; text, or JSONL with the field `text`.
        input: PathBuf,
        /// Where vectors go (Parquet); replaced.
        output: PathBuf,
    },
    /// Embed single texts of a file, one after another, and say how long each took.
    Latency {
        /// The records.
        input: PathBuf,
        /// How many texts at most.
        texts: usize,
        /// Number of the first of them; counted on from the start at the end of the file.
        skip: usize,
        /// Seconds after which no further text is begun.
        seconds: f64,
    },
    /// Count the work of the model.
    Work,
}

/// A worker's reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// To [`WorkerRequest::Open`].
    Opened(Box<OpenedConfiguration>),
    /// To [`WorkerRequest::WorkloadSample`].
    Sampled(WorkloadSample),
    /// To [`WorkerRequest::Latency`]: seconds for each text.
    Latencies(Vec<f64>),
    /// To [`WorkerRequest::Work`].
    Work(Work),
    /// The request failed; the worker ends.
    Failed(String),
}

/// A configuration as it was opened, with all defaults filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenedConfiguration {
    /// Hub id or folder of the model.
    pub model: String,
    /// Commit, where the model comes from the Hub.
    pub revision: Option<String>,
    /// Path of the weights' main file inside the model's folder.
    pub model_file: String,
    /// The engine: `native`, `onnxruntime` or `rten`.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// The provider that does the work.
    pub provider: String,
    /// The engine's library, where it lives in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<PathBuf>,
    /// Numbers of the provider's devices in use; empty for engines on the processor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<u32>,
    /// Options that the provider was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Where a batch's nodes ran, as measured; empty for engines that have one place only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<PlacedWork>,
    /// The least cosine between a vector of a sample and the same one computed on the CPU, where measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cosine_to_cpu: Option<f64>,
    /// The native engine's number format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// The cosines of its vectors of the built-in texts to those in fp32, for a reduced precision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cosine: Option<Cosine>,
    /// Worker threads.
    pub threads: usize,
    /// Padded tokens in a batch at most.
    pub batch_tokens: usize,
    /// Rows in a batch at most.
    pub batch_size: usize,
    /// Records in a window at most.
    pub window: usize,
    /// Width of a vector.
    pub dimensions: usize,
    /// Tokens of a row at most, where the model has a limit.
    pub max_length: Option<usize>,
    /// Seconds from the worker's start until batches can run.
    pub load_seconds: f64,
    /// Warnings and notes to show once.
    pub notes: Vec<String>,
}

/// One run over a sample of the workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct WorkloadSample {
    /// Rows embedded.
    pub rows: u64,
    /// Tokens of these rows.
    pub tokens: u64,
    /// Rows cut to the model's length.
    pub truncated: u64,
    /// Records rejected.
    pub rejected: u64,
    /// Seconds from the first byte read to the published output.
    pub seconds: f64,
    /// Tokens that ran through the model: each duplicate in a window counts once.
    pub real_tokens: u64,
    /// The same, with padding.
    pub padded_tokens: u64,
    /// Squares of the lengths of the rows that ran, summed up.
    pub pairs: u64,
    /// Where the time went.
    pub stages: Stages,
    /// The stage that held up the others.
    pub limit: String,
    /// The most memory that the worker has held so far, in bytes.
    pub peak_memory: Option<u64>,
    /// Memory that it holds on the provider's devices, in bytes; where a driver tells.
    #[serde(default)]
    pub device_memory: Option<u64>,
}

/// Busy time of each stage, over all of its threads, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Stages {
    /// Reading and parsing.
    pub read: f64,
    /// Texts to tokens, windows to batches.
    pub tokenize: f64,
    /// Workers' waits for a batch; not busy time.
    pub wait: f64,
    /// The model.
    pub infer: f64,
    /// Padding, and states to vectors.
    pub pool: f64,
    /// Rows into order, and into the output.
    pub write: f64,
}

impl Stages {
    /// Names, in the order in which a record passes them, with waiting where workers wait.
    pub const NAMES: [&'static str; 6] = ["read", "tokenize", "wait", "infer", "pool", "write"];

    /// Values in the order of [`Stages::NAMES`].
    #[must_use]
    pub fn values(&self) -> [f64; 6] {
        [
            self.read,
            self.tokenize,
            self.wait,
            self.infer,
            self.pool,
            self.write,
        ]
    }

    /// The stages with these values, in the order of [`Stages::NAMES`].
    fn of([read, tokenize, wait, infer, pool, write]: [f64; 6]) -> Self {
        Self {
            read,
            tokenize,
            wait,
            infer,
            pool,
            write,
        }
    }

    /// Each as a share of their sum; zeros, where nothing was done.
    #[must_use]
    pub fn shares(&self) -> Self {
        let total: f64 = self.values().iter().sum();
        Self::of(self.values().map(|part| per(part, total)))
    }

    /// Stages of several runs together.
    #[must_use]
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        let mut sum = [0.0; 6];
        for one in all {
            let parts = sum.iter_mut().zip(one.values());
            parts.for_each(|(sum, part)| *sum += part);
        }
        Self::of(sum)
    }
}

impl From<&StageTimes> for Stages {
    fn from(times: &StageTimes) -> Self {
        let StageTimes {
            read,
            tokenize,
            wait,
            infer,
            pool,
            write,
            ..
        } = times;
        Self::of([read, tokenize, wait, infer, pool, write].map(Duration::as_secs_f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_are_lines_of_json() {
        let requests = [
            WorkerRequest::Work,
            WorkerRequest::Open(Box::default()),
            WorkerRequest::Latency {
                input: "a.jsonl".into(),
                texts: 3,
                skip: 0,
                seconds: 0.5,
            },
        ];
        for request in requests {
            let line = serde_json::to_string(&request).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(
                serde_json::from_str::<WorkerRequest>(&line).unwrap(),
                request
            );
        }
        let reply = Reply::Failed("two\nlines".into());
        let line = serde_json::to_string(&reply).unwrap();
        assert!(!line.contains('\n'), "{line}");
        assert_eq!(serde_json::from_str::<Reply>(&line).unwrap(), reply);
    }

    #[test]
    fn shares_make_a_whole() {
        let one = Stages {
            infer: 3.0,
            write: 1.0,
            ..Stages::default()
        };
        let shares = Stages::sum([one, one]).shares();
        assert_eq!((shares.infer, shares.write), (0.75, 0.25));
        assert_eq!(Stages::default().shares(), Stages::default());
    }
}

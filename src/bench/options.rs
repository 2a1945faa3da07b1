//! The options of a benchmark: configurations, time, progress.

use std::ffi::OsString;
use std::time::Duration;

use super::configuration::Configuration;
use super::workload::WorkloadOptions;

/// The interval of the median is tight when half of it is below this share of the median.
pub(super) const TIGHT: f64 = 0.02;

/// Samples without which an interval says nothing.
pub(super) const LEAST_SAMPLES: usize = 6;

/// The options of a benchmark.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Each gets a row.
    pub configurations: Vec<Configuration>,
    /// The texts to embed.
    pub workload: WorkloadOptions,
    /// How long each is sampled at most, warm-up not counted.
    pub duration: Duration,
    /// Samples of each; `None`: until the interval is tight or the time is up.
    pub samples: Option<usize>,
    /// The command that runs [`super::serve`] on its standard input and output.
    pub worker: Vec<OsString>,
}

/// A step of a benchmark.
#[derive(Debug, Clone, Copy)]
pub enum BenchStep<'a> {
    /// A new part begins: `cpu: warming up`.
    Begin(&'a str),
    /// A sample was taken.
    Sample {
        /// Its configuration.
        name: &'a str,
        /// Its speed.
        rows_per_second: f64,
    },
}

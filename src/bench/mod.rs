//! Benchmarks: the speed of configurations on this machine and their bottlenecks.
//!
//! ```text
//!  run ──► runner ──► child ═══ JSON lines ═══► worker ──► pipeline
//!   │      (one for each       (a process)     opens once, samples many times
//!   │       configuration)
//!   └──► report ──► compare, plot
//! ```
//!
//! Every configuration runs in a process of its own: ONNX Runtime allows one library per process, and peak memory is
//! measured per process. [`run()`] takes the command line of such a process as an argument and never runs anything
//! else; the process calls [`serve`]. Samples of all configurations are taken in turn. A sample is a whole run of
//! [`crate::pipeline`], from JSONL to Parquet, without the start-up.

mod child;
mod compare;
mod comparison;
mod configuration;
mod corpus;
mod machine;
mod options;
mod peak;
pub mod plot;
mod protocol;
mod report;
mod reuse;
mod run;
mod runner;
mod stats;
#[cfg(test)]
mod testing;
mod worker;
mod workload;

pub use comparison::{BaselineComparison, Compared, Verdict};
pub use configuration::Configuration;
pub use corpus::Corpus;
pub use embedctl_model::work::Work;
pub use machine::Machine;
pub use options::{BenchOptions, BenchStep};
pub use peak::{Peak, measure as measure_peak};
pub use protocol::{OpenedConfiguration, Stages};
pub use report::{BenchReport, Latency, MeasuredConfiguration, Row};
pub use run::run;
pub use stats::Spread;
pub use worker::{Resolve, serve};
pub use workload::{WorkloadInfo, WorkloadOptions};

//! Measuring: how fast a configuration is here, what limits it, and which settings are best.
//!
//! ```text
//!  run ──► lane ──► child ═══ JSON lines ═══► worker ──► pipeline
//!   │      (one for each       (a process)     opens once, samples many times
//!   │       configuration)
//!   └──► report ──► compare, plot          tune ──► profile
//! ```
//!
//! Every configuration runs in a process of its own: ONNX Runtime allows one library a process, and peak
//! memory must be its own. [`run()`] takes the command line of such a process as an argument and never
//! runs anything else; the process calls [`serve`]. Samples of all configurations are taken in turn. A
//! sample is a whole run of [`crate::pipeline`], from JSONL to Parquet, without the start-up.

mod child;
mod compare;
mod configuration;
mod corpus;
mod flops;
mod lane;
mod machine;
mod peak;
mod phrases;
pub mod plot;
mod profile;
mod protocol;
mod report;
mod reuse;
mod run;
mod stats;
#[cfg(test)]
mod testing;
mod tune;
mod worker;
mod workload;

pub use compare::{Compared, Comparison, Verdict};
pub use configuration::Configuration;
pub use corpus::Corpus;
pub use flops::Work;
pub use machine::Machine;
pub use peak::{Peak, measure as measure_peak};
pub use profile::{Profile, Tuned, default_folder as profile_folder, fingerprint};
pub use protocol::{OpenedAs, Stages};
pub use report::{Latency, Measured, Report, Row};
pub use run::{BenchOptions, Watcher, run};
pub use stats::Spread;
pub use tune::{Step, TuneOptions, Tuning};
pub use worker::serve;
pub use workload::{WorkloadInfo, WorkloadOptions};

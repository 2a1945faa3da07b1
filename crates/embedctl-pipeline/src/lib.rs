//! Records in, rows with vectors out, in the same order: the run, jobs that can be resumed, and vectors of earlier outputs.
//!
//! ```text
//!  pipeline ── a run: from its plan to its report
//!  job ── an output of parts, which a later run completes
//!  reuse ── vectors of earlier outputs
//!  inspect, search ── whether an output is what was written; its nearest rows
//!  survey ── what a run would do, by a sample of its input
//!  embedder ── texts in memory
//!  identity ── what decides the vectors of an output, and its provenance
//!  progress ── what a run says of itself while it goes on
//!  work, chart ── how much arithmetic a model needs; drawings of measurements
//! ```
//!
//! This is the code that runs for every record, so a clone's build optimises it; the program around it is not optimised.

#![deny(clippy::print_stdout, clippy::print_stderr)]
// A panic needs a reason: `expect` states the invariant.
#![warn(clippy::unwrap_used)]

pub mod chart;
mod embedder;
pub mod identity;
pub mod inspect;
pub mod job;
pub mod pipeline;
pub mod progress;
pub mod reuse;
pub mod search;
pub mod survey;
pub mod work;

use embedctl_checkpoint::safetensors;
use embedctl_common::threads::locked;
use embedctl_common::{
    atomic, cancel, error, hash, named, remedies, safe_text, setting, size, stage, threads,
};
use embedctl_data::output::rejects;
use embedctl_data::{input, output, position, record};
use embedctl_engine as engine;
use embedctl_model as model;
use embedctl_model::{batch, pool, tokenize};
use embedctl_onnx as onnx;
use embedctl_storage as storage;
#[cfg(test)]
use embedctl_testing::mutation;
use identity::provenance;

pub use embedder::{Embedder, Scorer};

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;

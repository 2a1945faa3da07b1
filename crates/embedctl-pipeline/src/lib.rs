//! Records in, rows with vectors out, in the same order.
//!
//! ```text
//!  pipeline ── a run: from its plan to its report
//!  survey ── what a run would do, by a sample of its input
//! ```
//!
//! This is the code that runs for every record, so a clone's build optimises it; the program around it is not optimised.

#![deny(clippy::print_stdout, clippy::print_stderr)]
// A panic needs a reason: `expect` states the invariant.
#![warn(clippy::unwrap_used)]

pub mod pipeline;
pub mod survey;

use embedctl_common::{atomic, cancel, error, named, remedies, setting, stage, threads};
use embedctl_data::output::rejects;
use embedctl_data::{input, output};
use embedctl_engine as engine;
use embedctl_model as model;
use embedctl_outputs::identity::provenance;
use embedctl_outputs::{identity, job, progress, reuse};
use embedctl_records::{position, record};
use embedctl_rows::{batch, pool, tokenize};
use embedctl_storage as storage;

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;

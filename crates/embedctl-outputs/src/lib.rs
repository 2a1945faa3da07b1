//! Outputs as they were written: jobs of parts, what outputs record, and what is read of them again.
//!
//! ```text
//!  job ── an output of parts, which a later run completes
//!  identity ── what decides the vectors of an output, and its provenance
//!  progress ── what a run says of itself while it goes on
//!  reuse ── vectors of earlier outputs
//!  inspect ── whether an output is what was written, and agrees with its model or a reference
//! ```
//!
//! It works on files and parts, not on records, so a clone's build does not optimise it.

#![deny(clippy::print_stdout, clippy::print_stderr)]
// A panic needs a reason: `expect` states the invariant.
#![warn(clippy::unwrap_used)]

pub mod identity;
pub mod inspect;
pub mod job;
pub mod progress;
pub mod reuse;

use embedctl_common::{atomic, cancel, error, hash, remedies, setting, stage, threads};
#[cfg(test)]
use embedctl_data::output::rejects;
use embedctl_data::{input, output};
use embedctl_engine as engine;
use embedctl_model as model;
use embedctl_records::{position, record};
use embedctl_rows::tokenize;
use embedctl_storage as storage;
#[cfg(test)]
use embedctl_testing::mutation;
use identity::provenance;

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;

//! Nearest rows of an output, and how much two outputs agree.
//!
//! ```text
//!  search ── nearest rows of a query or a row; `compare`
//!  chart ── drawings of measurements
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
// A panic needs a reason: `expect` states the invariant.
#![warn(clippy::unwrap_used)]

pub mod chart;
pub mod search;

use embedctl_common::threads::locked;
use embedctl_common::{cancel, error, safe_text, setting, size, threads};
use embedctl_data::{input, output};
use embedctl_engine as engine;
use embedctl_model as model;
use embedctl_outputs::{identity, inspect, job};
use embedctl_records::record;
use embedctl_storage as storage;

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;

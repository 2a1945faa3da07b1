//! Tests of the output as its users see it: files under names.

// Tests say on standard error why they were skipped, and compare floats for equality on purpose.
#![allow(clippy::print_stderr, clippy::float_cmp)]

mod damaged;
mod dtypes;
mod formats;
mod ipc;
mod kinds;
mod parquet;
mod publishing;
#[cfg(unix)]
mod streams;
pub(crate) mod support;

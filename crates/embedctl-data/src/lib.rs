//! Records in, rows with vectors out.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

pub mod arrow;
pub mod input;
pub mod output;
pub mod position;
pub mod record;

use embedctl_common::{
    Error, ErrorKind, Result, cancel, error, hash, named, remedies, small_file, threads, word_list,
};
#[cfg(test)]
use embedctl_testing::mutation;

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;
use embedctl_storage as storage;

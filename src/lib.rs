//! Batch text embedding: records in, vectors out, in the same order.
//!
//! ```text
//!  input ──► tokenize ──► batch ──► engine ──► pool ──► output
//!  records   token ids    equal-    hidden     vectors  rows in the
//!  + origin  (rayon)      length    states              input's order
//!                         batches   (workers)
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
// A panic needs a reason: `expect` states the invariant.
#![warn(clippy::unwrap_used)]

#[cfg(test)]
mod allocations;
pub mod arrow;
pub mod availability;
pub mod batch;
pub mod bench;
pub mod cancel;
pub mod device;
mod embedder;
pub mod engine;
pub mod error;
mod file_state;
mod folder;
mod halving;
mod hash;
pub mod info;
pub mod input;
pub mod inspect;
pub mod job;
pub mod model;
#[cfg(test)]
mod mutation;
mod named;
mod onnx;
pub mod output;
mod padding;
pub mod pipeline;
pub mod pool;
pub mod position;
mod private_folder;
pub mod profile;
pub mod progress;
pub mod provenance;
pub mod provider;
pub mod record;
mod remedies;
pub mod reuse;
mod row_worker;
pub mod runtime;
pub mod safe_text;
mod safetensors;
pub mod size;
mod small_file;
pub mod stage;
pub mod storage;
pub mod survey;
mod threads;
pub mod tokenize;
pub mod verify;
mod word_list;

pub use embedder::Embedder;
pub use error::{Error, ErrorKind, Result};
pub use output::rejects;
pub use threads::usable_cores;

// For the program beside this library alone.
#[doc(hidden)]
pub use threads::locked;

/// What README.md shows of the library works.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

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

pub mod bench;
pub mod cache;
mod embedder;
pub mod engine;
pub mod identity;
pub mod inspect;
pub mod job;
pub mod pipeline;
pub mod progress;
pub mod reuse;
pub mod search;
#[cfg(feature = "serve")]
pub mod serve;
pub mod survey;

pub use arrow;
pub use embedctl_common::threads::{locked, usable_cores};
pub use embedctl_common::{
    Error, ErrorKind, Result, cancel, error, safe_text, secrets, setting, size, stage,
};
pub use embedctl_data::output::rejects;
pub use embedctl_data::{input, output, position, record};
pub use embedctl_hub as hub;
pub use embedctl_model as model;
pub use embedctl_model::{batch, pool, tokenize};
pub use embedctl_ort::{built, device, runtime};
pub use embedctl_storage as storage;
pub use embedder::{Embedder, Scorer};
pub use engine::availability::info;
pub use identity::provenance;
pub use inspect::reference;

use embedctl_common::{atomic, hash, named, remedies, threads, word_list};
use embedctl_native::safetensors;
use embedctl_onnx as onnx;
#[cfg(test)]
use embedctl_testing::mutation;

/// The vocabulary of providers, how they are got, and whether they work.
pub mod provider {
    pub use embedctl_engine::provider::*;
    pub use embedctl_ort::provider::*;
}

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;

/// The examples of the library in docs/library.md work.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
struct LibraryGuide;

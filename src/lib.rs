//! Batch text embedding: records in, vectors out, in the same order.
//!
//! ```text
//!  input ──► tokenize ──► batch ──► engine ──► pool ──► output
//!  records   token ids    equal-    hidden     vectors  rows in the
//!  + origin  (rayon)      length    states              input's order
//!                         batches   (workers)
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod batch;
pub mod cancel;
pub mod engine;
pub mod error;
pub mod input;
pub mod model;
pub mod output;
pub mod pipeline;
pub mod progress;
pub mod record;
pub mod rejects;

pub use error::{Error, Result};

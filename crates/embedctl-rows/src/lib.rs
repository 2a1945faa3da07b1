//! What every row of a model passes: its text becomes tokens, batches of rows go to an engine, and the states that come
//! back become vectors.
//!
//! ```text
//!  text ──► tokenize (parallel, chunks) ──► TokenRows ──► batch ──► [an engine] ──► pool ──► vector
//! ```
//!
//! A [`ModelConfig`] says how. Nothing here opens a file: `embedctl-model` makes the configuration and the tokenizer of a
//! model's files. This crate is optimised in every build, and that one is not: what runs once for a model belongs there,
//! unless it goes over a whole vocabulary ([`tokenizer_file`], [`vocabulary`]).

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

pub mod batch;
pub mod bounded;
pub mod budget;
mod config;
mod frame;
mod layers;
pub mod multi;
pub mod pool;
pub mod score;
pub mod sparse;
pub mod tokenize;
pub mod tokenizer_file;
pub mod vocabulary;

pub use config::{Dimensions, ModelConfig, OutputChoice, PoolingMode, PositionIds, Prompts, Step};
pub use frame::{Frame, PairFrame, QueryExpansion, Side};
pub use layers::{AutoEncoder, Dense, DenseActivation, LayerNorm, Residual};

//! A model ready to run, and the interface of the engines that run it.
//!
//! ```text
//!  ModelOptions, EngineOptions ──► Resolved ──► LoadedModel ──► RowWorker, one for each thread
//!  what the user said              what follows  files, tokenizer,   batches of tokens in,
//!                                  from it       engine, pooling     finished rows out
//! ```
//!
//! No engine is in this crate: a program passes in those that it has, as [`Engines`].
//!
//! ```text
//!  provider, options ── the vocabulary of providers; what the user said of an engine
//!  engine, info ── an opened model, one thread's way to run ragged batches, and what an engine says of itself
//!  arithmetic ── numbers in which engines compute, and how far vectors are from exact ones
//!  engines, resolved ── which weights, which engine and which arithmetic
//!  loaded, opening, padding ── a model put together, and whether rows of different lengths may run together
//!  row_worker, halving ── batches to finished rows, in parts where memory runs out
//!  row_bounds ── rows that a model cannot run
//!  background ── work on a thread of its own, awaited together with cancellation
//!  identity ── what decides a vector, and whether vectors of two outputs may mix
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

mod arithmetic;
pub mod background;
mod embedder;
mod engine;
mod engines;
pub mod halving;
pub mod identity;
mod info;
mod loaded;
mod opening;
mod options;
pub mod padding;
pub mod provider;
mod resolved;
mod row_bounds;
pub mod row_worker;

pub use arithmetic::{Cosine, FinishRow, FloatType, Lengths, sample};
pub use embedctl_common::Arithmetic;
pub use embedctl_rows::batch::BatchLimits;
pub use embedder::{Embedder, Scorer};
pub use engine::{Engine, Output, Worker};
pub use engines::{Engines, MachineEngines};
pub use info::{EngineInfo, PlacedWork, Plugin};
pub use loaded::{LoadedModel, OpeningModel};
pub use options::{EngineOptions, ProbeCommand, ResolvedEngine, RuntimeOptions};
pub use provider::{OptionValue, Provider, ProviderChoice, ProviderOption, SkippedCandidate};
pub use resolved::Resolved;
pub use row_bounds::RowBounds;
pub use row_worker::RowWorker;

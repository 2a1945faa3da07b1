//! The interface of engines, and the two that run ONNX files: ONNX Runtime and rten.
//!
//! ```text
//!  Engine, Worker ── an opened model; one thread's way to run ragged batches
//!  runtime ── ONNX Runtime libraries: discovery, probes in child processes, plug-ins, remedies
//!  provider, device ── execution providers, and the hardware that they run on
//!  onnxruntime ── sessions; checks that the provider does the work and does it right; batch budgets
//!  rten ── ONNX files without ONNX Runtime
//!  built ── graphs written from a network's description, for checkpoints without an ONNX file
//!  feeds, padded ── the contents of a graph's inputs; rows are padded here and nowhere else
//! ```
//!
//! ```
//! use embedctl_model::batch::Batch;
//! use embedctl_model::{Model, ModelOptions, WeightsPreference};
//! use embedctl_ort::{ResolvedEngine, rten};
//!
//! # fn main() -> embedctl_common::Result<()> {
//! let options = ModelOptions {
//!     model: "../../fixtures/parity/bert-cls/model".into(),
//!     ..ModelOptions::default()
//! };
//! let model = Model::open(&options, WeightsPreference::Onnx)?;
//! let engine = rten::open(&model, &ResolvedEngine::default(), &[])?;
//! let batch = Batch { ids: vec![2, 7, 9, 3], types: Vec::new(), ends: vec![4], seen: Vec::new() };
//! let mut worker = engine.worker()?;
//! assert!(worker.run(&batch)?.fits(&batch));
//! # Ok(())
//! # }
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

pub mod arithmetic;
pub mod built;
pub mod device;
pub mod engine;
mod feeds;
pub mod halving;
pub mod onnxruntime;
mod padded;
pub mod provider;
pub mod rten;
pub mod runtime;

pub use engine::*;

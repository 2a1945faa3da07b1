//! The two engines that run ONNX files: ONNX Runtime and rten.
//!
//! ```text
//!  runtime ── ONNX Runtime libraries: discovery, probes in child processes, plug-ins, remedies
//!  provider, device ── execution providers, and the hardware that they run on
//!  onnxruntime ── sessions; checks that the provider does the work and does it right; batch budgets
//!  rten ── ONNX files without ONNX Runtime
//!  built ── graphs written from a network's description, for checkpoints without an ONNX file
//!  feeds, padded ── the contents of a graph's inputs; rows are padded here and nowhere else
//! ```
//!
//! ```
//! use embedctl_rows::batch::Batch;
//! use embedctl_model::{Model, ModelOptions, WeightsPreference};
//! use embedctl_common::cancel::CancelToken;
//! use embedctl_engine::ResolvedEngine;
//! use embedctl_ort::rten;
//!
//! # fn main() -> embedctl_common::Result<()> {
//! let options = ModelOptions {
//!     model: "../../fixtures/parity/bert-cls/model".into(),
//!     ..ModelOptions::default()
//! };
//! let model = Model::open(&options, WeightsPreference::Onnx)?;
//! let engine = rten::open(&model, &ResolvedEngine::default(), &[], &CancelToken::new())?;
//! let batch = Batch { ids: vec![2, 7, 9, 3], types: Vec::new(), ends: vec![4], seen: Vec::new() };
//! let mut worker = engine.worker()?;
//! assert!(worker.run(&batch)?.fits(&batch));
//! # Ok(())
//! # }
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

pub mod built;
pub mod device;
mod feeds;
pub mod onnxruntime;
mod padded;
pub mod provider;
pub mod rten;
pub mod runtime;

use embedctl_common::error::{Error, Result};
use embedctl_common::setting::DEVICE;
use embedctl_engine::{EngineOptions, Provider};
use embedctl_rows::batch::BatchLimits;

/// Default batches for ONNX graphs on a processor: few enough tokens for the activations to stay in the cache.
pub(crate) const CPU_LIMITS: BatchLimits = BatchLimits {
    tokens: 512,
    rows: 128,
    equal_lengths: false,
};

/// Refuses device numbers that a provider with a single device does not have.
pub(crate) fn single_device(provider: Provider, options: &EngineOptions) -> Result<()> {
    if options.all_devices || matches!(options.devices[..], [] | [0]) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{DEVICE}: the provider {provider} has one device, number 0"
    ))
    .with_remedy(format!(
        "leave {DEVICE} out, or name a provider that has more"
    )))
}

//! ONNX Runtime, and what every engine for ONNX graphs needs.
//!
//! ```text
//!  runtime ── ONNX Runtime libraries: discovery, probes in child processes, plug-ins, remedies
//!  provider, device ── execution providers, and the hardware that they run on
//!  onnxruntime ── sessions; checks that the provider does the work and does it right; batch budgets
//!  built ── graphs written from a network's description, for checkpoints without an ONNX file
//!  feeds, padded ── the contents of a graph's inputs; rows are padded here and nowhere else
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

pub mod built;
pub mod device;
pub mod feeds;
pub mod onnxruntime;
pub mod padded;
pub mod provider;
pub mod runtime;

use embedctl_common::error::{Error, Result};
use embedctl_common::setting::DEVICE;
use embedctl_engine::{EngineOptions, Provider};
use embedctl_rows::batch::BatchLimits;

/// Default batches for ONNX graphs on a processor: few enough tokens for the activations to stay in the cache.
pub const CPU_LIMITS: BatchLimits = BatchLimits {
    tokens: 512,
    rows: 128,
    equal_lengths: false,
};

/// Refuses device numbers that a provider with a single device does not have.
///
/// # Errors
/// If they are asked for.
pub fn single_device(provider: Provider, options: &EngineOptions) -> Result<()> {
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

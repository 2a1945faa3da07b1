//! The engine inside: transformers straight from config.json and safetensors, without padding.
//!
//! - [`architecture`] reads config.json into a description, `names` knows what tensors are called,
//!   `loader` packs checkpoints for the kernels, a `network` holds them;
//! - `executor` runs any description over ragged rows: they follow one another as `[tokens, hidden]`, and
//!   attention runs for each row and head, so that a row's vector depends on nothing beside it;
//! - [`kernels`] does the arithmetic, in the best instructions that the processor has;
//! - `engine` puts all of it behind the engines' traits, and measures what reduced precision costs.

mod adapter;
pub mod architecture;
mod check;
mod engine;
mod executor;
pub mod kernels;
mod loader;
mod names;
mod need;
mod network;
mod packed;
mod prefix;
mod relative_bias;
mod rotary;
mod rows;
mod scratch;
mod settings;
mod statics;

#[cfg(test)]
mod adapter_tests;
#[cfg(test)]
mod damaged;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use self::check::check;
pub use self::engine::notes;
pub use self::engine::open;
pub use self::settings::Unsupported;

use self::architecture::Architecture;
use crate::batch::BatchLimits;

/// Tokens of a batch: so many that a product's weights are worth fetching, so few that activations stay in
/// a core's cache.
const LIMITS: BatchLimits = BatchLimits {
    tokens: 256,
    rows: 256,
    equal_lengths: false,
};

/// Whether the settings of a config.json are all understood: asked before any weights are there.
///
/// # Errors
/// A sentence that names the setting which is not.
pub fn knows(config: &serde_json::Value) -> Result<(), String> {
    if config["model_type"] == "model2vec" {
        return Ok(()); // no network, and nothing that config.json could ask of one
    }
    Architecture::parse(PathBuf::from("config.json"), config.clone())
        .map(|_| ())
        .map_err(|unsupported| unsupported.to_string())
}

//! The engine inside: transformers straight from config.json and safetensors, without padding.
//!
//! - [`architecture`] reads config.json into a description, `names` knows what tensors are called,
//!   `loader` packs checkpoints for the kernels, a `network` holds them;
//! - `executor` runs any description over ragged rows: they follow one another as `[tokens, hidden]`, and
//!   attention runs for each row and head, so that a row's vector depends on nothing beside it;
//! - [`kernels`] does the arithmetic, in the best instructions that the processor has;
//! - [`Encoder`] is an opened transformer, [`StaticTable`] an opened static model.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

pub mod architecture;
mod encoder;
mod executor;
pub mod kernels;
mod loader;
mod names;
mod network;
mod packed;
mod relative_bias;
mod rotary;
pub mod safetensors;
mod scratch;
mod settings;
mod statics;

#[cfg(test)]
mod damaged;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use embedctl_common::{error, remedies, small_file, word_list};
#[cfg(test)]
use embedctl_testing::mutation;

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;

pub use self::encoder::{Encoder, EncoderWorker};
pub use self::scratch::Rows;
pub use self::settings::Unsupported;
pub use self::statics::StaticTable;

use self::architecture::Architecture;

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

//! Transformer encoders and static embeddings on processors, straight from `config.json` and safetensors, without padding.
//!
//! ```text
//!  config.json ──► architecture ─┐
//!  *.safetensors ─► safetensors ─┴► loader ──► network: packed weights, one copy ──► executor + scratch of each worker
//!                    (checked)                 (fp32, bf16, int16 or int8)           [tokens, hidden], ragged rows
//!                                                kernels: AMX, AVX-512, AVX2, NEON, portable
//! ```
//!
//! - [`architecture`] reads config.json into a description; a setting that it does not know is refused by its name.
//! - [`Encoder`] is an opened transformer. Rows follow one another as `[tokens, hidden]` and attention runs for each row
//!   and head, so a row's states depend on nothing beside it, bit for bit, in every precision.
//! - [`StaticTable`] is an opened static model.
//! - [`kernels`] does the arithmetic in the best instructions that the processor has.
//!
//! ```
//! use embedctl_native::{Encoder, Rows, kernels::Arithmetic};
//!
//! # fn main() -> embedctl_common::Result<()> {
//! let encoder = Encoder::open("../../fixtures/architectures/bert".as_ref(), None, Arithmetic::Fp32, 1, None)?;
//! let mut worker = encoder.worker(); // one for each thread
//! let rows = Rows { ids: &[2, 7, 9, 3, 2, 5, 3], types: &[], ends: &[4, 7], seen: &[] };
//! let states = worker.run(rows)?; // [7, width]
//! assert_eq!(states.len(), 7 * encoder.width());
//! # Ok(())
//! # }
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

mod adapter;
mod adapter_settings;
pub mod architecture;
mod config_keys;
mod convolution;
mod crew;
mod delta_rule;
mod disentangled;
mod embedding;
mod encoder;
mod executor;
mod experts;
mod head_adapter;
pub mod kernels;
mod latent;
mod loader;
mod low_rank;
mod masked_head;
mod names;
mod need;
mod network;
mod network_weights;
mod packed;
mod plain;
mod prefix;
mod prepared;
mod relative_bias;
mod room;
mod rotary;
mod rows;
pub mod safetensors;
mod scratch;
mod settings;
mod statics;
mod tasks;
pub mod torch_file;
mod unused;

#[cfg(test)]
mod adapter_tests;
#[cfg(test)]
mod damaged_tests;
#[cfg(test)]
mod prepared_tests;
#[cfg(test)]
mod tasks_tests;
#[cfg(test)]
mod terms_tests;
#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;

use std::path::{Path, PathBuf};

/// README.md's example works.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;

pub use self::adapter_settings::{Adapter, AdapterSettings, LowRankAdapter};
pub use self::convolution::ConvolutionWeights;
pub use self::delta_rule::DeltaWeights;
pub use self::embedding::{unknown_id, unknown_type};
pub use self::encoder::{Encoder, EncoderWorker};
pub use self::head_adapter::HeadAdapter;
pub use self::latent::LatentMatrices;
pub use self::packed::{BesideProducts, Norms, Product};
pub use self::plain::{
    LatentProduct, OutsideLayers, PlainHead, PlainNetwork, PlainProduct, PlainTable, RelativeTables,
};
pub use self::prepared::PreparedCache;
pub use self::rotary::RotaryTable;
pub use self::scratch::Rows;
pub use self::settings::Unsupported;
pub use self::statics::StaticTable;

use self::architecture::Architecture;

/// Tokens of a batch that suit the network: so many that a product's weights are worth fetching, so few that activations
/// stay in a core's cache.
pub const BATCH_TOKENS: usize = 256;

/// Notes on the network in the checkpoint of `folder`: that it is taken of several, that it is causal although config.json
/// asks for attention both ways, and tensors that neither it nor anything else takes; `taken` are the names of those that
/// other parts of the model take. Reads headers alone; faults of the files
/// are reported when they are opened.
#[must_use]
pub fn network_notes(folder: &Path, files: &[PathBuf], taken: &[&str]) -> Vec<String> {
    let (Ok(architecture), Some(file)) = (Architecture::read(folder), files.last()) else {
        return Vec::new();
    };
    let shards = files.iter().filter(|file| {
        let ending = file.extension();
        ending.is_some_and(|ending| ending == "safetensors")
    });
    let stored = shards.flat_map(|shard| safetensors::outlines(shard).unwrap_or_default());
    let names: Vec<String> = match &architecture.tasks {
        Some(_) => stored.map(|(name, _)| tasks::plain_name(&name)).collect(),
        None => stored.map(|(name, _)| name).collect(),
    };
    let names = || names.iter().map(String::as_str);
    let Ok(found) = prefix::find(&architecture, file, names()) else {
        return Vec::new();
    };
    let left = names().filter(|name| !taken.contains(name));
    let unused = unused::words(&architecture, &found.prefix, left).map(|unused| {
        let reference = match architecture.own_code {
            true => "the network that config.json describes has no place for",
            false => "transformers' class leaves out",
        };
        format!(
            "{}: the checkpoint has what {reference}: {unused}",
            file.display()
        )
    });
    let direction = architecture.note_on_direction();
    let scaling = architecture.note_on_scaling();
    let asked = direction.into_iter().chain(scaling);
    (found.note.into_iter().chain(asked).chain(unused)).collect()
}

/// The support for the model that this config.json describes: the kinds of products that it runs in, or the
/// reason why it does not run it.
#[must_use]
pub fn support(config: &serde_json::Value) -> String {
    match knows(config) {
        Ok(()) => architecture::PRECISIONS.to_owned(),
        Err(reason) => format!("no: {reason}"),
    }
}

/// Whether the network of this config.json is that of the repository's own code, which transformers does not have.
#[must_use]
pub fn is_own_code(config: &serde_json::Value) -> bool {
    Architecture::parse(PathBuf::from("config.json"), config.clone())
        .is_ok_and(|architecture| architecture.own_code)
}

/// Whether the network of this config.json looks token types up in its table of tokens and adds them, so that it makes a
/// difference whether a row states types that all are 0.
#[must_use]
pub fn adds_token_types(config: &serde_json::Value) -> bool {
    Architecture::parse(PathBuf::from("config.json"), config.clone())
        .is_ok_and(|architecture| architecture.embeddings.word_types)
}

/// The tasks for which the checkpoint of this config.json has adapters; empty where it has none.
#[must_use]
pub fn task_names(config: &serde_json::Value) -> Vec<String> {
    let architecture = Architecture::parse(PathBuf::from("config.json"), config.clone());
    let tasks = architecture
        .ok()
        .and_then(|architecture| architecture.tasks);
    tasks.map_or_else(Vec::new, |tasks| tasks.names)
}

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

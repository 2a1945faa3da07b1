//! Transformer encoders and static embeddings on processors, straight from `config.json` and safetensors, without padding.
//!
//! ```text
//!  a description and its checkpoint ──► loader ──► network: packed weights, one copy ──► executor + scratch of each worker
//!  (embedctl-checkpoint, checked)                  (fp32, bf16, int16 or int8)           [tokens, hidden], ragged rows
//!                                                    embedctl-kernels: AMX, AVX-512, …
//! ```
//!
//! - [`Architecture`](embedctl_checkpoint::architecture::Architecture) is config.json as a description; a setting that is
//!   not known is refused by its name.
//! - [`Encoder`] is an opened transformer. Rows follow one another as `[tokens, hidden]` and attention runs for each row
//!   and head, so a row's states depend on nothing beside it, bit for bit, in every precision.
//! - [`StaticTable`] is an opened static model.
//! - [`embedctl_kernels`] does the arithmetic in the best instructions that the processor has.
//!
//! ```
//! use embedctl_native::{Arithmetic, Encoder, Rows};
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

mod convolution;
mod crew;
mod delta_rule;
mod disentangled;
mod embedding;
mod encoder;
mod executor;
mod experts;
mod latent;
mod loader;
mod masked_head;
mod need;
mod network;
mod network_weights;
mod packed;
mod plain;
mod prepared;
mod relative_bias;
mod room;
mod rotary;
mod rows;
mod scratch;
mod statics;
mod term_worker;

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

/// README.md's example works.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;

pub use self::convolution::ConvolutionWeights;
pub use self::delta_rule::DeltaWeights;
pub use self::embedding::{unknown_id, unknown_type};
pub use self::encoder::Encoder;
pub use self::latent::LatentMatrices;
pub use self::network::EncoderWorker;
pub use self::packed::{BesideProducts, Norms, Product};
pub use self::plain::{
    LatentProduct, OutsideLayers, PlainHead, PlainNetwork, PlainProduct, PlainTable, RelativeTables,
};
pub use self::prepared::PreparedCache;
pub use self::rotary::RotaryTable;
pub use self::scratch::Rows;
pub use self::statics::StaticTable;
pub use embedctl_common::Arithmetic;

/// Tokens of a batch that suit the network: so many that a product's weights are worth fetching, so few that activations
/// stay in a core's cache.
pub const BATCH_TOKENS: usize = 256;

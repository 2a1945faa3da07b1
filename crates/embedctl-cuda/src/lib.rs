//! Transformer encoders on NVIDIA GPUs, straight from `config.json` and safetensors, without padding.
//!
//! ```text
//!  Architecture ──► program: a list of launches ─┐
//!  PlainNetwork ──► weights in the card's memory ─┴► runner: ragged rows in, states or pooled vectors out
//!  (embedctl-native)                                  stream and memory of each worker
//!                    kernels/*.cu ─► NVRTC ─► card    products: cuBLASLt
//! ```
//!
//! Nothing of CUDA is needed to build this crate: the driver, NVRTC and cuBLASLt are loaded when a card is opened
//! ([`Libraries`]), and kernels are compiled for the card that is there ([`kernels`](mod@kernels)). `emulator/` stands for the three
//! libraries on a processor, so that tests run the same code.
//!
//! A row's vector has the same bits in any company: the width of a row chooses the kernel of a norm, the row's own length that
//! of its attention, and one algorithm makes a product of every batch.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

mod arguments;
mod card;
mod encoder;
pub mod kernels;
mod library;
mod memory;
mod pooling;
mod products;
mod program;
mod runner;
mod support;
mod upload;

#[cfg(test)]
#[path = "cuda_tests/mod.rs"]
mod tests;

pub use self::card::{Card, CardInfo};
pub use self::encoder::{Encoder, EncoderOptions};
pub use self::library::{LIBRARIES, Libraries, NeededLibrary, newest_cuda};
pub use self::pooling::{Pooling, PoolingMode};
pub use self::products::try_product;
pub use self::runner::{Batch, CardWorker};
pub use self::support::knows;

/// The engine's name in messages.
pub const NAME: &str = "cuda";

/// The numbers that weights and activations are kept in. Sums are in single precision in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CardElement {
    /// Single precision.
    F32,
    /// Half precision.
    F16,
    /// bfloat16.
    Bf16,
}

impl CardElement {
    /// Bytes of a value.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

//! The engines that this program has: the native one, that for NVIDIA GPUs, ONNX Runtime and rten, behind the interface of
//! [`embedctl_engine`]. [`availability`] says which of them work on this machine, [`work`] how much arithmetic a model
//! needs.

mod auto;
pub mod availability;
mod cuda;
mod installed;
pub mod native;
#[cfg(test)]
mod padding_tests;
#[cfg(test)]
pub(crate) mod resolved_tests;
pub(crate) mod work;

pub use auto::order as usual;
pub use embedctl_engine::*;
pub use embedctl_ort::{onnxruntime as ort, rten};
pub use installed::{installed, notes};

//! The engines that this program has: the native one, that for NVIDIA GPUs, ONNX Runtime and rten, behind the interface of
//! [`embedctl_engine`]. [`availability`] says which of them work on this machine.

mod auto;
pub mod availability;
mod cuda;
#[cfg(test)]
mod damaged_tests;
#[cfg(test)]
mod identity_tests;
mod installed;
pub mod native;
#[cfg(test)]
mod padding_tests;
#[cfg(test)]
pub(crate) mod resolved_tests;
pub mod rten;

pub use auto::order as usual;
pub use embedctl_engine::*;
pub use embedctl_ort::onnxruntime as ort;
pub use installed::installed;

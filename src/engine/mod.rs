//! The choice of the engine for a model: the native one, that for NVIDIA GPUs, ONNX Runtime, or rten. [`availability`] says which of them
//! work on this machine, [`work`] how much arithmetic a model needs.

mod auto;
pub mod availability;
mod cuda;
pub mod native;
mod open;
pub(crate) mod padding;
pub(crate) mod row_worker;
pub(crate) mod work;

pub use auto::order as usual;
pub use embedctl_ort::engine::*;
pub use embedctl_ort::{onnxruntime as ort, rten};
pub use open::{notes, open, settle};

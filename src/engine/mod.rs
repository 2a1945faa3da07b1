//! The choice of the engine for a model: the native one, that for NVIDIA GPUs, ONNX Runtime, or rten. [`availability`] says which of them
//! work on this machine, [`work`] how much arithmetic a model needs.

mod auto;
pub mod availability;
pub(crate) mod background;
mod cuda;
mod loaded;
pub mod native;
mod opening;
pub(crate) mod padding;
mod resolved;
pub(crate) mod row_worker;
pub(crate) mod work;

pub use auto::order as usual;
pub use embedctl_ort::engine::*;
pub use embedctl_ort::{onnxruntime as ort, rten};
pub use loaded::LoadedModel;
pub(crate) use loaded::OpeningModel;
pub use resolved::{Resolved, expected, notes, open};

//! ONNX Runtime libraries: finding, probing, choosing and loading them, and explaining why one is not used.
//!
//! A process can hold one ONNX Runtime, so all of this is settled before a session is made. [`discovery`] lists the
//! files that may be tried (with [`python`] and [`node`] for packages), [`plugin`] those that bring providers of their
//! own, [`binary`] and [`elf`] look at their headers, [`probe`] asks them in child processes, [`selection`] chooses,
//! [`preload`] finds a provider's dependencies, [`process`] names the variables that must be set before, [`library`]
//! loads, [`registration`] asks the library for a provider, [`placement`] reads where nodes were put, [`trust`] says
//! whose files may be run unasked, [`bounded_command`] runs programs with limits, [`remedy`] turns a loader's or
//! driver's message into a remedy, and [`unusable`] knows what this machine lacks. [`crate::onnxruntime`] runs models
//! in sessions.

mod binary;
mod bounded_command;
mod discovery;
mod elf;
mod fault;
pub(crate) mod library;
mod node;
pub(crate) mod placement;
pub(crate) mod plugin;
mod preload;
pub mod probe;
pub mod process;
mod python;
pub(crate) mod registration;
pub(crate) mod remedy;
mod search_path;
pub mod selection;
pub(crate) use embedctl_common::trust;
pub mod unusable;

pub use embedctl_engine::{Plugin, ProbeCommand, RuntimeOptions};
pub use plugin::{PluginDevice, PluginReport};
pub use preload::cuda_library;
pub use process::{allow_any_adapter, disable_telemetry, forbid_tf32, wants_no_tf32};
pub use trust::doubt;

use embedctl_common::error::{Cause, Error, ErrorKind};

/// The engine's name in messages.
pub(crate) const NAME: &str = "ONNX Runtime";

/// An error of ONNX Runtime's.
pub(crate) fn engine_error(cause: impl Into<Cause>) -> Error {
    Error::engine(NAME, cause)
}

/// The same of one provider: `auto` passes over it.
pub(crate) fn provider_error(cause: impl Into<Cause>) -> Error {
    Error::new(ErrorKind::Provider, NAME, cause)
}

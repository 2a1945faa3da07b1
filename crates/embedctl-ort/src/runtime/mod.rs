//! ONNX Runtime libraries: where they lie, what they can do, which one is loaded, and why one is not.
//!
//! A process can hold one ONNX Runtime, so all of this is settled before a session is made. [`discovery`]
//! lists the files that may be tried (with [`python`] and [`node`] for packages), [`plugin`] those that bring
//! providers of their own, [`binary`] and [`elf`] look at their headers, [`probe`] asks them in child processes, [`selection`] chooses, [`preload`] finds what a provider
//! needs from elsewhere, [`process`] names the variables that must be set before, [`library`] loads,
//! [`registration`] asks the library for a provider, [`placement`] reads where nodes were put, [`trust`] says
//! whose files may be run unasked, [`asked`] ends programs that are asked, [`remedy`] turns a loader's or
//! driver's words into what helps, and [`unusable`] knows what this machine lacks. Running models
//! in sessions is [`crate::onnxruntime`]'s.

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
pub(crate) mod trust;
pub mod unusable;

use std::path::PathBuf;

pub use plugin::{Plugin, PluginDevice, PluginReport};
pub use probe::ProbeCommand;
pub use process::{allow_any_adapter, disable_telemetry, forbid_tf32, wants_no_tf32};
pub use trust::doubt;

use embedctl_common::error::{Cause, Error, ErrorKind};

/// The engine's name in messages.
pub(crate) const NAME: &str = "ONNX Runtime";

/// Which library to use, and how to find out what it can do.
#[derive(Debug, Clone, Default)]
pub struct RuntimeOptions {
    /// `--ort-lib`: an ONNX Runtime library or the folder that holds it; `None`: libraries are looked for.
    pub library: Option<PathBuf>,
    /// How to ask a library in a process of its own what it can do. Without it nothing is asked: the first
    /// library that has the wanted provider is loaded into this process, and no plug-in is used.
    pub probe: Option<ProbeCommand>,
}

/// An error of ONNX Runtime's.
pub(crate) fn engine_error(cause: impl Into<Cause>) -> Error {
    Error::engine(NAME, cause)
}

/// The same of one provider: a step that `auto` passes over.
pub(crate) fn provider_error(cause: impl Into<Cause>) -> Error {
    Error::new(ErrorKind::Provider, NAME, cause)
}

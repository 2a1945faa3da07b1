//! Asking libraries what they can do, each in a process of its own.
//!
//! A process can hold one ONNX Runtime, and some builds crash or hang where a driver is not as they expect.
//! So a library is loaded by a child, which tries the providers that are wanted on a small graph and
//! reports; this process loads the one library that was chosen by that.

mod report;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use report::{LibraryReport, ProviderReport};

use crate::cancel::CancelToken;

/// How long a library may take to load and to try all its providers. CUDA's first start on a machine with
/// many devices takes seconds, a TensorRT engine for the small graph some more.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// How to start a probe. The library crate never runs a program of its own accord: without this it loads
/// libraries into its own process and finds out there.
#[derive(Debug, Clone)]
pub struct ProbeCommand {
    /// The program, which hands the arguments that follow [`ProbeCommand::arguments`] to `serve`.
    pub program: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<OsString>,
    /// How long one library may take.
    pub time_limit: Duration,
}

impl ProbeCommand {
    /// A command with the usual time limit.
    #[must_use]
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self {
            program,
            arguments,
            time_limit: TIME_LIMIT,
        }
    }
}

/// Asks all libraries that are found (or the one that is named) what they can do, side by side. They come
/// in the order in which they would be tried; those that cannot be used are among them, with the reason.
/// Ends early, with what is known by then, when `cancel` asks for it.
#[must_use]
pub fn survey(
    command: &ProbeCommand,
    ort_library: Option<&Path>,
    cancel: &CancelToken,
) -> Vec<LibraryReport> {
    let _ = (command, ort_library, cancel);
    Vec::new()
}

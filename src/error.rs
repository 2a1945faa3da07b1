//! The library's one error type.
//!
//! Every message is a sentence that says what went wrong, where, and what to do about it; causes stay
//! reachable through [`std::error::Error::source`]. The command line maps variants to exit codes.

use std::path::{Path, PathBuf};

/// Shorthand for results of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong between opening the input and publishing the output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Options that contradict each other, the model, or the input. Nothing was read or written.
    #[error("{0}")]
    Usage(String),

    /// The operating system refused something.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried, as a verb phrase: `read`, `create`, `write to`.
        action: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },

    /// A complete output that cannot have its name. What stood under it stands there as before.
    #[error("cannot give the output the name {}; it is complete, and stays as {}", path.display(), kept.display())]
    Unpublished {
        /// The name that was refused: the output's, or that of a file beside it.
        path: PathBuf,
        /// Where the output is now; files beside it have its name with their endings.
        kept: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },

    /// An input stream that cannot be read to its end (truncated `.gz`, damaged `.zst`, …).
    #[error("{place}: {reason}")]
    Input {
        /// File name or `standard input`, with the line where it is known.
        place: String,
        /// What is wrong with it and what to do.
        reason: String,
    },

    /// A record that cannot be embedded, under `--on-error fail`.
    #[error("{place}: {reason}")]
    BadRecord {
        /// `file:line`.
        place: String,
        /// What is wrong with the record and the remedy.
        reason: String,
    },

    /// A model folder that is incomplete, inconsistent, or of a kind that embedctl does not run.
    #[error("model {model}: {reason}")]
    Model {
        /// Id or folder of the model.
        model: String,
        /// What is missing or unsupported, in which file, and the option or step that helps.
        reason: String,
    },

    /// An engine could not be had, could not load the model, or failed while running it.
    #[error("{engine}: {reason}")]
    Engine {
        /// `ONNX Runtime` or `rten`.
        engine: &'static str,
        /// What failed, with the engine's own words.
        reason: String,
    },

    /// A batch needs more memory than the engine's device has; fewer rows may do.
    #[error("{engine}: {reason}")]
    OutOfMemory {
        /// As in [`Error::Engine`].
        engine: &'static str,
        /// What failed, with the engine's own words.
        reason: String,
    },

    /// The reader of our output went away (a closed pipe). Not a failure.
    #[error("the reader of the output closed it")]
    ClosedPipe,

    /// The run was cancelled.
    #[error("interrupted")]
    Interrupted,

    /// A broken promise of embedctl's own: a panic in a worker, a row count that does not add up.
    #[error("internal error: {0}; please report this as a bug")]
    Internal(String),
}

impl Error {
    /// An [`Error::Io`], or [`Error::ClosedPipe`] where the cause is a closed pipe.
    pub fn io(action: &'static str, path: impl AsRef<Path>, source: std::io::Error) -> Self {
        if source.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::ClosedPipe;
        }
        Self::Io {
            action,
            path: path.as_ref().to_path_buf(),
            source,
        }
    }

    /// An [`Error::Model`].
    pub fn model(model: impl std::fmt::Display, reason: impl Into<String>) -> Self {
        Self::Model {
            model: model.to_string(),
            reason: reason.into(),
        }
    }

    /// The same with every text that could hold somebody else's words changed by `word`.
    pub(crate) fn reworded(self, word: &dyn Fn(&str) -> String) -> Self {
        match self {
            Self::Usage(text) => Self::Usage(word(&text)),
            Self::Model { model, reason } => Self::Model {
                model: word(&model),
                reason: word(&reason),
            },
            other => other,
        }
    }
}

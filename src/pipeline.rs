//! The one file that names every stage: channels, workers, order, cancellation, ledger.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cancel::CancelToken;
use crate::engine::{EngineInfo, EngineOptions};
use crate::error::Result;
use crate::input::{InputOptions, Source};
use crate::model::ModelOptions;
use crate::output::OutputOptions;
use crate::progress::{Counts, Progress};

/// What a bad record does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Stops the run.
    #[default]
    Fail,
    /// Is counted, reported and left out.
    Skip,
}

/// Everything that `embedctl embed` can be told.
#[derive(Debug, Clone)]
pub struct EmbedOptions {
    /// Which model, and what overrides its files.
    pub model: ModelOptions,
    /// Which engine and provider. [`EngineOptions::workers`] is set by the pipeline.
    pub engine: EngineOptions,
    /// Sources, read one after another.
    pub sources: Vec<Source>,
    /// How to read them.
    pub input: InputOptions,
    /// Where vectors go.
    pub output: OutputOptions,
    /// What a bad record does.
    pub on_error: OnError,
    /// Where rejected records are written (JSONL).
    pub rejects: Option<PathBuf>,
    /// Padded tokens in a batch at most; `None`: what suits the engine.
    pub batch_tokens: Option<usize>,
    /// Rows in a batch at most; `None`: what suits the engine.
    pub batch_rows: Option<usize>,
    /// Worker threads; `None`: one per usable core.
    pub threads: Option<usize>,
}

/// What a finished run did.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Rows and tokens; `embedded + rejected == read` was checked.
    pub counts: Counts,
    /// What ran the model.
    pub engine: EngineInfo,
    /// Hub id or folder of the model.
    pub model: String,
    /// Width of a vector.
    pub dimensions: usize,
    /// Worker threads.
    pub threads: usize,
    /// Tokens of a row at most.
    pub max_length: usize,
    /// Time until the first record could be embedded: model and engine loaded.
    pub load: Duration,
    /// Time from then to the published output.
    pub run: Duration,
    /// Places and reasons of the first rejected records ([`Summary::SHOWN_REJECTS`] at most).
    pub rejects: Vec<String>,
    /// Things a user should be told once, such as a default that was taken.
    pub notes: Vec<String>,
}

impl Summary {
    /// How many rejected records are remembered with their reasons.
    pub const SHOWN_REJECTS: usize = 10;
}

/// Runs the main job: opens model, engine, sources and output, embeds every record, publishes.
///
/// # Errors
/// Anything that stops the run; nothing stands under the output's name then.
pub fn embed(
    options: &EmbedOptions,
    progress: &Arc<dyn Progress>,
    cancel: &CancelToken,
) -> Result<Summary> {
    let _ = (options, progress, cancel);
    unimplemented!()
}

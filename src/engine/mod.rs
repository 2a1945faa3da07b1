//! What runs the model: one trait, two engines.
//!
//! An [`Engine`] is an opened model. Each pipeline thread asks it for a [`Worker`] of its own, so that
//! `run` needs no lock. A worker returns token-level hidden states, or finished rows where the graph (or,
//! later, the device) pools; [`crate::pool`] finishes only the former.

mod feeds;
pub mod ort;
mod provider;
pub mod tract;

use std::path::PathBuf;

use serde::Serialize;

pub use provider::{Provider, ProviderChoice};

use crate::batch::Batch;
use crate::cancel::CancelToken;
use crate::error::Result;
use crate::model::Model;

/// How to open an engine.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// Which providers, in order of preference.
    pub providers: ProviderChoice,
    /// `--device`: device numbers for the provider; empty means the provider's default.
    pub devices: Vec<u32>,
    /// `--ort-lib`: an ONNX Runtime library or the folder that holds it.
    pub ort_library: Option<PathBuf>,
    /// How to ask a library in a process of its own what it can do. Without it nothing is asked: the first
    /// library that has the wanted provider is loaded into this process.
    pub probe: Option<ort::probe::ProbeCommand>,
    /// How many workers will be asked for (lets an engine share weights between them or not).
    pub workers: usize,
    /// Stops an engine that is still being opened.
    pub cancel: CancelToken,
}

/// What was opened, as it goes into summaries and output files.
#[derive(Debug, Clone, Serialize)]
pub struct EngineInfo {
    /// `onnxruntime` or `tract`.
    pub engine: &'static str,
    /// The engine's own version.
    pub version: String,
    /// The provider that does the work.
    pub provider: Provider,
    /// The shared library, for engines that live in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<PathBuf>,
    /// Candidates that were passed over and why, in order: shown with `-v`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<PassedOver>,
}

/// A library or provider that was considered and not taken.
#[derive(Debug, Clone, Serialize)]
pub struct PassedOver {
    /// Path or provider name.
    pub candidate: String,
    /// The reason, in the loader's or provider's own words.
    pub reason: String,
}

/// Batch shapes that suit an engine; the user's `--batch-tokens` and `--batch-size` go before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Padded tokens in a batch at most (rows × longest row); a single longer row still forms a batch.
    pub tokens: usize,
    /// Rows in a batch at most.
    pub rows: usize,
}

/// Token-level output of a model.
#[derive(Debug)]
pub struct Hidden<'a> {
    /// Hidden states in f32, row-major `[rows, length, width]`, rows and length as in the batch.
    pub states: &'a [f32],
    /// Width of a token's hidden state.
    pub width: usize,
}

/// What a worker returns for a batch.
#[derive(Debug)]
pub enum Output<'a> {
    /// Token-level states, to be pooled.
    Hidden(Hidden<'a>),
    /// Finished rows, row-major `[rows, width]`.
    Pooled {
        /// The rows in the batch's order, f32.
        rows: &'a [f32],
        /// Width of a row.
        width: usize,
    },
}

/// An opened model.
pub trait Engine: Send + Sync {
    /// What was opened.
    fn info(&self) -> &EngineInfo;

    /// Batch shapes that suit this engine and model best.
    fn limits(&self) -> BatchLimits;

    /// A worker for one thread. Called once per thread, before the first batch.
    ///
    /// # Errors
    /// If the engine cannot make another instance (memory, device).
    fn worker(&self) -> Result<Box<dyn Worker>>;
}

/// One thread's way to run batches.
pub trait Worker: Send {
    /// Runs one batch; the result borrows the worker's own buffer.
    ///
    /// # Errors
    /// If the engine fails; the batch may be run again.
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>>;
}

/// Opens the first provider of `options.providers` that works here.
///
/// # Errors
/// If none works; the message names each candidate's reason and the remedy.
pub fn open(model: &Model, options: &EngineOptions) -> Result<Box<dyn Engine>> {
    provider::open(model, options)
}

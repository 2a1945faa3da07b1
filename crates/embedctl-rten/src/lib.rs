//! rten, the engine for ONNX graphs inside the binary: pure Rust, so that a model runs with nothing installed.
//!
//! [`graph`] reads a file as rten takes it and runs it on a batch of any shape; all workers share the one
//! copy of its weights, each on a thread of its own.
//!
//! ```
//! use embedctl_rows::batch::Batch;
//! use embedctl_model::{Model, ModelOptions, WeightsPreference};
//! use embedctl_common::cancel::CancelToken;
//! use embedctl_engine::ResolvedEngine;
//!
//! # fn main() -> embedctl_common::Result<()> {
//! let options = ModelOptions {
//!     model: "../../fixtures/parity/bert-cls/model".into(),
//!     ..ModelOptions::default()
//! };
//! let model = Model::open(&options, WeightsPreference::Onnx)?;
//! let engine = embedctl_rten::open(&model, &ResolvedEngine::default(), &[], &CancelToken::new())?;
//! let batch = Batch { ids: vec![2, 7, 9, 3], types: Vec::new(), ends: vec![4], seen: Vec::new() };
//! let mut worker = engine.worker()?;
//! assert!(worker.run(&batch)?.fits(&batch));
//! # Ok(())
//! # }
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

mod check;
mod graph;
mod stored;
#[cfg(test)]
#[path = "rten_tests.rs"]
mod tests;

use std::convert::identity;
use std::sync::Arc;
use std::time::Duration;

pub use self::check::check;

use self::graph::{RtenGraph, RtenSource, RunThreads};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::setting::{MODEL_FILE, PROVIDER};
use embedctl_common::threads::{self, within};
use embedctl_engine::{
    Engine, EngineInfo, Output, Provider, ResolvedEngine, SkippedCandidate, Worker,
};
use embedctl_model::Model;
use embedctl_ort::feeds::Feeds;
use embedctl_ort::padded::PaddedBatch;
use embedctl_ort::{CPU_LIMITS, single_device};
use embedctl_rows::batch::{Batch, BatchLimits};

/// The engine's name in messages.
const NAME: &str = "rten";

/// Version of the rten crate: Cargo.toml pins it, and a test holds this against it.
pub const VERSION: &str = "0.27.0";

/// The remedy if rten cannot run a graph.
fn alternatives_remedy() -> String {
    format!(
        "ONNX Runtime may run it (pip install onnxruntime, then {PROVIDER} cpu), or name another ONNX file with \
         {MODEL_FILE}"
    )
}

/// How long opening a graph may take: seconds, for the largest on the slowest machine minutes. A strange one
/// must not be optimised for ever.
const OPENING_TIME: Duration = Duration::from_secs(600);

/// Opens `model` with rten.
///
/// # Errors
/// If rten lacks an operator of the graph, or fails on a small batch.
pub fn open(
    model: &Model,
    options: &ResolvedEngine,
    passed_over: &[SkippedCandidate],
    cancel: &CancelToken,
) -> Result<Box<dyn Engine>> {
    single_device(Provider::Rten, options)?;
    let source = RtenSource::of(model, options)?;
    let path = source.path().to_path_buf();
    let built = source.built_in();
    let feeds = Feeds::of(model, source.declared(), &source.output(model))?;
    let token_rows = feeds.token_rows;
    let rows = feeds.max_rows.unwrap_or(usize::MAX);
    let opened = within(OPENING_TIME, cancel.channel(), move || {
        let graph = RtenGraph::read(&source, feeds)?;
        // Some graphs load and fail when they run, which should be known before the first record.
        graph.run(&RunThreads::one(), &trial(rows.min(2), 3))?;
        Ok(graph)
    });
    let graph = opened.map_err(|reason: Cause| {
        if cancel.is_cancelled() {
            return Error::interrupted();
        }
        let Cause { reason, remedy } = reason;
        let reason = reason.trim_end_matches('.');
        let error = failed(format!("cannot run {}: {reason}", path.display()));
        error.with_remedy(remedy.unwrap_or_else(alternatives_remedy))
    })?;
    Ok(Box::new(RtenEngine {
        info: EngineInfo {
            passed_over: passed_over.to_vec(),
            built_graph: built,
            ..EngineInfo::new(NAME, VERSION.into(), Provider::Rten)
        },
        limits: BatchLimits {
            rows: CPU_LIMITS.rows.min(rows),
            ..CPU_LIMITS
        },
        token_rows,
        graph: Arc::new(graph),
    }))
}

/// Rows of the token 0.
fn trial(rows: usize, length: usize) -> PaddedBatch {
    PaddedBatch {
        rows,
        length,
        input_ids: vec![0; rows * length],
        attention_mask: vec![1; rows * length],
        token_types: Vec::new(),
    }
}

fn failed(reason: String) -> Error {
    Error::engine(NAME, reason)
}

/// Runs rten's code; a panic becomes an error.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    threads::guarded(work, identity).map_err(|reason| reason.trim_end_matches('.').into())
}

struct RtenEngine {
    info: EngineInfo,
    limits: BatchLimits,
    token_rows: Option<usize>,
    graph: Arc<RtenGraph>,
}

impl Engine for RtenEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        self.limits
    }

    fn token_rows(&self) -> Option<usize> {
        self.token_rows
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        Ok(Box::new(RtenWorker {
            graph: Arc::clone(&self.graph),
            threads: RunThreads::one(),
            padded: PaddedBatch::default(),
            states: Vec::new(),
        }))
    }
}

/// One thread and its last output.
struct RtenWorker {
    graph: Arc<RtenGraph>,
    threads: RunThreads,
    padded: PaddedBatch,
    states: Vec<f32>,
}

impl Worker for RtenWorker {
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        self.padded.fill(batch, self.graph.feeds.padding_id);
        let padded = &self.padded;
        let (states, width) =
            guarded(|| self.graph.run(&self.threads, padded)).map_err(|reason| {
                failed(format!(
                    "failed on a batch of {} rows of {} tokens: {reason}",
                    padded.rows, padded.length
                ))
                .with_remedy(alternatives_remedy())
            })?;
        self.states = states;
        Ok(self.graph.feeds.wrap(&self.states, &self.padded, width))
    }
}

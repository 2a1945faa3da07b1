//! Whether padding changes a vector: measured by running a model, since no file tells.
//!
//! A graph without an attention mask, or one that mixes positions (Fourier transforms, convolutions,
//! norms over a row), gives a short text another vector beside a longer one. Such a model is run with
//! rows of equal length together, so that there is no padding.

use std::sync::Mutex;

use crate::batch::{Batch, BatchLimits, BatchPlan, TokenRows};
use crate::engine::row_worker::{check_output, finish_row};
use crate::engine::{self, Cosine, Engine, EngineInfo, EngineOptions, FinishRow, Worker};
use crate::error::Result;
use crate::model::{ElementType, Graph, Model, WeightsKind};
use crate::pool::Pooler;
use crate::provider::Provider;
use crate::threads::locked;

/// The most that a vector may change beside a longer row, in exact arithmetic.
const MOST: f32 = 1e-5;

/// The same if the graph or the device rounds: kernels of other shapes round in other ways.
const MOST_ROUGH: f32 = 5e-3;

/// Tokens of the short row, and of the long one.
const LENGTHS: [usize; 2] = [5, 23];

/// Opens an engine for `model` and checks whether it can run rows of different lengths together.
///
/// # Errors
/// As [`engine::open()`]; or if a short row cannot be run.
pub(crate) fn open(model: &Model, options: &EngineOptions) -> Result<Box<dyn Engine>> {
    let engine = engine::open(model, options)?;
    let single = engine.limits().rows < 2;
    // The native engine has no padding, and quantization of whole batches has a warning of its own.
    let graph = match &model.onnx {
        Ok(onnx) if !single && engine.info().provider.weights() == WeightsKind::Onnx => &onnx.graph,
        _ => return Ok(engine),
    };
    if graph.is_dynamically_quantized() {
        return Ok(engine);
    }
    let mut worker = engine.worker()?;
    let info = EngineInfo {
        equal_lengths: padding_changes_vectors(worker.as_mut(), engine.info(), model, graph)?,
        ..engine.info().clone()
    };
    Ok(Box::new(PaddingCheckedEngine {
        engine,
        info,
        worker: Mutex::new(Some(worker)),
    }))
}

/// The note on such a model.
pub(crate) const NOTE: &str = "padding changes this model's vectors, so only rows of equal length run together (slower, but \
                               each text's vector is its own)";

/// Whether a short row's vector changes beside a longer one.
fn padding_changes_vectors(
    worker: &mut dyn Worker,
    info: &EngineInfo,
    model: &Model,
    graph: &Graph,
) -> Result<bool> {
    let lengths = LENGTHS.map(|length| length.min(model.config.max_length).max(1));
    if lengths[0] == lengths[1] {
        return Ok(false);
    }
    let mut tokens = TokenRows::default();
    for length in lengths {
        // Any id except padding's works, and low ids exist in every vocabulary.
        let ids = (0..length as u32).map(|index| 5 + index % 40);
        tokens.push(
            ids.map(|id| if id == model.config.padding_id { 4 } else { id }),
            false,
        );
    }
    let pooler = Pooler::new(&model.config, 0);
    let mut run = |rows: &[u32], length| {
        let plan = BatchPlan {
            rows: rows.to_vec(),
            length,
        };
        last_row(worker, model, &pooler, &plan, &tokens)
    };
    let alone = run(&[0], lengths[0])?;
    let Ok(beside) = run(&[1, 0], lengths[1]) else {
        return Ok(true);
    };
    let scale = alone
        .iter()
        .fold(1.0_f32, |most, value| most.max(value.abs()));
    let apart = alone
        .iter()
        .zip(&beside)
        .map(|(a, b)| (a - b).abs() / scale)
        // A NaN moves farthest, and `max` would drop it.
        .fold(0.0_f32, |most, one| if one <= most { most } else { one });
    let exact = matches!(info.provider, Provider::Cpu | Provider::Rten)
        && graph
            .output(model.config.output.name())
            .is_some_and(|output| matches!(output.element, ElementType::F32 | ElementType::F64));
    let most = if exact { MOST } else { MOST_ROUGH };
    Ok(apart.is_nan() || apart > most)
}

/// The finished vector of a plan's last row.
fn last_row(
    worker: &mut dyn Worker,
    model: &Model,
    pooler: &Pooler,
    plan: &BatchPlan,
    tokens: &TokenRows,
) -> Result<Vec<f32>> {
    let mut batch = Batch::default();
    batch.fill(plan, tokens, &model.config.frame);
    let last = batch.rows() - 1;
    let mut vector = Vec::new();
    let output = worker.run(&batch)?;
    check_output(&output, &batch, pooler, &model.id)?;
    finish_row(&output, &batch, last, pooler, &mut vector);
    Ok(vector)
}

/// An engine whose model has been checked for effects of padding.
struct PaddingCheckedEngine {
    engine: Box<dyn Engine>,
    info: EngineInfo,
    /// The worker that ran the check; it is handed out first.
    worker: Mutex<Option<Box<dyn Worker>>>,
}

impl Engine for PaddingCheckedEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        BatchLimits {
            equal_lengths: self.info.equal_lengths,
            ..self.engine.limits()
        }
    }

    fn workers(&self) -> Option<usize> {
        self.engine.workers()
    }

    fn operations(&self, tokens: usize) -> u64 {
        self.engine.operations(tokens)
    }

    fn measure(&self, rows: &TokenRows, finish: FinishRow<'_>) -> Result<Option<Cosine>> {
        self.engine.measure(rows, finish)
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        let asked = locked(&self.worker).take();
        asked.map_or_else(|| self.engine.worker(), Ok)
    }
}

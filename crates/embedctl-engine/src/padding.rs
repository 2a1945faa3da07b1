//! Whether padding changes a vector: measured by running a model, since no file tells.
//!
//! A graph without an attention mask, or one that mixes positions (Fourier transforms, convolutions,
//! norms over a row), gives a short text another vector beside a longer one. Such a model is run with
//! rows of equal length together, so that there is no padding.

use std::sync::Mutex;

use embedctl_common::cancel::CancelToken;
use embedctl_common::error::Result;
use embedctl_common::threads::locked;
use embedctl_model::{ElementType, Model, WeightsKind};
use embedctl_rows::batch::{Batch, BatchLimits, BatchPlan, TokenRows};
use embedctl_rows::pool::Pooler;

use crate::row_worker::{check_output, finish_rows};
use crate::{Cosine, Engine, EngineInfo, FinishRow, Provider, Resolved, Worker};

/// The most that a vector may change beside a longer row, in exact arithmetic.
const MOST: f32 = 1e-5;

/// The same if the graph or the device rounds: kernels of other shapes round in other ways. Between both bounds an exact
/// engine decides.
const MOST_ROUGH: f32 = 5e-3;

/// Tokens of the short row, and of the long one.
const LENGTHS: [usize; 2] = [5, 23];

/// Opens an engine for `model` and checks whether it can run rows of different lengths together.
///
/// # Errors
/// As [`Resolved::open_engine`]; or if a short row cannot be run.
pub(crate) fn open(
    model: &Model,
    resolved: &Resolved,
    cancel: &CancelToken,
) -> Result<Box<dyn Engine>> {
    let engine = resolved.open_engine(model, cancel)?;
    let single = engine.limits().rows < 2;
    // The native engine has no padding, and quantization of whole batches has a warning of its own.
    let graph = match &model.onnx {
        Ok(onnx) if !single && engine.info().provider.weights_of(model) == WeightsKind::Onnx => {
            &onnx.graph
        }
        _ => return Ok(engine),
    };
    if mixes_rows(model, engine.info()) {
        return Ok(engine);
    }
    let mut worker = engine.worker()?;
    let apart = padding_moves(worker.as_mut(), model)?;
    let measured = MeasuredPadding {
        apart,
        exact_engine: is_exact(engine.info().provider),
        exact_graph: graph
            .output(model.config.output.name())
            .is_some_and(|output| matches!(output.element, ElementType::F32 | ElementType::F64)),
    };
    let info = EngineInfo {
        equal_lengths: measured.padding_matters(|| moved_exactly(model, resolved, cancel)),
        ..engine.info().clone()
    };
    Ok(Box::new(PaddingCheckedEngine {
        engine,
        info,
        worker: Mutex::new(Some(worker)),
    }))
}

/// Whether the rows of a batch change each other's vectors: a graph that is quantized while it runs takes one scale for
/// all of them.
#[must_use]
pub fn mixes_rows(model: &Model, info: &EngineInfo) -> bool {
    let runs_graph = info.provider.weights_of(model) == WeightsKind::Onnx;
    runs_graph
        && model
            .onnx()
            .is_ok_and(|onnx| onnx.graph.is_dynamically_quantized())
}

/// The note on such a model.
pub const NOTE: &str = "padding changes this model's vectors, so only rows of equal length run together (slower, but \
                               each text's vector is its own)";

/// Whether a provider computes in single precision throughout, by the same arithmetic for rows of any shape.
fn is_exact(provider: Provider) -> bool {
    matches!(provider, Provider::Cpu | Provider::Rten)
}

/// How far padding moves a vector on the engine that is to run the model.
struct MeasuredPadding {
    apart: f32,
    /// Whether that engine computes exactly.
    exact_engine: bool,
    /// Whether the graph does.
    exact_graph: bool,
}

impl MeasuredPadding {
    /// Whether padding matters. Where an engine may have rounded that much, `exactly` tells how far an exact one moves
    /// the vector, if there is one here.
    fn padding_matters(&self, exactly: impl FnOnce() -> Option<f32>) -> bool {
        let beyond = |apart: f32, most: f32| apart.is_nan() || apart > most;
        if !beyond(self.apart, MOST) || beyond(self.apart, MOST_ROUGH) {
            return beyond(self.apart, MOST);
        }
        match (self.exact_graph, self.exact_engine) {
            (false, _) => false,
            (true, true) => true,
            (true, false) => exactly().is_some_and(|apart| beyond(apart, MOST)),
        }
    }
}

/// How far padding moves a vector of `model` on an exact engine, as a share of its largest component; `None` if none here
/// runs the model.
#[must_use]
pub fn moved_exactly(model: &Model, resolved: &Resolved, cancel: &CancelToken) -> Option<f32> {
    let engine = resolved.exactly().open_engine(model, cancel).ok()?;
    padding_moves(engine.worker().ok()?.as_mut(), model).ok()
}

/// The largest change of a short row's vector beside a longer one, as a share of its largest component; infinite if
/// they cannot run together.
fn padding_moves(worker: &mut dyn Worker, model: &Model) -> Result<f32> {
    let lengths = LENGTHS.map(|length| length.min(model.config.max_length).max(1));
    if lengths[0] == lengths[1] {
        return Ok(0.0);
    }
    let mut tokens = TokenRows::default();
    for length in lengths {
        // Any id except padding's works, and low ids exist in every vocabulary.
        let ids = (0..length as u32).map(|index| 5 + index % 40);
        tokens.push(
            ids.map(|id| if id == model.config.padding_id { 4 } else { id }),
            0,
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
        return Ok(f32::INFINITY);
    };
    let scale = alone
        .iter()
        .fold(1.0_f32, |most, value| most.max(value.abs()));
    let differences = alone
        .iter()
        .zip(&beside)
        .map(|(a, b)| (a - b).abs() / scale);
    // A NaN moves farthest, and `max` would drop it.
    Ok(differences.fold(0.0_f32, |most, one| if one <= most { most } else { one }))
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
    let mut vectors = pooler.no_rows();
    let output = worker.run(&batch)?;
    check_output(&output, &batch, pooler, &model.id)?;
    finish_rows(&output, &batch, last..last + 1, pooler, &mut vectors);
    Ok(vectors.get(0).first().in_full(pooler.width()))
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

    fn token_rows(&self) -> Option<usize> {
        self.engine.token_rows()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_the_bounds_an_exact_engine_decides() {
        const SMALL: Option<f32> = Some(3e-7);
        const LARGE: Option<f32> = Some(2.2e-3);
        // Measured here; whether engine and graph are exact; what an exact engine says; the answer.
        for (apart, exact_engine, exact_graph, other, expected) in [
            (1e-6, true, true, None, false),
            (2e-3, true, true, None, true),
            (1e-6, false, true, LARGE, false),
            (2.2e-3, false, true, LARGE, true),
            (2.2e-3, false, true, SMALL, false),
            (2.2e-3, false, true, Some(f32::NAN), true),
            (2.2e-3, false, true, None, false),
            (2.2e-3, false, false, LARGE, false),
            (2.2e-3, true, false, LARGE, false),
            (0.1, false, true, SMALL, true),
            (0.1, false, false, None, true),
            (f32::NAN, false, true, SMALL, true),
            (f32::INFINITY, true, true, None, true),
        ] {
            let measured = MeasuredPadding {
                apart,
                exact_engine,
                exact_graph,
            };
            let answer = measured.padding_matters(|| other);
            assert_eq!(
                answer, expected,
                "{apart} {exact_engine} {exact_graph} {other:?}"
            );
        }
    }
}

//! tract, the embedded engine: pure Rust, inside the binary, so that a model runs with nothing installed.
//!
//! tract plans ahead for shapes. [`source`] makes plans from a parsed graph whose weights [`fold`] has
//! unfolded; [`plans`] keeps as few of them as the model allows; this file cuts batches into the [`shapes`]
//! that there are plans for.

mod check;
mod external;
mod fold;
mod plans;
mod shapes;
mod source;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub use self::check::check;

use self::plans::Plans;
use self::shapes::fill_part;
use super::feeds::Feeds;
use super::{
    BatchLimits, Engine, EngineInfo, EngineOptions, Output, PassedOver, Provider, Worker,
    single_device,
};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::threads::panic_message;

/// The engine's name in messages.
const NAME: &str = "tract";

/// Version of the tract crates: Cargo.toml pins it, and a test holds this against it.
pub(crate) const VERSION: &str = "0.23.9";

/// What helps where tract cannot run a graph.
const REMEDY: &str = "ONNX Runtime may run it (pip install onnxruntime, then --provider cpu), or name another ONNX file with --model-file";

/// Opens `model` with the embedded engine.
///
/// # Errors
/// If tract lacks an operator of the graph or cannot plan it.
pub(super) fn open(
    model: &Model,
    options: &EngineOptions,
    passed_over: &[PassedOver],
) -> Result<Box<dyn Engine>> {
    single_device(Provider::Tract, options)?;
    let contrib: Vec<&str> = model.graph.contrib_operators().collect();
    if !contrib.is_empty() {
        return Err(failed(format!(
            "{} uses operators that it does not have ({}); {REMEDY}",
            model.onnx.display(),
            contrib.join(", ")
        )));
    }
    let feeds = Feeds::of(model)?;
    let plans =
        guarded(|| Plans::open(&model.onnx, feeds, model.config.max_length)).map_err(|reason| {
            failed(format!(
                "cannot run {}: {reason}; {REMEDY}",
                model.onnx.display()
            ))
        })?;
    Ok(Box::new(TractEngine {
        info: EngineInfo {
            passed_over: passed_over.to_vec(),
            ..EngineInfo::new("tract", VERSION.into(), Provider::Tract)
        },
        limits: plans.limits(),
        plans: Arc::new(plans),
        padding: model.config.padding_id.into(),
    }))
}

fn failed(reason: String) -> Error {
    Error::Engine {
        engine: NAME,
        reason,
    }
}

/// Runs tract's code; an error keeps its causes, a panic becomes an error.
fn guarded<T>(work: impl FnOnce() -> tract_onnx::prelude::TractResult<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(format!("{error:#}").trim_end_matches('.').into()),
        Err(panic) => Err(panic_message(&*panic)),
    }
}

struct TractEngine {
    info: EngineInfo,
    limits: BatchLimits,
    plans: Arc<Plans>,
    padding: i64,
}

impl Engine for TractEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        self.limits
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        Ok(Box::new(TractWorker::new(
            Arc::clone(&self.plans),
            self.padding,
        )))
    }
}

/// One thread's buffers; plans and weights are shared.
struct TractWorker {
    plans: Arc<Plans>,
    padding: i64,
    part: Batch,
    states: Vec<f32>,
}

impl TractWorker {
    fn new(plans: Arc<Plans>, padding: i64) -> Self {
        Self {
            plans,
            padding,
            part: Batch::default(),
            states: Vec::new(),
        }
    }
}

impl Worker for TractWorker {
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        self.states.clear();
        let mut width = 0;
        let mut start = 0;
        while start < batch.rows {
            let shape = self.plans.shape(batch.rows - start, batch.length);
            let taken = shape.rows.min(batch.rows - start);
            let rows = start..start + taken;
            fill_part(&mut self.part, batch, rows, shape, self.padding);
            let (plans, part, states) = (&self.plans, &self.part, &mut self.states);
            width = guarded(|| plans.run(part, taken, batch.length, states)).map_err(|reason| {
                failed(format!(
                    "failed on a batch of {} rows of {} tokens: {reason}; {REMEDY}",
                    batch.rows, batch.length
                ))
            })?;
            start += taken;
        }
        Ok(self.plans.feeds().wrap(&self.states, width))
    }
}

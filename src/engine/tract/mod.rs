//! tract, the embedded engine: pure Rust, inside the binary, so that a model runs with nothing installed.
//!
//! tract plans ahead for shapes. [`plan`] makes plans for as many shapes as the model allows at once;
//! this file cuts batches into the shapes that there are plans for.

mod plan;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use self::plan::{Plans, Shapes};
use super::feeds::Feeds;
use super::{BatchLimits, Engine, EngineInfo, EngineOptions, Output, PassedOver, Provider, Worker};
use crate::batch::Batch;
use crate::embedder::panic_message;
use crate::error::{Error, Result};
use crate::model::Model;

/// The engine's name in messages.
const NAME: &str = "tract";

/// Version of the tract crates; a test holds it against Cargo.lock.
const VERSION: &str = "0.23.9";

/// What helps where tract cannot run a graph.
const REMEDY: &str = "ONNX Runtime may run it (pip install onnxruntime, then --provider cpu), or name another ONNX file with --model-file";

/// Opens `model` with the embedded engine.
///
/// # Errors
/// If tract lacks an operator of the graph or cannot plan it.
pub(super) fn open(
    model: &Model,
    _options: &EngineOptions,
    passed_over: &[PassedOver],
) -> Result<Box<dyn Engine>> {
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
            engine: "tract",
            version: VERSION.into(),
            provider: Provider::Tract,
            library: None,
            passed_over: passed_over.to_vec(),
        },
        limits: plans.limits(),
        plans: Arc::new(plans),
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
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(panic) => Err(panic_message(&*panic)),
    }
}

struct TractEngine {
    info: EngineInfo,
    limits: BatchLimits,
    plans: Arc<Plans>,
}

impl Engine for TractEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        self.limits
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        Ok(Box::new(TractWorker {
            plans: Arc::clone(&self.plans),
            part: Batch::default(),
            states: Vec::new(),
        }))
    }
}

/// One thread's buffers; plans and weights are shared.
struct TractWorker {
    plans: Arc<Plans>,
    part: Batch,
    states: Vec<f32>,
}

impl Worker for TractWorker {
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        self.states.clear();
        let mut width = 0;
        let mut start = 0;
        while start < batch.rows {
            let shapes = self.plans.shapes(batch.rows - start, batch.length);
            let taken = shapes.rows.min(batch.rows - start);
            fill_part(
                &mut self.part,
                batch,
                start..start + taken,
                shapes,
                self.plans.padding(),
            );
            let (plans, part, states) = (&self.plans, &self.part, &mut self.states);
            width = guarded(|| plans.run(part, shapes, taken, batch.length, states)).map_err(
                |reason| {
                    failed(format!(
                        "failed on a batch of {} rows of {} tokens: {reason}; {REMEDY}",
                        batch.rows, batch.length
                    ))
                },
            )?;
            start += taken;
        }
        Ok(self.plans.feeds().wrap(&self.states, width))
    }
}

/// Fills `part` with rows `rows` of `batch`, padded to the plan's shape: missing rows repeat the last,
/// missing tokens are masked.
fn fill_part(
    part: &mut Batch,
    batch: &Batch,
    rows: std::ops::Range<usize>,
    shapes: Shapes,
    padding: i64,
) {
    part.rows = shapes.rows;
    part.length = shapes.length;
    part.input_ids.clear();
    part.attention_mask.clear();
    for index in 0..shapes.rows {
        let row = (rows.start + index).min(rows.end - 1);
        let own = row * batch.length..(row + 1) * batch.length;
        part.input_ids
            .extend_from_slice(&batch.input_ids[own.clone()]);
        part.attention_mask
            .extend_from_slice(&batch.attention_mask[own]);
        part.input_ids.resize((index + 1) * shapes.length, padding);
        part.attention_mask.resize((index + 1) * shapes.length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_lock_file() {
        let lock = include_str!("../../../Cargo.lock");
        let entry = lock
            .split("[[package]]")
            .find(|entry| entry.contains("name = \"tract-onnx\"\n"));
        assert!(
            entry.is_some_and(|entry| entry.contains(&format!("version = \"{VERSION}\"\n"))),
            "{entry:?}"
        );
    }

    #[test]
    fn a_part_repeats_its_last_row_and_masks_what_is_added() {
        let batch = Batch {
            rows: 3,
            length: 2,
            input_ids: vec![1, 2, 3, 4, 5, 6],
            attention_mask: vec![1, 1, 1, 1, 1, 0],
        };
        let mut part = Batch::default();
        fill_part(&mut part, &batch, 1..3, Shapes { rows: 3, length: 3 }, 9);
        assert_eq!(part.input_ids, [3, 4, 9, 5, 6, 9, 5, 6, 9]);
        assert_eq!(part.attention_mask, [1, 1, 0, 1, 0, 0, 1, 0, 0]);
    }
}

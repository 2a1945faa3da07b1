//! The check that a provider gives the CPU's results.
//!
//! A wrong kernel gives plausible vectors, so its errors would go unnoticed. For example, ONNX Runtime 1.27 combines
//! masks wrongly on WebGPU, and so computes every model with local attention wrongly. So a sample is run on both: on the
//! provider as batches are run later, with pooling in the graph if there is any; on the CPU without, as the processor's own
//! pooling is the reference.

use std::path::Path;
use std::sync::{Arc, Mutex};

use ort::session::Session;

use super::inputs::SessionReading;
use super::session::OrtWorker;
use crate::built::FloatType;
use crate::runtime::provider_error;
use embedctl_common::error::Cause;
use embedctl_common::setting::{MODEL_FILE, PRECISION, PROVIDER};
use embedctl_engine::{Cosine, Output, Provider, Worker as _};
use embedctl_model::Model;
use embedctl_rows::batch::Batch;
use embedctl_rows::pool::Pooler;

/// Below this cosine a provider computes something else. Float32 stays above 0.99999, half precision above 0.9999.
const LEAST: f64 = 0.999;

/// The same where arithmetic is meant to be rough: bfloat16, integers.
const LEAST_ROUGH: f64 = 0.98;

/// Tokens of the sample's rows: more than the windows of local attention, and a multiple of the kernels' blocks.
const LENGTH: usize = 160;

/// Tokens of the sample's last row: fewer than any expansion of queries, so that it has tokens that none attends to.
const SHORT: usize = 5;

/// Models whose files are larger are not loaded a second time for the check.
const MOST_BYTES: u64 = 2 << 30;

/// The graph that is checked.
pub(super) struct CheckedGraph<'a> {
    /// Its file, or the folder of its checkpoint.
    pub shown: &'a Path,
    /// Bytes of the files of weights.
    pub stored_bytes: u64,
    /// Whether vectors may differ visibly, by the user's options or the model's quantization.
    pub rough: bool,
    /// The numbers that it was built in, if they are narrower than single precision.
    pub narrow: Option<FloatType>,
}

impl CheckedGraph<'_> {
    fn least(&self) -> f64 {
        match self.rough {
            true => LEAST_ROUGH,
            false => LEAST,
        }
    }
}

/// The least cosine between `worker`'s vectors of a sample and those of `reference`, a session of the same graph without
/// pooling on the CPU, rounded to five digits; `None` where the model is too large to be loaded twice. `reading` is the
/// worker's.
///
/// # Errors
/// If the provider fails, or computes something else; if the CPU cannot run the sample, nothing is known.
pub(super) fn check(
    provider: Provider,
    reading: &SessionReading,
    graph: &CheckedGraph<'_>,
    reference: impl FnOnce() -> Option<Session>,
    model: &Model,
    worker: &mut OrtWorker,
) -> embedctl_common::Result<Option<f64>> {
    // Numbers that overflow are found without another session.
    if graph.stored_bytes > MOST_BYTES && graph.narrow.is_none() {
        return Ok(None);
    }
    let pooler = reading
        .pooling
        .as_ref()
        .map(|_| Pooler::new(&model.config, 0));
    let compared = ComparedRows {
        batch: sample(model, reading),
        pooler,
    };
    let ours = compared.rows(worker).map_err(|error| {
        provider_error(format!(
            "{} cannot run {}: {error}",
            provider,
            graph.shown.display()
        ))
    })?;
    let remedy = |float: FloatType| match float {
        FloatType::F16 => format!("{PRECISION} bf16 or fp32 holds greater numbers"),
        _ => format!("{PRECISION} fp32 computes exactly"),
    };
    if let Some(float) = graph.narrow
        && ours.iter().flatten().any(|value| !value.is_finite())
    {
        let reason = format!(
            "{provider} computes no numbers for this model in {float}: states overflow (NaN or infinity in a sample)"
        );
        return Err(provider_error(Cause::of(reason).with(remedy(float))));
    }
    if graph.stored_bytes > MOST_BYTES {
        return Ok(None);
    }
    let Some(reference) = on_cpu(reference, reading, &compared) else {
        return Ok(None);
    };
    let cosine = ours
        .iter()
        .zip(&reference)
        .map(|(ours, reference)| Cosine::between(ours, reference))
        // A NaN is the worst of all, and `min` would drop it.
        .fold(
            1.0,
            |least: f64, one| if one >= least { least } else { one },
        );
    if cosine >= graph.least() {
        return Ok(Some((cosine * 1e5).round() / 1e5));
    }
    let reason = format!(
        "{provider} computes this model wrongly: a sample's vector has the cosine {cosine:.5} to the same one from \
         the CPU"
    );
    let other = match graph.narrow {
        Some(float) => remedy(float),
        None => format!(
            "another version of the library or another export of the model ({MODEL_FILE}) may be right, {PROVIDER} cpu is"
        ),
    };
    Err(provider_error(Cause::of(reason).with(other)))
}

/// The sample's rows as the CPU has them; `None` where it can't run them.
fn on_cpu(
    reference: impl FnOnce() -> Option<Session>,
    reading: &SessionReading,
    compared: &ComparedRows,
) -> Option<Vec<Vec<f32>>> {
    let session = Arc::new(Mutex::new(reference()?));
    let reading = SessionReading {
        feeds: Arc::clone(&reading.feeds),
        pooling: None,
    };
    let mut worker = OrtWorker::new(session, None, reading).ok()?;
    let rows = compared.rows(&mut worker).ok()?;
    let finite = rows.iter().flatten().all(|value| value.is_finite());
    finite.then_some(rows)
}

/// Rows of different lengths with the tokens that pooling and attention take for special ones: padding inside and, where
/// it does not count there, at the end of a row; tokens behind a short row that none attends to.
fn sample(model: &Model, reading: &SessionReading) -> Batch {
    let rows = reading.feeds.max_rows.unwrap_or(3).min(3);
    let whole = super::proof::sample(model, rows, LENGTH);
    let has_vector = |id: &u32| {
        let most = reading.feeds.token_rows;
        most.is_none_or(|most| usize::try_from(*id).is_ok_and(|id| id < most))
    };
    let not_last = model.config.not_last.filter(has_vector);
    let inside = not_last.or(Some(model.config.padding_id).filter(has_vector));
    let mut batch = Batch::default();
    for row in 0..rows {
        let all = whole.row(row);
        let own = match row {
            0 => all.len(),
            1 => all.len().div_ceil(2),
            _ => all.len().min(SHORT),
        };
        let mut ids = all[..own].to_vec();
        if let (Some(id), 2..) = (inside, own) {
            ids[own / 2] = id;
        }
        if let (Some(id), 3..) = (not_last, own) {
            ids[own - 1] = id;
        }
        batch.push(ids, &model.config.frame);
    }
    batch
}

/// The sample, and the numbers of each row that are compared.
struct ComparedRows {
    batch: Batch,
    /// Where a graph pools: the processor's pooling, and the modules behind either.
    pooler: Option<Pooler>,
}

impl ComparedRows {
    /// What is compared of each row: its vector (of scores, the vector that they are made of), or where nothing is pooled in
    /// the graph, the states of all of its tokens one after another.
    fn rows(&self, worker: &mut OrtWorker) -> embedctl_common::Result<Vec<Vec<f32>>> {
        let output = worker.run(&self.batch)?;
        let rows = (0..self.batch.rows()).map(|row| {
            let own = output.row(&self.batch, row);
            let Some(pooler) = &self.pooler else {
                return own.to_vec();
            };
            let mut vector = Vec::new();
            match output {
                Output::Pooled { .. } => pooler.compared_pooled(own, &mut vector),
                _ => {
                    let mut pooled = Vec::new();
                    pooler.pool(own, output.width(), self.batch.row(row), &mut pooled);
                    pooler.compared_pooled(&pooled, &mut vector);
                }
            }
            vector
        });
        Ok(rows.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_below_the_least_cosine_and_nan_is_wrong() {
        assert!((Cosine::between(&[1.0, 2.0], &[2.0, 4.0]) - 1.0).abs() < 1e-12);
        assert!(Cosine::between(&[1.0, 0.0], &[0.0, 1.0]) < LEAST);
        assert!(Cosine::between(&[f32::NAN, 0.0], &[0.0, 1.0]).is_nan());
        assert!(Cosine::between(&[0.0, 0.0], &[0.0, 1.0]) < LEAST);
        assert!(Cosine::between(&[0.0, 0.0], &[0.0, 0.0]) >= LEAST);
    }
}

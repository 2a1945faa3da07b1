//! The check that a provider gives the CPU's results.
//!
//! A wrong kernel gives plausible vectors, so its errors would go unnoticed. For example, ONNX Runtime 1.27 combines
//! masks wrongly on WebGPU, and so computes every model with local attention wrongly. So a sample is run on both.

use std::path::Path;
use std::sync::{Arc, Mutex};

use ort::session::Session;

use super::inputs::SessionReading;
use super::session::OrtWorker;
use crate::built::FloatType;
use crate::engine::{Cosine, Provider, Worker as _};
use crate::runtime::provider_error;
use embedctl_common::error::Cause;
use embedctl_common::setting::{MODEL_FILE, PRECISION, PROVIDER};
use embedctl_model::Model;
use embedctl_model::batch::Batch;

/// Below this cosine a provider computes something else. Float32 stays above 0.99999, half precision above 0.9999.
const LEAST: f64 = 0.999;

/// The same between two writings of one graph in single precision, which differ by their rounding alone.
pub(super) const LEAST_OF_SAME: f64 = 0.999_99;

/// The same where arithmetic is meant to be rough: bfloat16, integers.
const LEAST_ROUGH: f64 = 0.98;

/// Tokens of the sample's rows: more than the windows of local attention, and a multiple of the kernels' blocks.
const LENGTH: usize = 160;

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
    /// Whether it is another writing of the reference, so that it may differ by rounding alone.
    pub same_numbers: bool,
}

impl CheckedGraph<'_> {
    fn least(&self) -> f64 {
        match (self.rough, self.same_numbers && self.narrow.is_none()) {
            (true, _) => LEAST_ROUGH,
            (false, true) => LEAST_OF_SAME,
            (false, false) => LEAST,
        }
    }
}

/// The least cosine between `worker`'s vectors of a sample and those of `reference`, a session of the same graph on the
/// CPU, rounded to five digits; `None` where the model is too large to be loaded twice.
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
    let batch = sample(model, reading.feeds.max_rows);
    let ours = rows(worker, &batch).map_err(|error| {
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
    let Some(reference) = on_cpu(reference, reading, &batch) else {
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
    batch: &Batch,
) -> Option<Vec<Vec<f32>>> {
    let session = Arc::new(Mutex::new(reference()?));
    let mut worker = OrtWorker::new(session, None, reading.clone()).ok()?;
    let rows = rows(&mut worker, batch).ok()?;
    let finite = rows.iter().flatten().all(|value| value.is_finite());
    finite.then_some(rows)
}

/// Two rows as long as they may be, the second half padding.
fn sample(model: &Model, max_rows: Option<usize>) -> Batch {
    let rows = max_rows.unwrap_or(2).min(2);
    let whole = super::proof::sample(model, rows, LENGTH);
    let mut batch = Batch::default();
    for row in 0..rows {
        let ids = whole.row(row);
        let own = if row == 0 { ids.len() } else { ids.len() / 2 };
        batch.push(ids[..own.max(1)].iter().copied(), &model.config.frame);
    }
    batch
}

/// Each row's vector: pooled, or its real tokens' states one after another.
fn rows(worker: &mut OrtWorker, batch: &Batch) -> embedctl_common::Result<Vec<Vec<f32>>> {
    let output = worker.run(batch)?;
    Ok((0..batch.rows())
        .map(|row| output.row(batch, row).to_vec())
        .collect())
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

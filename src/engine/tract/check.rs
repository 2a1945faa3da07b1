//! Whether the embedded engine computes right on this processor: the same small graph that providers of
//! ONNX Runtime are tried on.

use std::io::Cursor;
use std::time::Instant;

use tract_onnx::prelude::*;

use super::guarded;
use crate::provider::{Provider, ProviderReport, check_graph as graph};

/// Runs a small graph with the embedded engine. Takes some milliseconds.
#[must_use]
pub fn check() -> ProviderReport {
    let mut report = ProviderReport::refused(Provider::Tract, String::new());
    match guarded(run).and_then(|(output, millis)| graph::check(&output).map(|()| millis)) {
        Ok(millis) => {
            report.works = true;
            report.reason = None;
            report.placement = Some("all inside this program, on the processor".to_owned());
            report.millis = Some(millis);
        }
        Err(reason) => report.reason = Some(reason),
    }
    report
}

/// The graph's output, and how long a run after the first took.
fn run() -> TractResult<(Vec<f32>, f64)> {
    let plan = onnx()
        .model_for_read(&mut Cursor::new(graph::model()))?
        .into_optimized()?
        .into_runnable()?;
    let input = Tensor::from_shape(&[graph::ROWS, graph::WIDTH], &graph::input())?;
    plan.run(tvec!(input.clone().into()))?;
    let start = Instant::now();
    let output = plan.run(tvec!(input.into()))?;
    let millis = start.elapsed().as_secs_f64() * 1e3;
    let output = output[0].to_plain_array_view::<f32>()?;
    Ok((output.iter().copied().collect(), millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_engine_computes_right() {
        let report = check();
        assert!(report.works, "{:?}", report.reason);
        assert_eq!(report.provider, Provider::Tract);
        assert!(report.millis.is_some_and(|millis| millis < 1e3));
    }
}

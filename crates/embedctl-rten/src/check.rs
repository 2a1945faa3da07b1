//! Whether the engine for ONNX graphs inside the program computes right on this processor: the same small
//! graph that providers of ONNX Runtime are tried on.

use std::time::Instant;

use rten::{Model, Value};

use super::guarded;
use embedctl_engine::Provider;
use embedctl_ort::provider::{ProviderReport, check_graph as graph};

/// Runs a small graph. Takes some milliseconds.
#[must_use]
pub fn check() -> ProviderReport {
    let trial = guarded(run).and_then(|(output, millis)| {
        graph::check(&output)?;
        Ok((
            "all inside this program, on the processor".to_owned(),
            millis,
        ))
    });
    ProviderReport::of(Provider::Rten, trial)
}

/// The graph's output, and how long a run after the first took.
fn run() -> Result<(Vec<f32>, f64), String> {
    let model = Model::load(graph::model()).map_err(|error| error.to_string())?;
    let run = || {
        let input = Value::from_shape([graph::ROWS, graph::WIDTH], graph::input())
            .map_err(|error| error.to_string())?;
        let output = model.run_one(input.into(), None);
        output.map_err(|error| error.to_string())
    };
    run()?;
    let start = Instant::now();
    let output = run()?;
    let millis = start.elapsed().as_secs_f64() * 1e3;
    let (_, values) = output
        .into_shape_vec::<f32, 2>()
        .map_err(|error| error.to_string())?;
    Ok((values, millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_engine_computes_right() {
        let report = check();
        assert!(report.works, "{:?}", report.reason);
        assert_eq!(report.provider, Provider::Rten);
        assert!(report.millis.is_some_and(|millis| millis < 1e3));
    }
}

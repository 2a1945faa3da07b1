//! What a model is and what would run it here: all that `embedctl info` tells.

use std::path::Path;

use serde::Serialize;

use crate::availability::{self, AvailabilityState, DeviceReport};
use crate::cancel::CancelToken;
use crate::engine::{self, EngineOptions, Provider};
use crate::error::Result;
use crate::model::{Card, Model, ModelOptions, WeightsKind};
use crate::runtime::RuntimeOptions;
use crate::runtime::probe::ProbeCommand;

/// What a model is and what would run it here. As JSON an object of these members; members may be added, and
/// `schema` counts up when one goes or changes its meaning.
#[derive(Debug, Clone, Serialize)]
pub struct ModelInfo {
    /// 1.
    pub schema: u32,
    /// The model.
    #[serde(flatten)]
    pub model: Card,
    /// What `--provider auto` would take here; `None`: nothing here runs it.
    pub provider: Option<Provider>,
    /// Every provider, in the order in which they are listed to people.
    pub providers: Vec<Fit>,
    /// Things a user should be told once.
    pub notes: Vec<String>,
}

/// Whether a provider would run a model here.
#[derive(Debug, Clone, Serialize)]
pub struct Fit {
    /// The provider.
    pub provider: Provider,
    /// Whether it works here and the model has weights for it.
    pub runs: bool,
    /// If not, why.
    pub reason: Option<String>,
    /// What mends that, where something does.
    pub remedy: Option<String>,
    /// The main file of the weights that it would take.
    pub weights: Option<String>,
}

/// Looks at a model that is here, and at what is here to run it; no weights are loaded. Libraries are asked
/// by processes that `command` starts.
///
/// # Errors
/// If the model is not here or not understood; if `cancel` asks for an end.
pub fn info(
    options: &ModelOptions,
    command: &ProbeCommand,
    ort_library: Option<&Path>,
    cancel: &CancelToken,
) -> Result<ModelInfo> {
    let engine = EngineOptions {
        runtime: RuntimeOptions {
            library: ort_library.map(Path::to_path_buf),
            probe: Some(command.clone()),
        },
        ..EngineOptions::default()
    };
    let (options, engine) = engine::settle(options, &engine)?;
    let model = Model::open(&options)?;
    let card = model.card()?;
    let report = availability::report(command, ort_library, cancel)?;
    let providers: Vec<Fit> = Provider::ALL
        .into_iter()
        .map(|provider| fit(provider, &model, &report))
        .collect();
    let runs = |provider: &Provider| {
        // A device that the processor emulates is for who asks for it by name.
        let emulated = report.status(*provider).is_some_and(|one| one.software);
        (providers.iter()).any(|fit| fit.provider == *provider && fit.runs && !emulated)
    };
    let provider = engine::usual(engine.runtime.probe.is_some())
        .iter()
        .copied()
        .find(runs);
    Ok(ModelInfo {
        schema: 1,
        notes: engine::notes(
            &model,
            provider.map_or(WeightsKind::Onnx, Provider::weights),
        ),
        model: card,
        provider,
        providers,
    })
}

fn fit(provider: Provider, model: &Model, report: &DeviceReport) -> Fit {
    let lacks = model.lacks(provider.weights());
    let status = report.status(provider);
    let works = status.is_some_and(|status| status.status == AvailabilityState::Works);
    Fit {
        provider,
        runs: works && lacks.is_none(),
        // Without the device or the library, other weights would not help.
        reason: match status.filter(|_| !works) {
            Some(status) => status.reason.clone(),
            None => lacks.map(|cause| format!("the model {}", cause.reason)),
        },
        remedy: match status.filter(|_| !works) {
            Some(status) => status.remedy.clone(),
            None => lacks.and_then(|cause| cause.remedy.clone()),
        },
        weights: lacks
            .is_none()
            .then(|| model.weights_name(provider.weights())),
    }
}

//! A model's description and the providers that would run it here, as `embedctl info` shows them.

use serde::Serialize;

use crate::cancel::CancelToken;
use crate::engine::availability::{self, AvailabilityState, DeviceReport, ProviderStatus};
use crate::engine::{self, FloatType, Provider, Resolved, cuda};
use crate::error::{Cause, Result};
use crate::model::{Card, Model, ModelOptions, WeightsKind};
use crate::runtime::ProbeCommand;
use embedctl_common::small_file;

/// A model's description and the providers that would run it here. In JSON an object with these members; members may be
/// added, and `schema` counts up when one is removed or changes its meaning.
#[derive(Debug, Clone, Serialize)]
pub struct ModelInfo {
    /// 1.
    pub schema: u32,
    /// The model.
    #[serde(flatten)]
    pub model: Card,
    /// The provider that `auto` would take here; `None`: no provider here runs it.
    pub provider: Option<Provider>,
    /// Every provider, in the order of listings.
    pub providers: Vec<Fit>,
    /// The kinds of products in which the native engine runs the network of config.json, or the reason why it does not;
    /// `None` for a model without a network.
    pub native: Option<String>,
    /// Notes to show once.
    pub notes: Vec<String>,
}

/// Whether a provider would run a model here.
#[derive(Debug, Clone, Serialize)]
pub struct Fit {
    /// The provider.
    pub provider: Provider,
    /// Whether it works here and the model has weights for it.
    pub runs: bool,
    /// Whether it is not on this machine, and no device here calls for it.
    pub absent: bool,
    /// The reason, if not.
    pub reason: Option<String>,
    /// The remedy, if there is one.
    pub remedy: Option<String>,
    /// The main file of the weights that it would take.
    pub weights: Option<String>,
    /// Whether it would run a graph built from them: there is no ONNX file, or another kind was asked for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub built: bool,
}

/// Describes a downloaded model and the providers that would run it, without loading weights. Libraries are probed in
/// processes that `command` starts.
///
/// # Errors
/// If the model is not here or not supported, or `cancel` is cancelled.
pub fn info(
    resolved: &Resolved,
    command: &ProbeCommand,
    cancel: &CancelToken,
) -> Result<ModelInfo> {
    let resolved = resolved.with_settings(&ModelOptions {
        task: Model::usual_task(resolved.model())?,
        ..resolved.model().clone()
    });
    let model = resolved.open_files()?;
    let card = model.card()?;
    let library = resolved.engine().runtime.library.as_deref();
    let report = availability::report(command, library, cancel)?;
    let providers: Vec<Fit> = Provider::ALL
        .into_iter()
        .map(|provider| fit(provider, &model, resolved.engine().float, &report))
        .collect();
    let runs = |provider: &Provider| {
        // A device that the processor emulates is used only if the user names the provider.
        let emulated = report.status(*provider).is_some_and(|one| one.software);
        (providers.iter()).any(|fit| fit.provider == *provider && fit.runs && !emulated)
    };
    let provider = engine::usual(true).iter().copied().find(runs);
    Ok(ModelInfo {
        schema: 1,
        notes: model
            .notes(provider.map_or(WeightsKind::Onnx, |provider| provider.weights_of(&model))),
        native: native(&model),
        model: card,
        provider,
        providers,
    })
}

/// The line of docs/models.md for the model.
fn native(model: &Model) -> Option<String> {
    let text = std::fs::read(model.network().join("config.json")).ok()?;
    let config: serde_json::Value = serde_json::from_slice(small_file::without_mark(&text)).ok()?;
    let kind = config["model_type"].as_str()?;
    (kind != "model2vec").then(|| embedctl_checkpoint::support(&config))
}

fn fit(provider: Provider, model: &Model, float: Option<FloatType>, report: &DeviceReport) -> Fit {
    let kind = provider.weights_of(model);
    let unable = float
        .filter(|float| kind == WeightsKind::Checkpoint && !provider.computes_in(*float))
        .map(|float| {
            Cause::of(format!(
                "has a checkpoint, which {provider} does not compute in {float}"
            ))
        });
    let lacks = model.lacks(kind).or(unable.as_ref());
    let status = report.status(provider);
    let own = status.is_some_and(ProviderStatus::has_own_engine);
    let own_runs = own && kind == WeightsKind::Checkpoint && cuda::lacks(model).is_none();
    let works = status.is_some_and(|status| match own {
        true => own_runs || status.has_onnx_runtime,
        false => status.status == AvailabilityState::Works,
    });
    let is_built = kind == WeightsKind::Checkpoint && provider != Provider::Native && !own_runs;
    Fit {
        provider,
        runs: works && lacks.is_none(),
        absent: report.is_far(provider),
        // Without the device or the library, other weights would not help.
        reason: match status.filter(|_| !works) {
            Some(status) => status.reason.clone().or(status.detail.clone()),
            None => lacks.map(|cause| format!("the model {}", cause.reason)),
        },
        remedy: match status.filter(|_| !works) {
            Some(status) => status.remedy.clone(),
            None => lacks.and_then(|cause| cause.remedy.clone()),
        },
        weights: lacks.is_none().then(|| model.weights_name(kind)),
        built: lacks.is_none() && is_built,
    }
}

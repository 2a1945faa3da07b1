//! From what the user said of a model and its engine to what follows from it: the kinds of weights to look for, the
//! arithmetic, and the engine that is opened.

use std::sync::Arc;

use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::setting::{MODEL_FILE, PRECISION, PROVIDER, WEIGHTS};
use embedctl_common::threads;
use embedctl_model::{
    FileChoice, Knows, Model, ModelOptions, Precision, WeightsKind, WeightsPreference,
};
use embedctl_rows::OutputChoice;

use crate::{
    Arithmetic, Engine, EngineInfo, EngineOptions, Engines, FloatType, MachineEngines, Provider,
    ProviderChoice, ProviderOption, ResolvedEngine, SkippedCandidate,
};

/// A model and its engine as the user asked for them, with all that both decide together. Files and engines are opened
/// with nothing less.
#[derive(Debug, Clone)]
pub struct Resolved {
    model: ModelOptions,
    weights: WeightsPreference,
    engine: ResolvedEngine,
    engines: Arc<dyn Engines>,
    /// How many workers the user asked for, if any.
    asked: Option<usize>,
}

impl Resolved {
    /// Resolves what the user said of the model and of the engine; one of `engines` will run it. `cancel` stops a search for
    /// libraries.
    ///
    /// # Errors
    /// If none of the providers supports the model's options, or there can be no such number of workers.
    pub fn of(
        model: &ModelOptions,
        engine: &EngineOptions,
        engines: Arc<dyn Engines>,
        cancel: &CancelToken,
    ) -> Result<Self> {
        threads::check(engine.workers)?;
        let (mut model, mut engine) = (model.clone(), engine.clone());
        if model.precision == Some(Precision::Bf16)
            && model.model_file.is_none()
            && let Some(options) = in_bfloat16(&engine)
        {
            // The precision means arithmetic on the usual file, not another file.
            engine.provider_options.splice(..0, options);
            model.precision = None;
        }
        let float = FloatType::built(model.precision).filter(|float| *float != FloatType::F32);
        let arithmetic = match model.precision {
            Some(Precision::Bf16) => Arithmetic::Bf16,
            Some(Precision::Int16) => Arithmetic::Int16,
            Some(Precision::Int8) => Arithmetic::Int8,
            _ => Arithmetic::Fp32,
        };
        let checkpoint_first =
            || checkpoint_comes_first(&*engines, &engine, model.precision, cancel);
        let weights = weights(&model, &engine, engines.knows(), checkpoint_first)?;
        Ok(Self {
            model,
            weights,
            engines,
            asked: Some(engine.workers).filter(|&workers| workers > 0),
            engine: ResolvedEngine {
                options: engine,
                arithmetic,
                float,
            },
        })
    }

    /// The model, as the user named it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.model.model
    }

    /// What the user said of the model.
    #[must_use]
    pub fn model(&self) -> &ModelOptions {
        &self.model
    }

    /// The same files and the same engine with other settings of the model. What `settings` say of files is not looked at.
    #[must_use]
    pub fn with_settings(&self, settings: &ModelOptions) -> Self {
        let ModelOptions {
            model,
            model_file,
            kind,
            cache_dir,
            precision,
            ..
        } = self.model.clone();
        Self {
            model: ModelOptions {
                model,
                model_file,
                kind,
                cache_dir,
                precision,
                ..settings.clone()
            },
            ..self.clone()
        }
    }

    /// The engine's part.
    #[must_use]
    pub fn engine(&self) -> &ResolvedEngine {
        &self.engine
    }

    /// The repository's files that a run reads, and a download has to fetch.
    #[must_use]
    pub fn files(&self) -> FileChoice {
        FileChoice {
            weights: self.weights,
            onnx: self.model.onnx(),
        }
    }

    /// Opens the model's files: reads its metadata and loads no weights.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn open_files(&self) -> Result<Model> {
        Model::open(&self.model, self.weights)
    }

    /// How many workers the user asked for, if any.
    pub(crate) fn asked_workers(&self) -> Option<usize> {
        self.asked
    }

    /// The same with so many workers, where the user has not said how many.
    #[must_use]
    pub(crate) fn with_workers(mut self, workers: usize) -> Self {
        if self.engine.options.workers == 0 {
            self.engine.options.workers = workers;
        }
        self
    }
}

/// The kinds of weights that the providers run for these options: a checkpoint by the native engine, and an ONNX file.
fn kinds(model: &ModelOptions, engine: &EngineOptions) -> Result<(bool, bool)> {
    let native = engine.providers.may_use(WeightsKind::Checkpoint);
    let onnx = engine.providers.may_use(WeightsKind::Onnx);
    let of_file = |option: String| {
        Error::usage(format!(
            "{option} chooses among ONNX files, but {PROVIDER} native reads none: it computes in fp32, bf16, int16 or int8"
        ))
    };
    Ok(match model.precision {
        _ if model.model_file.is_some() => {
            if model.kind == Some(WeightsKind::Checkpoint) {
                return Err(Error::usage(format!(
                    "{MODEL_FILE} names an ONNX file, but {WEIGHTS} {} takes none",
                    WeightsKind::Checkpoint
                )));
            }
            if !onnx {
                return Err(of_file(MODEL_FILE.to_string()));
            }
            (false, true)
        }
        // The distance of an ONNX file's vectors from fp32 is unknown.
        Some(Precision::Int8) if engine.min_cosine.is_some() && native => (true, false),
        None | Some(Precision::Fp32 | Precision::Bf16 | Precision::Int8) => (native, onnx),
        Some(Precision::Int16) if native => (true, false),
        Some(Precision::Int16) => {
            return Err(Error::usage(format!(
                "{PRECISION} int16 is arithmetic of the native engine"
            ))
            .with_remedy(format!(
                "name it with {PROVIDER} native, or leave {PROVIDER} out"
            )));
        }
        Some(other) if !onnx => return Err(of_file(format!("{PRECISION} {}", other.name()))),
        Some(_) => (false, true),
    })
}

/// The weights to look for. `checkpoint_first` tells whether the first provider that may work here takes a checkpoint.
fn weights(
    model: &ModelOptions,
    engine: &EngineOptions,
    knows: Knows,
    checkpoint_first: impl Fn() -> bool,
) -> Result<WeightsPreference> {
    // A graph can be built of numbers that are stored or rounded one by one.
    let builds = engine.providers.may_use(WeightsKind::Onnx)
        && model.model_file.is_none()
        && FloatType::built(model.precision).is_some();
    let (native, onnx) = kinds(model, engine)?;
    Ok(match (native, onnx) {
        _ if model.kind == Some(WeightsKind::Onnx) && onnx => WeightsPreference::Onnx,
        (true, false) if model.kind == Some(WeightsKind::Onnx) => {
            return Err(Error::usage(format!(
                "{WEIGHTS} {} takes an ONNX file, but the native engine reads none",
                WeightsKind::Onnx
            ))
            .with_remedy(format!("name another {PROVIDER}, or leave {WEIGHTS} out")));
        }
        _ if model.kind == Some(WeightsKind::Checkpoint) && (native || builds) => {
            WeightsPreference::Checkpoint(knows)
        }
        (true, false) => WeightsPreference::Checkpoint(knows),
        (_, true) if (native || builds) && checkpoint_first() => {
            WeightsPreference::CheckpointFirst(knows)
        }
        (true, true) => WeightsPreference::OnnxFirst(knows),
        (false, _) if builds => WeightsPreference::OnnxFirst(knows),
        (false, _) if model.kind == Some(WeightsKind::Checkpoint) => {
            return Err(Error::usage(format!(
                "a graph of a checkpoint computes in fp32, fp16 or bf16, not in {}",
                model.precision.map_or("fp32", Precision::name)
            )));
        }
        (false, _) => WeightsPreference::Onnx,
    })
}

/// The options by which all of the named providers compute an fp32 model in bfloat16, where all can.
fn in_bfloat16(engine: &EngineOptions) -> Option<Vec<ProviderOption>> {
    let ProviderChoice::List(list) = &engine.providers else {
        return None;
    };
    let option = |provider: &Provider| format!("{provider}.precision=bf16").parse().ok();
    list.iter().map(option).collect()
}

/// Whether the first provider that may work here takes a checkpoint rather than an ONNX file for this precision.
fn checkpoint_comes_first(
    engines: &dyn Engines,
    options: &EngineOptions,
    precision: Option<Precision>,
    cancel: &CancelToken,
) -> bool {
    let (providers, auto) = in_order(engines, options);
    let here = engines.on_this_machine(options, false, cancel);
    first_takes_checkpoint(&providers, precision, |provider| {
        auto && !provider.is_on_worker() && here.reason_to_skip(provider).is_some()
    })
}

/// The same of `providers`, of which those are left out for which `is_skipped` holds.
fn first_takes_checkpoint(
    providers: &[Provider],
    precision: Option<Precision>,
    is_skipped: impl Fn(Provider) -> bool,
) -> bool {
    let unable = |provider: Provider| {
        let float = FloatType::built(precision);
        provider == Provider::Native && float.is_some_and(|float| !provider.computes_in(float))
    };
    let mut usable = providers.iter().copied();
    let first = usable.find(|provider| !unable(*provider) && !is_skipped(*provider));
    first.is_some_and(|provider| provider.prefers_checkpoint(precision))
}

/// The providers to try, and whether `auto` chose them.
fn in_order(engines: &dyn Engines, options: &EngineOptions) -> (Vec<Provider>, bool) {
    let order = engines.usual(options.runtime.probe.is_some());
    match &options.providers {
        ProviderChoice::Auto => (order.to_vec(), true),
        ProviderChoice::List(list) => (list.clone(), false),
    }
}

impl Resolved {
    /// Opens the first provider of the choice that works, remembering why others were passed over.
    ///
    /// `auto` goes through [`Engines::usual`], and falls back from a provider that does not work here or does not do the
    /// work. It does not fall back from the CPU because of the model: one that ONNX Runtime refuses there is an error, since
    /// falling back would hide it. A list falls back from each of its members to the next, and to nothing else. A library
    /// that the user named must work wherever it is needed. A provider without weights is not reported as a failure, unless
    /// nothing else was tried.
    ///
    /// # Errors
    /// If none works; the message names each candidate's reason and the remedy. Or if `cancel` is cancelled.
    pub fn open_engine(&self, model: &Model, cancel: &CancelToken) -> Result<Box<dyn Engine>> {
        let options = &self.engine;
        let (providers, auto) = in_order(&*self.engines, options);
        // A device that the processor emulates is used only if the user names the provider.
        let here = (self.engines).on_this_machine(&options.options, !auto, cancel);
        let mut passed_over: Vec<SkippedCandidate> = Vec::new();
        let passed = |provider: Provider, reason: String| SkippedCandidate {
            candidate: provider.to_string(),
            reason,
            named: !auto,
        };
        let left_out = self.engines.left_out(options.runtime.probe.is_some());
        if auto && let Some((provider, reason)) = left_out {
            passed_over.push(passed(provider, reason));
        }
        let (mut fault, mut last) = (None, None);
        for provider in providers {
            if let Some(reason) = self.reason_to_pass(provider, auto, model, &*here) {
                passed_over.push(passed(provider, reason));
                continue;
            }
            let error = match here.open(model, options, provider, &mut passed_over) {
                Ok(engine) => {
                    model.check_unchanged(provider.weights_of(model))?;
                    return Ok(engine);
                }
                Err(error) => error,
            };
            let stop = match error.kind() {
                ErrorKind::Interrupted | ErrorKind::NamedLibrary => true,
                ErrorKind::NoLibrary | ErrorKind::Provider => false,
                // A wrong environment variable, if the native engine reports it.
                ErrorKind::Usage if provider == Provider::Native => true,
                // Main memory: no other engine takes less.
                ErrorKind::OutOfMemory if provider == Provider::Native => true,
                _ => auto && !provider.is_inside(),
            };
            if stop {
                return Err(error);
            }
            passed_over.push(SkippedCandidate::failed(
                provider.to_string(),
                &error,
                !auto,
            ));
            match error.kind() {
                // A fault of the model itself concerns every engine, whatever else was tried behind it.
                ErrorKind::Model | ErrorKind::Io => _ = fault.get_or_insert(error),
                _ => last = Some(error),
            }
        }
        Err(match fault.or(last) {
            Some(error) if matches!(error.kind(), ErrorKind::Model | ErrorKind::Io) => error,
            Some(error) if passed_over.len() == 1 => error,
            _ => Error::new(ErrorKind::Provider, "embedctl", none_works(&passed_over)),
        })
    }

    /// Why [`Resolved::open_engine`] passes over a provider that it would have to open otherwise.
    fn reason_to_pass(
        &self,
        provider: Provider,
        auto: bool,
        model: &Model,
        here: &dyn MachineEngines,
    ) -> Option<String> {
        if auto
            && !provider.is_on_worker()
            && let Some(reason) = here.reason_to_skip(provider)
        {
            return Some(reason);
        }
        let unable =
            |float: &FloatType| provider == Provider::Native && !provider.computes_in(*float);
        if let Some(float) = self.engine.float.filter(unable) {
            return Some(format!(
                "computes in fp32, bf16, int16 or int8, not in {float}"
            ));
        }
        let weights = provider.weights_of(model);
        if let Some(cause) = model.lacks(weights) {
            return Some(cause.to_string());
        }
        let is_built = weights == WeightsKind::Checkpoint && provider != Provider::Native;
        let precision = (model.options.precision)
            .filter(|it| is_built && FloatType::built(Some(*it)).is_none())?;
        Some(format!(
            "a graph of a checkpoint computes in fp32, fp16 or bf16, not in {}",
            precision.name()
        ))
    }

    /// What the first provider that [`Resolved::open_engine`] would try says of itself, as far as that decides vectors.
    /// Opens nothing, so it is not known whether that provider works; on some processors the native engine's arithmetic is
    /// another one.
    #[must_use]
    pub fn expected(&self, model: &Model, cancel: &CancelToken) -> Option<EngineInfo> {
        let options = &self.engine;
        let (providers, auto) = in_order(&*self.engines, options);
        let here = (self.engines).on_this_machine(&options.options, !auto, cancel);
        let is_tried =
            |provider: &Provider| (self.reason_to_pass(*provider, auto, model, &*here)).is_none();
        let provider = providers.into_iter().find(is_tried)?;
        if provider == Provider::Native {
            // Tables of vectors and of weights are added up.
            let arithmetic = match model.config.output {
                OutputChoice::Sentence(_) => Arithmetic::Fp32,
                OutputChoice::Tokens(_) => options.arithmetic,
            };
            return Some(EngineInfo::native(arithmetic, String::new(), provider));
        }
        let is_built = provider.weights_of(model) == WeightsKind::Checkpoint;
        let float = options.float.unwrap_or(FloatType::F32);
        let own = options.provider_options.iter();
        let own = own.filter(|one| one.provider == provider);
        Some(EngineInfo {
            options: own.copied().collect(),
            built_graph: is_built.then(|| float.name()),
            ..EngineInfo::new("", String::new(), provider)
        })
    }

    /// The same, run by engines that compute in single precision throughout, by the same arithmetic for rows of any shape.
    pub(crate) fn exactly(&self) -> Self {
        let mut exact = self.clone();
        exact.engine.options = EngineOptions {
            providers: ProviderChoice::List(vec![Provider::Cpu, Provider::Rten]),
            devices: Vec::new(),
            all_devices: false,
            workers: 1,
            ..exact.engine.options
        };
        exact
    }
}

fn none_works(passed_over: &[SkippedCandidate]) -> String {
    let reasons: Vec<String> = passed_over
        .iter()
        .map(|one| format!("{}: {}", one.candidate, one.reason))
        .collect();
    format!("no provider works here ({})", reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_of_auto_takes_a_checkpoint_in_numbers_that_it_has() {
        // A machine with all GPUs that there are, one with WebGPU alone, and one without any.
        let all = |_| false;
        use Provider::{Cpu, Cuda, Native, Rten, WebGpu};
        let webgpu = |provider: Provider| provider.is_gpu() && provider != WebGpu;
        let none = Provider::is_gpu;
        let order = [Cuda, WebGpu, Native, Cpu, Rten];
        for (precision, with_all, with_webgpu, without) in [
            (None, true, true, true),
            (Some(Precision::Fp16), true, true, false),
            (Some(Precision::Bf16), true, false, true),
            (Some(Precision::Int8), false, false, true),
        ] {
            let first = |skipped: &dyn Fn(Provider) -> bool| {
                first_takes_checkpoint(&order, precision, skipped)
            };
            assert_eq!(
                [first(&all), first(&webgpu), first(&none)],
                [with_all, with_webgpu, without],
                "{precision:?}"
            );
        }
    }
}

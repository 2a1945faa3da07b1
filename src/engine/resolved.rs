//! From what the user said of a model and its engine to what follows from it: the kinds of weights to look for, the
//! arithmetic, and the engine that is opened.

use super::{
    Arithmetic, Engine, EngineInfo, EngineOptions, FloatType, Provider, ProviderChoice,
    ResolvedEngine, SkippedCandidate, auto, cuda, native, ort, rten,
};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{FileChoice, Model, ModelOptions, Precision, WeightsKind, WeightsPreference};
use crate::provider::ProviderOption;
use crate::runtime::selection::LibrarySelection;
use crate::setting::{MODEL_FILE, PRECISION, PROVIDER, WEIGHTS};

/// A model and its engine as the user asked for them, with all that both decide together. Files and engines are opened
/// with nothing less.
#[derive(Debug, Clone)]
pub struct Resolved {
    model: ModelOptions,
    weights: WeightsPreference,
    engine: ResolvedEngine,
    /// How many workers the user asked for, if any.
    asked: Option<usize>,
}

impl Resolved {
    /// Resolves what the user said of the model and of the engine.
    ///
    /// # Errors
    /// If none of the providers supports the model's options.
    pub fn of(model: &ModelOptions, engine: &EngineOptions) -> Result<Self> {
        let providers = &engine.providers;
        let native = providers.may_use(WeightsKind::Checkpoint);
        let onnx = providers.may_use(WeightsKind::Onnx);
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
        let of_file = |option: String| {
            Error::usage(format!(
                "{option} chooses among ONNX files, but {PROVIDER} native reads none: it computes in fp32, bf16, int16 or \
                 int8"
            ))
        };
        // A graph can be built of numbers that are stored or rounded one by one.
        let builds =
            onnx && model.model_file.is_none() && FloatType::built(model.precision).is_some();
        let (native, onnx) = match model.precision {
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
        };
        let weights = match (native, onnx) {
            _ if model.kind == Some(WeightsKind::Onnx) && onnx => WeightsPreference::Onnx,
            (true, false) if model.kind == Some(WeightsKind::Onnx) => {
                return Err(Error::usage(format!(
                    "{WEIGHTS} {} takes an ONNX file, but the native engine reads none",
                    WeightsKind::Onnx
                ))
                .with_remedy(format!("name another {PROVIDER}, or leave {WEIGHTS} out")));
            }
            _ if model.kind == Some(WeightsKind::Checkpoint) && (native || builds) => {
                WeightsPreference::Checkpoint(native::knows)
            }
            (true, false) => WeightsPreference::Checkpoint(native::knows),
            (_, true) if (native || builds) && checkpoint_comes_first(&engine, model.precision) => {
                WeightsPreference::CheckpointFirst(native::knows)
            }
            (true, true) => WeightsPreference::OnnxFirst(native::knows),
            (false, _) if builds => WeightsPreference::OnnxFirst(native::knows),
            (false, _) if model.kind == Some(WeightsKind::Checkpoint) => {
                return Err(Error::usage(format!(
                    "a graph of a checkpoint computes in fp32, fp16 or bf16, not in {}",
                    model.precision.map_or("fp32", Precision::name)
                )));
            }
            (false, _) => WeightsPreference::Onnx,
        };
        Ok(Self {
            model,
            weights,
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

/// Notes on `model` for the user, if an engine runs its weights of this kind.
#[must_use]
pub fn notes(model: &Model, weights: WeightsKind) -> Vec<String> {
    let mut notes = model.notes(weights);
    if weights == WeightsKind::Checkpoint {
        notes.extend(native::notes(model));
    }
    notes
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
fn checkpoint_comes_first(options: &EngineOptions, precision: Option<Precision>) -> bool {
    let (providers, auto) = in_order(options);
    let selection = LibrarySelection::new(&options.runtime, 0, false, &options.cancel);
    first_takes_checkpoint(&providers, precision, |provider| {
        let skip = || auto::reason_to_skip(provider, || selection.may_have(provider));
        auto && !provider.is_on_worker() && skip().is_some()
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
fn in_order(options: &EngineOptions) -> (Vec<Provider>, bool) {
    let order = auto::order(options.runtime.probe.is_some());
    match &options.providers {
        ProviderChoice::Auto => (order.to_vec(), true),
        ProviderChoice::List(list) => (list.clone(), false),
    }
}

/// Opens the first provider of the choice that works, remembering why others were passed over.
///
/// `auto` goes through [`auto::order`], and falls back from a provider that does not work here or does not do the work.
/// It does not fall back from the CPU because of the model: one that ONNX Runtime refuses there is an error, since
/// falling back would hide it. A list falls back from each of its members to the next, and to nothing else. A library
/// that the user named must work wherever it is needed. A provider without weights is not reported as a failure, unless
/// nothing else was tried.
///
/// # Errors
/// If none works; the message names each candidate's reason and the remedy.
pub fn open(model: &Model, options: &ResolvedEngine) -> Result<Box<dyn Engine>> {
    let probing = options.runtime.probe.is_some();
    let (providers, auto) = in_order(options);
    let device = options.devices.first().copied().unwrap_or(0);
    // A device that the processor emulates is used only if the user names the provider.
    let selection = LibrarySelection::new(&options.runtime, device, !auto, &options.cancel);
    let mut passed_over: Vec<SkippedCandidate> = Vec::new();
    let passed = |provider: Provider, reason: String| SkippedCandidate {
        candidate: provider.to_string(),
        reason,
        named: !auto,
    };
    if auto && let Some((provider, reason)) = auto::left_out(probing) {
        passed_over.push(passed(provider, reason));
    }
    let (mut fault, mut last) = (None, None);
    for provider in providers {
        if let Some(reason) = reason_to_pass(provider, auto, model, options, &selection) {
            passed_over.push(passed(provider, reason));
            continue;
        }
        let weights = provider.weights_of(model);
        let opened = match provider {
            Provider::Native => native::open(model, options, &passed_over, provider),
            Provider::Rten => rten::open(model, options, &passed_over),
            Provider::Cuda if weights == WeightsKind::Checkpoint && cuda::is_chosen(options) => {
                match cuda::lacks(model) {
                    None => cuda::open(model, options, &passed_over),
                    Some(reason) => {
                        passed_over.push(SkippedCandidate {
                            candidate: cuda::CANDIDATE.to_owned(),
                            reason,
                            named: true,
                        });
                        ort::open(model, options, provider, &selection, &passed_over)
                    }
                }
            }
            other => ort::open(model, options, other, &selection, &passed_over),
        };
        match opened {
            Ok(engine) => {
                model.check_unchanged(weights)?;
                return Ok(engine);
            }
            Err(error) => {
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
                passed_over.push(passed(provider, reason(&error)));
                match error.kind() {
                    // A fault of the model itself concerns every engine, whatever else was tried behind it.
                    ErrorKind::Model | ErrorKind::Io => _ = fault.get_or_insert(error),
                    _ => last = Some(error),
                }
            }
        }
    }
    Err(match fault.or(last) {
        Some(error) if matches!(error.kind(), ErrorKind::Model | ErrorKind::Io) => error,
        Some(error) if passed_over.len() == 1 => error,
        _ => Error::new(ErrorKind::Provider, "embedctl", none_works(&passed_over)),
    })
}

/// Why [`open`] passes over a provider that it would have to open otherwise.
fn reason_to_pass(
    provider: Provider,
    auto: bool,
    model: &Model,
    options: &ResolvedEngine,
    selection: &LibrarySelection,
) -> Option<String> {
    if auto
        && !provider.is_on_worker()
        && let Some(reason) = auto::reason_to_skip(provider, || selection.may_have(provider))
    {
        return Some(reason);
    }
    let unable = |float: &FloatType| provider == Provider::Native && !provider.computes_in(*float);
    if let Some(float) = options.float.filter(unable) {
        return Some(format!(
            "computes in fp32, bf16, int16 or int8, not in {float}"
        ));
    }
    let weights = provider.weights_of(model);
    if let Some(cause) = model.lacks(weights) {
        return Some(cause.to_string());
    }
    let is_built = weights == WeightsKind::Checkpoint && provider != Provider::Native;
    let precision =
        (model.options.precision).filter(|it| is_built && FloatType::built(Some(*it)).is_none())?;
    Some(format!(
        "a graph of a checkpoint computes in fp32, fp16 or bf16, not in {}",
        precision.name()
    ))
}

/// What the first provider that [`open`] would try says of itself, as far as that decides vectors. Opens nothing, so it is
/// not known whether that provider works.
#[must_use]
pub fn expected(model: &Model, options: &ResolvedEngine) -> Option<EngineInfo> {
    let (providers, auto) = in_order(options);
    let device = options.devices.first().copied().unwrap_or(0);
    let selection = LibrarySelection::new(&options.runtime, device, !auto, &options.cancel);
    let is_tried =
        |provider: &Provider| reason_to_pass(*provider, auto, model, options, &selection).is_none();
    let provider = providers.into_iter().find(is_tried)?;
    if provider == Provider::Native {
        return Some(native::expected(model, options, provider));
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

/// An error's reason and remedy without the engine's name, which stands beside them.
fn reason(error: &Error) -> String {
    match (error.kind(), error.remedy()) {
        (ErrorKind::Engine | ErrorKind::NoLibrary | ErrorKind::Provider, remedy) => {
            let remedy = remedy.map(|remedy| format!("; {remedy}"));
            format!("{}{}", error.reason(), remedy.unwrap_or_default())
        }
        _ => error.to_string(),
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

    fn settled(
        providers: &str,
        precision: Option<Precision>,
        change: impl FnOnce(&mut ModelOptions, &mut EngineOptions),
    ) -> Result<(WeightsPreference, Arithmetic)> {
        let mut model = ModelOptions {
            precision,
            ..ModelOptions::default()
        };
        let mut engine = EngineOptions {
            providers: providers.parse().unwrap(),
            ..EngineOptions::default()
        };
        change(&mut model, &mut engine);
        let resolved = Resolved::of(&model, &engine)?;
        Ok((resolved.weights, resolved.engine.arithmetic))
    }

    fn weights(providers: &str, precision: Option<Precision>) -> (&'static str, Arithmetic) {
        let (weights, arithmetic) = settled(providers, precision, |_, _| {}).unwrap();
        let name = match weights {
            WeightsPreference::Onnx => "onnx",
            WeightsPreference::Checkpoint(_) => "checkpoint",
            WeightsPreference::CheckpointFirst(_) => "checkpoint first",
            WeightsPreference::OnnxFirst(_) => "onnx first",
        };
        (name, arithmetic)
    }

    #[test]
    fn weights_follow_from_providers_and_precision() {
        use Arithmetic::{Bf16, Fp32, Int8, Int16};
        for (providers, precision, expected) in [
            ("native", None, ("checkpoint", Fp32)),
            ("cpu,rten", None, ("onnx first", Fp32)),
            ("native,cpu", None, ("checkpoint first", Fp32)),
            ("cpu,native", None, ("onnx first", Fp32)),
            // GPUs compute a graph of the checkpoint.
            ("cuda", None, ("checkpoint first", Fp32)),
            ("tensorrt,cpu", None, ("checkpoint first", Fp32)),
            ("openvino,cuda", None, ("onnx first", Fp32)),
            ("webgpu", Some(Precision::Fp16), ("checkpoint first", Fp32)),
            ("webgpu", Some(Precision::Bf16), ("onnx first", Bf16)),
            ("cuda", Some(Precision::Int8), ("onnx", Int8)),
            // Nothing is probed, so no GPU goes first.
            ("auto", None, ("checkpoint first", Fp32)),
            ("auto", Some(Precision::Int8), ("checkpoint first", Int8)),
            ("auto", Some(Precision::Int16), ("checkpoint", Int16)),
            ("auto", Some(Precision::Bf16), ("checkpoint first", Bf16)),
            ("native", Some(Precision::Bf16), ("checkpoint", Bf16)),
            ("cpu", Some(Precision::Bf16), ("onnx first", Bf16)),
            ("auto", Some(Precision::Fp16), ("onnx first", Fp32)),
            ("cpu", Some(Precision::Int8), ("onnx", Int8)),
        ] {
            assert_eq!(
                weights(providers, precision),
                expected,
                "{providers} {precision:?}"
            );
        }
        let least =
            |_: &mut ModelOptions, engine: &mut EngineOptions| engine.min_cosine = Some(0.9);
        let (weights, _) = settled("auto", Some(Precision::Int8), least).unwrap();
        assert!(matches!(weights, WeightsPreference::Checkpoint(_)));
        let file = |model: &mut ModelOptions, _: &mut EngineOptions| {
            model.model_file = Some("onnx/model.onnx".into());
        };
        assert!(matches!(
            settled("auto", None, file).unwrap().0,
            WeightsPreference::Onnx
        ));
    }

    #[test]
    fn a_gpu_of_auto_takes_a_checkpoint_in_numbers_that_it_has() {
        let gpu = auto::order(true);
        assert!(gpu.len() == 3 || gpu[0].is_gpu());
        // A machine with all GPUs that there are, one with WebGPU alone, and one without any.
        let all = |_| false;
        let webgpu = |provider: Provider| provider.is_gpu() && provider != Provider::WebGpu;
        let none = Provider::is_gpu;
        let order = [Provider::Cuda, Provider::WebGpu];
        let order: Vec<Provider> = order
            .into_iter()
            .chain(auto::order(false).to_vec())
            .collect();
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

    #[test]
    fn gpus_run_a_checkpoint_beside_an_onnx_file_unless_the_file_is_asked_for() {
        let folder = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/fixtures/models/all-MiniLM-L6-v2"
        );
        let taken = |providers: &str, change: &dyn Fn(&mut ModelOptions)| {
            let mut model = ModelOptions {
                model: folder.into(),
                ..ModelOptions::default()
            };
            change(&mut model);
            let engine = EngineOptions {
                providers: providers.parse().unwrap(),
                ..EngineOptions::default()
            };
            let model = Resolved::of(&model, &engine).unwrap().open_files().unwrap();
            let ProviderChoice::List(list) = engine.providers else {
                return vec![Provider::Cuda.weights_of(&model)];
            };
            list.iter()
                .map(|provider| provider.weights_of(&model))
                .collect()
        };
        use WeightsKind::{Checkpoint, Onnx};
        let nothing = |_: &mut ModelOptions| {};
        assert_eq!(taken("auto", &nothing), [Checkpoint]);
        assert_eq!(
            taken("cuda,webgpu,native,cpu,openvino,xnnpack,rten", &nothing),
            [Checkpoint, Checkpoint, Checkpoint, Onnx, Onnx, Onnx, Onnx]
        );
        assert_eq!(taken("cpu,tensorrt", &nothing), [Onnx, Checkpoint]);
        let asked = |kind| move |model: &mut ModelOptions| model.kind = Some(kind);
        assert_eq!(taken("cuda", &asked(Onnx)), [Onnx]);
        assert_eq!(taken("cpu", &asked(Checkpoint)), [Checkpoint]);
        let named = |model: &mut ModelOptions| model.model_file = Some("onnx/model.onnx".into());
        assert_eq!(taken("cuda", &named), [Onnx]);
    }

    #[test]
    fn bf16_is_arithmetic_where_all_providers_have_it_and_a_file_elsewhere() {
        let settled = |providers: &str, options: &[&str]| {
            let model = ModelOptions {
                precision: Some(Precision::Bf16),
                ..ModelOptions::default()
            };
            let options = options.iter().map(|option| option.parse().unwrap());
            let engine = EngineOptions {
                providers: providers.parse().unwrap(),
                provider_options: options.collect(),
                ..EngineOptions::default()
            };
            let Resolved { model, engine, .. } = Resolved::of(&model, &engine).unwrap();
            let given: Vec<String> = engine
                .provider_options
                .iter()
                .map(ToString::to_string)
                .collect();
            (model.precision, given)
        };
        let given = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            settled("openvino", &[]),
            (None, given(&["openvino.precision=bf16"]))
        );
        assert_eq!(
            settled("tensorrt,openvino", &[]),
            (
                None,
                given(&["tensorrt.precision=bf16", "openvino.precision=bf16"])
            )
        );
        // The provider's own failure comes last and is reported.
        assert_eq!(
            settled("openvino", &["openvino.precision=fp32"]).1,
            given(&["openvino.precision=bf16", "openvino.precision=fp32"])
        );
        for others in ["cpu", "openvino,cpu", "auto"] {
            assert_eq!(
                settled(others, &[]),
                (Some(Precision::Bf16), Vec::new()),
                "{others}"
            );
        }
    }

    #[test]
    fn what_no_provider_can_do_is_refused_with_what_can_be_done() {
        for (providers, precision, words) in [
            ("native", Precision::Fp16, "fp32, bf16, int16 or int8"),
            ("cpu", Precision::Int16, "provider native"),
        ] {
            let error = settled(providers, Some(precision), |_, _| {}).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains(words), "{error}");
        }
        let file = |model: &mut ModelOptions, _: &mut EngineOptions| {
            model.model_file = Some("onnx/model.onnx".into());
        };
        let error = settled("native", None, file).unwrap_err();
        assert!(error.to_string().contains("model_file"), "{error}");
    }
}

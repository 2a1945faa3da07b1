//! Making sessions of one model on one provider.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ort::session::Session;
use ort::session::builder::SessionBuilder;

use super::agreement;
use super::binding::OutputMemory;
use super::inputs::SessionReading;
use super::message;
use super::model_graph::ModelGraph;
use super::proof::{self, Profiling};
use super::session::OrtWorker;
use super::settings::{DeviceKind, settings};
use super::source::GraphSource;
use super::weights::release_free_memory;
use crate::built::FloatType;
use crate::feeds::Feeds;
use crate::runtime::library::Library;
use crate::runtime::placement;
use crate::runtime::registration::{self, ProviderSettings, session_builder};
use crate::runtime::{engine_error, provider_error, remedy};
use crate::single_device;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Cause, Error, Result, with_causes};
use embedctl_engine::provider::{POOLING, value_of};
use embedctl_engine::{EngineOptions, OptionValue, PlacedWork, Provider, Worker as _};

#[cfg(test)]
use embedctl_engine::ResolvedEngine;
use embedctl_model::Model;
use embedctl_rows::OutputChoice;
use embedctl_rows::batch::Batch;

/// More devices than any machine has: where counting them by trying ends at the latest.
const MOST_DEVICES: u32 = 64;

/// Fusions whose operators are slower on the CPU than the replaced ones, in dynamically quantized graphs (their float
/// operators see all of a batch's activations anyway): benches/RESULTS.md has the figures.
const SLOW_WHEN_QUANTIZED: &str = "SkipLayerNormFusion;BiasGeluFusion";

/// Optimizers that would widen narrow products for good: all of them beforehand, those in fp16 beforehand, or once for all
/// layers that share them.
pub(super) const WIDEN_FOR_GOOD: &str =
    "ConstantFolding;FuseFp16InitializerToFp32NodeTransformer;CommonSubexpressionElimination";

/// The parts needed to make a session.
pub(super) struct Opener {
    library: Library,
    pub provider: Provider,
    pub kind: DeviceKind,
    settings: ProviderSettings,
    /// The graph's file, or the folder of the checkpoint that it was built from.
    onnx: PathBuf,
    /// Bytes of the files of weights.
    stored_bytes: u64,
    pub source: GraphSource,
    pub reading: SessionReading,
    operators: BTreeSet<String>,
    /// The matrix products that the first proved session left to the CPU.
    products_on_cpu: OnceLock<usize>,
    pub cancel: CancelToken,
}

/// A session whose provider was proved to do the work.
pub(super) struct VerifiedSession {
    pub session: Session,
    pub placement: Vec<PlacedWork>,
    /// See [`agreement::check`].
    pub cosine_to_cpu: Option<f64>,
    /// Where outputs are put, where they are bound.
    pub output: Option<OutputMemory>,
}

impl Opener {
    pub(super) fn new(
        library: Library,
        provider: Provider,
        model: &Model,
        graph: ModelGraph,
        feeds: Arc<Feeds>,
        options: &EngineOptions,
    ) -> Result<Self> {
        let kind = DeviceKind::of(provider, options);
        Self::of_kind(library, provider, kind, model, graph, feeds, options)
    }

    /// On the CPU, but as if it were a device with memory of its own.
    #[cfg(test)]
    pub(super) fn as_a_device(library: Library, model: &Model, feeds: Arc<Feeds>) -> Self {
        let kind = DeviceKind {
            device: true,
            own_memory: true,
            numbered: false,
        };
        let options = ResolvedEngine::default();
        let graph = ModelGraph::of(model, Provider::Cpu, &options).expect("the model has a graph");
        Self::of_kind(library, Provider::Cpu, kind, model, graph, feeds, &options)
            .expect("the model's graph can be extended")
    }

    fn of_kind(
        library: Library,
        provider: Provider,
        kind: DeviceKind,
        model: &Model,
        graph: ModelGraph,
        feeds: Arc<Feeds>,
        options: &EngineOptions,
    ) -> Result<Self> {
        let mut reading = SessionReading {
            feeds,
            pooling: None,
        };
        let ModelGraph {
            declared,
            output,
            shown,
            stored_bytes,
            mut source,
        } = graph;
        let pools = match value_of(&options.provider_options, provider, POOLING) {
            Some(place) => place == OptionValue::Word("graph"),
            None => kind.own_memory,
        };
        if let OutputChoice::Tokens(states) = &output
            && pools
            && let Some(rule) = model.config.pooled_in_graph()
        {
            source = source.pooled(model, states, reading.feeds.element, rule.modes())?;
            reading.pooling = Some(rule.into());
        }
        let settings = settings(provider, model, &reading, options)?;
        if settings.option("precision") == Some(OptionValue::Word("bf16")) {
            source = source
                .for_bfloat16()
                .map_err(|reason| Error::model(&model.id, reason))?;
        }
        Ok(Self {
            settings,
            library,
            provider,
            kind,
            onnx: shown,
            stored_bytes,
            source,
            reading,
            operators: declared.operators,
            products_on_cpu: OnceLock::new(),
            cancel: CancelToken::new(),
        })
    }

    /// The same, stopped by `cancel`.
    pub(super) fn stopped_by(mut self, cancel: &CancelToken) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// The options of a session, nothing registered yet.
    pub(super) fn builder(&self) -> Result<SessionBuilder, ort::Error> {
        let builder = session_builder(&self.library.environment)?;
        if self.provider != Provider::Cpu {
            return Ok(builder);
        }
        let builder = registration::on_cpu(builder, &self.library.environment)?;
        let disabled = if self.source.narrow_products().is_some() {
            WIDEN_FOR_GOOD
        } else if self.operators.contains("DynamicQuantizeLinear") {
            SLOW_WHEN_QUANTIZED
        } else {
            return Ok(builder);
        };
        let entry = "optimization.disable_specified_optimizers";
        Ok(builder.with_config_entry(entry, disabled)?)
    }

    /// Numbers of the devices to open, as the user gave them.
    pub(super) fn devices(&self, options: &EngineOptions) -> Result<Vec<u32>> {
        if !self.kind.numbered {
            single_device(self.provider, options)?;
            return Ok(vec![0]);
        }
        Ok(if options.all_devices {
            (0..MOST_DEVICES).collect()
        } else if options.devices.is_empty() {
            vec![0]
        } else {
            options.devices.clone()
        })
    }

    /// A session with weights of its own, on the provider's default device. On a provider that was proved,
    /// it must leave no more to the CPU than the proved one does.
    pub(super) fn session(&self) -> Result<Session> {
        let builder = self.builder().map_err(|error| self.refused(&error))?;
        let builder = placement::record(builder).map_err(engine_error)?;
        let builder = self.register(builder, 0)?;
        let session = self.load(builder)?;
        if let Some(&proved) = self.products_on_cpu.get()
            && products_on_cpu(&session) > proved
        {
            return Err(provider_error(format!(
                "{} placed another session of the same model differently, and left products to the CPU",
                self.provider
            )));
        }
        Ok(session)
    }

    /// A session on device `number` that has run a batch, whose products were not left to the CPU.
    pub(super) fn proved(&self, model: &Model, number: u32) -> Result<VerifiedSession> {
        let provider = |reason: String| provider_error(reason);
        let builder = self.builder().map_err(|error| self.refused(&error))?;
        let builder = placement::record(builder).map_err(provider)?;
        let builder = self.register(builder, number)?;
        let (builder, profiling) = Profiling::start(builder).map_err(engine_error)?;
        let session = Arc::new(Mutex::new(self.load(builder)?));
        let batch = proof::short_batch(model, self.reading.feeds.max_rows);
        let mut worker = OrtWorker::new(Arc::clone(&session), None, self.reading.clone())
            .map_err(|error| self.refused(&error))?;
        let binds = self.settings.option("binding") != Some(OptionValue::Flag(false));
        let output = if self.kind.own_memory && binds {
            self.bind(&mut worker, &batch, number)
        } else {
            None
        };
        let ran = profiling
            .run(&session, &mut worker, &batch)
            .map_err(|reason| {
                provider(format!(
                    "{} cannot run {}: {reason}",
                    self.provider,
                    self.onnx.display()
                ))
            })?;
        if self.cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        let (placement, complaint) = proof::judge(&ran, self.provider, &self.operators);
        if let Some(complaint) = complaint {
            return Err(provider_error(complaint));
        }
        // Devices of one kind compute alike, so the first stands for all.
        let cosine_to_cpu = match self.products_on_cpu.get() {
            None => {
                let reference = || self.on_cpu();
                let (reading, checked) = (&self.reading, self.checked());
                agreement::check(
                    self.provider,
                    reading,
                    &checked,
                    reference,
                    model,
                    &mut worker,
                )?
            }
            Some(_) => None,
        };
        drop(worker);
        if self.cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        let session = Arc::into_inner(session)
            .expect("the worker that shared it is gone")
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let _ = self.products_on_cpu.set(products_on_cpu(&session));
        Ok(VerifiedSession {
            session,
            placement,
            cosine_to_cpu,
            output,
        })
    }

    /// Whether vectors may differ visibly from the CPU's, by the user's options or the model's quantization.
    fn is_rough(&self) -> bool {
        let quantized = |operator: &String| {
            ["Integer", "Quantize", "QLinear", "NBits"]
                .iter()
                .any(|part| operator.contains(part))
        };
        self.settings.lowers_precision()
            || self.source.built_in() == Some(FloatType::Bf16)
            || self.operators.iter().any(quantized)
    }

    /// The graph as [`agreement::check`] takes it.
    fn checked(&self) -> agreement::CheckedGraph<'_> {
        agreement::CheckedGraph {
            shown: &self.onnx,
            stored_bytes: self.stored_bytes,
            rough: self.is_rough(),
            narrow: self
                .source
                .built_in()
                .filter(|float| *float != FloatType::F32),
        }
    }

    /// The graph on the CPU, where it loads there.
    fn on_cpu(&self) -> Option<Session> {
        let builder = registration::on_cpu(self.builder().ok()?, &self.library.environment).ok()?;
        self.source.load_exact(builder, &self.cancel).ok()
    }

    /// Binds `worker`'s tensors in the best way that works for a first batch.
    fn bind(&self, worker: &mut OrtWorker, batch: &Batch, number: u32) -> Option<OutputMemory> {
        OutputMemory::candidates(self.provider, number)
            .into_iter()
            .find(|&memory| worker.bind(memory).is_ok() && worker.run(batch).is_ok())
            .or_else(|| {
                worker.unbind();
                None
            })
    }

    fn register(&self, builder: SessionBuilder, number: u32) -> Result<SessionBuilder> {
        let settings = ProviderSettings {
            device: number,
            ..self.settings.clone()
        };
        let plugin = self
            .library
            .plugin
            .as_ref()
            .map(|plugin| plugin.library.as_path());
        let environment = &self.library.environment;
        registration::register(builder, environment, plugin, self.provider, &settings).map_err(
            |reason| {
                let cause = remedy::complete(self.provider, &reason, &self.library);
                provider_error(Cause {
                    reason: format!(
                        "the provider {} is not available from {}: {}",
                        self.provider,
                        plugin.unwrap_or(&self.library.path).display(),
                        cause.reason
                    ),
                    ..cause
                })
            },
        )
    }

    fn load(&self, builder: SessionBuilder) -> Result<Session> {
        let session = self
            .source
            .load(builder, &self.cancel)
            .map_err(|error| self.refused(&error))?;
        release_free_memory();
        Ok(session)
    }

    /// ONNX Runtime's message, with a remedy if the library is too old for the model. On the CPU the model is at fault;
    /// another provider may have reasons of its own.
    fn refused(&self, error: &ort::Error) -> Error {
        if self.cancel.is_cancelled() {
            return Error::interrupted();
        }
        let words = with_causes(error);
        if remedy::lacks_device(&words) {
            return provider_error(remedy::complete(self.provider, &words, &self.library));
        }
        let lower = words.to_ascii_lowercase();
        let unknown = [
            "ir version",
            "opset",
            "not a registered",
            "no op registered",
        ]
        .iter()
        .any(|sign| lower.contains(sign));
        let model = self.onnx.display().to_string();
        let (error, full) = if self.provider == Provider::Cpu {
            (engine_error(format!("cannot load {model}: {words}")), None)
        } else {
            let (cause, full) = message::reason(self.provider.name(), &model, words);
            (provider_error(cause), full)
        };
        let error = match full {
            Some(full) => error.caused_by(full),
            None => error,
        };
        if !unknown || error.remedy().is_some() {
            return error;
        }
        error.with_remedy(format!(
            "this is ONNX Runtime {} ({}); a newer one may know the model's operators",
            self.library.version,
            self.library.path.display()
        ))
    }
}

/// A library that keeps no list has nothing to compare.
fn products_on_cpu(session: &Session) -> usize {
    proof::products_on_cpu(&placement::assigned(session).unwrap_or_default())
}

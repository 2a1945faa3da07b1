//! Running models with ONNX Runtime, in sessions of the library that [`crate::runtime`] has chosen.
//!
//! [`opener`] makes sessions, [`proof`] checks that a provider does the work, and [`agreement`] that its results are
//! right. [`session`] runs batches: on the processor one session a worker, over one copy of the [`weights`]; on a
//! device one session that its workers share, with pooling in the graph ([`pooled`]) and tensors bound to the device's
//! memory ([`binding`]).

mod agreement;
mod binding;
mod budget;
mod constants;
mod footprint;
mod initializers;
mod inputs;
mod message;
mod model_graph;
mod opener;
mod pooled;
mod proof;
mod session;
mod settings;
mod source;
mod weights;

pub use message::FullMessage;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ort::session::Session;

use self::inputs::SessionReading;
use self::model_graph::ModelGraph;
use self::opener::Opener;
use self::session::OrtWorker;
use self::settings::DEVICE_LIMITS;
use self::weights::{SharedSessions, SharedWeights};
use super::built::FloatType;
use super::feeds::Feeds;
use crate::runtime::selection::LibrarySelection;
use crate::runtime::{engine_error, process};
use crate::{CPU_LIMITS, single_device};
use embedctl_common::error::{Error, ErrorKind, Result, with_causes};
use embedctl_common::threads::locked;
use embedctl_engine::{
    Engine, EngineInfo, EngineOptions, Provider, ResolvedEngine, SkippedCandidate, Worker,
};
use embedctl_model::Model;
use embedctl_rows::batch::BatchLimits;

/// Threads that feed one device: one is in the session while the others prepare and finish batches.
const WORKERS_PER_DEVICE: usize = 2;

/// How the names of temporary folders begin.
const FOLDER_PREFIX: &str = "embedctl-weights-";

/// Tokens of a row while a device's budget is measured: a paragraph.
const TYPICAL_LENGTH: usize = 64;

/// Opens `model` with `provider` of the library that `selection` finds for it; libraries that were tried in
/// vain are appended to `passed_over`.
///
/// A provider other than the CPU is proved to do the work; else the error is an [`ErrorKind::Provider`].
///
/// # Errors
/// If no library has the provider, or it cannot run the model.
pub fn open(
    model: &Model,
    options: &ResolvedEngine,
    provider: Provider,
    selection: &LibrarySelection,
    passed_over: &[SkippedCandidate],
) -> Result<Box<dyn Engine>> {
    let graph = ModelGraph::of(model, provider, options)?;
    let feeds = Arc::new(Feeds::of(model, &graph.declared, &graph.output)?);
    process::require_no_tf32(provider, &options.provider_options)?;
    let library = selection.library(provider)?;
    let mut info = EngineInfo::new("onnxruntime", library.version.clone(), provider);
    info.library = Some(library.path.clone());
    info.plugin = library.plugin.clone();
    info.passed_over = [passed_over, library.passed_over.as_slice()].concat();
    let own = options.provider_options.iter();
    info.options = own
        .filter(|one| one.provider == provider)
        .copied()
        .collect();
    let opener = Opener::new(library, provider, model, graph, feeds, options)?
        .stopped_by(selection.cancel());
    let engine = open_graph(model, options, opener, info)?;
    Ok(Box::new(engine))
}

/// Sessions of the opener's graph.
fn open_graph(
    model: &Model,
    options: &EngineOptions,
    opener: Opener,
    mut info: EngineInfo,
) -> Result<OrtEngine> {
    info.built_graph = opener.source.built_in().map(FloatType::name);
    info.narrow_weights = opener.source.narrow_products().map(FloatType::name);
    let rows = opener.reading.feeds.max_rows;
    let mut engine = if opener.kind.device {
        on_devices(model, options, opener, info)?
    } else {
        on_processor(model, options, opener, info)?
    };
    engine.limits.rows = rows.unwrap_or(usize::MAX).min(engine.limits.rows);
    Ok(engine)
}

/// One session a worker, over one copy of the weights where the CPU provider itself runs them.
fn on_processor(
    model: &Model,
    options: &EngineOptions,
    opener: Opener,
    mut info: EngineInfo,
) -> Result<OrtEngine> {
    single_device(opener.provider, options)?;
    let mut shared = None;
    // A built graph's weights are freed only where they lie in a file, once they are packed.
    // Narrow products are shared as they are: nothing is made of them for a session.
    let shares =
        info.narrow_weights.is_none() && (options.workers > 1 || info.built_graph.is_some());
    if shares && opener.provider == Provider::Cpu {
        let builder = || opener.builder();
        let workers = options.workers.max(1);
        match SharedSessions::open(&builder, &opener.source, workers, &opener.cancel) {
            Ok(sessions) => shared = Some(sessions),
            Err(_) if opener.cancel.is_cancelled() => return Err(Error::interrupted()),
            // Sessions work without, too, in more memory. If the model is at fault, loading it reports that.
            Err(reason) => info.passed_over.push(SkippedCandidate {
                candidate: "weights shared between workers".into(),
                reason,
                named: false,
            }),
        }
    }
    let (sessions, weights) = match shared {
        Some(shared) => (shared.sessions, Some(shared.weights)),
        // A model that cannot be loaded fails here, not in a worker's thread.
        None if opener.provider == Provider::Cpu => (vec![opener.session()?], None),
        None => {
            let proved = opener.proved(model, 0)?;
            info.placement = proved.placement;
            info.cosine_to_cpu = proved.cosine_to_cpu;
            (vec![proved.session], None)
        }
    };
    let ready = sessions.into_iter().map(|one| Arc::new(Mutex::new(one)));
    Ok(OrtEngine {
        info,
        limits: CPU_LIMITS,
        token_rows: opener.reading.feeds.token_rows,
        memory: opener.source.memory(),
        sessions: Sessions::Own {
            ready: Mutex::new(ready.collect()),
            weights,
            opener: Box::new(opener),
        },
    })
}

/// One session a device, shared by its workers.
fn on_devices(
    model: &Model,
    options: &EngineOptions,
    opener: Opener,
    mut info: EngineInfo,
) -> Result<OrtEngine> {
    let numbers = opener.devices(options)?;
    let mut sessions = Vec::new();
    for &number in &numbers {
        match opener.proved(model, number) {
            Ok(proved) => {
                if sessions.is_empty() {
                    info.placement = proved.placement;
                    info.cosine_to_cpu = proved.cosine_to_cpu;
                }
                info.devices.push(number);
                sessions.push(DeviceSession {
                    session: Arc::new(Mutex::new(proved.session)),
                    output: proved.output,
                });
            }
            Err(error)
                if error.kind() == ErrorKind::Provider
                    && options.all_devices
                    && !sessions.is_empty() =>
            {
                // Devices are counted by trying: this is the first number without a device.
                info.passed_over.push(SkippedCandidate {
                    candidate: format!("{} device {number}", opener.provider),
                    reason: error.to_string(),
                    named: false,
                });
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let mut limits = BatchLimits {
        rows: match opener.provider {
            Provider::TensorRt => settings::compiled_rows(model),
            _ => DEVICE_LIMITS.rows,
        },
        ..DEVICE_LIMITS
    };
    if options.batch_tokens.is_none()
        && let Some(device) = sessions.first()
        && let Some(tokens) = measured_budget(model, device, &opener, limits.rows)?
    {
        limits.tokens = tokens;
        info.batch_tokens = Some(tokens);
    }
    Ok(OrtEngine {
        info,
        limits,
        token_rows: opener.reading.feeds.token_rows,
        memory: None,
        sessions: Sessions::Shared {
            devices: sessions,
            next: AtomicUsize::new(0),
            reading: opener.reading,
        },
    })
}

/// The token budget of `device`; those of several devices are taken to be alike.
fn measured_budget(
    model: &Model,
    device: &DeviceSession,
    opener: &Opener,
    most_rows: usize,
) -> Result<Option<usize>> {
    if opener.reading.feeds.max_rows.is_some() {
        return Ok(None);
    }
    let mut worker = device
        .worker(opener.reading.clone())
        .map_err(|error| engine_error(with_causes(&error)))?;
    let length = model.config.max_length.clamp(1, TYPICAL_LENGTH);
    let budget = budget::measure(
        length,
        most_rows,
        &opener.cancel,
        &|rows| proof::sample(model, rows, length),
        &mut |batch| {
            let started = Instant::now();
            worker.run(batch)?;
            Ok(started.elapsed())
        },
    );
    if opener.cancel.is_cancelled() {
        return Err(Error::interrupted());
    }
    Ok(budget)
}

/// A model opened with ONNX Runtime.
struct OrtEngine {
    info: EngineInfo,
    limits: BatchLimits,
    token_rows: Option<usize>,
    /// See [`Engine::memory`].
    memory: Option<u64>,
    sessions: Sessions,
}

/// The sessions of an engine.
enum Sessions {
    /// One for each worker.
    Own {
        /// Made at opening, for the workers that were announced.
        ready: Mutex<Vec<Arc<Mutex<Session>>>>,
        /// The weights that they share, if they do.
        weights: Option<Arc<SharedWeights>>,
        /// Makes more.
        opener: Box<Opener>,
    },
    /// One for each device; workers take them in turn. The opener is gone, and with it the graph that was
    /// made for the device.
    Shared {
        devices: Vec<DeviceSession>,
        next: AtomicUsize,
        reading: SessionReading,
    },
}

/// A device's session.
struct DeviceSession {
    session: Arc<Mutex<Session>>,
    /// Where outputs are put; `None`: inputs and outputs are not bound.
    output: Option<binding::OutputMemory>,
}

impl DeviceSession {
    fn worker(&self, reading: SessionReading) -> Result<OrtWorker, ort::Error> {
        let mut worker = OrtWorker::new(Arc::clone(&self.session), None, reading)?;
        if let Some(memory) = self.output {
            worker.bind(memory)?;
        }
        Ok(worker.of_device())
    }
}

impl Engine for OrtEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        self.limits
    }

    fn memory(&self) -> Option<u64> {
        self.memory
    }

    fn token_rows(&self) -> Option<usize> {
        self.token_rows
    }

    fn workers(&self) -> Option<usize> {
        match &self.sessions {
            Sessions::Own { .. } => None,
            Sessions::Shared { devices, .. } => Some(WORKERS_PER_DEVICE * devices.len()),
        }
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        let failed = |error: ort::Error| engine_error(with_causes(&error));
        let worker = match &self.sessions {
            Sessions::Own {
                ready,
                weights,
                opener,
            } => {
                let ready = locked(ready).pop();
                let (session, weights) = match ready {
                    Some(session) => (session, weights.clone()),
                    None => {
                        let session = opener.session()?;
                        (Arc::new(Mutex::new(session)), None)
                    }
                };
                OrtWorker::new(session, weights, opener.reading.clone()).map_err(failed)?
            }
            Sessions::Shared {
                devices,
                next,
                reading,
            } => {
                let device = &devices[next.fetch_add(1, Ordering::Relaxed) % devices.len()];
                device.worker(reading.clone()).map_err(failed)?
            }
        };
        Ok(Box::new(worker))
    }
}

#[cfg(test)]
mod narrow_tests;
#[cfg(test)]
mod other_providers_tests;
#[cfg(test)]
mod overflow_tests;
#[cfg(test)]
#[path = "onnxruntime_tests.rs"]
mod tests;

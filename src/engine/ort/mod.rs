//! ONNX Runtime, loaded at run time.
//!
//! One binary serves every build of the library: [`discovery`] says where libraries may lie, [`library`]
//! loads the first that will do, [`session`] runs batches, and [`weights`] lets all workers share one
//! copy of the weights.

mod discovery;
mod library;
mod placement;
pub mod probe;
mod python;
mod registration;
mod session;
mod temporary;
mod weights;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ort::session::Session;

pub use library::disable_telemetry;

use self::library::{Library, Missing, with_causes};
use self::session::{OrtWorker, builder, load};
use self::weights::{SharedSessions, Weights, release_free_memory};
use super::feeds::Feeds;
use super::{BatchLimits, Engine, EngineInfo, EngineOptions, PassedOver, Provider, Worker};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::model::Model;

/// The engine's name in messages.
const NAME: &str = "ONNX Runtime";

/// Batches that suit a CPU: few enough tokens for the activations to stay in the cache.
const CPU_LIMITS: BatchLimits = BatchLimits {
    tokens: 512,
    rows: 128,
};

/// Why a model could not be opened with ONNX Runtime.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is no library here, and none was named.
    NoLibrary(Error),
    /// A library was named, and it cannot be used.
    NamedLibrary(Error),
    /// Anything else: the provider, the model.
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl Failure {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::NoLibrary(error) | Self::NamedLibrary(error) | Self::Other(error) => error,
        }
    }
}

/// Opens `model` with `provider`; libraries that were tried in vain are appended to `passed_over`.
pub(super) fn open(
    model: &Model,
    options: &EngineOptions,
    provider: Provider,
    passed_over: &[PassedOver],
) -> Result<Box<dyn Engine>, Failure> {
    if provider != Provider::Cpu {
        return Err(Failure::Other(engine_error(format!(
            "this version of embedctl has no provider '{provider}' yet; \
             --provider cpu and --provider tract are there"
        ))));
    }
    let feeds = Arc::new(Feeds::of(model)?);
    let library =
        library::load(options.ort_library.as_deref()).map_err(|missing| match missing {
            Missing::NotFound(error) => Failure::NoLibrary(error),
            Missing::Unusable(error) => Failure::NamedLibrary(error),
        })?;
    let mut info = EngineInfo {
        engine: "onnxruntime",
        version: library.version.clone(),
        provider,
        library: Some(library.path.clone()),
        passed_over: [passed_over, library.passed_over.as_slice()].concat(),
    };
    let opener = Opener {
        library,
        provider,
        onnx: model.onnx.clone(),
        feeds,
        cancel: options.cancel.clone(),
    };
    let mut shared = None;
    if options.workers > 1 {
        let builder = || builder(&opener.library.environment, provider);
        match SharedSessions::open(&builder, &opener.onnx, options.workers, &opener.cancel) {
            Ok(sessions) => shared = Some(sessions),
            Err(_) if opener.cancel.is_cancelled() => return Err(Error::Interrupted.into()),
            // Works without, too, in more memory. If the model is at fault, loading it will say so.
            Err(reason) => info.passed_over.push(PassedOver {
                candidate: "weights shared between workers".into(),
                reason,
            }),
        }
    }
    let (sessions, weights) = match shared {
        Some(shared) => (shared.sessions, Some(shared.weights)),
        // A model that cannot be loaded fails here, not in a worker's thread.
        None => (vec![opener.session()?], None),
    };
    let rows = opener.feeds.max_rows.unwrap_or(CPU_LIMITS.rows);
    Ok(Box::new(OrtEngine {
        info,
        limits: BatchLimits {
            rows: rows.min(CPU_LIMITS.rows),
            ..CPU_LIMITS
        },
        sessions: Mutex::new(sessions),
        weights,
        opener,
    }))
}

/// What it takes to make a session.
struct Opener {
    library: Library,
    provider: Provider,
    onnx: PathBuf,
    feeds: Arc<Feeds>,
    cancel: CancelToken,
}

impl Opener {
    /// A session with weights of its own.
    fn session(&self) -> Result<Session> {
        let session = builder(&self.library.environment, self.provider)
            .and_then(|builder| load(builder, &self.onnx, &self.cancel))
            .map_err(|error| self.explain(&error))?;
        release_free_memory();
        Ok(session)
    }

    /// ONNX Runtime's words, and what to do where the library is too old for the model.
    fn explain(&self, error: &ort::Error) -> Error {
        if self.cancel.is_cancelled() {
            return Error::Interrupted;
        }
        let words = with_causes(error);
        let lower = words.to_ascii_lowercase();
        let unknown = [
            "ir version",
            "opset",
            "not a registered",
            "no op registered",
        ]
        .iter()
        .any(|sign| lower.contains(sign));
        let hint = if unknown {
            format!(
                "; this is ONNX Runtime {} ({}), and a newer one may know the model's operators",
                self.library.version,
                self.library.path.display()
            )
        } else {
            String::new()
        };
        engine_error(format!(
            "cannot load {}: {words}{hint}",
            self.onnx.display()
        ))
    }
}

/// A model opened with ONNX Runtime.
struct OrtEngine {
    info: EngineInfo,
    limits: BatchLimits,
    /// Sessions made at opening, one for each worker that was announced.
    sessions: Mutex<Vec<Session>>,
    /// What those sessions run on, where they share.
    weights: Option<Arc<Weights>>,
    opener: Opener,
}

impl Engine for OrtEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        self.limits
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        let ready = self
            .sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let (session, weights) = match ready {
            Some(session) => (session, self.weights.clone()),
            None => (self.opener.session()?, None),
        };
        let worker = OrtWorker::new(session, weights, Arc::clone(&self.opener.feeds))
            .map_err(|error| engine_error(with_causes(&error)))?;
        Ok(Box::new(worker))
    }
}

fn engine_error(reason: String) -> Error {
    Error::Engine {
        engine: NAME,
        reason,
    }
}

#[cfg(test)]
mod tests;

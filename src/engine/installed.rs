//! The engines of this program, as models are opened with them.

use std::sync::Arc;

use super::{
    Engine, EngineOptions, Engines, MachineEngines, Provider, ResolvedEngine, SkippedCandidate,
    auto, cuda, native, ort, rten,
};
use crate::cancel::CancelToken;
use crate::error::{ErrorKind, Result};
use crate::model::{Knows, Model, WeightsKind};
use crate::runtime::selection::LibrarySelection;

/// The engines of this program, for [`Resolved::of`](super::Resolved::of).
#[must_use]
pub fn installed() -> Arc<dyn Engines> {
    Arc::new(InstalledEngines)
}

/// The native engine, the one for NVIDIA GPUs, ONNX Runtime and rten.
#[derive(Debug)]
struct InstalledEngines;

impl Engines for InstalledEngines {
    fn knows(&self) -> Knows {
        native::knows
    }

    fn usual(&self, probing: bool) -> &'static [Provider] {
        auto::order(probing)
    }

    fn left_out(&self, probing: bool) -> Option<(Provider, String)> {
        auto::left_out(probing)
    }

    fn on_this_machine<'a>(
        &'a self,
        options: &'a EngineOptions,
        emulated: bool,
        cancel: &'a CancelToken,
    ) -> Box<dyn MachineEngines + 'a> {
        let device = options.devices.first().copied().unwrap_or(0);
        let selection = LibrarySelection::new(&options.runtime, device, emulated, cancel);
        Box::new(InstalledHere { selection, cancel })
    }
}

/// The same on this machine, with the search for ONNX Runtime's libraries.
struct InstalledHere<'a> {
    selection: LibrarySelection<'a>,
    cancel: &'a CancelToken,
}

impl MachineEngines for InstalledHere<'_> {
    fn reason_to_skip(&self, provider: Provider) -> Option<String> {
        auto::reason_to_skip(provider, || {
            provider == Provider::Cuda && cuda::is_here(self.cancel)
                || self.selection.may_have(provider)
        })
    }

    fn open(
        &self,
        model: &Model,
        options: &ResolvedEngine,
        provider: Provider,
        passed_over: &mut Vec<SkippedCandidate>,
    ) -> Result<Box<dyn Engine>> {
        let is_checkpoint = provider.weights_of(model) == WeightsKind::Checkpoint;
        match provider {
            Provider::Native => return native::open(model, options, passed_over, provider),
            Provider::Rten => return rten::open(model, options, passed_over, self.cancel),
            Provider::Cuda if is_checkpoint => {
                if let Some(engine) = self.open_own(model, options, passed_over)? {
                    return Ok(engine);
                }
            }
            _ => {}
        }
        ort::open(model, options, provider, &self.selection, passed_over)
    }
}

impl InstalledHere<'_> {
    /// Opens a checkpoint with the engine for NVIDIA GPUs; `None` where ONNX Runtime is to run it, with the reason among
    /// those that were passed over unless the options say so.
    fn open_own(
        &self,
        model: &Model,
        options: &ResolvedEngine,
        passed_over: &mut Vec<SkippedCandidate>,
    ) -> Result<Option<Box<dyn Engine>>> {
        let chosen = cuda::chosen(options)?;
        if chosen == cuda::Chosen::OnnxRuntime {
            return Ok(None);
        }
        let name = || cuda::CANDIDATE.to_owned();
        let skipped = match cuda::lacks(model) {
            Some(reason) => SkippedCandidate {
                candidate: name(),
                reason,
                named: true,
            },
            None => match (cuda::Cards::open(options, self.cancel), chosen) {
                (Ok(cards), _) => return cuda::open(model, options, cards, passed_over).map(Some),
                (Err(error), cuda::Chosen::OwnIfHere) if error.kind() == ErrorKind::Provider => {
                    SkippedCandidate::failed(name(), &error, true)
                }
                (Err(error), _) => return Err(error),
            },
        };
        passed_over.push(skipped);
        Ok(None)
    }
}

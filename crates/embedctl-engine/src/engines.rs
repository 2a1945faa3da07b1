//! The engines that a program has. It passes them in: this crate depends on none of them.

use std::fmt::Debug;

use embedctl_common::cancel::CancelToken;
use embedctl_common::error::Result;
use embedctl_model::{Knows, Model};

use crate::{Engine, EngineOptions, Provider, ResolvedEngine, SkippedCandidate};

/// The engines of a program.
pub trait Engines: Debug + Send + Sync {
    /// Tells by a `config.json` whether an engine for checkpoints runs the network.
    fn knows(&self) -> Knows;

    /// The providers that `auto` tries, best first; without `probing` those that cannot crash the program.
    fn usual(&self, probing: bool) -> &'static [Provider];

    /// A provider that could run here and that `auto` leaves out on purpose, with the reason.
    fn left_out(&self, probing: bool) -> Option<(Provider, String)>;

    /// The engines on this machine, for one opening of a model, which `cancel` stops. `emulated`: whether a device that the
    /// processor emulates is accepted.
    fn on_this_machine<'a>(
        &'a self,
        options: &'a EngineOptions,
        emulated: bool,
        cancel: &'a CancelToken,
    ) -> Box<dyn MachineEngines + 'a>;
}

/// The engines on this machine, for one opening of a model: their libraries are looked for once.
pub trait MachineEngines {
    /// Why `auto` need not try `provider` here. Loads no library.
    fn reason_to_skip(&self, provider: Provider) -> Option<String>;

    /// Opens `model` with `provider`. `passed_over` are the candidates before it; others may be added.
    ///
    /// # Errors
    /// If the provider does not work here, or does not run the model.
    fn open(
        &self,
        model: &Model,
        options: &ResolvedEngine,
        provider: Provider,
        passed_over: &mut Vec<SkippedCandidate>,
    ) -> Result<Box<dyn Engine>>;
}

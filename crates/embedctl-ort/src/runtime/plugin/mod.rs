//! Plug-ins: providers in libraries of their own, several of which one ONNX Runtime loads side by side.
//!
//! [`find`] recognizes a plug-in by a file's exported names, and [`devices`] registers it with a loaded ONNX Runtime
//! and lists its devices. A plug-in is loaded by a probe's child first, like every library that was not named by the
//! user. A library with one of its plug-ins is one candidate of [`super::selection`].

pub(super) mod devices;
pub(super) mod find;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::placement::library_name;
use embedctl_engine::Provider;

/// The report on a plug-in, from loading it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginReport {
    /// Its file.
    pub path: PathBuf,
    /// Its version, as it states it.
    pub version: Option<String>,
    /// Its providers, in the library's names: `OpenVINOExecutionProvider`. They may be unknown for a plug-in that
    /// cannot be loaded or offers no device.
    pub names: Vec<String>,
    /// The devices that it offers.
    pub devices: Vec<PluginDevice>,
    /// Why it cannot be used; `None` also where it only offers no device.
    pub unusable: Option<String>,
    /// The remedy, if there is one.
    pub remedy: Option<String>,
}

/// A device that a plug-in offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginDevice {
    /// The provider, in the library's name.
    pub provider: String,
    /// `CPU`, `GPU` or `NPU`.
    pub kind: String,
    /// The plug-in's name for it, if it has one.
    pub name: Option<String>,
}

impl PluginReport {
    /// A report on a plug-in that has not been loaded yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            ..Self::default()
        }
    }

    /// Whether it is `provider`'s, by its own providers, or else by its file's name.
    #[must_use]
    pub fn is_of(&self, provider: Provider) -> bool {
        match self.names.as_slice() {
            [] => find::guess(&self.path) == Some(provider),
            names => names
                .iter()
                .any(|name| Some(name.as_str()) == library_name(provider)),
        }
    }

    /// Its providers, as far as embedctl supports them.
    #[must_use]
    pub fn providers(&self) -> Vec<Provider> {
        let all = Provider::ALL.into_iter();
        all.filter(|&provider| self.is_of(provider)).collect()
    }
}

//! Plug-ins: providers in libraries of their own, several of which one ONNX Runtime loads side by side.
//!
//! [`find`] sees by a file's exported names that it is one, [`devices`] registers it with a loaded ONNX
//! Runtime and reads what it offers. A plug-in is loaded by a probe's child first, like every library that
//! is only found; a library with one of its plug-ins is one candidate of [`super::selection`]'s.

pub(super) mod devices;
pub(super) mod find;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::placement::library_name;
use crate::provider::Provider;

/// The plug-in that a provider comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plugin {
    /// Its file.
    pub library: PathBuf,
    /// Its version, as it states it: `1.8.1`.
    pub version: Option<String>,
}

/// What is known about a plug-in from loading it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginReport {
    /// Its file.
    pub path: PathBuf,
    /// Its version, as it states it.
    pub version: Option<String>,
    /// Its providers, in the library's names: `OpenVINOExecutionProvider`. A plug-in that cannot be loaded, or
    /// has nothing to offer, may not even tell these.
    pub names: Vec<String>,
    /// What it offers to run on.
    pub devices: Vec<PluginDevice>,
    /// Why it cannot be used; `None` also where it only offers no device.
    pub unusable: Option<String>,
    /// What helps against that, where something does.
    pub remedy: Option<String>,
}

/// What a plug-in offers to run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginDevice {
    /// The provider, in the library's name.
    pub provider: String,
    /// `CPU`, `GPU` or `NPU`.
    pub kind: String,
    /// What the plug-in calls it, where it does.
    pub name: Option<String>,
}

impl PluginReport {
    /// A plug-in of which nothing is known yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            ..Self::default()
        }
    }

    /// Whether it is `provider`'s, as far as it says so itself, or else its file's name.
    #[must_use]
    pub fn is_of(&self, provider: Provider) -> bool {
        match self.names.as_slice() {
            [] => find::guess(&self.path) == Some(provider),
            names => names
                .iter()
                .any(|name| Some(name.as_str()) == library_name(provider)),
        }
    }

    /// Its providers that have a name here.
    #[must_use]
    pub fn providers(&self) -> Vec<Provider> {
        let all = Provider::ALL.into_iter();
        all.filter(|&provider| self.is_of(provider)).collect()
    }
}

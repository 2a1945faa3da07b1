//! The result of trying a provider.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::obtain::how_to_get;
use embedctl_engine::Provider;

/// The result of trying a provider of a library.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderReport {
    /// The provider.
    pub provider: Provider,
    /// Whether the library has the provider at all.
    #[serde(default = "yes")]
    pub built_in: bool,
    /// Whether it ran a small graph, matrix products included, with the right result.
    pub works: bool,
    /// Why not, in the library's or the loader's words where there are any.
    pub reason: Option<String>,
    /// The remedy: the package, the file, the driver.
    pub remedy: Option<String>,
    /// Where the matrix products were put, as the library states it: `MatMul on CUDAExecutionProvider`.
    pub placement: Option<String>,
    /// Time of a run of the small graph after the first, in milliseconds.
    pub millis: Option<f64>,
    /// The device that it ran on, if known: a graphics card's name.
    pub device: Option<String>,
    /// The plug-in that it comes from; `None`: the library's own build.
    #[serde(default)]
    pub plugin: Option<PathBuf>,
    /// Whether that device is emulated by the processor, and slow: a software Vulkan.
    #[serde(default)]
    pub software: bool,
}

impl ProviderReport {
    /// A provider that the library was built without.
    pub(crate) fn not_built_in(provider: Provider) -> Self {
        Self {
            built_in: false,
            remedy: Some(how_to_get(provider)),
            ..Self::refused(provider, "this library was built without it")
        }
    }

    /// The result of a trial: the placement of the matrix products, and the time of a run in milliseconds.
    #[must_use]
    pub fn of(provider: Provider, trial: Result<(String, f64), String>) -> Self {
        match trial {
            Ok((placement, millis)) => Self {
                works: true,
                reason: None,
                placement: Some(placement),
                millis: Some(millis),
                ..Self::refused(provider, String::new())
            },
            Err(reason) => Self::refused(provider, reason),
        }
    }

    /// A provider that does not work, and why.
    pub fn refused(provider: Provider, reason: impl Into<String>) -> Self {
        Self {
            provider,
            built_in: true,
            works: false,
            reason: Some(reason.into()),
            remedy: None,
            placement: None,
            millis: None,
            device: None,
            plugin: None,
            software: false,
        }
    }
}

fn yes() -> bool {
    true
}

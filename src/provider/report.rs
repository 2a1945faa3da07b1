//! What came of trying a provider, whoever tried it.

use serde::{Deserialize, Serialize};

use super::Provider;

/// What came of trying a provider of a library.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderReport {
    /// The provider.
    pub provider: Provider,
    /// Whether it ran a small graph, matrix products included, with the right result.
    pub works: bool,
    /// Why not, in the library's or the loader's words where there are any.
    pub reason: Option<String>,
    /// What helps: the package, the file, the driver.
    pub remedy: Option<String>,
    /// Where the matrix products were put, as the library states it: `MatMul on CUDAExecutionProvider`.
    pub placement: Option<String>,
    /// Time of a run of the small graph after the first, in milliseconds.
    pub millis: Option<f64>,
    /// What it ran on, where that is known: a graphics card's name.
    pub device: Option<String>,
    /// Whether that device is emulated by the processor, and slow: a software Vulkan.
    #[serde(default)]
    pub software: bool,
}

impl ProviderReport {
    /// The reason of a provider that is none of the library's.
    pub(crate) const NOT_BUILT_IN: &'static str = "this library was built without it";

    /// A provider that does not work, and why.
    pub(crate) fn refused(provider: Provider, reason: impl Into<String>) -> Self {
        Self {
            provider,
            works: false,
            reason: Some(reason.into()),
            remedy: None,
            placement: None,
            millis: None,
            device: None,
            software: false,
        }
    }
}

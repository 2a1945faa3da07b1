//! What a probe found out: plain data, the same in the child that finds it, in the parent that chooses by
//! it, and in what is shown to people.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::engine::Provider;
use crate::engine::ort::discovery::Candidate;
use crate::engine::ort::placement::library_name;

/// What is known about one ONNX Runtime library.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LibraryReport {
    /// Its file.
    pub path: PathBuf,
    /// Why it was considered: `--ort-lib`, `in $VIRTUAL_ENV`, …
    pub origin: String,
    /// Why it cannot be used at all, a crash included; `None` for a usable library.
    pub unusable: Option<String>,
    /// What helps against that, where something does.
    pub remedy: Option<String>,
    /// Its version, as it states it: `1.31.1`.
    pub version: Option<String>,
    /// Its build, in its own words: branch, commit, compiler flags.
    pub build: Option<String>,
    /// The providers that it says it was built with, in its own names: `CUDAExecutionProvider`.
    pub available: Vec<String>,
    /// What came of trying providers.
    pub providers: Vec<ProviderReport>,
}

impl LibraryReport {
    /// A library of which nothing is known yet.
    pub(in crate::engine::ort) fn new(candidate: &Candidate) -> Self {
        Self {
            path: candidate.path.clone(),
            origin: candidate.origin.clone(),
            unusable: None,
            remedy: None,
            version: None,
            build: None,
            available: Vec::new(),
            providers: Vec::new(),
        }
    }

    /// Whether the library says that it was built with `provider`.
    #[must_use]
    pub fn has(&self, provider: Provider) -> bool {
        let name = library_name(provider);
        name.is_some_and(|name| self.available.iter().any(|one| one == name))
    }

    /// What came of trying `provider`, if it was tried.
    #[must_use]
    pub fn provider(&self, provider: Provider) -> Option<&ProviderReport> {
        self.providers
            .iter()
            .find(|report| report.provider == provider)
    }
}

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

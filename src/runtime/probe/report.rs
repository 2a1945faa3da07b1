//! What a probe found out: plain data, the same in the child that finds it, in the parent that chooses by
//! it, and in what is shown to people.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::provider::{Provider, ProviderReport};
use crate::runtime::discovery::Candidate;
use crate::runtime::fault::LibraryFault;
use crate::runtime::placement::library_name;

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
    pub(in crate::runtime) fn new(candidate: &Candidate) -> Self {
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

    /// Says that the library cannot be used, why, and what helps.
    pub(super) fn fail(&mut self, fault: &LibraryFault) {
        self.unusable = Some(fault.to_string());
        self.remedy = fault.remedy();
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

//! The results of a probe: plain data, the same in the child, in the parent that chooses by it, and in the program's
//! output.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::provider::ProviderReport;
use crate::runtime::discovery::Candidate;
use crate::runtime::fault::LibraryFault;
use crate::runtime::placement::library_name;
use crate::runtime::plugin::PluginReport;
use embedctl_engine::Provider;

/// The report on one ONNX Runtime library.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LibraryReport {
    /// Its file.
    pub path: PathBuf,
    /// Why it was considered: `--ort-lib`, `in $VIRTUAL_ENV`, …
    pub origin: String,
    /// Why it cannot be used at all, a crash included; `None` for a usable library.
    pub unusable: Option<String>,
    /// The remedy, if there is one.
    pub remedy: Option<String>,
    /// Its version, as it states it: `1.31.1`.
    pub version: Option<String>,
    /// Its build, in its own words: branch, commit, compiler flags.
    pub build: Option<String>,
    /// The providers that it was built with, by its own names: `CUDAExecutionProvider`.
    pub available: Vec<String>,
    /// The results of trying providers: those of its plug-ins, then its own.
    pub providers: Vec<ProviderReport>,
    /// The plug-ins around it.
    #[serde(default)]
    pub plugins: Vec<PluginReport>,
}

impl LibraryReport {
    /// A report on a library that has not been probed yet.
    pub(in crate::runtime) fn new(candidate: &Candidate) -> Self {
        Self {
            path: candidate.path.clone(),
            origin: candidate.origin.clone(),
            ..Self::default()
        }
    }

    /// Marks the plug-in's providers as unusable, because the plug-in is.
    pub(super) fn refuse_plugin(&mut self) {
        for plugin in &self.plugins {
            let Some(reason) = &plugin.unusable else {
                continue;
            };
            self.providers.extend(
                plugin
                    .providers()
                    .into_iter()
                    .map(|provider| ProviderReport {
                        plugin: Some(plugin.path.clone()),
                        ..ProviderReport::refused(provider, reason)
                    }),
            );
        }
    }

    /// Adds a report on the same library with one of its plug-ins.
    pub(super) fn join(&mut self, plugged: Self) {
        self.plugins.extend(plugged.plugins);
        let own = self.providers.iter().position(|one| one.plugin.is_none());
        let own = own.unwrap_or(self.providers.len());
        self.providers.splice(own..own, plugged.providers);
    }

    /// Marks the library as unusable, with the reason and the remedy.
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

    /// The result of trying `provider`, if it was tried: a plug-in's first, if there are several.
    #[must_use]
    pub fn provider(&self, provider: Provider) -> Option<&ProviderReport> {
        self.results_of(provider).next()
    }

    /// All results of trying `provider`, plug-ins' first.
    pub fn results_of(&self, provider: Provider) -> impl Iterator<Item = &ProviderReport> {
        let all = self.providers.iter();
        all.filter(move |report| report.provider == provider)
    }

    /// The plug-in at `path`.
    #[must_use]
    pub fn plugin(&self, path: &Path) -> Option<&PluginReport> {
        self.plugins.iter().find(|one| one.path == path)
    }
}

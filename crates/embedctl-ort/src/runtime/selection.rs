//! The choice of a library for a provider, before this process loads one.
//!
//! A process can hold one ONNX Runtime, so for `cuda,openvino,cpu` it must be known that no library here runs CUDA
//! before the one with OpenVINO is loaded. Libraries are probed in processes of their own (see [`super::probe`]): for
//! the CPU one after another, because the first usually works; for other providers in parallel, but only libraries that
//! may have the provider. Without a [`ProbeCommand`](super::ProbeCommand) libraries are not probed, and the first that
//! may have the provider is loaded.

mod asking;
mod refused;

use std::cell::OnceCell;
use std::io;
use std::path::Path;

use self::asking::CandidateAnswer;
use super::discovery::{self, Candidate, FoundLibraries, NamedLibrary};
use super::library::{self, Library};
use super::probe::{self, LibraryReport, ProviderTrials};
use super::search_path::{SearchPath, System, real};
use super::{Plugin, RuntimeOptions, plugin, preload, provider_error, unusable};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::threads::locked;
use embedctl_engine::Provider;
use refused::{CAME_WITHOUT, Reasons, RefusedCandidate, list_providers, passed_over};

/// The search for libraries, for one opening of a model.
pub struct LibrarySelection<'a> {
    options: &'a RuntimeOptions,
    /// Number of the device that providers are tried on.
    device: u32,
    cancel: &'a CancelToken,
    /// Whether a device that the processor emulates is accepted: only if the user named it.
    software: bool,
    here: SearchPath,
    named: Option<NamedLibrary>,
    found: OnceCell<FoundLibraries>,
    /// The same, each library after its plug-ins.
    plugged: OnceCell<Vec<Candidate>>,
    /// The reason why a provider cannot work on this machine.
    unusable_reason: fn(Provider) -> Option<Cause>,
}

/// The parts of a candidate that serve a provider.
#[derive(Debug, PartialEq, Eq)]
struct ChosenLibrary {
    /// The library's version.
    version: String,
    /// The plug-in that has the provider.
    plugin: Option<Plugin>,
}

impl<'a> LibrarySelection<'a> {
    /// A search by `options` for a provider on device number `device`. `software`: whether a device that the processor
    /// emulates is accepted.
    #[must_use]
    pub fn new(
        options: &'a RuntimeOptions,
        device: u32,
        software: bool,
        cancel: &'a CancelToken,
    ) -> Self {
        let here = SearchPath::real(options.library.clone(), cancel);
        Self {
            options,
            device,
            cancel,
            software,
            named: NamedLibrary::of(&here),
            here,
            found: OnceCell::new(),
            plugged: OnceCell::new(),
            unusable_reason: unusable::here,
        }
    }

    /// What stops the search, and the opening that it is for.
    #[must_use]
    pub fn cancel(&self) -> &CancelToken {
        self.cancel
    }

    /// Whether a library here may have `provider`, as far as files show: no library is loaded or probed.
    pub fn may_have(&self, provider: Provider) -> bool {
        let may = |candidate: &Candidate| {
            candidate.doubt.is_none()
                && match &candidate.plugin {
                    None => may_have(provider, &candidate.path),
                    // Going by its name: nothing is decided by that yet.
                    Some(plugin) => plugin::find::guess(plugin).is_none_or(|one| one == provider),
                }
        };
        self.found().candidates.iter().any(may)
            || provider.may_be_plugged_in() && self.plugged().iter().any(may)
    }

    /// The library that serves `provider`, loaded into this process for good, and the provider's dependencies.
    ///
    /// # Errors
    /// If no library here serves it; if the one that the user named, or that this process holds already,
    /// does not.
    pub(crate) fn library(&self, provider: Provider) -> Result<Library> {
        let mut loaded = locked(&library::LOADED);
        let library = match (loaded.as_ref(), &self.options.probe) {
            (Some(library), _) => self.held(library, provider)?,
            (None, Some(command)) if provider != Provider::Cpu => {
                let candidates = self.plugged();
                match self.ask_all(command, provider, candidates)? {
                    CandidateAnswer::Taken {
                        candidate,
                        chosen,
                        passed_over,
                    } => {
                        let library = library::start(candidate, chosen.version, passed_over)
                            .map_err(|error| self.unusable(error))?;
                        *loaded = Some(library.clone());
                        plugged_in(library, chosen.plugin)?
                    }
                    CandidateAnswer::None(refused) => {
                        return Err(self.failure(provider, &refused, &self.found().places));
                    }
                }
            }
            (None, _) => loaded.insert(self.take_first(provider)?).clone(),
        };
        if library.plugin.is_none() {
            preload::prepare(provider, &library.path);
        }
        Ok(library)
    }

    fn found(&self) -> &FoundLibraries {
        self.found.get_or_init(|| discovery::all(&self.here))
    }

    fn plugged(&self) -> &[Candidate] {
        self.plugged.get_or_init(|| {
            let libraries = self.found().candidates.iter();
            libraries
                .flat_map(|library| {
                    let mut plugged = discovery::plugged(library, &self.here, self.named.as_ref());
                    plugged.push(library.clone());
                    plugged
                })
                .collect()
        })
    }

    /// The library that this process holds, with a plug-in of `provider` or else its own, if it serves the provider.
    fn held(&self, library: &Library, provider: Provider) -> Result<Library> {
        let path = library.path.display();
        let is_it = |candidate: &Candidate| real(&candidate.path) == real(&library.path);
        if let Some(named) = &self.named
            && !named.candidates(self.here.system).iter().any(is_it)
        {
            return Err(self.named_error(format!(
                "{path} is loaded already; a process can hold only one library; {} ({}) needs a process \
                 of its own",
                named.path.display(),
                named.by
            )));
        }
        let mut reasons = Vec::new();
        if let Some(command) = &self.options.probe
            && provider.may_be_plugged_in()
        {
            let own: Vec<Candidate> = self
                .plugged()
                .iter()
                .filter(|one| one.plugin.is_some() && is_it(one))
                .cloned()
                .collect();
            match self.ask_all(command, provider, &own)? {
                CandidateAnswer::Taken {
                    chosen,
                    passed_over,
                    ..
                } => {
                    let mut library = plugged_in(library.clone(), chosen.plugin)?;
                    library.passed_over = passed_over;
                    return Ok(library);
                }
                CandidateAnswer::None(refused) => reasons = Reasons::of(&refused).all(),
            }
        }
        if !may_have(provider, &library.path) {
            reasons.push("a process can hold only one library".to_owned());
            return Err(provider_error(format!(
                "{path} is loaded already, but it has no provider {provider}; {}",
                reasons.join("; ")
            )));
        }
        Ok(library.clone())
    }

    /// Takes candidates one after another, as they are found: the first that can be used and may have the
    /// provider is loaded.
    fn take_first(&self, provider: Provider) -> Result<Library> {
        let mut refused = Vec::new();
        let mut places = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        // Places are searched as they are reached: the last ones are slow.
        for location in discovery::sources(&self.here, self.named.as_ref()) {
            for candidate in &location.candidates {
                if !seen.insert(real(&candidate.path)) {
                    continue;
                }
                match self.usable(candidate, provider)? {
                    Ok(version) => {
                        let passed_over = passed_over(&refused);
                        return library::start(candidate, version, passed_over)
                            .map_err(|error| self.unusable(error));
                    }
                    Err(reason) => refused.push((candidate.clone(), reason)),
                }
            }
            places.push(location.name);
        }
        Err(self.failure(provider, &refused, &places))
    }

    /// The version of a candidate that can be used and may have `provider`.
    fn usable(
        &self,
        candidate: &Candidate,
        provider: Provider,
    ) -> Result<Result<String, RefusedCandidate>> {
        if let Some(doubt) = &candidate.doubt {
            return Ok(Err(RefusedCandidate::Library(doubt.clone())));
        }
        if !may_have(provider, &candidate.path) {
            return Ok(Err(RefusedCandidate::Lacks(CAME_WITHOUT.into())));
        }
        if let (Some(command), Provider::Cpu) = (&self.options.probe, provider) {
            let attempts = ProviderTrials::These(vec![provider]);
            let stop = self.cancel;
            match probe::ask(command, candidate, 0, attempts, stop) {
                Ok(report) => {
                    return Ok(self
                        .verdict(candidate, report, provider)
                        .map(|chosen| chosen.version));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    return Err(Error::interrupted());
                }
                // This program cannot be started again (perhaps it was replaced), so libraries are not probed.
                Err(_) => {}
            }
        }
        Ok(library::probe(&candidate.path)
            .map_err(|fault| RefusedCandidate::Library(fault.cause())))
    }

    /// The parts of a candidate that serve `provider`, if it works.
    fn verdict(
        &self,
        candidate: &Candidate,
        report: LibraryReport,
        provider: Provider,
    ) -> Result<ChosenLibrary, RefusedCandidate> {
        let plugin = report.plugins.first();
        if let Some(reason) = report.unusable {
            if candidate.plugin.is_some() && candidate.doubt.is_none() {
                return Err(RefusedCandidate::Untold);
            }
            let remedy = report.remedy;
            return Err(RefusedCandidate::Library(Cause { reason, remedy }));
        }
        let Some(tried) = report.provider(provider) else {
            if let Some(plugin) = plugin {
                // It ended before it named its providers.
                return Err(match plugin.unusable.clone() {
                    Some(reason) if plugin.providers().is_empty() => {
                        RefusedCandidate::Library(Cause::of(reason))
                    }
                    _ => RefusedCandidate::Untold,
                });
            }
            let reason = "it did not report a result";
            return Err(RefusedCandidate::Provider(Cause::of(reason)));
        };
        if !tried.built_in && candidate.plugin.is_some() {
            return Err(RefusedCandidate::Untold);
        }
        if !tried.built_in {
            return Err(RefusedCandidate::Lacks(list_providers(&report)));
        }
        if !tried.works {
            let reason = tried.reason.clone().unwrap_or_default();
            let remedy = tried.remedy.clone();
            return Err(RefusedCandidate::Provider(Cause { reason, remedy }));
        }
        if tried.software && !self.software {
            return Err(RefusedCandidate::Provider(Cause::of(format!(
                "it would run on {}, which the processor emulates",
                tried.device.as_deref().unwrap_or("a device")
            ))));
        }
        Ok(ChosenLibrary {
            plugin: plugin.map(|plugin| Plugin {
                library: plugin.path.clone(),
                version: plugin.version.clone(),
            }),
            version: report.version.unwrap_or_default(),
        })
    }
}

/// Whether the library at `path` may have `provider`: some are files of their own beside it.
fn may_have(provider: Provider, path: &Path) -> bool {
    let part = match provider {
        Provider::Cuda => "cuda",
        Provider::TensorRt => "tensorrt",
        Provider::OpenVino => "openvino",
        Provider::MiGraphX => "migraphx",
        _ => return true,
    };
    let file = System::HERE.provider_library(part);
    let beside = |path: &Path| path.with_file_name(&file).is_file();
    // A bare name is looked up by the loader, in unknown folders.
    let unknown = path.parent().is_none_or(|folder| folder == Path::new(""));
    unknown || beside(path) || beside(&real(path))
}

/// `library` with `plugin` registered in this process.
fn plugged_in(library: Library, plugin: Option<Plugin>) -> Result<Library> {
    if let Some(plugin) = &plugin {
        preload::prepare_plugin(&plugin.library);
        plugin::devices::register(&library.environment, &plugin.library).map_err(|words| {
            provider_error(format!(
                "cannot load the plug-in {}: {words}",
                plugin.library.display()
            ))
        })?;
    }
    Ok(Library { plugin, ..library })
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;

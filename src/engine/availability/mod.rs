//! The hardware, the libraries, and the status of each provider with reason and remedy, as `embedctl devices` shows
//! them.

pub mod info;

use std::path::{Path, PathBuf};
use std::thread;

use serde::{Serialize, Serializer};

use crate::cancel::CancelToken;
use crate::device::Hardware;
use crate::engine::{cuda, native, rten};
use crate::error::{Cause, Error, Result};
use crate::provider::obtain::Platform;
use crate::provider::{Provider, ProviderReport};
use crate::runtime::Plugin;
use crate::runtime::ProbeCommand;
use crate::runtime::probe::{self, LibraryReport};
use crate::runtime::unusable::{package, reason_without_package, unusable_reason};
use crate::threads::spawn_scoped;

/// The hardware, the libraries and the status of each provider.
///
/// In JSON an object with these members. Unknown values are `null`; members may be added, and `schema` counts up when
/// one is removed or changes its meaning.
///
/// | member | |
/// |---|---|
/// | `schema` | 1 |
/// | `version` | of embedctl |
/// | `os`, `arch` | as `linux`, `x86_64` |
/// | `hardware` | [`Hardware`]: `cpu`, `memory`, `gpus`, `npus`, `nvidia`, `vulkan`; sizes in bytes |
/// | `libraries` | a list of [`LibraryReport`], in the order in which they are tried |
/// | `providers` | [`ProviderStatus`] by name: `.providers.cuda.status` |
#[derive(Debug, Clone, Serialize)]
pub struct DeviceReport {
    /// Counts up when a member of the JSON form is removed or changes its meaning.
    pub schema: u32,
    /// The version of embedctl.
    pub version: &'static str,
    /// The system, as `linux`.
    pub os: &'static str,
    /// The kind of processor, as `x86_64`.
    pub arch: &'static str,
    /// The hardware.
    pub hardware: Hardware,
    /// The ONNX Runtime libraries that were found, in the order in which they are tried.
    pub libraries: Vec<LibraryReport>,
    /// Every provider, in the order of listings.
    #[serde(serialize_with = "by_name")]
    pub providers: Vec<ProviderStatus>,
}

/// The status of a provider on this machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProviderStatus {
    /// The provider.
    #[serde(skip)]
    pub provider: Provider,
    /// Whether it works.
    pub status: AvailabilityState,
    /// The engine, by its name in the provenance of outputs: `native`, `rten`, `onnxruntime`, or `cuda` where embedctl's own
    /// engine runs checkpoints on NVIDIA GPUs.
    pub engine: &'static str,
    /// Whether ONNX Runtime has the provider here: it runs what the engine `cuda` does not.
    #[serde(skip)]
    pub has_onnx_runtime: bool,
    /// The reason, if not.
    pub reason: Option<String>,
    /// The library's message, if the hardware gives a better reason; of the engine `cuda` who runs ONNX files.
    pub detail: Option<String>,
    /// The remedy: a command, or a step in words; `None` if there is none.
    pub remedy: Option<String>,
    /// The library that has it; `None` for a built-in engine.
    pub library: Option<PathBuf>,
    /// The version of that library or of the embedded engine.
    pub version: Option<String>,
    /// The plug-in of that library from which the provider comes; `None`: the library's own build has it.
    pub plugin: Option<Plugin>,
    /// Where the matrix products of the small graph ran.
    pub placement: Option<String>,
    /// How long a run of the small graph took, in milliseconds.
    pub milliseconds: Option<f64>,
    /// The device that it ran on, if known.
    pub device: Option<String>,
    /// Whether that device is emulated by the processor, which is slow.
    pub software: bool,
}

/// Whether a provider works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AvailabilityState {
    /// It ran a small graph, and the result was right.
    Works,
    /// A library here has it, but it does not work.
    Unusable,
    /// No usable library here has it.
    Absent,
}

impl ProviderStatus {
    /// Whether embedctl's own engine runs checkpoints for it.
    #[must_use]
    pub fn has_own_engine(&self) -> bool {
        self.engine == embedctl_cuda::NAME
    }
}

impl DeviceReport {
    /// The status of `provider`.
    #[must_use]
    pub fn status(&self, provider: Provider) -> Option<&ProviderStatus> {
        self.providers.iter().find(|one| one.provider == provider)
    }

    /// Whether a provider is not here and nothing on this machine calls for it: of a GPU that is here the missing runtime
    /// matters.
    #[must_use]
    pub fn is_far(&self, provider: Provider) -> bool {
        let is_wanted = |status: &ProviderStatus| {
            let has_device = !self.hardware.gpus.is_empty() && !provider.is_on_worker();
            has_device && status.remedy.is_some()
        };
        let status = self.status(provider);
        status.is_none_or(|it| it.status == AvailabilityState::Absent && !is_wanted(it))
    }
}

/// Detects the hardware, and tries every provider of every library found (or of the one that the user named), each
/// library in a process of its own that `command` starts.
///
/// # Errors
/// If `cancel` is cancelled. A library that crashes is a result, not an error.
pub fn report(
    command: &ProbeCommand,
    ort_library: Option<&Path>,
    cancel: &CancelToken,
) -> Result<DeviceReport> {
    let panicked = |_| Error::internal("detecting the hardware panicked");
    let (hardware, inside, own, libraries) = thread::scope(|scope| {
        let hardware = spawn_scoped(scope, "hardware", Hardware::detect)?;
        let inside = spawn_scoped(scope, "engines", || [native::check(), rten::check()])?;
        let own = spawn_scoped(scope, "cuda", || cuda::check(cancel))?;
        let libraries = probe::survey(command, ort_library, cancel);
        Ok::<_, Error>((hardware.join(), inside.join(), own.join(), libraries))
    })?;
    if cancel.is_cancelled() {
        return Err(Error::interrupted());
    }
    let hardware = hardware.map_err(panicked)?;
    let [native, rten] = inside.map_err(panicked)?;
    let own = own.map_err(panicked)?;
    let providers = Provider::ALL
        .into_iter()
        .map(|provider| match provider {
            Provider::Native => ProviderStatus {
                detail: native::absent_kernels(),
                ..built_in_status(&native, env!("CARGO_PKG_VERSION"))
            },
            Provider::Rten => built_in_status(&rten, rten::VERSION),
            other => {
                let status = status(other, &hardware, &libraries, Platform::HERE);
                match &own {
                    Ok((device, library)) if other == Provider::Cuda => {
                        with_own_engine(status, device, library)
                    }
                    _ => status,
                }
            }
        })
        .collect();
    Ok(DeviceReport {
        schema: 1,
        version: env!("CARGO_PKG_VERSION"),
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
        hardware,
        libraries,
        providers,
    })
}

/// The status of CUDA where embedctl's own engine works on `device`, which needs no ONNX Runtime: what is said of ONNX
/// Runtime is a detail then.
fn with_own_engine(of_library: ProviderStatus, device: &str, library: &Path) -> ProviderStatus {
    let of_files = match (of_library.status, of_library.version, of_library.remedy) {
        (AvailabilityState::Works, version, _) => {
            format!("by ONNX Runtime {}", version.unwrap_or_default())
        }
        (_, _, remedy) => {
            let reason = of_library.reason.unwrap_or_default();
            let remedy = remedy.map(|remedy| format!("; {remedy}"));
            format!("not ({reason}{})", remedy.unwrap_or_default())
        }
    };
    ProviderStatus {
        status: AvailabilityState::Works,
        engine: embedctl_cuda::NAME,
        reason: None,
        detail: Some(format!("ONNX files {of_files}")),
        remedy: None,
        library: Some(library.to_path_buf()),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        device: Some(device.to_owned()),
        software: false,
        ..of_library
    }
}

fn built_in_status(report: &ProviderReport, version: &str) -> ProviderStatus {
    let state = match (report.built_in, report.works) {
        (false, _) => AvailabilityState::Absent,
        (true, true) => AvailabilityState::Works,
        (true, false) => AvailabilityState::Unusable,
    };
    let version = report.built_in.then(|| version.to_owned());
    tried(state, report, None, version)
}

fn tried(
    status: AvailabilityState,
    report: &ProviderReport,
    library: Option<PathBuf>,
    version: Option<String>,
) -> ProviderStatus {
    ProviderStatus {
        provider: report.provider,
        status,
        engine: match report.provider {
            Provider::Native => "native",
            Provider::Rten => "rten",
            _ => "onnxruntime",
        },
        has_onnx_runtime: status == AvailabilityState::Works,
        reason: report.reason.clone(),
        detail: None,
        remedy: report.remedy.clone(),
        library,
        version,
        plugin: None,
        placement: report.placement.clone(),
        milliseconds: report.millis,
        device: report.device.clone(),
        software: report.software,
    }
}

/// The status of a provider of ONNX Runtime: in the first library in which it works (on a real device, if possible),
/// else in the first that has it.
fn status(
    provider: Provider,
    hardware: &Hardware,
    libraries: &[LibraryReport],
    platform: Platform,
) -> ProviderStatus {
    let reports = || {
        libraries.iter().flat_map(|library| {
            library
                .results_of(provider)
                .map(move |report| (library, report))
        })
    };
    let plugin = |library: &LibraryReport, report: &ProviderReport| {
        let plugin = library.plugin(report.plugin.as_deref()?)?;
        Some(Plugin {
            library: plugin.path.clone(),
            version: plugin.version.clone(),
        })
    };
    let best = reports()
        .find(|(_, report)| report.works && !report.software)
        .or_else(|| reports().find(|(_, report)| report.works));
    if let Some((library, report)) = best {
        let path = Some(library.path.clone());
        return ProviderStatus {
            plugin: plugin(library, report),
            ..tried(
                AvailabilityState::Works,
                report,
                path,
                library.version.clone(),
            )
        };
    }
    let lacking = unusable_reason(provider, hardware, platform);
    let Some((library, report)) = reports().next() else {
        return absent(provider, hardware, libraries, platform, lacking);
    };
    let path = Some(library.path.clone());
    let mut status = ProviderStatus {
        plugin: plugin(library, report),
        ..tried(
            AvailabilityState::Unusable,
            report,
            path,
            library.version.clone(),
        )
    };
    if let Some(Cause { reason, remedy }) = lacking {
        // The library names the first of many files that it missed.
        status.detail = status.reason.replace(reason);
        status.remedy = remedy;
    }
    status
}

/// A provider that no usable library here has.
fn absent(
    provider: Provider,
    hardware: &Hardware,
    libraries: &[LibraryReport],
    platform: Platform,
    lacking: Option<Cause>,
) -> ProviderStatus {
    let usable = libraries.iter().any(|library| library.unusable.is_none());
    let mut state = AvailabilityState::Absent;
    let (reason, remedy) = if let Some(Cause { reason, remedy }) = lacking {
        (reason, remedy)
    } else if let (Provider::Cpu, false, Some(first)) = (provider, usable, libraries.first()) {
        // Every library has this one, so it is the library that is at fault.
        state = AvailabilityState::Unusable;
        let reason = first.unusable.clone();
        let remedy = first.remedy.clone();
        (
            reason.unwrap_or_default(),
            remedy.or_else(|| package(provider, hardware, platform)),
        )
    } else if let Some(reason) = reason_without_package(provider, hardware) {
        (reason.to_owned(), None)
    } else {
        let remedy = package(provider, hardware, platform);
        let libraries = if libraries.is_empty() {
            "no ONNX Runtime library was found"
        } else if usable {
            "no ONNX Runtime library here has it"
        } else {
            "no usable ONNX Runtime library was found"
        };
        let reason = match remedy {
            None => format!("{libraries}, and there is no package with it for this system"),
            Some(_) => libraries.to_owned(),
        };
        (reason, remedy)
    };
    ProviderStatus {
        remedy,
        ..tried(
            state,
            &ProviderReport::refused(provider, reason),
            None,
            None,
        )
    }
}

fn by_name<S: Serializer>(providers: &[ProviderStatus], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(providers.iter().map(|one| (one.provider.name(), one)))
}

#[cfg(test)]
#[path = "availability_tests.rs"]
mod tests;

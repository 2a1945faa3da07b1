//! The child's side: load one library, describe it, try providers.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use super::protocol::Event;
use super::trial;
use crate::provider::ProviderReport;
use crate::runtime::library;
use crate::runtime::placement::library_name;
use crate::runtime::plugin::{PluginReport, devices};
use crate::runtime::preload::{self, PreparedProvider};
use crate::runtime::remedy;
use embedctl_common::error::Cause;
use embedctl_engine::Provider;

/// The providers that a child tries, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderTrials {
    /// All of the library's providers except these.
    AllBut(Vec<Provider>),
    /// These providers.
    These(Vec<Provider>),
}

/// A child's task: the parsed arguments that follow [`super::ProbeCommand::arguments`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeRequest {
    pub(super) library: PathBuf,
    /// Loaded into the library, and then the only one whose providers are tried.
    pub(super) plugin: Option<PathBuf>,
    /// Number of the device to try, in the provider's own order.
    pub(super) device: u32,
    pub(super) attempts: ProviderTrials,
}

impl ProbeRequest {
    /// As arguments of the child.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let (word, list) = match &self.attempts {
            ProviderTrials::AllBut(list) => ("all-but", list),
            ProviderTrials::These(list) => ("these", list),
        };
        let names: Vec<&str> = list.iter().map(|provider| provider.name()).collect();
        vec![
            self.library.clone().into_os_string(),
            self.plugin.clone().unwrap_or_default().into_os_string(),
            self.device.to_string().into(),
            word.into(),
            names.join(",").into(),
        ]
    }

    /// From the arguments of a child.
    ///
    /// # Errors
    /// If they are not the arguments that a parent gives.
    pub fn parse(arguments: &[OsString]) -> io::Result<Self> {
        Self::understand(arguments).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "these are not the arguments of a probe",
            )
        })
    }

    fn understand(arguments: &[OsString]) -> Option<Self> {
        let [library, plugin, device, word, names] = arguments else {
            return None;
        };
        let list: Vec<Provider> = names
            .to_str()?
            .split(',')
            .filter(|name| !name.is_empty())
            .map(|name| name.parse().ok())
            .collect::<Option<_>>()?;
        Some(Self {
            library: library.into(),
            plugin: (!plugin.is_empty()).then(|| plugin.into()),
            device: device.to_str()?.parse().ok()?,
            attempts: match word.to_str()? {
                "all-but" => ProviderTrials::AllBut(list),
                "these" => ProviderTrials::These(list),
                _ => return None,
            },
        })
    }
}

/// The main function of a probe's child: loads the library of `request` and writes its description to `output`.
///
/// The library may crash this process or make it hang; the child exists for that reason. Exit at once afterwards,
/// without exit handlers, in which some libraries crash.
///
/// # Errors
/// If `output` cannot be written to.
pub fn serve(request: &ProbeRequest, output: &mut dyn Write) -> io::Result<()> {
    answer(request, output)?;
    Event::Done.write(output)
}

fn answer(request: &ProbeRequest, output: &mut dyn Write) -> io::Result<()> {
    let loaded = library::load_exactly(&request.library).map_err(|fault| fault.cause());
    let loaded = loaded.and_then(|library| Ok((library, trial::available()?)));
    let (library, available) = match loaded {
        Ok(loaded) => loaded,
        Err(Cause { reason, remedy }) => return Event::Unusable { reason, remedy }.write(output),
    };
    Event::Loaded {
        version: library.version.clone(),
        build: trial::build_info(),
        available: available.clone(),
    }
    .write(output)?;
    let plugin = request
        .plugin
        .as_ref()
        .map(|path| devices::look(&library.environment, path));
    if let Some(plugin) = &plugin {
        Event::Plugin(plugin.clone()).write(output)?;
    }
    let has = |provider: &Provider| match &plugin {
        Some(plugin) => plugin.is_of(*provider),
        None => library_name(*provider).is_some_and(|name| available.iter().any(|one| one == name)),
    };
    let attempts = match &request.attempts {
        ProviderTrials::These(list) => list.clone(),
        ProviderTrials::AllBut(left_out) => Provider::ALL
            .into_iter()
            .filter(|provider| has(provider) && !left_out.contains(provider))
            .collect(),
    };
    for provider in attempts {
        Event::Trying(provider).write(output)?;
        let report = if has(&provider) {
            attempt(&library, plugin.as_ref(), provider, request.device)
        } else {
            ProviderReport::not_built_in(provider)
        };
        Event::Tried(report).write(output)?;
    }
    Ok(())
}

/// Tries one provider, with the libraries that it needs from elsewhere.
fn attempt(
    library: &library::Library,
    plugin: Option<&PluginReport>,
    provider: Provider,
    device: u32,
) -> ProviderReport {
    let (mut report, prepared) = match plugin {
        None => {
            let prepared = preload::prepare(provider, &library.path);
            let report = trial::run(&library.environment, None, provider, device);
            (report, prepared)
        }
        Some(plugin) => {
            let plugged = |plugin: &PluginReport| match &plugin.unusable {
                Some(reason) => ProviderReport::refused(provider, reason),
                None => trial::run(&library.environment, Some(&plugin.path), provider, device),
            };
            (plugged(plugin), PreparedProvider::default())
        }
    };
    report.plugin = plugin.map(|plugin| plugin.path.clone());
    if !report.works {
        let words = report.reason.take().unwrap_or_default();
        let cause = remedy::explain(provider, &words, &prepared, &library.version);
        report.reason = Some(cause.reason);
        report.remedy = cause.remedy;
    }
    if provider == Provider::WebGpu {
        super::vulkan::describe(&mut report);
    } else if let Some(plugin) = plugin.filter(|_| report.works) {
        let offered = plugin
            .devices
            .iter()
            .find(|one| Some(one.provider.as_str()) == library_name(provider));
        report.device = offered.and_then(|one| one.name.clone());
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_understood_as_they_were_meant() {
        for attempts in [
            ProviderTrials::AllBut(Vec::new()),
            ProviderTrials::AllBut(vec![Provider::Cuda, Provider::Cpu]),
            ProviderTrials::These(vec![Provider::OpenVino]),
        ] {
            let request = ProbeRequest {
                library: "/a b/libonnxruntime.so".into(),
                plugin: matches!(attempts, ProviderTrials::These(_))
                    .then(|| "/a b/libplugin.so".into()),
                device: 3,
                attempts,
            };
            assert_eq!(ProbeRequest::parse(&request.arguments()).unwrap(), request);
        }
        for wrong in [
            &[][..],
            &["lib", "", "0", "these"],
            &["lib", "", "zero", "these", "cpu"],
            &["lib", "", "0", "some", "cpu"],
            &["lib", "", "0", "these", "npu"],
        ] {
            let wrong: Vec<OsString> = wrong.iter().map(OsString::from).collect();
            assert!(ProbeRequest::parse(&wrong).is_err(), "{wrong:?}");
        }
    }
}

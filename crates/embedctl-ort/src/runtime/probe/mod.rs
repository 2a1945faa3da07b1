//! Probing libraries for their providers, each in a process of its own.
//!
//! A process can hold one ONNX Runtime, and some builds crash or hang where a driver is not as they expect. So a child
//! process loads a library, tries the wanted providers on a small graph and reports. This process loads only the
//! library that is chosen by these reports.

mod child;
mod parent;
mod protocol;
mod report;
mod trial;
mod vulkan;

use std::io;
use std::path::Path;
use std::thread;

pub use child::{ProbeRequest, serve};
pub use report::LibraryReport;

pub use child::ProviderTrials;

use super::ProbeCommand;
use super::binary;
use super::discovery::{self, Candidate, NamedLibrary};
use super::plugin::PluginReport;
use super::search_path::SearchPath;
use embedctl_common::cancel::CancelToken;
use embedctl_common::threads::spawn_scoped;

/// Probes all libraries found (or the one that the user named) in parallel. The reports come in the order of the
/// search, with plug-ins and with unusable libraries and their reasons. When `cancel` is cancelled, it ends early with
/// the results so far.
#[must_use]
pub fn survey(
    command: &ProbeCommand,
    ort_library: Option<&Path>,
    cancel: &CancelToken,
) -> Vec<LibraryReport> {
    let here = SearchPath::real(ort_library.map(Path::to_path_buf), cancel);
    let named = NamedLibrary::of(&here);
    // Each library before its plug-ins, which are probed in children of their own.
    let candidates: Vec<Candidate> = discovery::all(&here)
        .candidates
        .into_iter()
        .flat_map(|library| {
            let plugged = discovery::plugged(&library, &here, named.as_ref());
            std::iter::once(library).chain(plugged)
        })
        .collect();
    let reports: Vec<LibraryReport> = thread::scope(|scope| {
        let asked: Vec<_> = candidates
            .iter()
            .map(|candidate| {
                let everything = ProviderTrials::AllBut(Vec::new());
                (
                    candidate,
                    spawn_scoped(scope, "probe", move || {
                        ask(command, candidate, 0, everything, cancel)
                    }),
                )
            })
            .collect();
        asked
            .into_iter()
            .map(|(candidate, answer)| {
                let answer = answer.map_err(io::Error::other).and_then(|answer| {
                    answer
                        .join()
                        .unwrap_or_else(|_| Err(io::Error::other("the probe panicked")))
                });
                answer.unwrap_or_else(|error| {
                    let mut report = LibraryReport::new(candidate);
                    report.unusable = Some(match error.kind() {
                        io::ErrorKind::Interrupted => "its probe was interrupted".into(),
                        _ => format!("it could not be probed: {error}"),
                    });
                    report
                })
            })
            .collect()
    });
    let mut libraries: Vec<LibraryReport> = Vec::new();
    for (candidate, report) in candidates.iter().zip(reports) {
        match (&candidate.plugin, libraries.last_mut()) {
            (Some(_), Some(library)) => library.join(report),
            _ => libraries.push(report),
        }
    }
    libraries
}

/// Probes one library, unless its file already shows that it cannot be used.
pub(super) fn ask(
    command: &ProbeCommand,
    candidate: &Candidate,
    device: u32,
    attempts: ProviderTrials,
    stop: &CancelToken,
) -> io::Result<LibraryReport> {
    if let Some(doubt) = &candidate.doubt {
        let mut report = LibraryReport::new(candidate);
        report.unusable = Some(doubt.reason.clone());
        report.remedy.clone_from(&doubt.remedy);
        report
            .plugins
            .extend(candidate.plugin.clone().map(|path| PluginReport {
                unusable: Some(doubt.reason.clone()),
                remedy: doubt.remedy.clone(),
                ..PluginReport::new(path)
            }));
        return Ok(report);
    }
    if let Err(fault) = binary::check(&candidate.path) {
        let mut report = LibraryReport::new(candidate);
        report.fail(&fault);
        return Ok(report);
    }
    parent::ask(command, candidate, device, attempts, stop)
}

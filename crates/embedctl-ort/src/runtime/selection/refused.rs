//! Why no library serves a provider, by the reports of the probed ones, and the remedy.

use std::path::Path;

use super::LibrarySelection;
use crate::provider::obtain::how_to_get;
use crate::runtime::discovery::Candidate;
use crate::runtime::probe::LibraryReport;
use crate::runtime::{NAME, provider_error};
use embedctl_common::error::{Cause, Error, ErrorKind};
use embedctl_common::setting::ORT_LIB;
use embedctl_engine::{Provider, SkippedCandidate};

/// The remedy for a missing device.
const ANOTHER: &str = "choose another provider, or auto, which takes the best that works here";

/// Why a candidate was not taken.
pub(super) enum RefusedCandidate {
    /// The library cannot be used.
    Library(Cause),
    /// It can, but lacks the provider; with the providers that it has.
    Lacks(String),
    /// It has the provider, which does not work.
    Provider(Cause),
    /// A plug-in of other providers, or of a library that is told of under its own name.
    Untold,
}

impl LibrarySelection<'_> {
    /// The error of the library that the user named.
    pub(super) fn named_error(&self, reason: String) -> Error {
        let error = Error::new(ErrorKind::NamedLibrary, NAME, reason);
        match &self.named {
            Some(named) => error.of_option(named.by),
            None => error,
        }
    }

    /// The error of a library that was chosen and does not start.
    pub(super) fn unusable(&self, error: Error) -> Error {
        match self.named {
            Some(_) => self.named_error(error.reason().to_owned()),
            None => error,
        }
    }

    /// Why no library serves `provider`, and the remedy.
    pub(super) fn failure(
        &self,
        provider: Provider,
        refused: &[(Candidate, RefusedCandidate)],
        places: &[String],
    ) -> Error {
        let Reasons {
            broken,
            failing,
            lacking,
            remedy,
        } = Reasons::of(refused);
        if let Some(named) = &self.named {
            let (path, by) = (named.path.display(), named.by);
            // A bare name is looked up by the loader.
            let bare = named.path.parent() == Some(Path::new(""));
            if !bare && !named.path.exists() {
                let remedy = "name the library's file or the folder that holds it, or leave that out to \
                              search for libraries";
                let reason = format!("there is no {path} ({by})");
                return self.named_error(reason).with_remedy(remedy);
            }
            if refused.is_empty() {
                let reason = format!("there is no ONNX Runtime library in {path} ({by})");
                let remedy = "name its file, or the folder that holds it";
                return self.named_error(reason).with_remedy(remedy);
            }
            if failing.is_empty() && lacking.is_empty() {
                let broken = broken.join("; ");
                let reason = format!("the library named by {by} cannot be used: {broken}");
                return self.named_error(reason).with_remedy_if(remedy);
            }
        }
        let unusable = (self.unusable_reason)(provider).map(|found| Cause {
            remedy: found.remedy.or_else(|| Some(ANOTHER.to_owned())),
            ..found
        });
        let (reason, remedy) = if !failing.is_empty() {
            let all = [failing, broken].concat().join("; ");
            (
                format!("the provider {provider} does not work here: {all}"),
                remedy,
            )
        } else if !lacking.is_empty() {
            let all = [lacking, broken].concat().join("; ");
            (
                format!("no library here has the provider {provider} ({all})"),
                Some(how_to_get(provider)),
            )
        } else {
            let tried = match broken.as_slice() {
                [] => String::new(),
                broken => format!(" ({})", broken.join("; ")),
            };
            let reason = format!(
                "no usable library was found{tried}; looked {}",
                places.join(", ")
            );
            let remedy = match provider {
                Provider::Cpu => {
                    format!("get it with 'pip install onnxruntime', or name it with {ORT_LIB}")
                }
                _ => match unusable {
                    Some(found) => {
                        let reason = format!("{}, and {reason}", found.reason);
                        return no_library(reason, found.remedy);
                    }
                    None => how_to_get(provider),
                },
            };
            return no_library(reason, Some(remedy));
        };
        provider_error(match unusable {
            // No package helps where the device is missing.
            Some(found) => Cause {
                reason: format!("{}, and {reason}", found.reason),
                ..found
            },
            None => Cause { reason, remedy },
        })
    }
}

fn no_library(reason: String, remedy: Option<String>) -> Error {
    Error::new(ErrorKind::NoLibrary, NAME, reason).with_remedy_if(remedy)
}

/// Why candidates were not taken, by kind, each with its name; and the remedy.
#[derive(Default)]
pub(super) struct Reasons {
    broken: Vec<String>,
    failing: Vec<String>,
    lacking: Vec<String>,
    remedy: Option<String>,
}

impl Reasons {
    pub(super) fn of(refused: &[(Candidate, RefusedCandidate)]) -> Self {
        let mut reasons = Self::default();
        let mut remedies: Vec<&str> = Vec::new();
        for (candidate, refused) in refused {
            let (list, reason, remedy) = match refused {
                RefusedCandidate::Library(cause) => {
                    (&mut reasons.broken, &cause.reason, &cause.remedy)
                }
                RefusedCandidate::Provider(cause) => {
                    (&mut reasons.failing, &cause.reason, &cause.remedy)
                }
                RefusedCandidate::Lacks(inside) => (&mut reasons.lacking, inside, &None),
                RefusedCandidate::Untold => continue,
            };
            list.push(format!("{}: {reason}", title(candidate)));
            if let Some(remedy) = remedy
                && !remedies.contains(&remedy.as_str())
            {
                remedies.push(remedy);
            }
        }
        reasons.remedy = (!remedies.is_empty()).then(|| remedies.join("; or "));
        reasons
    }

    pub(super) fn all(self) -> Vec<String> {
        [self.failing, self.lacking, self.broken].concat()
    }
}

/// `/path/libonnxruntime.so (in $VIRTUAL_ENV)`, or the plug-in's path
fn title(candidate: &Candidate) -> String {
    let path = candidate.plugin.as_ref().unwrap_or(&candidate.path);
    format!("{} ({})", path.display(), candidate.origin)
}

/// The reason for a library that was not probed, since the provider's file is not beside it.
pub(super) const CAME_WITHOUT: &str = "it comes without this provider";

/// The providers that a library reports.
pub(super) fn list_providers(report: &LibraryReport) -> String {
    let names: Vec<&str> = Provider::ALL
        .into_iter()
        .filter(|&provider| report.has(provider))
        .map(Provider::name)
        .collect();
    format!("it has {}", names.join(", "))
}

pub(super) fn passed_over(refused: &[(Candidate, RefusedCandidate)]) -> Vec<SkippedCandidate> {
    refused
        .iter()
        .map(|(candidate, refused)| SkippedCandidate {
            candidate: title(candidate),
            reason: match refused {
                RefusedCandidate::Library(cause) | RefusedCandidate::Provider(cause) => {
                    cause.clone().sentence()
                }
                RefusedCandidate::Lacks(inside) => inside.clone(),
                RefusedCandidate::Untold => String::new(),
            },
            named: false,
        })
        .collect()
}

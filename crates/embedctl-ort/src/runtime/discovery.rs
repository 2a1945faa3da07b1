//! Where an ONNX Runtime library may lie: pure of loading, so that it can be tested with fake folders.
//!
//! A library named by the user (option or environment) is the only candidate: it works, or it is an error. Otherwise
//! places are searched from near to far, each lazily, because asking a Python interpreter costs more than the rest
//! together.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::python::{self, site_packages};
use super::search_path::{NAMING_VARIABLES, SearchPath, System, file_name, real, version};
use super::trust;
use super::{node, plugin};
use embedctl_common::error::Cause;
use embedctl_common::folder::children;
use embedctl_common::setting::{ORT_LIB, SetBy};

/// A library that may be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its file.
    pub path: PathBuf,
    /// Why it is considered, as it is shown to people: `--ort-lib`, `in $VIRTUAL_ENV`, …
    pub origin: String,
    /// Why it must not be loaded although it was found: others may have put it there.
    pub doubt: Option<Cause>,
    /// The plug-in to load into it; the candidate is considered for this plug-in's providers.
    pub plugin: Option<PathBuf>,
}

impl Candidate {
    fn new(path: PathBuf, origin: &str) -> Self {
        Self {
            path,
            origin: origin.to_owned(),
            doubt: None,
            plugin: None,
        }
    }
}

/// The path that the user named, and the setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedLibrary {
    /// A file or a folder.
    pub path: PathBuf,
    /// The setting, or the environment variable.
    pub by: SetBy,
}

impl NamedLibrary {
    /// The library that the user named, if one was.
    pub(crate) fn of(search_path: &SearchPath) -> Option<Self> {
        if let Some(path) = &search_path.option {
            let path = path.clone();
            return Some(Self {
                path,
                by: ORT_LIB.into(),
            });
        }
        NAMING_VARIABLES.into_iter().find_map(|by| {
            let path = search_path.variable(by)?.into();
            let by = SetBy::Name(by);
            Some(Self { path, by })
        })
    }

    fn is_relative_variable(&self) -> bool {
        matches!(self.by, SetBy::Name(_)) && !self.path.is_absolute()
    }

    /// The libraries meant: the file itself, or those in the folder (a Python environment's too).
    pub(crate) fn candidates(&self, system: System) -> Vec<Candidate> {
        let origin = self.by.to_string();
        if self.is_relative_variable() && self.path.parent() != Some(Path::new("")) {
            let doubt = Some(Cause::of(format!("{} must name an absolute path", self.by)));
            return vec![Candidate {
                doubt,
                ..Candidate::new(self.path.clone(), &origin)
            }];
        }
        if self.is_relative_variable() || !self.path.is_dir() {
            // A file here, else a name for the loader to look up: `libonnxruntime.so`. Without the first
            // step the loader would look everywhere but here. A variable that was set once and for all does not
            // mean a file of whatever folder this is.
            let path = match std::path::absolute(&self.path) {
                Ok(absolute) if absolute.exists() && !self.is_relative_variable() => absolute,
                _ => self.path.clone(),
            };
            return vec![Candidate::new(path, &origin)];
        }
        let mut folders = vec![
            self.path.clone(),
            self.path.join("lib"),
            self.path.join("capi"),
            self.path.join("onnxruntime").join("capi"),
        ];
        folders.extend(site_packages(&self.path, system));
        folders.extend(node::packages(&self.path));
        libraries_in(&folders, &origin, system)
    }
}

/// A place that is searched when nothing was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchLocation {
    /// Where it is, as a phrase: `in $VIRTUAL_ENV`.
    pub name: String,
    /// The libraries found there.
    pub candidates: Vec<Candidate>,
}

/// The places, from near to far. Each is searched when it is reached, not before.
pub(crate) fn places(search_path: &SearchPath) -> impl Iterator<Item = SearchLocation> + '_ {
    type Search = fn(&SearchPath) -> Option<(String, Vec<PathBuf>)>;
    let searches: [Search; 7] = [
        beside_executable,
        |here| environment(here, "VIRTUAL_ENV"),
        |here| environment(here, "CONDA_PREFIX"),
        python::by_path,
        python::by_asking,
        node::global,
        system_places,
    ];
    searches.into_iter().filter_map(|search| {
        let (name, folders) = search(search_path)?;
        let mut candidates = libraries_in(&folders, &name, search_path.system);
        for candidate in &mut candidates {
            candidate.doubt = trust::doubt(&candidate.path).map(|doubt| {
                Cause::of(doubt).with(format!("name it with {ORT_LIB} if it is to be trusted"))
            });
        }
        Some(SearchLocation { name, candidates })
    })
}

/// All candidates, in the order in which they are tried, each file once.
#[derive(Debug, Default)]
pub(crate) struct FoundLibraries {
    pub candidates: Vec<Candidate>,
    /// The names of the places that were searched.
    pub places: Vec<String>,
}

/// Finds all candidates: the user's own choice, or else the libraries in all places.
pub(crate) fn all(search_path: &SearchPath) -> FoundLibraries {
    let named = NamedLibrary::of(search_path);
    let mut found = FoundLibraries::default();
    // An active environment is often also where the python3 on PATH lies.
    let mut seen = BTreeSet::new();
    for location in sources(search_path, named.as_ref()) {
        let new = location.candidates.into_iter();
        let new = new.filter(|candidate| seen.insert(real(&candidate.path)));
        found.candidates.extend(new);
        found.places.push(location.name);
    }
    found
}

/// `library` with each of the plug-ins around it, in their order.
///
/// Plug-ins in a folder that the user named are trusted; others are only found.
pub(crate) fn plugged(
    library: &Candidate,
    here: &SearchPath,
    named: Option<&NamedLibrary>,
) -> Vec<Candidate> {
    let plugins = plugin::find::around(&library.path, here).into_iter();
    plugins
        .map(|plugin| {
            let is_meant = named.is_some_and(|named| plugin.starts_with(&named.path));
            let doubt = if is_meant {
                None
            } else {
                trust::doubt(&plugin).map(Cause::of)
            };
            Candidate {
                doubt: library.doubt.clone().or(doubt),
                plugin: Some(plugin),
                ..library.clone()
            }
        })
        .collect()
}

/// The sources of candidates: the user's choice alone, or else all places, each searched when it is reached.
pub(crate) fn sources<'a>(
    search_path: &'a SearchPath,
    named: Option<&NamedLibrary>,
) -> Box<dyn Iterator<Item = SearchLocation> + 'a> {
    match named {
        Some(named) => Box::new(std::iter::once(SearchLocation {
            name: format!("in {} ({})", named.path.display(), named.by),
            candidates: named.candidates(search_path.system),
        })),
        None => Box::new(places(search_path)),
    }
}

fn beside_executable(here: &SearchPath) -> Option<(String, Vec<PathBuf>)> {
    // A program started through a link (~/.local/bin/embedctl) has its libraries where it really lies.
    let executable = here.executable.as_ref()?;
    let mut folders = Vec::new();
    for path in [Some(executable.clone()), fs::canonicalize(executable).ok()]
        .into_iter()
        .flatten()
    {
        let Some(folder) = path.parent() else {
            continue;
        };
        for folder in [folder.to_path_buf(), folder.join("..").join("lib")] {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        // `pip install` puts the program into an environment's bin, which need not be the active one.
        if let Some(prefix) = folder.parent() {
            folders.extend(site_packages(prefix, here.system));
        }
    }
    Some(("beside the executable and in ../lib".into(), folders))
}

fn environment(here: &SearchPath, variable: &'static str) -> Option<(String, Vec<PathBuf>)> {
    let prefix = PathBuf::from(here.variable(variable)?);
    let mut folders = site_packages(&prefix, here.system);
    // conda-forge's onnxruntime-cpp puts the library itself into the prefix.
    folders.push(match here.system {
        System::Windows => prefix.join("Library").join("bin"),
        _ => prefix.join("lib"),
    });
    Some((format!("in ${variable}"), folders))
}

fn system_places(here: &SearchPath) -> Option<(String, Vec<PathBuf>)> {
    // On Windows the loader's own order would take System32's old copy first; users set PATH.
    Some(match here.system {
        System::Windows => ("in the folders of PATH".into(), here.path.clone()),
        _ => {
            let names: Vec<String> = here
                .system_folders
                .iter()
                .filter(|folder| folder.is_dir())
                .map(|folder| folder.display().to_string())
                .collect();
            (
                format!("in {}", names.join(", ")),
                here.system_folders.clone(),
            )
        }
    })
}

/// The libraries in `folders`, in their order; in one folder the unversioned name first, then the newest.
/// Names that link to one file count once.
fn libraries_in(folders: &[PathBuf], origin: &str, system: System) -> Vec<Candidate> {
    let mut seen = BTreeSet::new();
    let mut candidates = Vec::new();
    for folder in folders {
        let mut files: Vec<PathBuf> = children(folder)
            .into_iter()
            .filter(|path| system.is_library(&file_name(path)) && path.is_file())
            .collect();
        files.sort_by_key(|path| {
            let name = file_name(path);
            (
                name.bytes().any(|byte| byte.is_ascii_digit()),
                std::cmp::Reverse(version(&name)),
            )
        });
        for path in files {
            if seen.insert(fs::canonicalize(&path).unwrap_or_else(|_| path.clone())) {
                candidates.push(Candidate::new(path, origin));
            }
        }
    }
    candidates
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod tests;

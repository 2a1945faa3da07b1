//! Where an ONNX Runtime library may lie: pure of loading, so that it can be tested with fake folders.
//!
//! A library named by the user (option or environment) is the only candidate: what was asked for either
//! works or is an error. Otherwise places are searched from near to far, each lazily, because asking a
//! Python interpreter costs more than the rest together.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::node;
use super::python::{self, site_packages};

/// Environment variables that name a library or its folder, in order.
const NAMING_VARIABLES: [&str; 2] = ["EMBEDCTL_ORT_LIB", "ORT_DYLIB_PATH"];

/// A kind of operating system, as far as the names of libraries go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Linux,
    MacOs,
    Windows,
}

impl System {
    /// The system this program was built for.
    pub(super) const HERE: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_vendor = "apple") {
        Self::MacOs
    } else {
        Self::Linux
    };

    /// Its name, as it is shown to people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::MacOs => "macOS",
            Self::Windows => "Windows",
        }
    }

    /// The file that holds the provider named `name` (`cuda`), for providers that are libraries of their
    /// own beside ONNX Runtime's.
    pub(super) fn provider_library(self, name: &str) -> String {
        match self {
            Self::Linux => format!("libonnxruntime_providers_{name}.so"),
            Self::MacOs => format!("libonnxruntime_providers_{name}.dylib"),
            Self::Windows => format!("onnxruntime_providers_{name}.dll"),
        }
    }

    /// Whether a file's name is that of an ONNX Runtime library (not of one of its providers).
    fn is_library(self, name: &str) -> bool {
        match self {
            Self::Linux => {
                name == "libonnxruntime.so"
                    || name
                        .strip_prefix("libonnxruntime.so.")
                        .is_some_and(is_version)
            }
            Self::MacOs => name.strip_prefix("libonnxruntime.").is_some_and(|rest| {
                rest == "dylib" || rest.strip_suffix(".dylib").is_some_and(is_version)
            }),
            Self::Windows => name.eq_ignore_ascii_case("onnxruntime.dll"),
        }
    }
}

fn is_version(text: &str) -> bool {
    text.starts_with('1')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// What the search depends on; [`Surroundings::real`] reads it from the process.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    /// `--ort-lib`.
    pub option: Option<PathBuf>,
    /// Environment variables that matter, by name.
    pub variables: Vec<(&'static str, OsString)>,
    /// The running program.
    pub executable: Option<PathBuf>,
    /// Folders for programs: `PATH`.
    pub path: Vec<PathBuf>,
    /// Folders for libraries of the system, and patterns' parents expanded.
    pub system_folders: Vec<PathBuf>,
    /// Names of libraries.
    pub system: System,
}

impl Surroundings {
    /// The surroundings of this process.
    pub(super) fn real(option: Option<PathBuf>) -> Self {
        let variables = NAMING_VARIABLES
            .into_iter()
            .chain([
                "VIRTUAL_ENV",
                "CONDA_PREFIX",
                "HOME",
                "APPDATA",
                "PYTHONPATH",
                "CUDA_PATH",
                "CUDA_HOME",
                "ROCM_PATH",
            ])
            .filter_map(|name| Some((name, std::env::var_os(name)?)))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        Self {
            option,
            variables,
            executable: std::env::current_exe().ok(),
            path: std::env::var_os("PATH")
                .map(|path| std::env::split_paths(&path).collect())
                .unwrap_or_default(),
            system_folders: system_folders(),
            system: System::HERE,
        }
    }

    pub(super) fn variable(&self, name: &str) -> Option<&OsString> {
        self.variables
            .iter()
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value)
    }
}

fn system_folders() -> Vec<PathBuf> {
    if cfg!(windows) {
        return Vec::new(); // PATH is searched as its own place
    }
    let arch = std::env::consts::ARCH;
    let mut folders: Vec<PathBuf> = [
        "/usr/local/lib".to_owned(),
        format!("/usr/local/lib/{arch}-linux-gnu"),
        format!("/usr/lib/{arch}-linux-gnu"),
        "/usr/lib64".to_owned(),
        "/usr/lib".to_owned(),
        "/opt/homebrew/lib".to_owned(),
    ]
    .map(PathBuf::from)
    .into();
    // Archives of the releases are unpacked as /opt/onnxruntime-linux-x64-1.31.1 and the like.
    for base in ["/opt", "/usr/local"] {
        folders.extend(
            children(Path::new(base))
                .into_iter()
                .filter(|folder| file_name(folder).starts_with("onnxruntime"))
                .map(|folder| folder.join("lib")),
        );
    }
    folders
}

/// A library that may be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Its file.
    pub path: PathBuf,
    /// Why it is considered, as it is shown to people: `--ort-lib`, `in $VIRTUAL_ENV`, …
    pub origin: String,
}

/// What the user named, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// A file or a folder.
    pub path: PathBuf,
    /// `--ort-lib`, or the environment variable.
    pub by: &'static str,
}

impl Named {
    /// The library that the user named, if one was.
    pub(super) fn of(surroundings: &Surroundings) -> Option<Self> {
        if let Some(path) = &surroundings.option {
            let path = path.clone();
            return Some(Self {
                path,
                by: "--ort-lib",
            });
        }
        NAMING_VARIABLES.into_iter().find_map(|by| {
            let path = surroundings.variable(by)?.into();
            Some(Self { path, by })
        })
    }

    /// The libraries meant: the file itself, or those in the folder (a Python environment's too).
    pub(super) fn candidates(&self, system: System) -> Vec<Candidate> {
        let origin = self.by.to_owned();
        if !self.path.is_dir() {
            // A file here, else a name for the loader to look up: `libonnxruntime.so`. Without the first
            // step the loader would look everywhere but here.
            let path = match std::path::absolute(&self.path) {
                Ok(absolute) if absolute.exists() => absolute,
                _ => self.path.clone(),
            };
            return vec![Candidate { path, origin }];
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
pub(super) struct Place {
    /// Where it is, as a phrase: `in $VIRTUAL_ENV`.
    pub name: String,
    /// The libraries found there.
    pub candidates: Vec<Candidate>,
}

/// The places, from near to far. Each is searched when it is reached, not before.
pub(super) fn places(surroundings: &Surroundings) -> impl Iterator<Item = Place> + '_ {
    type Search = fn(&Surroundings) -> Option<(String, Vec<PathBuf>)>;
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
        let (name, folders) = search(surroundings)?;
        let candidates = libraries_in(&folders, &name, surroundings.system);
        Some(Place { name, candidates })
    })
}

/// All candidates, in the order in which they are tried, each file once.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub candidates: Vec<Candidate>,
    /// The names of the places that were searched.
    pub places: Vec<String>,
}

/// Finds all candidates: those that the user named, or else those in all places.
pub(super) fn all(surroundings: &Surroundings) -> Found {
    let named = Named::of(surroundings);
    let mut found = Found::default();
    // An active environment is often also where the python3 on PATH lies.
    let mut seen = BTreeSet::new();
    for place in sources(surroundings, named.as_ref()) {
        let new = place.candidates.into_iter();
        let new = new.filter(|candidate| seen.insert(real(&candidate.path)));
        found.candidates.extend(new);
        found.places.push(place.name);
    }
    found
}

/// Where candidates come from: what the user named and nothing else, or else all places, each searched when
/// it is reached.
pub(super) fn sources<'a>(
    surroundings: &'a Surroundings,
    named: Option<&Named>,
) -> Box<dyn Iterator<Item = Place> + 'a> {
    match named {
        Some(named) => Box::new(std::iter::once(Place {
            name: format!("in {} ({})", named.path.display(), named.by),
            candidates: named.candidates(surroundings.system),
        })),
        None => Box::new(places(surroundings)),
    }
}

/// A path without links, or as it is where it leads nowhere.
pub(super) fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

fn beside_executable(here: &Surroundings) -> Option<(String, Vec<PathBuf>)> {
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
    }
    Some(("beside the executable and in ../lib".into(), folders))
}

fn environment(here: &Surroundings, variable: &'static str) -> Option<(String, Vec<PathBuf>)> {
    let prefix = PathBuf::from(here.variable(variable)?);
    let mut folders = site_packages(&prefix, here.system);
    // conda-forge's onnxruntime-cpp puts the library itself into the prefix.
    folders.push(match here.system {
        System::Windows => prefix.join("Library").join("bin"),
        _ => prefix.join("lib"),
    });
    Some((format!("in ${variable}"), folders))
}

fn system_places(here: &Surroundings) -> Option<(String, Vec<PathBuf>)> {
    // On Windows the loader's own order would take System32's old copy first; PATH is what people set.
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
                let origin = origin.to_owned();
                candidates.push(Candidate { path, origin });
            }
        }
    }
    candidates
}

/// The numbers in a name, for sorting: `python3.12` is newer than `python3.9`.
pub(super) fn version(name: &str) -> Vec<u32> {
    name.split(|character: char| !character.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}

pub(super) fn children(folder: &Path) -> Vec<PathBuf> {
    let mut children: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    children.sort();
    children
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod tests;

//! `--check`: compares the local files of a model with their hashes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::digest::{Digest, sums};
use super::fetch::difference;
use super::listing::{HubFile, Listing};
use super::local::{self, MANIFEST};
use super::lockfile::LARGEST;
use super::revision::Revision;
use super::select::{self as selection, MODULES, ModuleFolders};
use super::store::CachedRepository;
use super::{HubSettings, ModelId, not_cached};
use crate::ModelName;
use crate::onnx_file::{self, OnnxChoice};
use crate::weights::{self, FileChoice, WeightsPreference};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::LOCAL_DIR;
use embedctl_common::small_file;
use embedctl_onnx::graph::Graph;

/// The result of a check.
#[derive(Debug, Clone, Serialize)]
pub struct CheckedModel {
    /// Repository, or the folder that was named.
    pub model: String,
    /// Full commit.
    pub revision: String,
    /// The folder that holds the files.
    pub folder: PathBuf,
    /// The requested ONNX file, or, without a request, one that is here.
    pub onnx: Option<String>,
    /// Every file that is here or should be, sorted by path.
    pub files: Vec<CheckedFile>,
}

/// A checked file.
#[derive(Debug, Clone, Serialize)]
pub struct CheckedFile {
    /// Path inside the repository.
    pub path: String,
    /// Its state.
    #[serde(flatten)]
    pub state: FileVerdict,
}

/// The state of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum FileVerdict {
    /// Correct.
    Ok,
    /// Here, with other content than expected.
    Damaged {
        /// How it differs.
        reason: String,
    },
    /// Not here, and needed for embedding.
    Missing,
    /// Here; its expected hash is unknown.
    Unverifiable,
    /// Here, and not one of the model's.
    Foreign {
        /// Whether it has a name that embedding reads, so that it could change vectors.
        read: bool,
    },
}

impl CheckedModel {
    /// The files with something wrong: damaged, missing, or read though they are not the model's.
    pub fn wrong(&self) -> impl Iterator<Item = &CheckedFile> {
        self.files.iter().filter(|file| {
            matches!(
                file.state,
                FileVerdict::Damaged { .. }
                    | FileVerdict::Missing
                    | FileVerdict::Foreign { read: true }
            )
        })
    }
}

/// Reads every cached file of a model (or of a folder that `--local-dir` made) and compares it with what it
/// should be. Asks no network: the cache calls files by their hashes.
///
/// # Errors
/// If nothing of the model is here, or it cannot be read.
pub fn check(
    settings: &HubSettings,
    model: &str,
    choice: &FileChoice,
    cancel: &CancelToken,
) -> Result<CheckedModel> {
    let id = match ModelName::of(model) {
        Ok(ModelName::Folder(folder)) => return check_folder(model, &folder, cancel),
        Ok(ModelName::Hub(id)) => id
            .meanings()
            .into_iter()
            .find(|id| {
                CachedRepository::new(&settings.cache, &id.repository)
                    .commit(&id.revision)
                    .is_some()
            })
            .unwrap_or(id),
        Err(cause) => {
            return Err(Error::usage(
                cause.map(|reason| format!("'{model}' {reason}")),
            ));
        }
    };
    let store = CachedRepository::new(&settings.cache, &id.repository);
    let source = Revision::cached(&store, &id.revision)
        .ok_or_else(|| not_cached(&id, &settings.cache, &[]))?;
    let folder = store.snapshot(&source.commit);
    let mut files = Vec::new();
    let present = store.files(&source.commit);
    for path in &present {
        if source.whole && !source.listing.contains(path) {
            files.push(stranger(path.clone()));
            continue;
        }
        let stored = source.listing.get(path).cloned().unwrap_or_default();
        let remote = HubFile {
            digest: stored
                .digest
                .or_else(|| Digest::parse(&store.linked(&source.commit, path)?)),
            ..stored
        };
        files.push(CheckedFile {
            path: path.clone(),
            state: state(&folder.join(path), &remote, cancel)?,
        });
    }
    let choice = choice_among(&source.listing, &present, choice);
    let (onnx, needed) = needed(&id, &folder, &source, &present, &choice);
    for path in needed {
        if !present.contains(&path) {
            files.push(CheckedFile {
                path,
                state: FileVerdict::Missing,
            });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(CheckedModel {
        model: id.repository,
        revision: source.commit,
        folder,
        onnx,
        files,
    })
}

fn check_folder(model: &str, folder: &Path, cancel: &CancelToken) -> Result<CheckedModel> {
    let Some(locked) = local::read(folder, MANIFEST)? else {
        return Err(Error::model(
            model,
            format!(
                "has no {MANIFEST}, which `embedctl download {LOCAL_DIR}` writes: the expected files are unknown"
            ),
        ));
    };
    let mut files = Vec::new();
    for file in &locked.files {
        let remote = HubFile {
            size: Some(file.size),
            digest: Digest::parse(&file.sha256),
        };
        files.push(CheckedFile {
            path: file.path.clone(),
            state: state(&folder.join(&file.path), &remote, cancel)?,
        });
    }
    let ours: BTreeSet<&str> = locked.files.iter().map(|file| file.path.as_str()).collect();
    let strangers = local::strangers(folder, |path| ours.contains(path));
    files.extend(strangers.into_iter().map(stranger));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(CheckedModel {
        model: model.to_owned(),
        revision: locked.revision,
        folder: folder.to_path_buf(),
        onnx: locked.onnx,
        files,
    })
}

/// A file that is not the model's.
fn stranger(path: String) -> CheckedFile {
    let read = selection::is_read(&path);
    CheckedFile {
        path,
        state: FileVerdict::Foreign { read },
    }
}

fn state(place: &Path, remote: &HubFile, cancel: &CancelToken) -> Result<FileVerdict> {
    if !place.is_file() {
        return Ok(FileVerdict::Missing); // also a link that leads nowhere, and a pipe
    }
    let found = sums(place, remote.digest.as_ref(), cancel)
        .map_err(|error| Error::io("read", place, error))?
        .ok_or(Error::interrupted())?;
    Ok(match difference(remote, &found) {
        Some(reason) => FileVerdict::Damaged { reason },
        None if remote.digest.is_none() => FileVerdict::Unverifiable,
        None => FileVerdict::Ok,
    })
}

/// The choice of files without a request: the default, unless only files of another kind are here.
fn choice_among(listing: &Listing, present: &[String], choice: &FileChoice) -> FileChoice {
    let here: Vec<&str> = present.iter().map(String::as_str).collect();
    let all: Vec<&str> = listing.paths().collect();
    let is_here = |path: &String| here.contains(&path.as_str());
    let checkpoint = weights::checkpoint(&all, "").is_ok_and(|files| files.iter().all(is_here));
    let other = onnx_file::among(&here).first().map(|&path| path.to_owned());
    if choice.onnx != OnnxChoice::default()
        || other.is_none()
        || (checkpoint && choice.weights.knows().is_some())
    {
        return choice.clone();
    }
    let default = onnx_file::choose(&all, "", &choice.onnx).is_ok_and(|path| is_here(&path));
    FileChoice {
        weights: WeightsPreference::Onnx,
        onnx: OnnxChoice {
            file: other.filter(|_| !default),
            precision: None,
        },
    }
}

/// The requested ONNX file and all files that embedding needs, as far as the local files tell.
fn needed(
    id: &ModelId,
    folder: &Path,
    source: &Revision,
    present: &[String],
    choice: &FileChoice,
) -> (Option<String>, BTreeSet<String>) {
    let paths: Vec<&str> = source.listing.paths().collect();
    let layout = layout("", folder, &source.listing).unwrap_or_default();
    let config = selection::config(&folder.join(selection::config_path(&layout)));
    let here: Vec<&str> = present.iter().map(String::as_str).collect();
    // No file of weights may be known: the rest can be told all the same.
    let (onnx, mut needed): (_, BTreeSet<String>) =
        match selection::select(&id.to_string(), &paths, &layout, choice, &config) {
            Ok(selection) => {
                let paths = selection.paths().map(str::to_owned).collect();
                (selection.onnx, paths)
            }
            Err(_) => (
                None,
                selection::metadata(&paths, &layout).into_iter().collect(),
            ),
        };
    for graph in onnx_file::among(&here) {
        needed.extend(external(folder, graph));
    }
    (onnx, needed)
}

/// The files of weights that an ONNX file names.
fn external(folder: &Path, onnx: &str) -> Vec<String> {
    // A damaged or missing graph names nothing; it is reported itself.
    let graph = Graph::read(&folder.join(onnx)).unwrap_or_default();
    graph.external_names(onnx).collect()
}

/// The files of a commit that embedding needs, by its list and the files in `folder`.
pub(super) fn required(
    name: &str,
    folder: &Path,
    listing: &Listing,
    choice: &FileChoice,
) -> Result<Vec<String>> {
    let paths: Vec<&str> = listing.paths().collect();
    let layout = layout(name, folder, listing)?;
    let config = selection::config(&folder.join(selection::config_path(&layout)));
    let selection = selection::select(name, &paths, &layout, choice, &config)?;
    let mut needed: Vec<String> = selection.paths().map(str::to_owned).collect();
    if let Some(onnx) = &selection.onnx {
        needed.extend(external(folder, onnx));
    }
    Ok(needed)
}

fn layout(name: &str, folder: &Path, listing: &Listing) -> Result<ModuleFolders> {
    if !listing.contains(MODULES) {
        return Ok(ModuleFolders::default());
    }
    let read = |path: &str| small_file::read(&folder.join(path), LARGEST);
    let Ok(modules) = read(MODULES) else {
        return Ok(ModuleFolders::default()); // it is missing, and reported itself
    };
    let layout = ModuleFolders::read(name, &modules)?;
    let paths: Vec<&str> = listing.paths().collect();
    match layout.router_file(&paths) {
        Some(router) => match read(router) {
            Ok(file) => layout.with_routes(name, router, &file),
            Err(_) => Ok(layout),
        },
        None => Ok(layout),
    }
}

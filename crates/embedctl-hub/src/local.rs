//! A model in a plain folder, for machines without a network: files under their own paths, with a manifest of their
//! hashes, so that a copy can be checked.
//!
//! A folder holds one model. All content is staged inside it and put in place when all of it is here: whatever is
//! killed meanwhile, no weights ever lie beside another model's or another commit's metadata. A folder with files of
//! something else that embedding would read is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use super::digest::Digest;
use super::files::{create_folder_of, wait_for};
use super::id::is_path;
use super::listing::HubFile;
use super::lockfile::{Lock, LockedModel};
use super::select::is_read;
use super::{DownloadedFile, ModelId, Transfer};
use embedctl_common::atomic::FileLock;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::folder::name_in;
use embedctl_common::setting::LOCAL_DIR;

/// The manifest of a folder's files, in the form of a lock file.
pub(super) const MANIFEST: &str = "embedctl.lock.json";
/// The folder for partial and staged content.
const PARTIAL: &str = ".embedctl-partial";
/// The manifest of files that a killed run was moving into place, in the form of a lock file.
const PLAN: &str = ".embedctl-partial/plan.json";
/// Maximum depth of a model's files, and maximum entries of a folder that are read.
const DEPTH: usize = 4;
const ENTRIES: usize = 20_000;

/// The folder, locked against other processes.
pub(super) struct ModelFolder {
    path: PathBuf,
    /// The manifest.
    before: Option<LockedModel>,
    /// The files that may be there: the manifest's, and those of a run that was killed while it put them in place.
    known: BTreeSet<String>,
    _lock: FileLock,
}

impl ModelFolder {
    /// Makes and locks the folder, and makes sure that it holds no other model.
    ///
    /// # Errors
    /// If it holds one, or files of an unknown one; if it cannot be read or made.
    pub(super) fn open(
        path: &Path,
        model: &ModelId,
        coming: impl Fn(&str) -> bool,
        cancel: &CancelToken,
        transfer: &dyn Transfer,
    ) -> Result<Self> {
        let refuse = |reason: String, remedy: &str| {
            let reason = format!("{LOCAL_DIR} {}: {reason}", path.display());
            Err(Error::usage(reason).with_remedy(remedy))
        };
        if path.exists() && !path.is_dir() {
            return refuse("there is a file of that name".into(), "name a folder");
        }
        fs::create_dir_all(path).map_err(|error| Error::io("create the folder", path, error))?;
        let lock = lockable(path).map_err(|error| Error::io("open", path, error))?;
        let lock = wait_for(lock, "downloading into the same folder", cancel, transfer)?;
        let partial = path.join(PARTIAL);
        if fs::symlink_metadata(&partial).is_ok_and(|found| !found.is_dir()) {
            return refuse(format!("{PARTIAL} in it is not a folder"), "remove it");
        }
        let before = read(path, MANIFEST)?;
        let plan = read(path, PLAN)?;
        let mut known = BTreeSet::new();
        for locked in before.iter().chain(&plan) {
            if locked.model != model.repository {
                return refuse(
                    format!("it holds {}, but a folder holds one model", locked.model),
                    "name another folder, or remove this one",
                );
            }
            known.extend(locked.files.iter().map(|file| file.path.clone()));
        }
        let folder = Self {
            path: path.to_path_buf(),
            before,
            known,
            _lock: lock,
        };
        folder.refuse_strangers(coming)?;
        Ok(folder)
    }

    /// Refuses a folder with a file that embedding reads and that is not of this model: such files win over the
    /// model's own, or add to them.
    fn refuse_strangers(&self, coming: impl Fn(&str) -> bool) -> Result<()> {
        let mut strangers = strangers(&self.path, |path| self.known.contains(path) || coming(path));
        strangers.retain(|path| is_read(path));
        if strangers.is_empty() {
            return Ok(());
        }
        let more = strangers.len().saturating_sub(5);
        strangers.truncate(5);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        Err(Error::usage(format!(
            "{LOCAL_DIR} {}: it holds {}{more}, which is not known to be part of this model and would change its \
             vectors",
            self.path.display(),
            strangers.join(", ")
        ))
        .with_remedy("name another folder, or remove the files that are not the model's"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file belongs.
    ///
    /// # Errors
    /// If that is not inside the folder, or a link leads out of it on the way.
    pub(super) fn place(&self, path: &str) -> Result<PathBuf> {
        let refuse = |reason: &str| Error::model(self.path.display(), format!("'{path}' {reason}"));
        if !is_path(path) || path == MANIFEST || path.starts_with(PARTIAL) {
            return Err(refuse("cannot be a file of a model here"));
        }
        for (end, _) in path.match_indices('/') {
            let folder = self.path.join(&path[..end]);
            if fs::symlink_metadata(folder).is_ok_and(|found| !found.is_dir()) {
                return Err(refuse("lies below a file that should be a folder")
                    .with_remedy("remove that file"));
            }
        }
        Ok(self.path.join(path))
    }

    /// Where its content grows.
    pub(super) fn incomplete(&self, path: &str) -> PathBuf {
        self.path.join(PARTIAL).join(path.replace('/', "--"))
    }

    /// Where its content waits, verified, until everything is here.
    pub(super) fn staged(&self, path: &str) -> PathBuf {
        let mut name = self.incomplete(path).into_os_string();
        name.push(".whole");
        name.into()
    }

    /// The expected content of a file: the Hub's hash, or, without one, the hash in the manifest of the same commit.
    /// Without either, the file could be another model's.
    pub(super) fn expected(&self, path: &str, remote: &HubFile, commit: &str) -> Option<HubFile> {
        if remote.digest.is_some() {
            return Some(remote.clone());
        }
        let before = self
            .before
            .as_ref()
            .filter(|before| before.revision == commit)?;
        let locked = before.files.iter().find(|file| file.path == path)?;
        Some(HubFile {
            size: Some(locked.size),
            digest: Digest::parse(&locked.sha256),
        })
    }

    /// Whether the manifest promises this file of this commit.
    pub(super) fn promises(&self, path: &str, commit: &str) -> bool {
        self.before.as_ref().is_some_and(|before| {
            before.revision == commit && before.files.iter().any(|file| file.path == path)
        })
    }

    /// Puts everything in place and writes down what it must be. The weights go first and come last: in between,
    /// nothing there can be taken for a model. Files of an earlier commit are taken away, and those of this commit
    /// that were fetched before stay.
    ///
    /// # Errors
    /// If a file cannot be written; the next run continues from there.
    pub(super) fn finish(
        &self,
        model: &ModelId,
        commit: &str,
        onnx: Option<&str>,
        files: &BTreeMap<String, DownloadedFile>,
    ) -> Result<()> {
        let mut locked = LockedModel::new(model, commit, onnx, files.values());
        if let Some(before) = self
            .before
            .as_ref()
            .filter(|before| before.revision == commit)
        {
            let kept = before
                .files
                .iter()
                .filter(|file| !files.contains_key(&file.path));
            locked.files.extend(kept.cloned());
            locked.files.sort_by(|a, b| a.path.cmp(&b.path));
        }
        let ours: BTreeSet<&str> = locked.files.iter().map(|file| file.path.as_str()).collect();
        let lock = Lock::of(vec![locked.clone()]);
        self.refuse_strangers(|path| ours.contains(path))?;
        let stale = self
            .known
            .iter()
            .filter(|path| !ours.contains(path.as_str()));
        let stale: Vec<&String> = stale.collect();
        if !stale.is_empty() || files.keys().any(|path| self.staged(path).exists()) {
            lock.write(&self.path.join(PLAN))?;
            let is_weights = |path: &str| path.ends_with(".onnx") || path.ends_with(".safetensors");
            for path in ours
                .iter()
                .filter(|path| is_weights(path) && self.path.join(path).exists())
            {
                let staged = self.staged(path);
                if !staged.exists() {
                    rename(&self.place(path)?, &staged)?;
                }
            }
            let (graphs, others): (Vec<&String>, Vec<&String>) =
                stale.into_iter().partition(|path| is_weights(path));
            for path in graphs.into_iter().chain(others) {
                self.remove(path)?;
            }
            let (graphs, others): (Vec<&str>, Vec<&str>) =
                ours.iter().partition(|path| is_weights(path));
            for path in others.into_iter().chain(graphs) {
                let staged = self.staged(path);
                if staged.exists() {
                    let place = self.place(path)?;
                    create_folder_of(&place)?;
                    rename(&staged, &place)?;
                }
            }
        }
        lock.write(&self.path.join(MANIFEST))?;
        let partial = self.path.join(PARTIAL);
        match fs::remove_dir_all(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove", partial, error))
            }
            _ => Ok(()),
        }
    }

    /// Takes a file away, and the folders that are empty without it.
    fn remove(&self, path: &str) -> Result<()> {
        let place = self.place(path)?;
        match fs::remove_file(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", place, error));
            }
            _ => {}
        }
        let folders = place
            .ancestors()
            .skip(1)
            .take_while(|folder| **folder != self.path);
        for folder in folders {
            if fs::remove_dir(folder).is_err() {
                break; // not empty
            }
        }
        Ok(())
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|error| Error::io("write", to, error))
}

/// The lock that keeps two processes from working in one folder: the folder itself, without a further file.
#[cfg(unix)]
fn lockable(folder: &Path) -> io::Result<File> {
    File::open(folder)
}

#[cfg(not(unix))]
fn lockable(folder: &Path) -> io::Result<File> {
    super::files::open_to_write(&folder.join(".embedctl.lock"))
}

/// The one model that a manifest names.
///
/// # Errors
/// If it is no manifest, or names several models.
pub(super) fn read(folder: &Path, name: &str) -> Result<Option<LockedModel>> {
    let path = folder.join(name);
    if !path.exists() {
        return Ok(None);
    }
    let mut models = Lock::read(&path)?.models;
    if models.len() > 1 {
        let reason = "names several models, but a folder holds one";
        return Err(Error::model(path.display(), reason));
    }
    Ok(models.pop())
}

/// Makes sure that a folder with a manifest is whole before it is taken for a model: a copy that was cut, or a download
/// that was killed while it put files in place, lacks files without which the same graph gives other vectors.
///
/// # Errors
/// If files are missing; the message names one.
pub fn refuse_incomplete(folder: &Path) -> Result<()> {
    let Some(locked) = read(folder, MANIFEST)? else {
        return Ok(());
    };
    let missing = locked
        .files
        .iter()
        .find(|file| !folder.join(&file.path).is_file());
    if let Some(missing) = missing {
        return Err(Error::model(
            folder.display(),
            format!("lacks {}, which {MANIFEST} names", missing.path),
        )
        .with_remedy(format!(
            "fetch it again with `embedctl download {} {LOCAL_DIR}` and this folder, or copy all of it again",
            locked.id()
        )));
    }
    Ok(())
}

/// The files of a folder, as paths inside it, that `belongs` does not know. A link to a folder counts as a file.
pub(super) fn strangers(folder: &Path, belongs: impl Fn(&str) -> bool) -> Vec<String> {
    let is_ours = |entry: &DirEntry| {
        entry.depth() == 1
            && [MANIFEST, PARTIAL]
                .iter()
                .any(|own| entry.file_name() == *own)
    };
    let entries = WalkDir::new(folder).min_depth(1).max_depth(DEPTH);
    let entries = entries.into_iter().filter_entry(|entry| !is_ours(entry));
    let files = entries.take(ENTRIES).flatten();
    let mut found: Vec<String> = files
        .filter(|entry| !entry.file_type().is_dir())
        .map(|entry| name_in(folder, entry.path()))
        .filter(|path| !belongs(path))
        .collect();
    found.sort();
    found
}

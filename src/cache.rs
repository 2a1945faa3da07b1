//! What is kept between runs on this machine: models of the Hub, and files that embedctl makes again where they are missing.
//!
//! ```text
//!  Hub's cache/models--org--name/        models, shared with Python
//!  CACHE/embedctl/native/KEY.weights     packed weights, and notes about them
//!                 native/cuda/           kernels for GPUs, and the fastest products
//!                 tensorrt/KEY/, …       engines that providers have compiled
//! ```
//!
//! Other files in these folders are left alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use embedctl_common::folder::children;
use embedctl_common::user_cache;
use serde::{Serialize, Serializer};

use crate::error::{Error, Result};
use crate::hub;
use crate::named::named;
use crate::provider::Provider;

/// Characters of a key that are shown.
const SHOWN: usize = 12;

/// Providers that keep compiled engines, each in a folder of its name.
const COMPILING: [Provider; 2] = [Provider::TensorRt, Provider::CoreMl];

named! {
    /// What a kept file is.
    pub enum CacheKind("kind of cached files", "the kinds are") {
        /// Models of the Hub.
        Models = "models",
        /// Weights as the native engine packs them.
        Weights = "weights",
        /// Kernels for GPUs.
        Kernels = "kernels",
        /// Networks that providers have compiled.
        Engines = "engines",
    }
}

impl Serialize for CacheKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The folders of caches.
#[derive(Debug, Clone)]
pub struct Caches {
    /// That of the Hub.
    pub hub: PathBuf,
    /// embedctl's own; `None` where there is none.
    pub own: Option<PathBuf>,
}

/// Something that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CacheEntry {
    /// What it is.
    pub kind: CacheKind,
    /// The model's name, or the beginning of a key.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// When it was used last, as far as the file system tells.
    #[serde(serialize_with = "write_time")]
    pub used: Option<SystemTime>,
    /// Its files; of a model and of an engine, its folder.
    #[serde(skip)]
    paths: Vec<PathBuf>,
}

impl CacheEntry {
    /// The day when it was used last.
    #[must_use]
    pub fn day(&self) -> Option<String> {
        let used = DateTime::<Utc>::from(self.used?);
        Some(used.format("%Y-%m-%d").to_string())
    }
}

fn write_time<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    let time = time.map(DateTime::<Utc>::from);
    let time = time.map(|time| time.to_rfc3339_opts(SecondsFormat::Secs, true));
    time.serialize(serializer)
}

/// Where packed weights are kept, and in its folder `cuda` kernels; `None` where the user has no cache.
#[must_use]
pub fn weights_folder() -> Option<PathBuf> {
    Some(own_folder()?.join("native"))
}

fn own_folder() -> Option<PathBuf> {
    Some(user_cache()?.join("embedctl"))
}

impl Caches {
    /// This user's caches, with the Hub's in `hub`.
    #[must_use]
    pub fn of_user(hub: PathBuf) -> Self {
        Self {
            hub,
            own: own_folder(),
        }
    }

    /// All entries of these kinds, the largest of each kind first; of no kind, all.
    #[must_use]
    pub fn entries(&self, kinds: &[CacheKind]) -> Vec<CacheEntry> {
        let mut all = Vec::new();
        for kind in CacheKind::ALL {
            if !kinds.is_empty() && !kinds.contains(&kind) {
                continue;
            }
            let mut entries = match (kind, &self.own) {
                (CacheKind::Models, _) => self.models(),
                (_, None) => Vec::new(),
                (CacheKind::Weights, Some(own)) => weights(&own.join("native")),
                (CacheKind::Kernels, Some(own)) => kernels(&own.join("native").join("cuda")),
                (CacheKind::Engines, Some(own)) => engines(own),
            };
            entries.sort_by(|one, other| {
                let by_size = other.bytes.cmp(&one.bytes);
                by_size.then_with(|| one.name.cmp(&other.name))
            });
            all.extend(entries);
        }
        all
    }

    fn models(&self) -> Vec<CacheEntry> {
        let models = hub::cached_models(&self.hub).into_iter();
        let entry = |model: hub::CachedModel| CacheEntry {
            kind: CacheKind::Models,
            name: model.id,
            bytes: model.bytes,
            used: model.used,
            paths: Vec::new(),
        };
        models.map(entry).collect()
    }

    /// Removes an entry. What a run has open stays there for it.
    ///
    /// # Errors
    /// If a model is being downloaded, or the system refuses.
    pub fn remove(&self, entry: &CacheEntry) -> Result<()> {
        if entry.kind == CacheKind::Models {
            return hub::remove_cached_model(&self.hub, &entry.name);
        }
        for path in &entry.paths {
            let removed = match entry.kind {
                CacheKind::Engines => fs::remove_dir_all(path),
                _ => fs::remove_file(path),
            };
            match removed {
                // Another run has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(|error| Error::io("remove", path, error))?,
            }
        }
        Ok(())
    }
}

/// An entry of these files.
fn entry(kind: CacheKind, name: String, paths: Vec<PathBuf>) -> Option<CacheEntry> {
    let (mut bytes, mut used) = (0, None);
    let mut count = |metadata: &fs::Metadata| {
        bytes += metadata.len();
        used = used.max(metadata.modified().ok());
    };
    paths.iter().for_each(|path| each_file(path, &mut count));
    (!paths.is_empty()).then_some(CacheEntry {
        kind,
        name,
        bytes,
        used,
        paths,
    })
}

/// Looks at a file, or at all files in a folder and in those inside it.
fn each_file(path: &Path, look: &mut dyn FnMut(&fs::Metadata)) {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            let inside = children(path);
            inside.iter().for_each(|path| each_file(path, look));
        }
        Ok(metadata) if metadata.is_file() => look(&metadata),
        _ => {}
    }
}

/// The files in a folder that have this ending, with what stands before it. A hidden one is being written.
fn files_with(folder: &Path, ending: &str) -> Vec<(String, PathBuf)> {
    let is_file = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|it| it.is_file());
    let files = children(folder).into_iter().filter(is_file);
    let own = |path: PathBuf| {
        let stem = path.file_name()?.to_str()?.strip_suffix(ending)?.to_owned();
        (!stem.starts_with('.')).then_some((stem, path))
    };
    files.filter_map(own).collect()
}

fn is_key(text: &str) -> bool {
    text.len() >= SHOWN && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn short(key: &str) -> String {
    key.chars().take(SHOWN).collect()
}

fn weights(folder: &Path) -> Vec<CacheEntry> {
    let of = |ending| {
        let files = files_with(folder, ending).into_iter();
        files.filter(|(key, _)| is_key(key))
    };
    let files = of(".weights");
    let files = files.filter_map(|(key, path)| entry(CacheKind::Weights, short(&key), vec![path]));
    let notes = of(".note").map(|(_, path)| path).collect();
    let notes = entry(CacheKind::Weights, "notes".to_owned(), notes);
    files.chain(notes).collect()
}

fn kernels(folder: &Path) -> Vec<CacheEntry> {
    let mut entries = Vec::new();
    for (start, ending) in [("kernels-", ".cubin"), ("products-", ".txt")] {
        for (stem, path) in files_with(folder, ending) {
            let key = stem.strip_prefix(start).filter(|key| is_key(key));
            let name = key.map(|key| format!("{start}{}", short(key)));
            entries.extend(name.and_then(|name| entry(CacheKind::Kernels, name, vec![path])));
        }
    }
    entries
}

fn engines(own: &Path) -> Vec<CacheEntry> {
    let mut entries = Vec::new();
    for provider in COMPILING.map(Provider::name) {
        for folder in children(&own.join(provider)) {
            let is_folder = fs::symlink_metadata(&folder).is_ok_and(|it| it.is_dir());
            let name = folder.file_name().and_then(|name| name.to_str());
            let key = name.filter(|name| is_folder && is_key(name)).map(short);
            let name = key.map(|key| format!("{provider}/{key}"));
            entries.extend(name.and_then(|name| entry(CacheKind::Engines, name, vec![folder])));
        }
    }
    entries
}

//! What the Hub's cache holds, and how a model is removed from it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use embedctl_common::atomic::FileLock;
use embedctl_common::error::{Error, Result};
use embedctl_common::folder::children;
use walkdir::WalkDir;

/// The beginning of a repository's folder.
const MODELS: &str = "models--";

/// The end of the name of a folder that is being removed.
const REMOVED: &str = ".embedctl-removed";

/// A repository in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedModel {
    /// `org/name`, or the name of a repository without an organization.
    pub id: String,
    /// Bytes of all of its revisions: a file that several of them have counts once.
    pub bytes: u64,
    /// When one of its files was read or written last, as far as the file system tells.
    pub used: Option<SystemTime>,
}

/// The models in `cache`, by their names; none where there is no such folder.
#[must_use]
pub fn cached_models(cache: &Path) -> Vec<CachedModel> {
    let folders = children(cache).into_iter().filter(|path| is_folder(path));
    let model = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let id = name.strip_prefix(MODELS)?.replacen("--", "/", 1);
        let (mut bytes, mut used) = (0, None);
        for entry in WalkDir::new(&path).into_iter().flatten() {
            // Links lead to blobs, which count already.
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file);
            if let Some(metadata) = metadata {
                bytes += metadata.len();
                used = used
                    .max(metadata.modified().ok())
                    .max(metadata.accessed().ok());
            }
        }
        Some(CachedModel { id, bytes, used })
    };
    folders.filter_map(model).collect()
}

/// Removes a model with all of its revisions. It is gone at once, or not at all: a removal that was cut short is completed by
/// the next one.
///
/// # Errors
/// If a file of it is being downloaded, it is not a folder of the cache, or the system refuses.
pub fn remove_cached_model(cache: &Path, id: &str) -> Result<()> {
    let name = format!("{MODELS}{}", id.replacen('/', "--", 1));
    let (folder, locks) = (cache.join(&name), cache.join(".locks").join(&name));
    if name.contains(['/', '\\']) || !is_folder(&folder) {
        return Err(Error::usage(format!(
            "{}: there is no model {id}",
            cache.display()
        )));
    }
    let held: Vec<FileLock> = take_locks(&locks, id)?;
    let removed = cache.join(format!(".{name}{REMOVED}"));
    let failed = |path: &Path, error| Error::io("remove", path, error);
    remove_folder(&removed).map_err(|error| failed(&removed, error))?;
    fs::rename(&folder, &removed).map_err(|error| failed(&folder, error))?;
    remove_folder(&removed).map_err(|error| failed(&removed, error))?;
    // Whoever waits for one of them finds that it has lost its name, and makes it again.
    remove_folder(&locks).map_err(|error| failed(&locks, error))?;
    drop(held);
    Ok(())
}

/// The locks of the blobs that were ever fetched.
fn take_locks(locks: &Path, id: &str) -> Result<Vec<FileLock>> {
    let mut held = Vec::new();
    for path in children(locks) {
        let Ok(file) = File::open(&path) else {
            continue;
        };
        let lock = FileLock::try_take(file).ok_or_else(|| {
            Error::usage(format!("a file of {id} is being downloaded"))
                .with_remedy("wait for the download, or stop it, and try again")
        })?;
        held.push(lock);
    }
    Ok(held)
}

/// Whether it is a folder itself, not a link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|it| it.is_dir())
}

fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(cache: &Path, path: &str, content: &str) {
        let path = cache.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn ids(cache: &Path) -> Vec<String> {
        let models = cached_models(cache).into_iter();
        models.map(|model| model.id).collect()
    }

    #[test]
    fn models_are_counted_and_removed_alone() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path();
        assert!(cached_models(&cache.join("none")).is_empty());
        write(cache, "models--org--name/blobs/a", "four");
        write(cache, "models--org--name/refs/main", "x");
        write(cache, "models--gpt2/blobs/a", "123");
        write(cache, "datasets--org--name/blobs/a", "123");
        write(cache, ".locks/models--org--name/a.lock", "");
        // What a removal leaves that was killed.
        write(cache, ".models--org--name.embedctl-removed/blobs/old", "1");
        assert_eq!(ids(cache), ["gpt2", "org/name"]);
        assert_eq!(cached_models(cache)[1].bytes, 5);
        remove_cached_model(cache, "org/name").unwrap();
        assert_eq!(ids(cache), ["gpt2"]);
        let left: Vec<_> = children(cache);
        assert_eq!(left.len(), 3, "{left:?}");
        assert!(children(&cache.join(".locks")).is_empty());
        for other in ["org/name", "org/../gpt2", "../models--gpt2", ""] {
            remove_cached_model(cache, other).unwrap_err();
        }
        remove_cached_model(cache, "gpt2").unwrap();
        assert_eq!(ids(cache), [""; 0]);
    }

    #[test]
    fn a_model_that_is_being_fetched_stays() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path();
        write(cache, "models--org--name/blobs/a", "four");
        write(cache, ".locks/models--org--name/a.lock", "");
        let lock = File::open(cache.join(".locks/models--org--name/a.lock")).unwrap();
        let held = FileLock::try_take(lock).unwrap();
        let error = remove_cached_model(cache, "org/name").unwrap_err();
        assert!(error.to_string().contains("being downloaded"), "{error}");
        assert_eq!(ids(cache), ["org/name"]);
        drop(held);
        remove_cached_model(cache, "org/name").unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, other) = (folder.path().join("cache"), folder.path().join("other"));
        write(&other, "blobs/a", "four");
        fs::create_dir_all(&cache).unwrap();
        std::os::unix::fs::symlink(&other, cache.join("models--org--name")).unwrap();
        assert!(cached_models(&cache).is_empty());
        remove_cached_model(&cache, "org/name").unwrap_err();
        assert!(other.join("blobs/a").exists());
    }
}

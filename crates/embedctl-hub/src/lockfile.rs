//! Lock files: which commits and which contents were fetched, so that exactly these can be fetched again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::id::{ModelId, is_commit, is_path};
use super::listing::{HubFile, Listing};
use super::{Downloaded, DownloadedFile};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::LOCK;
use embedctl_common::small_file;

const SCHEMA: u32 = 1;
/// Bytes of a lock file at most.
pub(super) const LARGEST: u64 = 64 << 20;

/// The content of a lock file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Lock {
    schema: u32,
    /// The models, in the order in which they were asked for.
    pub models: Vec<LockedModel>,
}

/// A model of a lock file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedModel {
    /// Repository.
    pub model: String,
    /// The requested revision: a branch, a tag or a commit.
    pub requested: String,
    /// The full commit that it stood for.
    pub revision: String,
    /// The ONNX file's path.
    pub onnx: Option<String>,
    /// Every file.
    pub files: Vec<LockedFile>,
}

/// A file of a lock file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedFile {
    /// Path inside the repository.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// The Hub's own hash of it, which the cache calls it by.
    pub blob: Option<String>,
}

impl Lock {
    /// A lock of these models.
    #[must_use]
    pub fn of(models: Vec<LockedModel>) -> Self {
        Self {
            schema: SCHEMA,
            models,
        }
    }

    /// Checks that a lock file may be written: nothing is there, or an earlier one.
    ///
    /// # Errors
    /// If another file, a folder, a device or a link is there.
    pub fn check_place(path: &Path) -> Result<()> {
        let refuse = || {
            Err(Error::usage(format!(
                "{LOCK} {}: what is there is no lock file, and is not replaced",
                path.display()
            ))
            .with_remedy("choose another name"))
        };
        match path.symlink_metadata() {
            Err(_) => Ok(()), // told about when it is written
            Ok(found) if !found.is_file() => refuse(),
            Ok(_) => Self::read(path).map(drop).or_else(|_| refuse()),
        }
    }

    /// Writes a lock file, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written, or something else is [there](Self::check_place).
    pub fn write(&self, path: &Path) -> Result<()> {
        Self::check_place(path)?;
        let mut text = serde_json::to_vec_pretty(self).expect("strings and numbers are JSON");
        text.push(b'\n');
        super::files::replace(path, &text)
    }

    /// Reads a lock file.
    ///
    /// # Errors
    /// If it cannot be read, or is not a lock file that this version understands.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            small_file::read(path, LARGEST).map_err(|error| Error::io("read", path, error))?;
        let refuse = |reason: String| {
            Error::usage(format!(
                "{} is not a lock file of `embedctl download {LOCK}` ({reason})",
                path.display()
            ))
        };
        let lock: Self =
            serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
        if lock.schema != SCHEMA {
            return Err(refuse(format!(
                "its schema is {}, but this version knows {SCHEMA}",
                lock.schema
            )));
        }
        if lock.models.is_empty() {
            return Err(refuse("it names no model".into()));
        }
        for model in &lock.models {
            model.check().map_err(&refuse)?;
        }
        Ok(lock)
    }
}

impl LockedModel {
    /// The result of a download.
    #[must_use]
    pub fn from_download(model: &ModelId, downloaded: &Downloaded) -> Self {
        // A bare name may have meant another repository.
        let repository = downloaded.model.clone();
        let revision = model.revision.clone();
        Self::new(
            &ModelId {
                repository,
                revision,
            },
            &downloaded.revision,
            downloaded.onnx.as_deref(),
            downloaded.files.iter(),
        )
    }

    pub(super) fn new<'a>(
        model: &ModelId,
        commit: &str,
        onnx: Option<&str>,
        files: impl Iterator<Item = &'a DownloadedFile>,
    ) -> Self {
        Self {
            model: model.repository.clone(),
            requested: model.revision.clone(),
            revision: commit.to_owned(),
            onnx: onnx.map(str::to_owned),
            files: files
                .map(|file| LockedFile {
                    path: file.path.clone(),
                    size: file.size,
                    sha256: file.sha256.clone(),
                    blob: file.blob.clone(),
                })
                .collect(),
        }
    }

    /// The model's id, at its commit.
    #[must_use]
    pub fn id(&self) -> ModelId {
        ModelId {
            repository: self.model.clone(),
            revision: self.revision.clone(),
        }
    }

    fn check(&self) -> Result<(), String> {
        // Both become paths: the folder of the model's files, and the file that records the branch.
        ModelId::new(&self.model, &self.revision)?;
        ModelId::new(&self.model, &self.requested)?;
        if !is_commit(&self.revision) {
            return Err(format!("{} is not a full commit hash", self.revision));
        }
        if self.files.is_empty() {
            return Err(format!("it names no file of {}", self.model));
        }
        let mut paths = BTreeSet::new();
        for file in &self.files {
            if !paths.insert(file.path.to_ascii_lowercase()) {
                return Err(format!("it names {} twice", file.path));
            }
            if !is_path(&file.path) {
                return Err(format!("'{}' is not a path inside a repository", file.path));
            }
            let is_sha256 = matches!(Digest::parse(&file.sha256), Some(Digest::Sha256(_)));
            let is_blob = file
                .blob
                .as_deref()
                .is_none_or(|blob| Digest::parse(blob).is_some());
            if !is_sha256 || !is_blob {
                return Err(format!("{} has an invalid hash", file.path));
            }
        }
        match &self.onnx {
            Some(onnx) if !self.files.iter().any(|file| file.path == *onnx) => {
                Err(format!("{onnx} is not among the files"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn listing(&self) -> Listing {
        let files = self.files.iter().map(|file| {
            let digest = file.blob.as_deref().unwrap_or(&file.sha256);
            let remote = HubFile {
                size: Some(file.size),
                digest: Digest::parse(digest),
            };
            (file.path.clone(), remote)
        });
        Listing(files.collect::<BTreeMap<_, _>>())
    }

    pub(super) fn verify(&self, name: &str, found: &DownloadedFile) -> Result<()> {
        let locked = self.files.iter().find(|file| file.path == found.path);
        if locked.is_some_and(|locked| locked.sha256.eq_ignore_ascii_case(&found.sha256)) {
            return Ok(());
        }
        Err(Error::model(
            name,
            format!(
                "{}: its SHA-256 is {} and not the one of the lock file",
                found.path, found.sha256
            ),
        )
        .with_remedy(format!(
            "if the change is meant, write the lock file anew with {LOCK}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use super::*;
    use embedctl_testing::assert_no_bug;

    fn lock() -> Lock {
        Lock::of(vec![LockedModel {
            model: "org/name".into(),
            requested: "main".into(),
            revision: "a".repeat(40),
            onnx: Some("onnx/model.onnx".into()),
            files: vec![LockedFile {
                path: "onnx/model.onnx".into(),
                size: 3,
                sha256: "b".repeat(64),
                blob: Some("b".repeat(64)),
            }],
        }])
    }

    fn refusal(change: impl FnOnce(&mut Lock)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("models.lock");
        let mut lock = lock();
        change(&mut lock);
        lock.write(&path).unwrap();
        Lock::read(&path).unwrap_err().to_string()
    }

    #[test]
    fn damaged_lock_files_are_read_or_refused() {
        let good = serde_json::to_vec(&lock()).unwrap();
        embedctl_testing::mutation::each("models.lock", &good, 300, |path| {
            for model in assert_no_bug(Lock::read(path))
                .into_iter()
                .flat_map(|lock| lock.models)
            {
                // A member that becomes a path leads nowhere else.
                let paths = model.files.iter().map(|file| file.path.as_str());
                for path in paths.chain([model.requested.as_str(), &model.revision]) {
                    let parts = Path::new(path).components();
                    assert!(
                        !path.is_empty()
                            && parts
                                .into_iter()
                                .all(|part| matches!(part, Component::Normal(_))),
                        "{path}"
                    );
                }
            }
        });
    }

    #[test]
    fn a_lock_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("models.lock");
        lock().write(&path).unwrap();
        assert_eq!(Lock::read(&path).unwrap().models, lock().models);
    }

    #[test]
    fn a_lock_that_names_what_it_must_not_is_refused() {
        let path = |path: &str| {
            let path = path.to_owned();
            move |lock: &mut Lock| lock.models[0].files[0].path = path
        };
        assert!(refusal(path("../../etc/passwd")).contains("is not a path inside"));
        assert!(refusal(path("other")).contains("not among the files"));
        assert!(
            refusal(|lock| lock.models[0].revision = "main".into())
                .contains("is not a full commit")
        );
        assert!(refusal(|lock| lock.models[0].model = "../x".into()).contains("is not a Hub id"));
        assert!(refusal(|lock| lock.models[0].files[0].sha256 = "x".into()).contains("hash"));
        assert!(refusal(|lock| lock.schema = 2).contains("schema"));
        assert!(refusal(|lock| lock.models.clear()).contains("no model"));
        assert!(refusal(|lock| lock.models[0].files.clear()).contains("no file of org/name"));
        let twice = |lock: &mut Lock| {
            let again = lock.models[0].files[0].clone();
            lock.models[0].files.push(again);
        };
        assert!(refusal(twice).contains("twice"));
    }

    #[test]
    fn no_field_leads_out_of_the_cache() {
        for outside in [
            "../../outside",
            "/outside",
            "a/../../b",
            "",
            "..",
            "a\\b",
            "c:b",
            "a\nb",
        ] {
            let requested = outside.to_owned();
            let reason = refusal(move |lock| lock.models[0].requested = requested);
            assert!(reason.contains("is not a Hub id"), "{outside}: {reason}");
            let model = format!("org/name@{outside}");
            let reason = refusal(move |lock| lock.models[0].model = model);
            assert!(reason.contains("is not a Hub id"), "{outside}: {reason}");
        }
    }
}

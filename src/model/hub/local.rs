//! A model in a plain folder, for machines without a network: files under their own paths, and beside them
//! what they must be, so that a copy can be checked where it arrives.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::lockfile::{Lock, LockedModel};
use super::{DownloadedFile, ModelId};
use crate::error::{Error, Result};

/// What a folder's files must be, in the form of a lock file.
pub(super) const MANIFEST: &str = "embedctl.lock.json";
/// Where content grows.
const PARTIAL: &str = ".embedctl-partial";

/// The folder.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(path: &Path) -> Result<Self> {
        if path.exists() && !path.is_dir() {
            return Err(Error::Usage(format!(
                "--local-dir {}: there is a file of that name; name a folder",
                path.display()
            )));
        }
        Ok(Self(path.to_path_buf()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn place(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub(super) fn incomplete(&self, path: &str) -> PathBuf {
        self.0.join(PARTIAL).join(path.replace('/', "--"))
    }

    /// What keeps two processes from fetching the same file at once.
    pub(super) fn lock(&self, path: &str) -> PathBuf {
        let mut name = self.incomplete(path).into_os_string();
        name.push(".lock");
        name.into()
    }

    /// Writes down what the files must be, and takes away what partial content lay in.
    pub(super) fn finish(
        &self,
        model: &ModelId,
        commit: &str,
        onnx: Option<&str>,
        files: &BTreeMap<String, DownloadedFile>,
    ) -> Result<()> {
        let lock = Lock::of(vec![LockedModel::new(model, commit, onnx, files.values())]);
        lock.write(&self.0.join(MANIFEST))?;
        // Whoever waits for one of these will find the file itself in its place.
        for path in files.keys() {
            let _ = fs::remove_file(self.lock(path));
        }
        // Empty by now, unless another process is at work in it.
        let _ = fs::remove_dir(self.0.join(PARTIAL));
        Ok(())
    }
}

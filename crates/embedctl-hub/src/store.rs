//! A repository's place in the Hub's cache, laid out as `huggingface_hub` does, so that both share one copy:
//!
//! ```text
//! models--org--name/
//!   blobs/<hash>                 content, called by its hash
//!   blobs/<hash>.incomplete      its partial download
//!   snapshots/<commit>/<path>    links to blobs (copies where the system has no links)
//!   refs/<branch or tag>         the commit that it stood for
//!   .no_exist/<commit>/<path>    files that huggingface_hub found not to exist
//!   trees/<commit>.json          huggingface_hub's list of a commit's files
//!   .embedctl/<commit>.json      ours, in the same form
//! .locks/models--org--name/<hash>.lock
//! ```
//!
//! Our list has a place of its own: to `huggingface_hub`, a list in `trees` is a promise that all of it
//! was wanted, and it calls a snapshot incomplete that lacks the files of other frameworks.

use std::fs;
use std::path::{Path, PathBuf};

use hf_hub::{Cache, Repo};
use walkdir::WalkDir;

use super::Transfer;
use super::files::{copy, create_folder_of, lock, replace, symbolic_link};
use super::id::{is_commit, is_file_name, is_path};
use super::listing::Listing;
use embedctl_common::atomic::{FileLock, beside, is_hidden};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::folder::name_in;
use embedctl_common::small_file;

/// Bytes of a stored list of files at most; ours and `huggingface_hub`'s.
const LARGEST_LISTING: u64 = 128 << 20;

/// One repository in the cache.
#[derive(Debug, Clone)]
pub struct CachedRepository {
    cache: PathBuf,
    repository: String,
    base: PathBuf,
}

impl CachedRepository {
    /// The place of `repository` in the cache.
    #[must_use]
    pub fn new(cache: &Path, repository: &str) -> Self {
        let name = Repo::model(repository.to_owned()).folder_name();
        Self {
            cache: cache.to_path_buf(),
            repository: repository.to_owned(),
            base: cache.join(name),
        }
    }

    /// The folder of a commit's files.
    #[must_use]
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        Cache::new(self.cache.clone())
            .repo(Repo::model(self.repository.clone()))
            .pointer_path(commit)
    }

    /// The commit of a revision in this cache: the revision itself, or the commit stored for a branch or tag.
    #[must_use]
    pub fn commit(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_ascii_lowercase());
        }
        let stored = small_file::read_text(&self.inside("refs", revision).ok()?, 4096).ok()?;
        let commit = stored.trim();
        // Older tools stored other names than commits: any file name is accepted.
        is_file_name(commit).then(|| commit.to_owned())
    }

    /// A path in one of the repository's folders. Whatever comes from a lock file, a Hub or a caller has been checked
    /// where it came in; that it cannot lead out of the folder is made sure of here.
    fn inside(&self, folder: &str, path: &str) -> Result<PathBuf> {
        if is_path(path) {
            return Ok(self.base.join(folder).join(path));
        }
        let reason = format!("'{path}' is not a path inside a repository");
        Err(Error::model(&self.repository, reason))
    }

    pub(super) fn blob(&self, hash: &str) -> PathBuf {
        self.base.join("blobs").join(hash)
    }

    /// Where a blob grows.
    pub(super) fn incomplete(&self, hash: &str) -> PathBuf {
        self.base.join("blobs").join(format!("{hash}.incomplete"))
    }

    /// Whether `huggingface_hub` has found that the commit has no such file.
    pub(super) fn is_known_absent(&self, commit: &str, path: &str) -> bool {
        self.inside(".no_exist", &format!("{commit}/{path}"))
            .is_ok_and(|place| place.exists())
    }

    /// Stores that the commit has no such file, as `huggingface_hub` does.
    pub(super) fn put_absent(&self, commit: &str, path: &str) -> Result<()> {
        if self.is_known_absent(commit, path) {
            return Ok(());
        }
        replace(&self.inside(".no_exist", &format!("{commit}/{path}"))?, b"")
    }

    /// The list of a commit's files, where one was stored.
    pub(super) fn listing(&self, commit: &str) -> Option<Listing> {
        [".embedctl", "trees"].into_iter().find_map(|folder| {
            let path = self.inside(folder, &format!("{commit}.json")).ok()?;
            Listing::from_json(&small_file::read(&path, LARGEST_LISTING).ok()?)
        })
    }

    /// Stores the list of a commit's files.
    pub(super) fn put_listing(&self, commit: &str, listing: &Listing) -> Result<()> {
        let path = self.inside(".embedctl", &format!("{commit}.json"))?;
        let json = listing.to_json();
        match small_file::read(&path, LARGEST_LISTING).is_ok_and(|stored| stored == json) {
            true => Ok(()),
            false => replace(&path, &json),
        }
    }

    /// Stores the commit of a branch or tag.
    pub(super) fn put_ref(&self, revision: &str, commit: &str) -> Result<()> {
        if is_commit(revision) || self.commit(revision).as_deref() == Some(commit) {
            return Ok(());
        }
        replace(&self.inside("refs", revision)?, commit.as_bytes())
    }

    /// Puts a blob into a snapshot under its path.
    pub(super) fn link(&self, commit: &str, path: &str, hash: &str) -> Result<()> {
        let place = self.inside("snapshots", &format!("{commit}/{path}"))?;
        let blob = self.blob(hash);
        let up = path.split('/').count() + 1;
        let target: PathBuf = std::iter::repeat_n("..", up)
            .chain(["blobs", hash])
            .collect();
        if fs::read_link(&place).is_ok_and(|found| found == target) {
            return Ok(());
        }
        create_folder_of(&place)?;
        let new = beside(&place, ".tmp");
        let linked = symbolic_link(&target, &new).or_else(|_| {
            // No links here (Windows without its developer mode): a second name, or a copy.
            fs::hard_link(&blob, &new).or_else(|_| copy(&blob, &new))
        });
        linked
            .and_then(|()| fs::rename(&new, &place))
            .map_err(|error| {
                let _ = fs::remove_file(&new);
                Error::io("create", &place, error)
            })
    }

    /// Takes the lock of a blob, which `huggingface_hub` heeds too.
    pub(super) fn lock(
        &self,
        hash: &str,
        cancel: &CancelToken,
        transfer: &dyn Transfer,
    ) -> Result<FileLock> {
        let folder = self.base.file_name().unwrap_or_default();
        let locks = self.cache.join(".locks").join(folder);
        lock(&locks.join(format!("{hash}.lock")), cancel, transfer)
    }

    /// Every file of a snapshot, by its path inside the repository.
    pub(super) fn files(&self, commit: &str) -> Vec<String> {
        let snapshot = self.snapshot(commit);
        let entries = WalkDir::new(&snapshot).min_depth(1).into_iter().flatten();
        // The Hub has names in UTF-8 alone.
        let files = entries
            .filter(|entry| !entry.file_type().is_dir() && entry.file_name().to_str().is_some());
        let mut files: Vec<String> = files
            .map(|entry| name_in(&snapshot, entry.path()))
            .filter(|path| !is_hidden(path))
            .collect();
        files.sort();
        files
    }

    /// The hash that a snapshot's file is linked to.
    pub(super) fn linked(&self, commit: &str, path: &str) -> Option<String> {
        let target = fs::read_link(self.snapshot(commit).join(path)).ok()?;
        let name = target.file_name()?.to_str()?.to_owned();
        let folder = target.parent()?.file_name()?;
        (folder == "blobs").then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SilentTransfer;

    const HASH: &str = "ce013625030ba8dba906f756967f9e9ca394464a";

    fn store() -> (tempfile::TempDir, CachedRepository) {
        let folder = tempfile::tempdir().unwrap();
        let store = CachedRepository::new(folder.path(), "org/name");
        (folder, store)
    }

    #[test]
    fn files_are_linked_as_python_links_them() {
        let (folder, store) = store();
        let commit = "1".repeat(40);
        fs::create_dir_all(store.blob(HASH).parent().unwrap()).unwrap();
        fs::write(store.blob(HASH), "hello\n").unwrap();
        for path in ["config.json", "onnx/deep/model.onnx"] {
            store.link(&commit, path, HASH).unwrap();
            store.link(&commit, path, HASH).unwrap();
            let place = folder
                .path()
                .join("models--org--name/snapshots")
                .join(&commit)
                .join(path);
            assert_eq!(fs::read_to_string(place).unwrap(), "hello\n");
            assert_eq!(store.linked(&commit, path).as_deref(), Some(HASH));
        }
        assert_eq!(
            store.files(&commit),
            ["config.json", "onnx/deep/model.onnx"]
        );
    }

    #[test]
    fn a_link_to_other_content_is_replaced() {
        let (_folder, store) = store();
        let commit = "1".repeat(40);
        let other = "0".repeat(40);
        fs::create_dir_all(store.blob(HASH).parent().unwrap()).unwrap();
        fs::write(store.blob(HASH), "new").unwrap();
        fs::write(store.blob(&other), "old").unwrap();
        store.link(&commit, "a", &other).unwrap();
        store.link(&commit, "a", HASH).unwrap();
        assert_eq!(
            fs::read_to_string(store.snapshot(&commit).join("a")).unwrap(),
            "new"
        );
    }

    #[test]
    fn a_copy_never_goes_through_a_link() {
        let (_folder, store) = store();
        let blob = store.blob(HASH);
        fs::create_dir_all(blob.parent().unwrap()).unwrap();
        fs::write(&blob, "content").unwrap();
        let link = blob.with_file_name("link");
        symbolic_link(Path::new(HASH), &link).unwrap();
        assert!(copy(&blob, &link).is_err());
        assert_eq!(fs::read_to_string(&blob).unwrap(), "content");
        copy(&blob, &blob.with_file_name("copy")).unwrap();
        assert_eq!(
            fs::read_to_string(blob.with_file_name("copy")).unwrap(),
            "content"
        );
    }

    #[test]
    fn branches_are_remembered_and_commits_are_themselves() {
        let (_folder, store) = store();
        let commit = "a".repeat(40);
        assert_eq!(store.commit("main"), None);
        store.put_ref("main", &commit).unwrap();
        store.put_ref("refs/pr/1", &commit).unwrap();
        store.put_ref(&commit, &commit).unwrap();
        assert_eq!(store.commit("main").as_deref(), Some(commit.as_str()));
        assert_eq!(store.commit("refs/pr/1").as_deref(), Some(commit.as_str()));
        assert_eq!(store.commit(&commit), Some(commit));
    }

    #[test]
    fn nothing_leads_out_of_the_repository() {
        let (folder, store) = store();
        let commit = "a".repeat(40);
        let outside = folder.path().join("outside");
        for path in [
            "../../outside",
            outside.to_str().unwrap(),
            "a/../../../outside",
        ] {
            assert!(store.put_ref(path, &commit).is_err());
            assert!(store.put_absent(&commit, path).is_err());
            assert!(store.link(&commit, path, HASH).is_err());
            assert!(store.put_listing(path, &Listing::default()).is_err());
            fs::write(&outside, &commit).unwrap();
            assert_eq!(store.commit(path), None);
            fs::remove_file(&outside).unwrap();
        }
        for stored in ["..", ".", "../../x", "a/b", "", "a\u{1b}b"] {
            let place = store.inside("refs", "main").unwrap();
            create_folder_of(&place).unwrap();
            fs::write(place, stored).unwrap();
            assert_eq!(store.commit("main"), None, "{stored}");
        }
    }

    #[test]
    fn a_lock_is_waited_for_until_cancelled() {
        let (_folder, store) = store();
        let cancel = CancelToken::new();
        let held = store.lock(HASH, &cancel, &SilentTransfer).unwrap();
        assert!(held.is_exclusive());
        cancel.cancel();
        let error = store.lock(HASH, &cancel, &SilentTransfer).unwrap_err();
        assert!(error.is_interrupted());
        drop(held);
        let again = store.lock(HASH, &CancelToken::new(), &SilentTransfer);
        assert!(again.unwrap().is_exclusive());
    }
}

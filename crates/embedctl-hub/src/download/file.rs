//! One file of a model: from the cache or the Hub, verified, beside its place and then in it.

use std::fs;
use std::io;
use std::path::Path;

use crate::DownloadedFile;
use crate::FileOutcome;
use crate::digest::{FileSums, sums};
use crate::fetch::{self, FetchedContent, difference};
use crate::files;
use crate::id::is_path;
use crate::listing::{self, HubFile};
use crate::local::ModelFolder;
use crate::offline;
use crate::store::CachedRepository;
use embedctl_common::error::{Error, Result};
use embedctl_common::small_file;
use embedctl_common::threads::locked;

use super::{Download, FileDestination};

impl Download<'_> {
    /// Brings one file here, unless it is, and verifies it.
    pub(super) fn get(&self, path: &str) -> Result<DownloadedFile> {
        // The name may come from a lock file, the Hub, a graph or a caller of the library.
        if !is_path(path) {
            let reason = format!("'{path}' is not a path inside a repository");
            return Err(Error::model(&self.name, reason));
        }
        let mut remote = locked(&self.listing).get(path).cloned().unwrap_or_default();
        if remote.digest.is_none() && self.client.settings().offline.is_none() {
            let told = listing::inspect(
                self.client,
                &self.wanted.model,
                &self.commit,
                path,
                self.transfer,
            )?;
            remote.size = remote.size.or(told.size);
            remote.digest = told.digest;
            let mut listing = locked(&self.listing);
            listing.0.insert(path.to_owned(), remote.clone());
        }
        let file = match &self.place {
            FileDestination::Cache(store) => self.get_into_cache(store, path, &remote)?,
            FileDestination::Folder(folder) => self.get_into_folder(folder, path, &remote)?,
        };
        if let Some(locked) = &self.wanted.locked {
            locked.verify(&self.name, &file)?;
        }
        let outcome = if file.fetched {
            FileOutcome::Fetched
        } else {
            FileOutcome::Verified
        };
        self.transfer.ended(path, file.size, outcome);
        Ok(file)
    }

    fn get_into_cache(
        &self,
        store: &CachedRepository,
        path: &str,
        remote: &HubFile,
    ) -> Result<DownloadedFile> {
        // Content of unknown hash is named by its commit and path until it is here.
        let hash = remote.digest.as_ref().map_or_else(
            || unnamed(&self.commit, path),
            |digest| digest.as_str().to_owned(),
        );
        let blob = store.blob(&hash);
        let lock = store.lock(&hash, self.client.cancel(), self.transfer);
        let own = store.snapshot(&self.commit).join(path);
        for here in [&blob, &own] {
            if let Some(sums) = self.verified(here, path, remote)? {
                return Ok(DownloadedFile {
                    path: path.to_owned(),
                    location: here.clone(),
                    size: sums.size,
                    sha256: sums.sha256,
                    blob: (here == &blob).then(|| hash.clone()),
                    fetched: false,
                });
            }
        }
        // What is whole in a cache that cannot be written needs no lock.
        let _lock = lock?;
        let sums = self.fetch(path, remote, &store.incomplete(&hash), &blob)?;
        Ok(DownloadedFile {
            path: path.to_owned(),
            location: blob,
            size: sums.size,
            sha256: sums.sha256,
            blob: Some(hash),
            fetched: true,
        })
    }

    fn get_into_folder(
        &self,
        folder: &ModelFolder,
        path: &str,
        remote: &HubFile,
    ) -> Result<DownloadedFile> {
        let mut location = folder.place(path)?;
        let mut fetched = false;
        let sums = if let Some(sums) = self.verified_in_folder(folder, &location, path, remote)? {
            sums
        } else {
            location = folder.staged(path);
            if let Some(sums) = self.staged(&location, remote)? {
                sums
            } else if let Some(sums) = self.copied_from_cache(folder, path, remote, &location)? {
                sums
            } else {
                fetched = true;
                self.fetch(path, remote, &folder.incomplete(path), &location)?
            }
        };
        Ok(DownloadedFile {
            path: path.to_owned(),
            location,
            size: sums.size,
            sha256: sums.sha256,
            blob: remote
                .digest
                .as_ref()
                .map(|digest| digest.as_str().to_owned()),
            fetched,
        })
    }

    /// The hashes of a correct file that is in its place. A wrong one stays until it can be replaced:
    /// without it, the others would be taken for another model.
    fn verified_in_folder(
        &self,
        folder: &ModelFolder,
        place: &Path,
        path: &str,
        remote: &HubFile,
    ) -> Result<Option<FileSums>> {
        let Some(expected) = folder.expected(path, remote, &self.commit) else {
            return Ok(None);
        };
        if !place.is_file() {
            return Ok(None);
        }
        let found = self.sums(place, &expected)?;
        let Some(wrong) = difference(&expected, &found) else {
            return Ok(Some(found));
        };
        // Else it is an older commit's.
        if folder.promises(path, &self.commit) {
            self.replaceable(path, &wrong)?;
        }
        Ok(None)
    }

    /// The hashes of content that an earlier run has verified but not moved into place, if it is known to be the same.
    fn staged(&self, staged: &Path, remote: &HubFile) -> Result<Option<FileSums>> {
        if !staged.is_file() {
            return Ok(None);
        }
        if remote.digest.is_some() {
            let found = self.sums(staged, remote)?;
            if difference(remote, &found).is_none() {
                return Ok(Some(found));
            }
        }
        fs::remove_file(staged).map_err(|error| Error::io("remove", staged, error))?;
        Ok(None)
    }

    /// Copies a file from the cache, so that it is not fetched again.
    fn copied_from_cache(
        &self,
        folder: &ModelFolder,
        path: &str,
        remote: &HubFile,
        place: &Path,
    ) -> Result<Option<FileSums>> {
        let Some(digest) = &remote.digest else {
            return Ok(None);
        };
        let blob = self.store.blob(digest.as_str());
        if !blob.is_file() {
            return Ok(None);
        }
        let incomplete = folder.incomplete(path);
        files::create_folder_of(&incomplete)?;
        let write = |error| Error::io("write", &incomplete, error);
        let mut copy = files::open_to_write(&incomplete).map_err(write)?;
        copy.set_len(0).map_err(write)?;
        let mut blob = small_file::open(&blob).map_err(|error| Error::io("read", &blob, error))?;
        io::copy(&mut blob, &mut copy).map_err(write)?;
        drop(copy);
        let found = self.sums(&incomplete, remote)?;
        if difference(remote, &found).is_some() {
            fs::remove_file(&incomplete)
                .map_err(|error| Error::io("remove", &incomplete, error))?;
            return Ok(None);
        }
        fetch::publish(&incomplete, place)?;
        Ok(Some(found))
    }

    /// The hashes of a correct file that is here. A wrong one is reported and removed
    /// unless nothing can replace it.
    fn verified(&self, place: &Path, path: &str, remote: &HubFile) -> Result<Option<FileSums>> {
        if !place.is_file() {
            return Ok(None);
        }
        let found = self.sums(place, remote)?;
        let Some(wrong) = difference(remote, &found) else {
            return Ok(Some(found));
        };
        self.replaceable(path, &wrong)?;
        // The link is removed, not its target, which may belong to others.
        fs::remove_file(place).map_err(|error| Error::io("remove", place, error))?;
        Ok(None)
    }

    /// Says that a file is damaged, and whether it can be had again.
    fn replaceable(&self, path: &str, wrong: &str) -> Result<()> {
        if let Some(by) = self.client.settings().offline {
            return Err(Error::model(
                &self.name,
                format!("{path} is damaged ({wrong}), but {by} forbids the network"),
            )
            .with_remedy(format!(
                "run `embedctl download {}` with a network to fetch it again",
                self.name
            )));
        }
        self.transfer
            .warning(&format!("{path} is damaged ({wrong}): it is fetched again"));
        Ok(())
    }

    fn sums(&self, place: &Path, remote: &HubFile) -> Result<FileSums> {
        sums(place, remote.digest.as_ref(), self.client.cancel())
            .map_err(|error| Error::io("read", place, error))?
            .ok_or(Error::interrupted())
    }

    fn fetch(
        &self,
        path: &str,
        remote: &HubFile,
        incomplete: &Path,
        place: &Path,
    ) -> Result<FileSums> {
        if let Some(by) = self.client.settings().offline {
            return Err(offline(
                &self.wanted.model,
                self.client.settings(),
                by,
                &[path],
            ));
        }
        let repository = &self.wanted.model.repository;
        let url = listing::address(self.client, repository, &self.commit, path);
        let content = FetchedContent {
            model: &self.name,
            path,
            url: &url,
            remote,
        };
        fetch::fetch(self.client, &content, incomplete, place, self.transfer)
    }
}

/// The name of partial content whose hash is not known.
fn unnamed(commit: &str, path: &str) -> String {
    format!("{commit}-{}", path.replace('/', "--"))
}

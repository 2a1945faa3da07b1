//! Resolves a revision to a commit and its files: from the Hub, a lock file, or the cache.

use super::client::Client;
use super::digest::Digest;
use super::listing::{self, HubFile, Listing};
use super::store::CachedRepository;
use super::{ModelFilesRequest, ModelId, Transfer, offline};
use embedctl_common::error::{Error, Result};

/// A commit and its files, from wherever they can be had.
pub(super) struct Revision {
    pub(super) commit: String,
    pub(super) listing: Listing,
    /// Whether the list holds all of the repository's files.
    pub(super) whole: bool,
}

impl Revision {
    pub(super) fn whole(commit: String, listing: Listing) -> Self {
        Self {
            commit,
            listing,
            whole: true,
        }
    }

    pub(super) fn find(
        client: &Client,
        store: &CachedRepository,
        wanted: &ModelFilesRequest,
        transfer: &dyn Transfer,
    ) -> Result<Self> {
        let model = &wanted.model;
        ModelId::new(&model.repository, &model.revision).map_err(Error::usage)?;
        if let Some(locked) = &wanted.locked {
            return Ok(Self::whole(locked.revision.clone(), locked.listing()));
        }
        let settings = client.settings();
        if let Some(by) = settings.offline {
            return Self::cached(store, &model.revision)
                .ok_or_else(|| offline(model, settings, by, &[]));
        }
        if model.is_pinned()
            && let Some(listing) = store.listing(&model.revision)
        {
            return Ok(Self::whole(model.revision.clone(), listing));
        }
        let (commit, listing) = listing::describe(client, model, transfer)?;
        Ok(Self::whole(commit, listing))
    }

    /// The revision as the cache knows it, without the network.
    pub(super) fn cached(store: &CachedRepository, revision: &str) -> Option<Self> {
        let commit = store.commit(revision)?;
        if !store.snapshot(&commit).is_dir() {
            return None;
        }
        if let Some(listing) = store.listing(&commit) {
            return Some(Self::whole(commit, listing));
        }
        // Files are linked to blobs that are called by their hashes.
        let files = store.files(&commit).into_iter().map(|path| {
            let digest = store
                .linked(&commit, &path)
                .and_then(|name| Digest::parse(&name));
            (path, HubFile { size: None, digest })
        });
        let listing = Listing(files.collect());
        Some(Self {
            commit,
            listing,
            whole: false,
        })
    }
}

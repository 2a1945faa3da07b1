//! Where a model's files are: in a folder, or in the Hub's cache.

use std::path::PathBuf;

use super::ModelName;
use super::options::ModelOptions;
use embedctl_common::error::{Error, Result};
use embedctl_hub::{self as hub, CachedRepository};

/// A model that is here.
pub(super) struct Located {
    pub id: String,
    pub revision: Option<String>,
    pub folder: PathBuf,
}

/// The folder of a model: its own, or its snapshot in the Hub's cache.
pub(super) fn folder(options: &ModelOptions) -> Result<Located> {
    let given = options.model.as_str();
    let id = match ModelName::of(given).map_err(|cause| Error::model(given, cause))? {
        ModelName::Folder(folder) => {
            hub::refuse_incomplete(&folder)?;
            return Ok(Located {
                id: given.to_string(),
                revision: None,
                folder,
            });
        }
        ModelName::Hub(id) => id,
    };
    let cache = options.cache_dir.clone().unwrap_or_else(hub::default_cache);
    let ids = id.meanings();
    let here = ids.iter().find_map(|id| {
        let store = CachedRepository::new(&cache, &id.repository);
        let commit = store
            .commit(&id.revision)
            .unwrap_or_else(|| id.revision.clone());
        let folder = store.snapshot(&commit);
        folder.is_dir().then(|| Located {
            id: id.repository.clone(),
            revision: Some(commit),
            folder,
        })
    });
    here.ok_or_else(|| hub::not_cached(&ids[0], &cache, &[]))
}

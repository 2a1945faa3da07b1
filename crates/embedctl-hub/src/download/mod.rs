//! A whole model: its list of files, fetched several at a time, and in place only when all of them are here.

mod file;
mod streams;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use super::client::{Client, with_client};
use super::list::data_of;
use super::listing::Listing;
use super::local::ModelFolder;
use super::lockfile::{LARGEST, LockedModel};
use super::revision::Revision;
use super::select::{self as selection, FileSelection, MODULES, ModuleFolders};
use super::store::CachedRepository;
use super::{
    Downloaded, DownloadedFile, HubSettings, ModelFilesRequest, Transfer, not_cached, offline,
};
use crate::onnx_file::OnnxChoice;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{MODEL_FILE, PRECISION};
use embedctl_common::small_file;
use embedctl_common::threads::locked;
use embedctl_onnx::graph::Graph;

/// Fetches the missing files of a request, and verifies all of its files.
///
/// A pinned revision that is here whole is verified without asking the network.
///
/// # Errors
/// If a file cannot be fetched. A model that was complete before stays as it was.
pub fn download(
    settings: &HubSettings,
    wanted: &ModelFilesRequest,
    transfer: &dyn Transfer,
    cancel: &CancelToken,
) -> Result<Downloaded> {
    with_client(settings, cancel, |client| {
        Download::new(client, wanted, transfer)?.run()
    })
}

/// Where the files go.
enum FileDestination {
    Cache(CachedRepository),
    Folder(ModelFolder),
}

/// A download at work: the commit and its files are known.
struct Download<'a> {
    client: &'a Client<'a>,
    wanted: &'a ModelFilesRequest,
    transfer: &'a dyn Transfer,
    /// The model as messages name it.
    name: String,
    store: CachedRepository,
    place: FileDestination,
    commit: String,
    // Grows where the Hub's list has no sizes and hashes, and they are asked for one by one.
    // Only whole entries are ever put in.
    listing: Mutex<Listing>,
    /// Whether the list is the Hub's (or a stored copy), and not just the cache's files.
    whole_list: bool,
}

impl<'a> Download<'a> {
    fn new(
        client: &'a Client<'a>,
        wanted: &'a ModelFilesRequest,
        transfer: &'a dyn Transfer,
    ) -> Result<Self> {
        let settings = client.settings();
        let store = CachedRepository::new(&settings.cache, &wanted.model.repository);
        let Revision {
            commit,
            listing,
            whole,
        } = Revision::find(client, &store, wanted, transfer)?;
        let place = match &wanted.local_dir {
            Some(folder) => {
                let coming = |path: &str| listing.contains(path);
                let model = &wanted.model;
                FileDestination::Folder(ModelFolder::open(
                    folder,
                    model,
                    coming,
                    client.cancel(),
                    transfer,
                )?)
            }
            None => FileDestination::Cache(store.clone()),
        };
        Ok(Self {
            client,
            wanted,
            transfer,
            name: wanted.model.to_string(),
            store,
            place,
            commit,
            listing: Mutex::new(listing),
            whole_list: whole,
        })
    }

    fn run(self) -> Result<Downloaded> {
        let mut files = BTreeMap::new();
        let selection = match &self.wanted.locked {
            Some(locked) => FileSelection {
                onnx: locked.onnx.clone(),
                checkpoint: Vec::new(),
                others: (locked.files.iter().map(|file| file.path.clone()))
                    .filter(|path| Some(path) != locked.onnx.as_ref())
                    .collect(),
            },
            None => self.select(&mut files)?,
        };
        let known: Vec<String> = selection
            .paths()
            .map(str::to_owned)
            .filter(|path| !files.contains_key(path))
            .collect();
        self.get_all(&known, &mut files)?;
        if let Some(onnx) = &selection.onnx {
            let external = self.external(onnx, &files)?;
            self.get_all(&external, &mut files)?;
        }
        let folder = self.put_in_place(&files, &selection)?;
        Ok(Downloaded {
            model: self.wanted.model.repository.clone(),
            revision: self.commit.clone(),
            files: files
                .into_values()
                .map(|file| DownloadedFile {
                    location: folder.join(&file.path),
                    ..file
                })
                .collect(),
            onnx: selection.onnx,
            folder,
        })
    }

    /// Decides which files are wanted; `modules.json` is fetched for it, and the file of a Router.
    fn select(&self, files: &mut BTreeMap<String, DownloadedFile>) -> Result<FileSelection> {
        let listing = locked(&self.listing).clone();
        let paths: Vec<&str> = listing.paths().collect();
        let mut fetched = |name: &str| {
            self.get_all(&[name.to_owned()], files)?;
            let path = &files[name].location;
            small_file::read(path, LARGEST).map_err(|error| Error::io("read", path, error))
        };
        let mut layout = ModuleFolders::default();
        if listing.contains(MODULES) {
            layout = ModuleFolders::read(&self.name, &fetched(MODULES)?)?;
        }
        if let Some(router) = layout.router_file(&paths) {
            layout = layout.with_routes(&self.name, router, &fetched(router)?)?;
        }
        // config.json tells the kind of a checkpoint.
        let config = selection::config_path(&layout);
        let judged = self.wanted.choice.weights.knows().is_some() && listing.contains(&config);
        if judged {
            self.get_all(std::slice::from_ref(&config), files)?;
        }
        let config = match files.get(&config).filter(|_| judged) {
            Some(file) => selection::config(&file.location),
            None => serde_json::Value::Null,
        };
        let choice = &self.wanted.choice;
        let mut selection = match selection::select(&self.name, &paths, &layout, choice, &config) {
            Ok(selection) => selection,
            // A caller that wants all files may want them for another program.
            Err(_) if self.wanted.all && choice.onnx == OnnxChoice::default() => {
                FileSelection::default()
            }
            Err(_) if !self.whole_list => {
                return Err(self.absent(&["weights of the wanted kind"]));
            }
            Err(error) => return Err(error),
        };
        if self.wanted.all {
            let weights: Vec<&str> = selection.weights().collect();
            let others = paths.iter().filter(|path| !weights.contains(path));
            selection.others = others.map(|&path| path.to_owned()).collect();
        } else if let Some(onnx) = selection.onnx.clone() {
            // Weights beside the ONNX file go by its name; fetched along with it rather than after it.
            selection.others.extend(data_of(&onnx, &paths));
        }
        let weights: Vec<&str> = selection.weights().collect();
        let extra = self
            .wanted
            .extra
            .iter()
            .filter(|path| listing.contains(path) && !weights.contains(&path.as_str()));
        let extra: Vec<String> = extra.cloned().collect();
        selection.others.extend(extra);
        selection.others.sort_unstable();
        selection.others.dedup();
        Ok(selection)
    }

    /// The files of weights that an ONNX file names, as far as they are not here yet.
    fn external(
        &self,
        onnx: &str,
        files: &BTreeMap<String, DownloadedFile>,
    ) -> Result<Vec<String>> {
        let graph = Graph::read(&files[onnx].location)?;
        let mut missing = Vec::new();
        for path in graph.external_names(onnx) {
            if files.contains_key(&path) {
                continue;
            }
            if !locked(&self.listing).contains(&path) {
                if !self.whole_list {
                    return Err(self.absent(&[&path]));
                }
                return Err(Error::model(
                    &self.name,
                    format!("{onnx} keeps weights in {path}, which the repository does not have"),
                )
                .with_remedy(format!(
                    "take another file with {MODEL_FILE} or {PRECISION}"
                )));
            }
            missing.push(path);
        }
        Ok(missing)
    }

    /// Whether a file is here, whatever its content.
    fn is_here(&self, path: &str) -> bool {
        let blob = || {
            let listing = locked(&self.listing);
            let digest = listing.get(path)?.digest.clone()?;
            Some(self.store.blob(digest.as_str()))
        };
        let in_cache = || {
            self.store.snapshot(&self.commit).join(path).is_file()
                || blob().is_some_and(|blob| blob.is_file())
        };
        match &self.place {
            FileDestination::Folder(folder) => {
                folder.staged(path).is_file()
                    || folder.place(path).is_ok_and(|place| place.is_file())
                    || in_cache()
            }
            FileDestination::Cache(_) => in_cache(),
        }
    }

    /// Makes everything appear at once, as far as file systems allow: the weights, without which no model
    /// is taken for one, come last.
    fn put_in_place(
        &self,
        files: &BTreeMap<String, DownloadedFile>,
        selection: &FileSelection,
    ) -> Result<PathBuf> {
        match &self.place {
            FileDestination::Folder(folder) => {
                let onnx = selection.onnx.as_deref();
                folder.finish(&self.wanted.model, &self.commit, onnx, files)?;
                Ok(folder.path().to_path_buf())
            }
            FileDestination::Cache(store) => {
                let weights: Vec<&str> = selection.weights().collect();
                let mut order: Vec<&DownloadedFile> = files.values().collect();
                order.sort_by_key(|file| weights.iter().position(|path| *path == file.path));
                if self.whole_list && self.wanted.locked.is_none() {
                    store.put_listing(&self.commit, &locked(&self.listing))?;
                }
                for file in order {
                    if let Some(hash) = &file.blob {
                        store.link(&self.commit, &file.path, hash)?;
                    }
                }
                if let Some(locked) = &self.wanted.locked {
                    self.remember_lock(store, locked)?;
                } else if self.client.settings().offline.is_none() {
                    store.put_ref(&self.wanted.model.revision, &self.commit)?;
                }
                Ok(store.snapshot(&self.commit))
            }
        }
    }

    /// Lets later runs find the files of a lock file under the name that was requested then. A branch
    /// that already stands for something is not moved.
    fn remember_lock(&self, store: &CachedRepository, locked: &LockedModel) -> Result<()> {
        // The lock was made from the Hub's whole list.
        if !locked.files.iter().any(|file| file.path == MODULES) {
            store.put_absent(&self.commit, MODULES)?;
        }
        if store.commit(&locked.requested).is_none() {
            store.put_ref(&locked.requested, &self.commit)?;
        }
        Ok(())
    }

    fn absent(&self, missing: &[&str]) -> Error {
        let settings = self.client.settings();
        match settings.offline {
            Some(by) => offline(&self.wanted.model, settings, by, missing),
            None => not_cached(&self.wanted.model, &settings.cache, missing),
        }
    }
}

//! A whole model: what it consists of, fetched several files at a time, in place only when all of it is here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;

use crossbeam_channel::unbounded;

use super::client::{Client, with_client};
use super::digest::{Digest, Sums, sums};
use super::fetch::{self, Content, difference};
use super::list::data_of;
use super::listing::{self, Listing, Remote};
use super::local::Folder;
use super::lockfile::LockedModel;
use super::select::{self as selection, Layout, MODULES, Selection};
use super::source::Source;
use super::store::{self, Store};
use super::{Downloaded, DownloadedFile, Outcome, Settings, Transfer, Wanted, not_cached, offline};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::model::graph::Graph;
use crate::model::onnx_file::OnnxChoice;

/// Files fetched at a time.
const STREAMS: usize = 4;

/// Fetches what is wanted of a model, as far as it is not here, and verifies all of it.
///
/// A pinned revision that is here whole is verified without asking the network.
///
/// # Errors
/// If the model cannot be had whole. What was complete before stays as it was.
pub fn download(
    settings: &Settings,
    wanted: &Wanted,
    transfer: &dyn Transfer,
    cancel: &CancelToken,
) -> Result<Downloaded> {
    with_client(settings, cancel, |client| {
        Download::new(client, wanted, transfer)?.run()
    })
}

/// Where the files go.
enum Place {
    Cache(Store),
    Folder(Folder),
}

/// A download at work: the commit and its files are known.
struct Download<'a> {
    client: &'a Client<'a>,
    wanted: &'a Wanted,
    transfer: &'a dyn Transfer,
    /// The model as messages name it.
    name: String,
    store: Store,
    place: Place,
    commit: String,
    // Grows where the Hub's list has no sizes and hashes, and they are asked for one by one.
    listing: Mutex<Listing>,
    /// Whether the list is the Hub's (or a stored copy), not just what the cache holds.
    whole_list: bool,
}

impl<'a> Download<'a> {
    fn new(client: &'a Client<'a>, wanted: &'a Wanted, transfer: &'a dyn Transfer) -> Result<Self> {
        let settings = client.settings();
        let store = Store::new(&settings.cache, &wanted.model.repository);
        let Source {
            commit,
            listing,
            whole,
        } = Source::find(client, &store, wanted, transfer)?;
        let place = match &wanted.local_dir {
            Some(folder) => Place::Folder(Folder::new(folder)?),
            None => Place::Cache(store.clone()),
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
            Some(locked) => Selection {
                onnx: locked.onnx.clone(),
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
        let folder = self.put_in_place(&files, selection.onnx.as_deref())?;
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

    /// Decides which files are wanted; `modules.json` is fetched for it.
    fn select(&self, files: &mut BTreeMap<String, DownloadedFile>) -> Result<Selection> {
        let listing = self.listing().clone();
        let paths: Vec<&str> = listing.paths().collect();
        let layout = if listing.contains(MODULES) {
            self.get_all(&[MODULES.to_owned()], files)?;
            let path = &files[MODULES].location;
            let modules = fs::read(path).map_err(|error| Error::io("read", path, error))?;
            Layout::read(&self.name, &modules)?
        } else {
            Layout::default()
        };
        let mut selection = match selection::select(&self.name, &paths, &layout, &self.wanted.onnx)
        {
            Ok(selection) => selection,
            // Whoever wants all of it may want it for something else.
            Err(_) if self.wanted.all && self.wanted.onnx == OnnxChoice::default() => Selection {
                onnx: None,
                others: Vec::new(),
            },
            Err(_) if !self.whole_list => {
                return Err(self.absent(&["an ONNX file of the wanted kind"]));
            }
            Err(error) => return Err(error),
        };
        if self.wanted.all {
            let onnx = selection.onnx.as_deref();
            let others = paths.iter().filter(|&&path| Some(path) != onnx);
            selection.others = others.map(|&path| path.to_owned()).collect();
        } else if let Some(onnx) = selection.onnx.clone() {
            // Weights beside the ONNX file go by its name; fetched along with it rather than after it.
            selection.others.extend(data_of(&onnx, &paths));
        }
        let extra = self.wanted.extra.iter();
        selection.others.extend(
            extra
                .filter(|path| listing.contains(path) && Some(*path) != selection.onnx.as_ref())
                .cloned(),
        );
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
        let folder = onnx.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut missing = Vec::new();
        for external in &graph.external {
            let name = external.to_string_lossy().replace('\\', "/");
            let name = name.trim_start_matches("./");
            let path = if folder.is_empty() {
                name.to_owned()
            } else {
                format!("{folder}/{name}")
            };
            if files.contains_key(&path) {
                continue;
            }
            if !self.listing().contains(&path) {
                if !self.whole_list {
                    return Err(self.absent(&[&path]));
                }
                return Err(Error::model(
                    &self.name,
                    format!(
                        "{onnx} keeps weights in {path}, which the repository does not have; take another file with \
                         --model-file or --precision"
                    ),
                ));
            }
            missing.push(path);
        }
        Ok(missing)
    }

    /// Brings files here, several at a time, the largest first.
    fn get_all(
        &self,
        paths: &[String],
        files: &mut BTreeMap<String, DownloadedFile>,
    ) -> Result<()> {
        let mut queue: Vec<(u64, &String)> = {
            let listing = self.listing();
            let size = |path: &String| listing.get(path).and_then(|file| file.size).unwrap_or(0);
            paths.iter().map(|path| (size(path), path)).collect()
        };
        if let Some(by) = self.client.settings().offline {
            let missing: Vec<&str> = paths
                .iter()
                .map(String::as_str)
                .filter(|path| !self.is_here(path))
                .collect();
            if !missing.is_empty() {
                let id = &self.wanted.model;
                // None of it is here: that is said in fewer words.
                let missing = if missing.len() == paths.len() && files.is_empty() {
                    Vec::new()
                } else {
                    missing
                };
                return Err(offline(id, self.client.settings(), by, &missing));
            }
        }
        queue.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
        self.transfer
            .planned(queue.len(), queue.iter().map(|(size, _)| size).sum());
        let (to_do, jobs) = unbounded();
        for group in self.by_content(queue.iter().map(|(_, path)| path.as_str())) {
            // The channel has no limit and both its ends are here.
            let _ = to_do.send(group);
        }
        drop(to_do);
        let (report, results) = unbounded();
        let mut failure = None;
        thread::scope(|scope| {
            for _ in 0..STREAMS.min(queue.len()) {
                let (jobs, report) = (jobs.clone(), report.clone());
                scope.spawn(move || {
                    for path in jobs.into_iter().flatten() {
                        if self.client.cancel().is_cancelled() {
                            break;
                        }
                        let result = self.get(path);
                        if result.is_err() {
                            self.transfer.ended(path, 0, Outcome::Failed);
                        }
                        let _ = report.send(result);
                    }
                });
            }
            drop(report);
            for result in &results {
                match result {
                    Ok(file) => {
                        files.insert(file.path.clone(), file);
                    }
                    Err(error) if failure.is_none() => {
                        failure = Some(error);
                        // The others have no use any more.
                        self.client.cancel().cancel();
                        self.client.stop();
                    }
                    Err(_) => {}
                }
            }
        });
        match failure {
            Some(error) => Err(error),
            None if self.client.cancel().is_cancelled() => Err(Error::Interrupted),
            None => Ok(()),
        }
    }

    /// Paths in groups of the same content: one blob, which one stream brings.
    fn by_content<'p>(&self, paths: impl Iterator<Item = &'p str>) -> Vec<Vec<&'p str>> {
        let listing = self.listing();
        let mut groups: Vec<(Option<&Digest>, Vec<&str>)> = Vec::new();
        for path in paths {
            let digest = listing.get(path).and_then(|file| file.digest.as_ref());
            let known = groups
                .iter_mut()
                .find(|(other, _)| digest.is_some() && *other == digest);
            match known {
                Some((_, group)) => group.push(path),
                None => groups.push((digest, vec![path])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Brings one file here, unless it is, and verifies it.
    fn get(&self, path: &str) -> Result<DownloadedFile> {
        let mut remote = self.listing().get(path).cloned().unwrap_or_default();
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
            let mut listing = self.listing();
            listing.0.insert(path.to_owned(), remote.clone());
        }
        let file = match &self.place {
            Place::Cache(store) => self.get_into_cache(store, path, &remote)?,
            Place::Folder(folder) => self.get_into_folder(folder, path, &remote)?,
        };
        if let Some(locked) = &self.wanted.locked {
            locked.verify(&self.name, &file)?;
        }
        let outcome = if file.fetched {
            Outcome::Fetched
        } else {
            Outcome::Verified
        };
        self.transfer.ended(path, file.size, outcome);
        Ok(file)
    }

    fn get_into_cache(&self, store: &Store, path: &str, remote: &Remote) -> Result<DownloadedFile> {
        // Content whose hash nobody tells is called by what it is for until it is here.
        let hash = remote.digest.as_ref().map_or_else(
            || unnamed(&self.commit, path),
            |digest| digest.as_str().to_owned(),
        );
        let blob = store.blob(&hash);
        let _lock = store.lock(&hash, self.client.cancel(), self.transfer)?;
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
        folder: &Folder,
        path: &str,
        remote: &Remote,
    ) -> Result<DownloadedFile> {
        let place = folder.place(path);
        let _lock = store::lock(&folder.lock(path), self.client.cancel(), self.transfer)?;
        let mut fetched = false;
        let sums = if let Some(sums) = self.verified(&place, path, remote)? {
            sums
        } else if let Some(sums) = self.copied_from_cache(folder, path, remote, &place)? {
            sums
        } else {
            fetched = true;
            self.fetch(path, remote, &folder.incomplete(path), &place)?
        };
        Ok(DownloadedFile {
            path: path.to_owned(),
            location: place,
            size: sums.size,
            sha256: sums.sha256,
            blob: remote
                .digest
                .as_ref()
                .map(|digest| digest.as_str().to_owned()),
            fetched,
        })
    }

    /// What the cache holds need not be fetched again.
    fn copied_from_cache(
        &self,
        folder: &Folder,
        path: &str,
        remote: &Remote,
        place: &Path,
    ) -> Result<Option<Sums>> {
        let Some(digest) = &remote.digest else {
            return Ok(None);
        };
        let blob = self.store.blob(digest.as_str());
        if !blob.is_file() {
            return Ok(None);
        }
        let incomplete = folder.incomplete(path);
        store::create_folder_of(&incomplete)?;
        store::create_folder_of(place)?;
        fs::copy(&blob, &incomplete).map_err(|error| Error::io("write", &incomplete, error))?;
        let found = self.sums(&incomplete, remote)?;
        if difference(remote, &found).is_some() {
            fs::remove_file(&incomplete)
                .map_err(|error| Error::io("remove", &incomplete, error))?;
            return Ok(None);
        }
        fetch::publish(&incomplete, place)?;
        Ok(Some(found))
    }

    /// The sums of a file that is here and is what it should be. One that isn't is named, and taken away
    /// unless nothing can replace it.
    fn verified(&self, place: &Path, path: &str, remote: &Remote) -> Result<Option<Sums>> {
        if !place.is_file() {
            return Ok(None);
        }
        let found = self.sums(place, remote)?;
        let Some(wrong) = difference(remote, &found) else {
            return Ok(Some(found));
        };
        if let Some(by) = self.client.settings().offline {
            return Err(Error::model(
                &self.name,
                format!(
                    "{path} is damaged ({wrong}), and {by} forbids the network; run `embedctl download {}` with a \
                     network to fetch it again",
                    self.name
                ),
            ));
        }
        self.transfer
            .warning(&format!("{path} is damaged ({wrong}): it is fetched again"));
        // A link is taken away, not what it leads to: that may belong to others.
        fs::remove_file(place).map_err(|error| Error::io("remove", place, error))?;
        Ok(None)
    }

    fn sums(&self, place: &Path, remote: &Remote) -> Result<Sums> {
        sums(place, remote.digest.as_ref(), self.client.cancel())
            .map_err(|error| Error::io("read", place, error))?
            .ok_or(Error::Interrupted)
    }

    fn fetch(&self, path: &str, remote: &Remote, incomplete: &Path, place: &Path) -> Result<Sums> {
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
        let content = Content {
            model: &self.name,
            path,
            url: &url,
            remote,
        };
        fetch::fetch(self.client, &content, incomplete, place, self.transfer)
    }

    /// Whether a file is here, whatever its content.
    fn is_here(&self, path: &str) -> bool {
        let blob = || {
            let listing = self.listing();
            let digest = listing.get(path)?.digest.clone()?;
            Some(self.store.blob(digest.as_str()))
        };
        let in_cache = || {
            self.store.snapshot(&self.commit).join(path).is_file()
                || blob().is_some_and(|blob| blob.is_file())
        };
        match &self.place {
            Place::Folder(folder) => folder.place(path).is_file() || in_cache(),
            Place::Cache(_) => in_cache(),
        }
    }

    /// Makes everything appear at once, as far as file systems allow: the ONNX file, without which no model
    /// is taken for one, comes last.
    fn put_in_place(
        &self,
        files: &BTreeMap<String, DownloadedFile>,
        onnx: Option<&str>,
    ) -> Result<PathBuf> {
        match &self.place {
            Place::Folder(folder) => {
                folder.finish(&self.wanted.model, &self.commit, onnx, files)?;
                Ok(folder.path().to_path_buf())
            }
            Place::Cache(store) => {
                let last = |path: &str| Some(path) == onnx;
                let mut order: Vec<&DownloadedFile> = files.values().collect();
                order.sort_by_key(|file| last(&file.path));
                if self.whole_list && self.wanted.locked.is_none() {
                    store.put_listing(&self.commit, &self.listing())?;
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

    /// Lets later runs find what a lock file has brought, under the name that was asked for then. A branch
    /// that already stands for something is not moved.
    fn remember_lock(&self, store: &Store, locked: &LockedModel) -> Result<()> {
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

    fn listing(&self) -> std::sync::MutexGuard<'_, Listing> {
        // Only whole entries are ever put in.
        self.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of partial content whose hash is not known.
fn unnamed(commit: &str, path: &str) -> String {
    format!("{commit}-{}", path.replace('/', "--"))
}

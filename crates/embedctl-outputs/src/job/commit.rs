//! A part's commit records its files as they were written. A part without a commit, or with changed files, is proved by
//! its hashes.
//!
//! A commit is believed as long as every file has the size and the version (an object's etag; a file's times and number)
//! that it had when it was written. Otherwise the part is checked: its own record is sealed, and the hashes in its
//! provenance must match its content. Only a checked part gets a new commit.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::names;
use super::part::{Part, PartInfo};
use super::seal::{opened, sealed};
use super::sidecars;
use super::spool::SpoolReader;
use crate::error::{Error, Result};
use crate::output::proof::{HASHES, Proof};
use crate::output::{self, OutputFormat};
use crate::setting::RESUME;
use crate::storage::Readable;
use crate::storage::{Content, Entry, SharedFolder};

/// A part, and its files as they were put.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Commit {
    /// The part.
    #[serde(flatten)]
    pub part: Part,
    /// Its file and those beside it, by name; none in a commit of an older build, which kept no hashes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileState>,
}

/// A file of a part, as it was put.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// A value that changes with its content ([`Entry::version`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl FileState {
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            name: entry.name.clone(),
            bytes: entry.size,
            version: entry.version.clone(),
        }
    }

    /// The files of the part `file` in a sorted listing: files beside a part follow it, since their names begin with its name.
    pub(super) fn all_of(listed: &[Entry], file: &str) -> Vec<Self> {
        let of_part = listed.iter().skip_while(|entry| entry.name != file);
        let of_part = of_part.take_while(|entry| entry.name.starts_with(file));
        of_part.map(Self::of).collect()
    }
}

/// The state of a part without a commit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UncommittedPart {
    /// Its files.
    pub files: Vec<FileState>,
    /// A commit of other files.
    pub stands: Option<Commit>,
}

impl UncommittedPart {
    /// The part, if it was committed since.
    pub fn committed(
        &self,
        storage: &dyn SharedFolder,
        of: (u32, u32),
        file: &str,
    ) -> Result<Option<Part>> {
        let is_new = |now: &Commit| {
            now.part.file == file
                && (Some(now) != self.stands.as_ref() || !now.has_names(&self.files))
        };
        let now = Commit::read(storage, of.0, of.1)?;
        let Some(now) = now.filter(is_new) else {
            return Ok(None);
        };
        let files = FileState::all_of(&storage.list("")?, file);
        Ok(now.is_of(&files).then_some(now.part))
    }

    /// Writes the commit of the checked `part`, unless the run that wrote the part has written one meanwhile. The files
    /// beside the part are written first.
    pub fn commit(&self, storage: &dyn SharedFolder, part: &Part) -> Result<()> {
        let PartInfo { shard, number, .. } = part.info;
        let has_changed = || Ok(Commit::read(storage, shard, number)? != self.stands);
        if has_changed()? {
            return Ok(());
        }
        let mut files = self.files.clone();
        for (name, bytes) in sidecars::found_of(storage, part)? {
            sidecars::put_own(storage, &name, &bytes)?;
            files.retain(|file| file.name != name);
            files.push(FileState {
                version: storage.version(&name)?,
                bytes: bytes.len() as u64,
                name,
            });
        }
        if has_changed()? {
            return Ok(());
        }
        files.sort_by(|one, two| one.name.cmp(&two.name));
        let part = part.clone();
        let text = sealed(&Commit { part, files })?.to_string();
        let name = names::commit(shard, number);
        if !storage.put(&name, Content::Bytes(text.as_bytes()))? && !has_changed()? {
            storage.remove(&name)?;
            storage.put(&name, Content::Bytes(text.as_bytes()))?;
        }
        Ok(())
    }
}

impl Commit {
    /// The commit of a part, as it was written; `None` where there is none, or another.
    pub fn read(storage: &dyn SharedFolder, shard: u32, number: u32) -> Result<Option<Self>> {
        let bytes = storage.read(&names::commit(shard, number))?;
        let value = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(value.and_then(opened))
    }

    /// Writes it, so that later runs need not read the part. The part is this run's own and all of its files are
    /// written; another commit under this name belongs to a part that was removed.
    pub fn put(&self, storage: &dyn SharedFolder) -> Result<()> {
        let info = &self.part.info;
        let name = names::commit(info.shard, info.number);
        let text = sealed(self)?.to_string();
        let text = text.as_bytes();
        while !storage.put(&name, Content::Bytes(text))?
            && storage.read(&name)?.as_deref() != Some(text)
        {
            storage.remove(&name)?;
        }
        Ok(())
    }

    /// Whether the files `listed` have the recorded names, sizes and versions.
    pub fn is_of(&self, listed: &[FileState]) -> bool {
        let is_same = |then: &FileState, now: &FileState| now.version.is_some() && then == now;
        let mut pairs = self.files.iter().zip(listed);
        self.files.len() == listed.len() && pairs.all(|(then, now)| is_same(then, now))
    }

    /// Whether the files `listed` have the recorded names: if not, some may have been written since the listing.
    fn has_names(&self, listed: &[FileState]) -> bool {
        let names = |files: &[FileState]| -> Vec<_> {
            files.iter().map(|file| file.name.clone()).collect()
        };
        names(&self.files) == names(listed)
    }

    /// Whether it is of an older build, which kept no hashes.
    pub fn is_older(&self) -> bool {
        self.files.is_empty()
    }
}

/// A part's record of itself, in its file or beside it. A part without a format is a [`Spool`](super::Spool)'s. Files
/// for beside it may still be stored aside, under the tag of its `commit` if it has one.
pub(super) fn said(
    storage: &dyn SharedFolder,
    entry: &Entry,
    format: Option<OutputFormat>,
    commit: Option<&Commit>,
) -> Result<Part> {
    let name = &entry.name;
    let made = match format {
        // An object that is fetched alone has nothing beside it.
        Some(format) if format.sidecars().contains(&output::PROVENANCE) => {
            let provenance = format!("{name}{}", output::PROVENANCE);
            let mut aside = match commit {
                Some(commit) => sidecars::found_of(storage, &commit.part)?,
                None => sidecars::found(storage, name, None)?,
            }
            .into_iter();
            let beside = match aside.find(|(name, _)| *name == provenance) {
                Some((_, bytes)) => Some(bytes),
                None => storage.read(&provenance)?,
            };
            beside.and_then(|bytes| serde_json::from_slice(&bytes).ok())
        }
        _ => provenance(&storage.file(name)?, format)?,
    };
    let part = made.as_ref().and_then(|made| made.get("part").cloned());
    let info = part.and_then(opened::<PartInfo>);
    let Some((made, info)) = made.as_ref().zip(info) else {
        let why = "does not say which part of an output it is: it is damaged, or from another job";
        return Err(Error::input(storage.place(name), why).with_remedy(format!(
            "restore the file. Or remove it and rerun the original command with {RESUME}, which recreates the part"
        )));
    };
    Ok(Part {
        file: name.clone(),
        bytes: entry.size,
        sha256: hashes(made),
        info,
    })
}

fn provenance(path: &Path, format: Option<OutputFormat>) -> Result<Option<Value>> {
    match format {
        None => Ok(SpoolReader::open(path)?.provenance()),
        Some(format) => output::provenance(&Readable::file(path)?, format),
    }
}

fn hashes(made: &Value) -> BTreeMap<String, String> {
    let all = made[HASHES].as_object().into_iter().flatten();
    let all = all.filter_map(|(name, hash)| Some((name.clone(), hash.as_str()?.to_owned())));
    all.collect()
}

/// The hashes of the files that were written with the complete file at `path`.
pub(super) fn hashes_of(
    path: &Path,
    format: Option<OutputFormat>,
) -> Result<BTreeMap<String, String>> {
    let made = provenance(path, format)?;
    Ok(made.as_ref().map(hashes).unwrap_or_default())
}

impl Part {
    /// Checks the part against the hashes in its own provenance. `files` are its existing files.
    ///
    /// # Errors
    /// If a hash differs, or a file cannot be read.
    pub(super) fn prove(
        &self,
        storage: &dyn SharedFolder,
        format: Option<OutputFormat>,
        files: &[FileState],
    ) -> Result<()> {
        let aside = sidecars::found_of(storage, self)?;
        let mut paths = Vec::new();
        for file in files {
            let is_aside = aside.iter().any(|(name, _)| *name == file.name);
            if !is_aside {
                paths.push((&file.name, storage.file(&file.name)?));
            }
        }
        let path = match paths.iter().find(|(name, _)| **name == self.file) {
            Some((_, path)) => path.clone(),
            None => storage.file(&self.file)?,
        };
        let proven = match aside.is_empty() {
            true => self.prove_file(storage, &path, format),
            false => self.prove_with(storage, &paths, &aside, format),
        };
        for file in files {
            storage.release(&file.name);
        }
        proven
    }

    /// The same if the files for beside it are stored aside.
    fn prove_with(
        &self,
        storage: &dyn SharedFolder,
        paths: &[(&String, PathBuf)],
        aside: &[(String, Vec<u8>)],
        format: Option<OutputFormat>,
    ) -> Result<()> {
        let folder = tempfile::tempdir()
            .map_err(|error| Error::io("create a folder in", std::env::temp_dir(), error))?;
        for (name, path) in paths {
            fs::copy(path, folder.path().join(name))
                .map_err(|error| Error::io("read", path, error))?;
        }
        for (name, bytes) in aside {
            let path = folder.path().join(name);
            fs::write(&path, bytes).map_err(|error| Error::io("write to", &path, error))?;
        }
        self.prove_file(storage, &folder.path().join(&self.file), format)
    }

    fn prove_file(
        &self,
        storage: &dyn SharedFolder,
        path: &Path,
        format: Option<OutputFormat>,
    ) -> Result<()> {
        let file = Readable::file(path)?;
        let made = provenance(path, format)?.unwrap_or_default();
        let info = made.get("part").cloned().and_then(opened::<PartInfo>);
        if info.as_ref() != Some(&self.info) || hashes(&made) != self.sha256 {
            return Err(self.damaged(storage, &self.file, "was replaced during its check"));
        }
        // Rows on their way to a single file lie in Arrow's format.
        let like = format.unwrap_or(OutputFormat::Arrow);
        match output::prove(&file, like, &made)? {
            Proof::Whole => Ok(()),
            Proof::Other(name) => {
                let (beside, what) = match name.as_str() {
                    "rows" => (output::ROWS, "its content has"),
                    "provenance" => (output::PROVENANCE, "its content has"),
                    "header" => ("", "its header has"),
                    "values" => ("", "its values have"),
                    _ => ("", "its content has"),
                };
                let why = format!("is not what was written: {what} another SHA-256");
                Err(self.damaged(storage, &format!("{}{beside}", self.file), &why))
            }
            Proof::Older if self.info.texts_sha256.is_some() => {
                let why = "is not what was written: the hash of its content is gone";
                Err(self.damaged(storage, &self.file, why))
            }
            Proof::Older => {
                let vectors = vectors(&file, format)
                    .map_err(|error| error.with_remedy(self.remedy(storage)))?;
                // A row may be without a vector, and a record become several.
                match (self.info.embedded..=self.info.rows).contains(&vectors) {
                    true => Ok(()),
                    false => Err(self.damaged(
                        storage,
                        &self.file,
                        &format!(
                            "holds {vectors} vectors, but {} rows were written",
                            self.info.rows
                        ),
                    )),
                }
            }
        }
    }

    /// Checks that the hashes in its provenance are those of its commit, and checks its list of texts.
    ///
    /// # Errors
    /// If one differs or cannot be read; the message names the file.
    pub fn check(&self, storage: &dyn SharedFolder, made: Option<&Value>) -> Result<()> {
        let said = made.map(hashes).unwrap_or_default();
        if !self.sha256.is_empty() && said != self.sha256 {
            let why = "is not the part that was written under this name, according to its commit";
            return Err(self.damaged(storage, &self.file, why));
        }
        let texts = self.texts(storage)?;
        if texts.is_none() && self.info.texts_sha256.is_some() {
            let name = self.info.texts();
            return Err(self.damaged(storage, &name, "is missing; it was written with its part"));
        }
        Ok(())
    }

    /// Whether it has the hashes that were `named`; an older build named none.
    pub(super) fn is(&self, named: &Self) -> bool {
        let same_hashes = named.sha256.is_empty() || named.sha256 == self.sha256;
        same_hashes && named.info == self.info
    }

    /// The error for its file `name`, or one that belongs to it.
    pub(super) fn damaged(&self, storage: &dyn SharedFolder, name: &str, why: &str) -> Error {
        Error::input(storage.place(name), why).with_remedy(self.remedy(storage))
    }

    fn remedy(&self, storage: &dyn SharedFolder) -> String {
        format!(
            "restore the file. Or remove {} and rerun the original command with {RESUME}, which recreates the part",
            storage.place(&self.file)
        )
    }
}

/// Vectors in a file, all of them decoded.
fn vectors(file: &Readable, format: Option<OutputFormat>) -> Result<u64> {
    if format.is_none() {
        let mut reader = SpoolReader::open(file.path())?;
        let mut count = 0;
        while let Some(rows) = reader.next_rows()? {
            let missing = (0..rows.len()).filter(|&row| rows.is_missing(row));
            count += (rows.len() - missing.count()) as u64;
        }
        return Ok(count);
    }
    let mut columns: BTreeMap<String, u64> = BTreeMap::new();
    output::read_vectors(file, &mut |vector| {
        match columns.get_mut(vector.column) {
            Some(count) => *count += 1,
            None => drop(columns.insert(vector.column.to_owned(), 1)),
        }
        Ok(())
    })?;
    Ok(columns.into_values().max().unwrap_or(0))
}

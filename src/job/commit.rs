//! What is known of a part's files: its commit, written when they were put; and the proof that they are what was
//! written, where there is no commit or they have changed since.
//!
//! A commit is believed as long as every file has the size and the version (an object's etag; a file's times and number)
//! that it had when it was put. Otherwise the part has to prove itself: what it says of itself is sealed, and the hashes
//! in its provenance are those of its content. A commit is made anew of a proven part alone.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::names;
use super::part::{Part, PartInfo};
use super::seal::{opened, sealed};
use super::spool::SpoolReader;
use super::storage::{Content, Entry, Storage};
use crate::error::{Error, Result};
use crate::hash;
use crate::output::proof::{HASHES, Proof};
use crate::output::{self, OutputFormat};
use crate::record::TextHash;
use crate::setting::{RESUME, RETRY_REJECTS};
use crate::storage::Readable;

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
    /// What changes with its content ([`Entry::version`]).
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
}

impl Commit {
    /// The commit of a part, as it was written; `None` where there is none, or another.
    pub fn read(storage: &dyn Storage, shard: u32, number: u32) -> Result<Option<Self>> {
        let bytes = storage.read(&names::commit(shard, number))?;
        let value = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(value.and_then(opened))
    }

    /// Writes it, so that nobody has to read the part for what it holds. One that stands there is of another part.
    pub fn put(&self, storage: &dyn Storage) -> Result<()> {
        let info = &self.part.info;
        let name = names::commit(info.shard, info.number);
        let text = sealed(self)?.to_string();
        let content = || Content::Bytes(text.as_bytes());
        if !storage.put(&name, content())?
            && storage.read(&name)?.as_deref() != Some(text.as_bytes())
        {
            storage.remove(&name)?;
            storage.put(&name, content())?;
        }
        Ok(())
    }

    /// Whether the files `listed` are those that were put, as far as a listing tells.
    pub fn is_of(&self, listed: &[FileState]) -> bool {
        let is_same = |then: &FileState, now: &FileState| now.version.is_some() && then == now;
        let mut pairs = self.files.iter().zip(listed);
        self.files.len() == listed.len() && pairs.all(|(then, now)| is_same(then, now))
    }

    /// Whether it is of an older build, which kept no hashes.
    pub fn is_older(&self) -> bool {
        self.files.is_empty()
    }
}

/// What a part says of itself, in its file or beside it; one without a format is a [`Spool`](super::Spool)'s.
pub(super) fn said(
    storage: &dyn Storage,
    entry: &Entry,
    format: Option<OutputFormat>,
) -> Result<Part> {
    let name = &entry.name;
    let made = match format {
        // An object that is fetched alone has nothing beside it.
        Some(format) if format.sidecars().contains(&output::PROVENANCE) => {
            let beside = storage.read(&format!("{name}{}", output::PROVENANCE))?;
            beside.and_then(|bytes| serde_json::from_slice(&bytes).ok())
        }
        _ => provenance(&storage.file(name)?, format)?,
    };
    let part = made.as_ref().and_then(|made| made.get("part").cloned());
    let info = part.and_then(opened::<PartInfo>);
    let Some((made, info)) = made.as_ref().zip(info) else {
        let why = "does not say which part of an output it is: it is damaged, or none of the job's";
        return Err(Error::input(storage.place(name), why).with_remedy(format!(
            "put it back as it was, or remove it and give the command that wrote the output again, with {RESUME}, \
             which makes a missing part anew"
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

/// The hashes of what was written with the complete file at `path`.
pub(super) fn hashes_of(
    path: &Path,
    format: Option<OutputFormat>,
) -> Result<BTreeMap<String, String>> {
    let made = provenance(path, format)?;
    Ok(made.as_ref().map(hashes).unwrap_or_default())
}

impl Part {
    /// Makes sure that the part is what was written, by the hashes in its own provenance. `files` are those that stand
    /// there of it.
    ///
    /// # Errors
    /// If it is not, or it cannot be read.
    pub(super) fn prove(
        &self,
        storage: &dyn Storage,
        format: Option<OutputFormat>,
        files: &[FileState],
    ) -> Result<()> {
        let path = storage.file(&self.file)?;
        for file in files.iter().filter(|file| file.name != self.file) {
            storage.file(&file.name)?;
        }
        let proven = self.prove_file(storage, &path, format);
        for file in files {
            storage.release(&file.name);
        }
        proven
    }

    fn prove_file(
        &self,
        storage: &dyn Storage,
        path: &Path,
        format: Option<OutputFormat>,
    ) -> Result<()> {
        let file = Readable::file(path)?;
        let made = provenance(path, format)?.unwrap_or_default();
        let info = made.get("part").cloned().and_then(opened::<PartInfo>);
        if info.as_ref() != Some(&self.info) || hashes(&made) != self.sha256 {
            return Err(self.damaged(storage, &self.file, "was replaced while it was looked at"));
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
                            "holds {vectors} vectors, and {} rows were written",
                            self.info.rows
                        ),
                    )),
                }
            }
        }
    }

    /// Makes sure that the hashes in its provenance are those of its commit, and its list of texts is what was written.
    ///
    /// # Errors
    /// If something is not, or it cannot be read; the message names it.
    pub(crate) fn check(&self, storage: &dyn Storage, made: Option<&Value>) -> Result<()> {
        let said = made.map(hashes).unwrap_or_default();
        if !self.sha256.is_empty() && said != self.sha256 {
            let why =
                "is another part than the one that was written under this name, as its commit says";
            return Err(self.damaged(storage, &self.file, why));
        }
        let texts = self.texts(storage)?;
        if texts.is_none() && self.info.texts_sha256.is_some() {
            let name = self.info.texts();
            return Err(self.damaged(
                storage,
                &name,
                "is not there, and was written with its part",
            ));
        }
        Ok(())
    }

    /// Whether it is the part that was `named` so; an older build named no hashes.
    pub(super) fn is(&self, named: &Self) -> bool {
        let same_hashes = named.sha256.is_empty() || named.sha256 == self.sha256;
        same_hashes && named.info == self.info
    }

    /// The hashes of its rows' texts, as they were written; `None` where they are not there.
    ///
    /// # Errors
    /// If they are others; or if they cannot be read.
    pub fn texts(&self, storage: &dyn Storage) -> Result<Option<Vec<u8>>> {
        let name = self.info.texts();
        let Some(bytes) = storage.read(&name)? else {
            return Ok(None);
        };
        let is_so = match &self.info.texts_sha256 {
            Some(sum) => hash::of(&bytes) == *sum,
            // An older build kept none.
            None => bytes.len() as u64 == self.info.rows * size_of::<TextHash>() as u64,
        };
        match is_so {
            true => Ok(Some(bytes)),
            false => Err(self.damaged(storage, &name, "is not what was written with its part")),
        }
    }

    /// The error for its file `name`, or one that belongs to it.
    pub(super) fn damaged(&self, storage: &dyn Storage, name: &str, why: &str) -> Error {
        Error::input(storage.place(name), why).with_remedy(self.remedy(storage))
    }

    fn remedy(&self, storage: &dyn Storage) -> String {
        let option = match self.info.retry {
            true => RETRY_REJECTS,
            false => RESUME,
        };
        format!(
            "put it back as it was, or remove {} and give the command that wrote the output again, with {option}, \
             which makes a missing part anew",
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

//! The files beside a part, which bear its name, in a storage without exclusive locks.
//!
//! Several runs may write the same part; the run whose part was published writes these files, after the part. Before
//! that, they are stored aside, under names with the part's tag and the hash of its file. If the run is killed between,
//! the next run restores them from there.

use std::path::{Path, PathBuf};

use super::names;
use super::part::Part;
use crate::error::{Error, Result};
use crate::hash;
use crate::storage::{Content, SharedFolder};
use embedctl_common::small_file;

/// Files beside a part that is about to be put.
pub(super) struct PartSidecars {
    /// The part's name, without its ending.
    part: String,
    /// The tags after it in the names of files that are put aside; an ending follows.
    tags: String,
    /// Names, and content.
    files: Vec<(String, Vec<u8>)>,
}

impl PartSidecars {
    /// Stores aside the files at `paths`, which belong beside the part `name`, whose file is at `path`.
    pub(super) fn aside(
        storage: &dyn SharedFolder,
        name: &str,
        path: &Path,
        tag: &str,
        paths: &[PathBuf],
    ) -> Result<Self> {
        let mut beside = Self {
            part: names::stem(name).to_owned(),
            tags: String::new(),
            files: Vec::new(),
        };
        if paths.is_empty() {
            return Ok(beside);
        }
        beside.tags = format!(".{tag}.{}", short_hash(path)?);
        for path in paths {
            let bytes =
                small_file::read(path, u64::MAX).map_err(|error| Error::io("read", path, error))?;
            let name = path.file_name().unwrap_or_default();
            let name = name.to_string_lossy().into_owned();
            storage.put(&beside.place(&name), Content::File(path))?;
            beside.files.push((name, bytes));
        }
        Ok(beside)
    }

    fn place(&self, name: &str) -> String {
        let ending = name.strip_prefix(&self.part).unwrap_or_default();
        format!("{}/{}{}{ending}", names::BESIDE, self.part, self.tags)
    }

    /// Writes them beside the published part.
    pub(super) fn publish(&self, storage: &dyn SharedFolder) -> Result<()> {
        (self.files.iter()).try_for_each(|(name, bytes)| put_own(storage, name, bytes))
    }

    /// Removes the stored files once the part has its commit.
    pub(super) fn done(&self, storage: &dyn SharedFolder) -> Result<()> {
        (self.files.iter()).try_for_each(|(name, _)| storage.remove(&self.place(name)))
    }
}

/// Writes a file that only this run decides on: the part of that name is its own, or the name determines the content.
pub(super) fn put_own(storage: &dyn SharedFolder, name: &str, bytes: &[u8]) -> Result<()> {
    while !storage.put(name, Content::Durable(bytes))?
        && storage.read(name)?.as_deref() != Some(bytes)
    {
        storage.remove(name)?;
    }
    Ok(())
}

/// Names and content of the files stored aside for the published part `name`. Empty if there are none, or if they
/// belong to another part or another `tag`.
pub(super) fn found(
    storage: &dyn SharedFolder,
    name: &str,
    tag: Option<&str>,
) -> Result<Vec<(String, Vec<u8>)>> {
    let part = names::stem(name);
    let entries = storage.list(names::BESIDE)?.into_iter();
    let entries: Vec<_> = entries.map(|entry| entry.name).collect();
    let aside = entries.iter().filter_map(|entry| {
        let (tag, hash, ending) = names::aside(entry.strip_prefix(part)?)?;
        Some((tag, hash, ending, entry))
    });
    let aside = aside.filter(|(of, ..)| tag.is_none_or(|tag| tag == *of));
    let mut aside: Vec<_> = aside.collect();
    if aside.is_empty() {
        return Ok(Vec::new());
    }
    let own = short_hash(&storage.file(name)?)?;
    aside.retain(|(_, hash, ..)| *hash == own);
    let first = aside.first().map(|(tag, ..)| *tag);
    let mut files = Vec::new();
    for (_, _, ending, entry) in aside.iter().filter(|(tag, ..)| Some(*tag) == first) {
        if let Some(bytes) = storage.read(&format!("{}/{entry}", names::BESIDE))? {
            files.push((format!("{part}{ending}"), bytes));
        }
    }
    Ok(files)
}

/// The same for a part that is known.
pub(super) fn found_of(storage: &dyn SharedFolder, part: &Part) -> Result<Vec<(String, Vec<u8>)>> {
    match &part.info.tag {
        Some(tag) => found(storage, &part.file, Some(tag)),
        // Under a lock, nothing is.
        None => Ok(Vec::new()),
    }
}

/// The first digits of a file's SHA-256.
pub(super) fn short_hash(path: &Path) -> Result<String> {
    let bytes = small_file::read(path, u64::MAX).map_err(|error| Error::io("read", path, error))?;
    Ok(names::short(hash::of(bytes)))
}

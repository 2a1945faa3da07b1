//! The end of a job: its manifest and completion marker, and the removal of leftover files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::begin::busy;
use super::part::{Manifest, Part};
use super::paths::parts_of;
use super::seal::sealed;
use super::shards::Shard;
use super::sidecars;
use super::state::{self, State};
use super::{Job, names};
use crate::error::{Error, Place, Result};
use crate::output::OutputFormat;
use crate::setting::RESUME;
use crate::storage::{Content, Entry, FolderLock, LocalFolder, SharedFolder};

impl Job {
    /// Completes the output once all shards are finished: writes the manifest, then the marker. Returns whether they
    /// are.
    ///
    /// # Errors
    /// If parts don't add up, shards have read different inputs, or the system refuses.
    pub fn complete(&self) -> Result<bool> {
        let state = State::read(self.storage.as_ref(), None)?;
        let Some(job) = &state.job else {
            let why = "it was removed or renamed while it was written";
            return Err(
                Error::input(Place::file(&self.shown), why).with_remedy(format!(
                    "put it back and continue with {RESUME}, or write it anew"
                )),
            );
        };
        // Every shard has a part. Where all parts of one were removed, it is written again.
        let is_missing =
            |shard: u32| !state.ends.contains_key(&shard) || state.of_shard(shard).next().is_none();
        if (1..=job.shards).any(is_missing) {
            return Ok(false);
        }
        let faults = state.faults();
        if !faults.is_empty() {
            return Err(
                Error::input(Place::file(&self.shown), faults.join("; ")).with_remedy(format!(
                    "run the shards that are named again, with {RESUME}"
                )),
            );
        }
        state.check_parts(self.storage.as_ref())?;
        // The run that wrote the marker has proven it; the input may have changed since.
        if !state.success {
            self.prove(&state)?;
        }
        let manifest = Manifest {
            schema: state::SCHEMA,
            fingerprint: job.fingerprint.hash(),
            shards: job.shards,
            records: state.ends.values().map(|end| end.end.records).sum(),
            rows: state.rows(),
            rejected: state.rejected(),
            parts: state.parts.into_values().collect(),
        };
        let text = format!("{:#}\n", sealed(&manifest)?);
        let storage = &self.storage;
        let before = storage.read(names::MANIFEST)?;
        if before.is_some_and(|before| before != text.as_bytes()) {
            storage.remove(names::SUCCESS)?; // it was of other parts
        }
        self.renew(names::MANIFEST, text.as_bytes())?;
        storage.put(names::SUCCESS, Content::Durable(b""))?;
        Ok(true)
    }

    /// Whether all shards are finished, and no record of any was embedded.
    ///
    /// # Errors
    /// If the state of the job cannot be read.
    pub fn is_empty(&self) -> Result<bool> {
        let state = State::read(self.storage.as_ref(), None)?;
        let has_ended = |shard: u32| state.ends.contains_key(&shard);
        let records: u64 = state.ends.values().map(|end| end.end.records).sum();
        Ok((1..=self.shard().count).all(has_ended) && records == state.rejected())
    }

    /// Completes an output whose parts in `state` all exist, if its completion marker is missing or names other parts.
    /// `manifest` is the recorded manifest. A running holder of the lock completes the output at its own end.
    ///
    /// # Errors
    /// As [`Job::complete`].
    pub fn renew_completion(&self, state: &State, manifest: Option<&Manifest>) -> Result<()> {
        let storage = self.storage.as_ref();
        let index = self.options.shard.index;
        let own = |part: &&Part| part.info.shard == index;
        let mut named = manifest.iter().flat_map(|it| &it.parts).filter(own);
        let is_so = manifest.is_some() && named.by_ref().eq(state.parts.values().filter(own));
        let is_told = state.success && state.uncommitted.is_empty() && is_so;
        match storage.lock(&names::lock(index))? {
            // Left by another run that was killed.
            Some(lock) if is_told => self.clear_orphans(&lock, &state.committed()),
            Some(lock) => self.complete_ended(&lock, &self.state()?),
            None => Ok(()),
        }
    }

    /// Completes an output whose shard has ended, after repairing the state that a kill has left. `lock` is the
    /// shard's, and `state` was read under it.
    pub(super) fn complete_ended(&self, lock: &FolderLock, state: &State) -> Result<()> {
        self.commit_again(state)?;
        self.clear_orphans(lock, &state.committed())?;
        self.complete().map(drop)
    }

    /// Writes missing, damaged and outdated commits, after a check of their parts.
    pub(super) fn commit_again(&self, state: &State) -> Result<()> {
        let storage = self.storage.as_ref();
        state.check_parts(storage)?;
        for of in &state.uncommitted {
            state.commit_again(*of, storage)?;
        }
        Ok(())
    }

    /// Writes a file that follows from the parts. Another shard may write the same at the same time, or have written
    /// less.
    fn renew(&self, name: &str, content: &[u8]) -> Result<()> {
        let storage = &self.storage;
        if !storage.put(name, Content::Durable(content))?
            && storage.read(name)?.as_deref() != Some(content)
        {
            storage.remove(name)?;
            storage.put(name, Content::Durable(content))?;
        }
        Ok(())
    }

    /// Removes everything that a job has written, the completion marker first.
    pub(super) fn clear(&self) -> Result<()> {
        let storage = self.storage.as_ref();
        match storage.read(names::JOB)? {
            None => Ok(()),
            Some(_) => remove_own(storage),
        }
    }

    /// Removes orphans: files of parts that are missing or were replaced, unless a running job may own them. `lock` is
    /// the shard's, and `parts` are its existing parts with commits.
    pub(super) fn clear_orphans(&self, lock: &FolderLock, parts: &KnownParts) -> Result<()> {
        for name in self.orphans(lock, parts)? {
            self.storage.remove(&name)?;
        }
        Ok(())
    }

    /// Orphans of the shard: files of parts that are missing or were replaced, and that no running job may own.
    ///
    /// - A list of another tag than that of the part that stands: a number is given once, so no other part will have it;
    ///   unless something is put aside for that very part, whose commit may be on its way.
    /// - A commit, listed before the parts were: it was written after its part, so the part was removed.
    /// - A file that is written before its part, if the lock is exclusive, or if the manifest names the missing part. A
    ///   run that replaces the part removes the manifest before it writes anything, so a manifest that is read *after*
    ///   the lists proves that no such run exists.
    fn orphans(&self, lock: &FolderLock, known: &KnownParts) -> Result<Vec<String>> {
        let storage = self.storage.as_ref();
        let mut found = Vec::new();
        for folder in names::OF_PARTS {
            for name in names_in(storage.list(folder)?) {
                if let Some((shard, number, rest)) = names::parse(&name)
                    && let Some(tag) = names::tag_of(folder, rest)
                    && shard == self.options.shard.index
                {
                    let full = format!("{folder}/{name}");
                    found.push((folder, (shard, number), tag.map(str::to_owned), full));
                }
            }
        }
        let top: Vec<String> = names_in(storage.list("")?).collect();
        let ending = self.ending();
        let parts = top.iter().filter_map(|name| names::parse(name));
        let parts = parts.filter(|(_, _, rest)| *rest == ending);
        let there: BTreeSet<_> = parts.map(|(shard, number, _)| (shard, number)).collect();
        let manifest = match lock.is_exclusive() {
            true => None,
            false => Manifest::read(storage)?,
        };
        let named = manifest.iter().flat_map(|it| &it.parts).map(|part| {
            let info = &part.info;
            ((info.shard, info.number), info.tag.clone())
        });
        let named: BTreeMap<_, _> = named.collect();
        let mut waiting = BTreeSet::new();
        for (folder, of, tag, name) in &found {
            if let (&names::BESIDE, Some(part)) = (folder, known.get(of))
                && *tag != part.info.tag
                && name.contains(&sidecars::short_hash(&storage.file(&part.file)?)?)
            {
                waiting.insert((*of, tag.clone()));
            }
        }
        found.retain(
            |(folder, of, tag, name)| match (there.contains(of), known.get(of)) {
                (true, _) if *folder == names::COMMITS => false,
                (true, Some(part)) => {
                    let own = names::list(folder, &part.info.name(), part.info.tag.as_deref());
                    *name != own && !waiting.contains(&(*of, tag.clone()))
                }
                (true, None) => false,
                (false, _) if *folder == names::COMMITS => true,
                (false, _) if lock.is_exclusive() => tag.is_none(),
                (false, _) => named.get(of) == Some(tag),
            },
        );
        let mut orphans: Vec<String> = found.into_iter().map(|(.., name)| name).collect();
        // On a store, the run that writes the next part of that number replaces the files beside it.
        // Whatever kind of numbers it was: the model is not known here.
        let sidecars = self.format().map(OutputFormat::possible_sidecars);
        let is_beside = |rest: &str| {
            let sidecar = rest.strip_prefix(&ending);
            sidecar.is_some_and(|sidecar| sidecars.iter().flatten().any(|it| *it == sidecar))
        };
        for name in top.iter().filter(|_| lock.is_exclusive()) {
            if let Some((shard, number, rest)) = names::parse(name)
                && shard == self.options.shard.index
                && !there.contains(&(shard, number))
                && is_beside(rest)
            {
                orphans.push(name.clone());
            }
        }
        Ok(orphans)
    }
}

/// Parts by shard and number.
type KnownParts = BTreeMap<(u32, u32), Part>;

fn names_in(entries: Vec<Entry>) -> impl Iterator<Item = String> {
    entries.into_iter().map(|entry| entry.name)
}

/// Removes the files of a job by their names, the completion marker first and the settings last. Other files stay.
fn remove_own(storage: &dyn SharedFolder) -> Result<()> {
    storage.remove(names::SUCCESS)?;
    storage.remove(names::MANIFEST)?;
    for name in names_in(storage.list("")?).filter(|name| names::is_of_job(name)) {
        storage.remove(&name)?;
    }
    for folder in names::OF_PARTS {
        for name in names_in(storage.list(folder)?) {
            let rest = names::parse(&name).map(|(_, _, rest)| rest);
            if rest.is_some_and(|rest| names::tag_of(folder, rest).is_some()) {
                storage.remove(&format!("{folder}/{name}"))?;
            }
        }
    }
    for name in names_in(storage.list(names::SHARDS)?) {
        if let Some(shard) = names::shard_of(&name) {
            storage.remove(&names::shard(shard))?;
        }
    }
    storage.remove(names::JOB)
}

/// Removes the parts of the complete single file at `path`, and their folder if nothing else is in it. `held` is their
/// lock: no other run may come upon half of them.
///
/// # Errors
/// If the system refuses.
pub fn remove_parts(path: &Path, held: FolderLock) -> Result<()> {
    let parts = parts_of(path);
    let storage = LocalFolder::new(&parts);
    remove_own(&storage)?;
    let lock = names::lock(Shard::default().index);
    storage.clear_scratch(&lock)?;
    if cfg!(windows) {
        drop(held); // an open file keeps its name there
        storage.remove(&lock)?;
    } else {
        storage.remove(&lock)?;
        drop(held);
    }
    let inner = [names::SHARDS].into_iter().chain(names::OF_PARTS);
    for folder in inner.chain([names::OWN, ""]) {
        // Foreign files stay, and so does the folder that they are in.
        let _ = fs::remove_dir(parts.join(folder));
    }
    Ok(())
}

/// Removes the parts of the complete single file at `path`, unless a run is at work on them; whether none was.
///
/// # Errors
/// If the system refuses.
pub fn clear_parts(path: &Path) -> Result<bool> {
    let parts = parts_of(path);
    if !parts.is_dir() {
        return Ok(true);
    }
    match LocalFolder::new(parts).lock(&names::lock(Shard::default().index))? {
        Some(lock) => remove_parts(path, lock).map(|()| true),
        None => Ok(false),
    }
}

/// Removes the folder for parts of the single file at `path`, where a run has put nothing into it but its lock.
///
/// # Errors
/// If the system refuses.
pub fn clear_unbegun(path: &Path) -> Result<()> {
    let (parts, name) = (parts_of(path), names::lock(Shard::default().index));
    let storage = LocalFolder::new(&parts);
    if !parts.join(&name).exists() {
        return Ok(());
    }
    if let Some(_lock) = storage.lock(&name)?
        && storage.read(names::JOB)?.is_none()
    {
        storage.remove(&name)?;
        // Foreign files stay.
        let own = fs::remove_dir(parts.join(names::OWN));
        let _ = own.and_then(|()| fs::remove_dir(&parts));
    }
    Ok(())
}

/// Removes the remains of an unfinished run for the single file at `path`.
///
/// # Errors
/// If that run is still at work, or the system refuses.
pub fn forget(path: &Path) -> Result<()> {
    let storage = LocalFolder::new(parts_of(path));
    if storage.read(names::JOB)?.is_none() {
        return Ok(());
    }
    match clear_parts(path)? {
        true => Ok(()),
        false => Err(busy(&path.display().to_string())),
    }
}

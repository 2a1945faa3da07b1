//! A job's end: the manifest and the word that says that it is complete; and what is removed of it.

use std::path::Path;

use super::begin::busy;
use super::part::{Manifest, Part};
use super::paths::parts_of;
use super::rejected::Rejected;
use super::shards::Shard;
use super::state::{self, State};
use super::storage::{Content, Local, Storage, remove_folder};
use super::{Job, names, seal};
use crate::error::{Error, Place, Result};

impl Job {
    /// Completes the output once all shards are at their ends: the manifest, and then the word that says so.
    /// Whether they are.
    ///
    /// # Errors
    /// If parts don't add up, or the system refuses.
    pub fn complete(&self) -> Result<bool> {
        let state = State::read(self.storage.as_ref(), None)?;
        let Some(job) = &state.job else {
            let why = "it was removed or renamed while it was written";
            return Err(Error::input(Place::file(&self.shown), why)
                .with_remedy("put it back and go on with --resume, or write it anew"));
        };
        if (1..=job.shards).any(|shard| !state.ends.contains_key(&shard)) {
            return Ok(false);
        }
        let faults = state.faults();
        if !faults.is_empty() {
            return Err(Error::input(Place::file(&self.shown), faults.join("; "))
                .with_remedy("run the shards that are named again, with --resume"));
        }
        let rejected = match state.parts.values().any(|part| part.info.retry) {
            true => Some(Rejected::read(self.storage.as_ref(), &state, None)?.lines()),
            false => None,
        };
        let manifest = Manifest {
            schema: state::SCHEMA,
            fingerprint: job.fingerprint.hash(),
            shards: job.shards,
            records: state.ends.values().map(|end| end.end.records).sum(),
            rows: state.rows(),
            rejected: state.rejected(),
            parts: state.parts.into_values().collect(),
        };
        let text = format!("{:#}\n", seal::encode(&manifest)?);
        let storage = &self.storage;
        let told = storage.read(names::MANIFEST)?;
        if told.is_some_and(|told| told != text.as_bytes()) {
            storage.remove(names::SUCCESS)?; // it was of other parts
        }
        match rejected {
            Some(rejected) => self.renew(names::REJECTED, &rejected)?,
            None => storage.remove(names::REJECTED)?,
        }
        self.renew(names::MANIFEST, text.as_bytes())?;
        storage.put(names::SUCCESS, Content::Durable(b""))?;
        Ok(true)
    }

    /// Completes an output whose parts in `state` are all there, where that was not said, or was said of other parts:
    /// somebody may have removed one of records that were tried again. How many records are rejected again for that.
    ///
    /// # Errors
    /// As [`Job::complete`].
    pub fn say_so(&self, state: &State) -> Result<u64> {
        let told = Manifest::read(self.storage.as_ref())?;
        let own = |part: &&Part| part.info.shard == self.options.shard.index;
        let is_so = told.as_ref().is_some_and(|told| {
            let told = told.parts.iter().filter(own);
            told.eq(state.parts.values().filter(own))
        });
        let has_list = || Ok(self.storage.read(names::REJECTED)?.is_some());
        let lists = state.parts.values().any(|part| part.info.retry);
        if !(state.success && is_so && (!lists || has_list()?)) {
            if let Some(lock) = self.storage.lock(&names::lock(self.options.shard.index))? {
                self.clear_orphans(&self.state()?)?;
                drop(lock);
            }
            self.complete()?;
        }
        let held = told.map_or(0, |told| {
            let again = told.parts.iter().filter(own).filter(|part| part.info.retry);
            let gone = again
                .filter(|part| !(state.parts).contains_key(&(part.info.shard, part.info.number)));
            gone.map(|part| part.info.embedded).sum()
        });
        Ok(held)
    }

    /// Puts what follows from the parts. Another shard may say the same at the same time, or have said less.
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

    /// Removes everything that a job has written, what says that it is complete first.
    pub(super) fn clear(&self) -> Result<()> {
        let storage = self.storage.as_ref();
        if storage.read(names::JOB)?.is_none() {
            return Ok(());
        }
        storage.remove(names::SUCCESS)?;
        storage.remove(names::MANIFEST)?;
        storage.remove(names::REJECTED)?;
        for entry in storage.list("")? {
            if names::parse(&entry.name).is_some() {
                storage.remove(&entry.name)?;
            }
        }
        for folder in [names::SHARDS].iter().chain(&names::OF_PARTS) {
            for entry in storage.list(folder)? {
                storage.remove(&format!("{folder}/{}", entry.name))?;
            }
        }
        storage.remove(names::JOB)
    }

    /// Removes what was put for parts that were not.
    pub(super) fn clear_orphans(&self, state: &State) -> Result<()> {
        let storage = self.storage.as_ref();
        for folder in [""].iter().chain(&names::OF_PARTS) {
            for entry in storage.list(folder)? {
                let orphan = names::parse(&entry.name).is_some_and(|(shard, number, _)| {
                    shard == self.options.shard.index && !state.parts.contains_key(&(shard, number))
                });
                if orphan {
                    let name = format!("{folder}/{}", entry.name);
                    storage.remove(name.trim_start_matches('/'))?;
                }
            }
        }
        Ok(())
    }
}

/// Removes the parts of the complete single file at `path`.
///
/// # Errors
/// If the system refuses.
pub fn remove_parts(path: &Path) -> Result<()> {
    remove_folder(&parts_of(path))
}

/// As [`remove_parts`], unless a run is at work on them; whether none was.
///
/// # Errors
/// If the system refuses.
pub fn clear_parts(path: &Path) -> Result<bool> {
    let parts = parts_of(path);
    if !parts.is_dir() {
        return Ok(true);
    }
    match Local::new(parts).lock(&names::lock(Shard::default().index))? {
        Some(lock) => drop(lock), // its file goes with the folder
        None => return Ok(false),
    }
    remove_parts(path).map(|()| true)
}

/// Removes what an unfinished run has left of the single file at `path`.
///
/// # Errors
/// If that run is at work, or the system refuses.
pub fn forget(path: &Path) -> Result<()> {
    let storage = Local::new(parts_of(path));
    if storage.read(names::JOB)?.is_none() {
        return Ok(());
    }
    match clear_parts(path)? {
        true => Ok(()),
        false => Err(busy(&path.display().to_string())),
    }
}

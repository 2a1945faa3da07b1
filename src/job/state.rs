//! What stands in a job's folder, and whether it is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::agreement::gaps;
use super::beside;
use super::fingerprint::Fingerprint;
use super::names;
use super::part::{Manifest, Part, PartInfo, ShardEnd};
use super::seal::opened;
use super::spool::{Spool, SpoolReader};
use super::storage::{Entry, Local, Storage};
use crate::arrow::datatypes::SchemaRef;
use crate::error::{Error, Result};
use crate::output::{self, OutputFormat};
use crate::storage::Readable;

/// What was settled when a job began: `_embedctl/job.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobFile {
    /// Version of this file's schema.
    pub schema: u32,
    /// Version of embedctl that began it.
    pub version: String,
    /// Format of the parts.
    pub format: String,
    /// Shards of the job.
    pub shards: u32,
    /// Records in a window: windows of a run that goes on must be those of the run that began.
    pub window: usize,
    /// What decides vectors and columns.
    pub fingerprint: Fingerprint,
}

/// A job's folder, as it was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// What was settled; none where no run has come as far.
    pub job: Option<JobFile>,
    /// The parts that are there, by shard and number.
    pub parts: BTreeMap<(u32, u32), Part>,
    /// Those of them whose commits are missing or damaged.
    pub uncommitted: Vec<(u32, u32)>,
    /// The shards that are at their ends.
    pub ends: BTreeMap<u32, ShardEnd>,
    /// Whether the output says that it is complete.
    pub success: bool,
}

impl State {
    /// Looks at a job; at one shard of it alone where `shard` says so.
    ///
    /// What is missing of `_embedctl/commits` is read from the parts themselves.
    ///
    /// # Errors
    /// If something cannot be read, or is not what a job writes.
    pub fn read(storage: &dyn Storage, shard: Option<u32>) -> Result<Self> {
        let mut state = Self {
            job: read(storage, names::JOB)?,
            ..Self::default()
        };
        let Some(job) = &state.job else {
            return Ok(state);
        };
        if job.schema != SCHEMA {
            return Err(Error::input(
                storage.place(names::JOB),
                format!("has schema {}, and this version knows {SCHEMA}", job.schema),
            )
            .with_remedy("use the version that wrote it, or write elsewhere"));
        }
        let format = OutputFormat::of_name(&job.format);
        if format.is_none() && job.format != Spool::ENDING {
            return Err(damaged(storage, names::JOB));
        }
        let wanted = |of: u32| shard.is_none_or(|shard| shard == of);
        // Before the parts are listed: all that an end tells of was there then.
        for entry in storage.list(names::SHARDS)? {
            let name = format!("{}/{}", names::SHARDS, entry.name);
            let end = read::<ShardEnd>(storage, &name)?;
            if let Some(end) = end.filter(|end| names::shard(end.shard) == name) {
                state.ends.insert(end.shard, end);
            }
        }
        let top = storage.list("")?;
        state.success = is_complete(&top);
        let ending = format!(".{}", job.format);
        for entry in top {
            let Some((shard, number, rest)) = names::parse(&entry.name) else {
                continue;
            };
            if rest != ending || !wanted(shard) {
                continue;
            }
            let part = match Part::of(storage, (shard, number), &entry)? {
                Some(part) => part,
                None => {
                    let info = info(storage, &entry.name, format)?;
                    // The run whose part it is may have written it meanwhile, and knows.
                    match Part::of(storage, (shard, number), &entry)? {
                        Some(part) => part,
                        None => {
                            state.uncommitted.push((shard, number));
                            Part {
                                info,
                                file: entry.name.clone(),
                                bytes: entry.size,
                            }
                        }
                    }
                }
            };
            if (part.info.shard, part.info.number) != (shard, number) {
                return Err(damaged(storage, &entry.name));
            }
            state.parts.insert((shard, number), part);
        }
        Ok(state)
    }

    /// The parts that had a commit when they were listed.
    pub(super) fn committed(&self) -> BTreeMap<(u32, u32), Part> {
        let mut parts = self.parts.clone();
        parts.retain(|of, _| !self.uncommitted.contains(of));
        parts
    }

    /// Makes sure that the lists of rejected records are those that were written with their parts, which nothing else
    /// knows.
    ///
    /// # Errors
    /// If one is not there, or another; the message names it.
    pub fn check_lists(&self, storage: &dyn Storage) -> Result<()> {
        for part in self.parts.values() {
            part.rejected(storage)?;
            part.retried(storage)?;
        }
        Ok(())
    }

    /// What is missing or does not add up, in sentences; nothing where the output is complete.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let Some(job) = &self.job else {
            return vec!["no job was begun here".to_owned()];
        };
        let mut faults = Vec::new();
        let hash = job.fingerprint.hash();
        for part in self
            .parts
            .values()
            .filter(|part| part.info.fingerprint != hash)
        {
            faults.push(format!(
                "{} has another fingerprint than the job",
                part.file
            ));
        }
        let missing = (1..=job.shards).filter(|shard| !self.ends.contains_key(shard));
        for shard in missing.clone().take(MOST_NAMED) {
            let at = self
                .of_shard(shard)
                .filter(|part| !part.info.retry)
                .last()
                .map_or(0, |part| part.info.end.records);
            faults.push(match job.shards {
                1 => format!("the input was not read to its end: {at} records are done"),
                _ => format!(
                    "shard {shard} of {} is not at its end: {at} of its records are done",
                    job.shards
                ),
            });
        }
        let missing = job.shards as usize - self.ends.len().min(job.shards as usize);
        if missing > MOST_NAMED {
            faults.push(format!(
                "{} more shards are not at their ends",
                missing - MOST_NAMED
            ));
        }
        let begun: BTreeSet<u32> = self
            .parts
            .keys()
            .map(|part| part.0)
            .chain(self.ends.keys().copied())
            .collect();
        for shard in begun {
            faults.extend(self.faults_of(shard));
        }
        if self.ends.len() == job.shards as usize {
            faults.extend(gaps(&self.ends, None));
        }
        faults
    }

    /// The parts that the manifest of a complete output names and that are not there, in sentences. What is missing of
    /// the input is told by [`State::faults`].
    ///
    /// # Errors
    /// If the manifest cannot be read.
    pub fn missing_parts(&self, storage: &dyn Storage) -> Result<Vec<String>> {
        let manifest = Manifest::read(storage)?;
        let named = manifest.iter().flat_map(|manifest| &manifest.parts);
        let gone = named
            .filter(|part| !(self.parts).contains_key(&(part.info.shard, part.info.number)))
            .map(|part| format!("{} is named by the manifest, and is not there", part.file));
        Ok(gone.collect())
    }

    /// Whether the output is complete, and its manifest is missing or not as it was written.
    ///
    /// # Errors
    /// If the storage does not say.
    pub fn lacks_manifest(&self, storage: &dyn Storage) -> Result<bool> {
        if !self.success || Manifest::read(storage)?.is_some() {
            return Ok(false);
        }
        // A run that tries rejected records again removes both, the marker first.
        Ok(is_complete(&storage.list("")?))
    }

    /// What does not add up in the parts of a shard.
    #[must_use]
    pub fn faults_of(&self, shard: u32) -> Vec<String> {
        let mut faults = Vec::new();
        let mut at = 0;
        let (mut rows, mut rejected) = (0, 0);
        for part in self.of_shard(shard).filter(|part| !part.info.retry) {
            let info = &part.info;
            if info.start.records != at {
                faults.push(format!(
                    "{} begins at record {}, and what comes before it ends at {at}",
                    part.file, info.start.records
                ));
            }
            if info.embedded + info.rejected + info.start.records != info.end.records {
                faults.push(format!("the counts of {} do not add up", part.file));
            }
            at = info.end.records;
            rows += info.rows;
            rejected += info.rejected;
        }
        let end = self.ends.get(&shard);
        if let Some(end) =
            end.filter(|end| (end.end.records, end.rows, end.rejected) != (at, rows, rejected))
        {
            faults.push(format!(
                "shard {shard} had {} records ({} rows, {} rejected), and its parts hold {at} ({rows}, {rejected})",
                end.end.records, end.rows, end.rejected
            ));
        }
        let again = self.of_shard(shard).filter(|part| part.info.retry);
        let again: u64 = again.map(|part| part.info.embedded).sum();
        if again > rejected {
            faults.push(format!(
                "shard {shard} had {rejected} rejected records, and {again} of them were embedded later"
            ));
        }
        faults
    }

    /// Whether a shard is at its end, with all of its parts there.
    #[must_use]
    pub fn has_ended(&self, shard: u32) -> bool {
        self.ends.contains_key(&shard) && self.faults_of(shard).is_empty()
    }

    /// The parts of a shard, in order.
    pub fn of_shard(&self, shard: u32) -> impl Iterator<Item = &Part> {
        let parts = self.parts.range((shard, 0)..=(shard, u32::MAX));
        parts.map(|(_, part)| part)
    }

    /// Types of the kept columns in the parts of a shard, once they are decided.
    #[must_use]
    pub fn columns(&self, shard: u32) -> Option<SchemaRef> {
        self.of_shard(shard).find_map(|part| part.info.columns())
    }

    /// Rows of all parts.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.parts.values().map(|part| part.info.rows).sum()
    }

    /// Its rows and parts, for the user.
    #[must_use]
    pub fn counted(&self) -> String {
        let parts = self.parts.len();
        let these = if parts == 1 { "part" } else { "parts" };
        format!("{} rows in {parts} {these}", self.rows())
    }

    /// Records that are rejected: those that parts have rejected, less those that were embedded since.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        let sum = |retry: bool, count: fn(&PartInfo) -> u64| -> u64 {
            let parts = self.parts.values().filter(|part| part.info.retry == retry);
            parts.map(|part| count(&part.info)).sum()
        };
        sum(false, |info| info.rejected).saturating_sub(sum(true, |info| info.embedded))
    }
}

/// Version of the files' schemas.
pub(super) const SCHEMA: u32 = 1;

/// Shards that a message names at most.
const MOST_NAMED: usize = 10;

/// Looks at the job in a folder of this machine: its parts, what was settled, and by [`State::faults`] whether
/// it is complete. `None` where no job was ever begun.
///
/// # Errors
/// If something cannot be read, or is not what a job writes.
pub fn inspect(folder: &Path) -> Result<Option<State>> {
    let state = State::read(&Local::new(folder), None)?;
    Ok(state.job.is_some().then_some(state))
}

/// Whether these entries of an output's folder say that it is complete.
fn is_complete(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| entry.name == names::SUCCESS)
}

/// What a part says of itself; one without a format is a [`Spool`]'s.
fn info(storage: &dyn Storage, name: &str, format: Option<OutputFormat>) -> Result<PartInfo> {
    let provenance = match format {
        None => SpoolReader::open(&storage.file(name)?)?.provenance(),
        // An object that is fetched alone has nothing beside it.
        Some(format) if format.sidecars().contains(&output::PROVENANCE) => {
            let provenance = format!("{name}{}", output::PROVENANCE);
            let mut aside = beside::found(storage, name)?.into_iter();
            let beside = match aside.find(|(name, _)| *name == provenance) {
                Some((_, bytes)) => Some(bytes),
                None => storage.read(&provenance)?,
            };
            beside.and_then(|bytes| serde_json::from_slice(&bytes).ok())
        }
        Some(format) => output::provenance(&Readable::file(&storage.file(name)?)?, format)?,
    };
    let info = provenance.and_then(|mut all| all.get_mut("part").map(serde_json::Value::take));
    let info = info.and_then(opened);
    info.ok_or_else(|| damaged(storage, name))
}

fn read<T: DeserializeOwned>(storage: &dyn Storage, name: &str) -> Result<Option<T>> {
    let Some(bytes) = storage.read(name)? else {
        return Ok(None);
    };
    let value = serde_json::from_slice(&bytes);
    let value = value.map_err(|error| damaged(storage, name).caused_by(error))?;
    opened(value)
        .map(Some)
        .ok_or_else(|| damaged(storage, name))
}

fn damaged(storage: &dyn Storage, name: &str) -> Error {
    Error::input(storage.place(name), "is not what a job writes there").with_remedy(
        "remove it if it is none of the job's, or write elsewhere, or start anew with --force",
    )
}

//! The state of a job's folder, and whether it is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::commit::{Commit, FileState, UncommittedPart, said};
use super::fingerprint::Fingerprint;
use super::gaps::gaps;
use super::names;
use super::part::{Manifest, Part, ShardEnd};
use super::seal::opened;
use super::spool::Spool;
use crate::error::{Error, Result};
use crate::output::OutputFormat;
use crate::setting::FORCE;
use crate::storage::{Entry, LocalFolder, SharedFolder};
use arrow::datatypes::SchemaRef;

/// The settings of a job from its start: `_embedctl/job.json`.
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
    /// Records in a window: a resumed run must use the same windows as the first.
    pub window: usize,
    /// The settings that decide vectors and columns.
    pub fingerprint: Fingerprint,
}

/// A job's folder, as it was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// The job's settings; `None` if no run has written them yet.
    pub job: Option<JobFile>,
    /// The existing parts, by shard and number.
    pub parts: BTreeMap<(u32, u32), Part>,
    /// Existing parts whose commits are missing or damaged, or whose files have changed in their times or etags.
    pub uncommitted: Vec<(u32, u32)>,
    /// The files of uncommitted parts.
    unproven: BTreeMap<(u32, u32), UncommittedPart>,
    /// Parts that an older build wrote, which kept no hashes.
    pub older: usize,
    /// Whether all of `uncommitted` have passed their check.
    proven: Proven,
    /// The finished shards.
    pub ends: BTreeMap<u32, ShardEnd>,
    /// Whether the output says that it is complete.
    pub success: bool,
}

/// Set once; not part of comparisons of states.
#[derive(Debug, Clone, Default)]
struct Proven(OnceLock<()>);

impl PartialEq for Proven {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl State {
    /// Reads the state of a job, or of one shard if `shard` is given.
    ///
    /// Commits that are missing from `_embedctl/commits` are read from the parts, which [`State::check_parts`] checks.
    ///
    /// # Errors
    /// If a file cannot be read, or is not a file of a job.
    pub fn read(storage: &dyn SharedFolder, shard: Option<u32>) -> Result<Self> {
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
                format!("has schema {}, but this version knows {SCHEMA}", job.schema),
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
            let Some(shard) = names::shard_of(&entry.name) else {
                continue;
            };
            let end = read::<ShardEnd>(storage, &names::shard(shard))?;
            if let Some(end) = end.filter(|end| end.shard == shard) {
                state.ends.insert(shard, end);
            }
        }
        let top = storage.list("")?;
        state.success = is_complete(&top);
        let ending = format!(".{}", job.format);
        for (at, entry) in top.iter().enumerate() {
            let Some((shard, number, rest)) = names::parse(&entry.name) else {
                continue;
            };
            if rest != ending || !wanted(shard) {
                continue;
            }
            let files = FileState::all_of(&top[at..], &entry.name);
            let stands = Commit::read(storage, shard, number)?;
            let of_file = stands
                .as_ref()
                .filter(|commit| commit.part.file == entry.name);
            let is_older = |commit: &Commit| commit.is_older() && commit.part.bytes == entry.size;
            let part = match of_file {
                Some(commit) if commit.is_of(&files) => commit.part.clone(),
                Some(commit) if is_older(commit) => {
                    state.older += 1;
                    commit.part.clone()
                }
                commit => {
                    let has_hashes = commit.filter(|commit| !commit.is_older());
                    let part = said(storage, entry, format, has_hashes);
                    let unproven = UncommittedPart {
                        files,
                        stands: stands.clone(),
                    };
                    // The run whose part it is may have written its commit meanwhile, and knows.
                    if let Some(part) = unproven.committed(storage, (shard, number), &entry.name)? {
                        part
                    } else {
                        let part = match part {
                            // Removed since it was listed, by a run that is at its end.
                            Err(_) if !is_listed(storage, &entry.name)? => continue,
                            part => part?,
                        };
                        state.uncommitted.push((shard, number));
                        state.unproven.insert((shard, number), unproven);
                        let is_other = |commit: &Commit| {
                            (&commit.part.info, &commit.part.sha256) != (&part.info, &part.sha256)
                        };
                        if has_hashes.is_some_and(is_other) {
                            let why = "is not the part that was written under this name, according to its commit";
                            return Err(part.damaged(storage, &entry.name, why));
                        }
                        part
                    }
                }
            };
            if (part.info.shard, part.info.number) != (shard, number) {
                let why = format!(
                    "is another part: it says that it is {}",
                    names::part(part.info.shard, part.info.number)
                );
                return Err(part.damaged(storage, &entry.name, &why));
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

    /// Checks the parts whose commits are missing, damaged or of other files, and that each part begins at the end of
    /// the previous one.
    ///
    /// # Errors
    /// If a check fails; the message names the part.
    pub fn check_parts(&self, storage: &dyn SharedFolder) -> Result<()> {
        let format = self.job.as_ref();
        let format = format.and_then(|job| OutputFormat::of_name(&job.format));
        if self.proven.0.get().is_none() {
            for (of, unproven) in &self.unproven {
                let part = &self.parts[of];
                if let Err(error) = part.prove(storage, format, &unproven.files)
                    && unproven.committed(storage, *of, &part.file)?.as_ref() != Some(part)
                {
                    return Err(error);
                }
            }
            let _ = self.proven.0.set(());
        }
        let parts: Vec<_> = self.parts.values().collect();
        for pair in parts.windows(2) {
            let (before, part) = (&pair[0].info, &pair[1].info);
            let follows = before.shard == part.shard && before.end.records == part.start.records;
            if follows && before.end.hash != part.start.hash {
                let why = format!("is of another input than {}", pair[0].file);
                return Err(pair[1].damaged(storage, &pair[1].file, &why));
            }
        }
        Ok(())
    }

    /// Writes the commit of a part that has none, or one of other files, and has proved itself.
    pub(super) fn commit_again(&self, of: (u32, u32), storage: &dyn SharedFolder) -> Result<()> {
        let unproven = self.unproven.get(&of);
        unproven.map_or(Ok(()), |it| it.commit(storage, &self.parts[&of]))
    }

    /// That parts of an older build are there, for the user.
    #[must_use]
    pub fn of_older(&self) -> Option<String> {
        let those = match self.older {
            0 => return None,
            1 => "1 part was".to_owned(),
            older => format!("{older} parts were"),
        };
        Some(format!(
            "{those} written by an older version, which kept no hashes: only sizes are compared"
        ))
    }

    /// Checks the parts ([`State::check_parts`]) and their lists of rejected records, which no other file records.
    ///
    /// # Errors
    /// If one is missing or differs; the message names it.
    pub fn check_lists(&self, storage: &dyn SharedFolder) -> Result<()> {
        self.check_parts(storage)?;
        for part in self.parts.values() {
            part.rejected(storage)?;
        }
        Ok(())
    }

    /// Missing files and inconsistent counts, in sentences; empty if the output is complete.
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
            let last = self.of_shard(shard).last();
            let at = last.map_or(0, |part| part.info.end.records);
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

    /// Parts that the manifest of a complete output names and that are missing or differ, in sentences.
    /// [`State::faults`] tells which input is missing.
    ///
    /// # Errors
    /// If the manifest cannot be read.
    pub fn missing_parts(&self, storage: &dyn SharedFolder) -> Result<Vec<String>> {
        let manifest = Manifest::read(storage)?;
        let named = manifest.iter().flat_map(|manifest| &manifest.parts);
        let faults = named.filter_map(|named| {
            let there = self.parts.get(&(named.info.shard, named.info.number));
            match there {
                None => Some(format!(
                    "{} is named by the manifest but missing",
                    named.file
                )),
                Some(part) if !part.is(named) => Some(format!(
                    "{} is not the part that the manifest names",
                    named.file
                )),
                Some(_) => None,
            }
        });
        Ok(faults.collect())
    }

    /// What was written and is not all here: parts that are missing between others, that the end of a shard counts, or that the
    /// manifest names, in sentences. What no run has written yet is none of them ([`State::faults`] has it, too).
    ///
    /// # Errors
    /// If the manifest cannot be read.
    pub fn losses(&self, storage: &dyn SharedFolder) -> Result<Vec<String>> {
        let shards: BTreeSet<u32> = (self.parts.keys().map(|part| part.0))
            .chain(self.ends.keys().copied())
            .collect();
        let mut losses: Vec<String> = (shards.into_iter())
            .flat_map(|shard| self.faults_of(shard))
            .collect();
        losses.extend(self.missing_parts(storage)?);
        Ok(losses)
    }

    /// Whether the output is complete but its manifest is missing or damaged.
    ///
    /// # Errors
    /// If the storage cannot be read.
    pub fn lacks_manifest(&self, storage: &dyn SharedFolder) -> Result<bool> {
        if !self.success || Manifest::read(storage)?.is_some() {
            return Ok(false);
        }
        // A run that resumes it removes both, the marker first.
        Ok(is_complete(&storage.list("")?))
    }

    /// Inconsistencies in the parts of a shard.
    #[must_use]
    pub fn faults_of(&self, shard: u32) -> Vec<String> {
        let mut faults = Vec::new();
        let mut at = 0;
        let (mut rows, mut rejected) = (0, 0);
        for part in self.of_shard(shard) {
            let info = &part.info;
            if info.start.records != at {
                faults.push(format!(
                    "{} begins at record {}, but the records before it end at {at}",
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
                "shard {shard} had {} records ({} rows, {} rejected), but its parts hold {at} ({rows}, {rejected})",
                end.end.records, end.rows, end.rejected
            ));
        }
        faults
    }

    /// Whether a shard is finished, with all of its parts.
    #[must_use]
    pub fn has_ended(&self, shard: u32) -> bool {
        let has_parts = self.of_shard(shard).next().is_some();
        has_parts && self.ends.contains_key(&shard) && self.faults_of(shard).is_empty()
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

    /// Records that all parts have rejected.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.parts.values().map(|part| part.info.rejected).sum()
    }
}

/// Version of the files' schemas.
pub(super) const SCHEMA: u32 = 1;

/// Shards that a message names at most.
const MOST_NAMED: usize = 10;

/// Looks at the job in a folder of this machine: its parts, its settings, and by [`State::faults`] whether
/// it is complete. `None` where no job was ever begun.
///
/// # Errors
/// If a file cannot be read, or is not a file of a job.
pub fn inspect(folder: &Path) -> Result<Option<State>> {
    let state = State::read(&LocalFolder::of_parts(folder), None)?;
    Ok(state.job.is_some().then_some(state))
}

/// Whether these entries of an output's folder say that it is complete.
fn is_listed(storage: &dyn SharedFolder, name: &str) -> Result<bool> {
    Ok(storage.list("")?.iter().any(|entry| entry.name == name))
}

fn is_complete(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| entry.name == names::SUCCESS)
}

fn read<T: DeserializeOwned>(storage: &dyn SharedFolder, name: &str) -> Result<Option<T>> {
    let Some(bytes) = storage.read(name)? else {
        return Ok(None);
    };
    let value = serde_json::from_slice(&bytes);
    let value = value.map_err(|error| damaged(storage, name).caused_by(error))?;
    opened(value)
        .map(Some)
        .ok_or_else(|| damaged(storage, name))
}

fn damaged(storage: &dyn SharedFolder, name: &str) -> Error {
    Error::input(storage.place(name), "is not a file of a job").with_remedy(format!(
        "remove it if it is not the job's, write elsewhere, or start anew with {FORCE}"
    ))
}

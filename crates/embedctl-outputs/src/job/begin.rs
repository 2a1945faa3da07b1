//! The start of a job: the state of its folder, other runs that work on it, and the remaining work.

use std::collections::BTreeMap;

use super::facts::JobFacts;
use super::part::Part;
use super::parts::{Create, Limits, Parts};
use super::reader::EmbeddedRange;
use super::shards::Shard;
use super::state::State;
use super::{Job, names};
use crate::error::{Error, Result};
use crate::remedies;
use crate::setting::{FORCE, OUTPUT, RESUME};
use crate::storage::{Entry, FolderLock};

/// A job's folder, inspected and locked.
#[derive(Debug)]
pub struct LockedJob {
    pub(super) lock: FolderLock,
    pub(super) state: State,
    /// Records in a window.
    pub window: usize,
}

impl Job {
    /// Inspects and locks the folder, and removes the remains of unpublished parts that belong to no running job.
    /// `window` is the maximum number of records in a window. Returns `None` if there is nothing to do.
    ///
    /// # Errors
    /// If the output is complete or begun and the options neither resume nor replace it, another run works on it,
    /// one of its files is damaged, or the system refuses.
    pub fn begin(&self, window: usize) -> Result<Option<LockedJob>> {
        let storage = self.storage.as_ref();
        let Shard { index, count } = self.options.shard;
        let is_removed = self.is_removed(&self.look()?)?;
        let Some(lock) = storage.lock(&names::lock(index))? else {
            return Err(busy(&self.shown));
        };
        // A job that begins is proven by its first file.
        storage.prove_exclusive(names::JOB)?;
        if self.anew {
            if count > 1 {
                return Err(Error::usage(format!(
                    "{FORCE}: {} is shared by {count} shards, but one must not remove what others write",
                    self.shown
                ))
                .with_remedy(format!(
                    "remove it and {} before they begin",
                    storage.place(names::OWN)
                )));
            }
            self.clear()?;
        }
        let mut state = self.look()?;
        if is_removed && state.parts.is_empty() && count == 1 {
            self.clear()?;
            state = State::default();
        }
        state.check_lists(storage)?;
        if state.has_ended(index) && !self.is_single() {
            // A kill between the last part and the completion marker.
            self.complete_ended(&lock, &state)?;
            return Ok(None);
        }
        self.commit_again(&state)?;
        self.clear_orphans(&lock, &state.committed())?;
        if state.success || state.ends.contains_key(&index) {
            // A part was removed since.
            for said in [names::SUCCESS, names::MANIFEST, &names::shard(index)] {
                storage.remove(said)?;
            }
            state.ends.remove(&index);
        }
        let window = match &state.job {
            Some(job) => job.window,
            None => window_of(self.options.part_rows, window),
        };
        Ok(Some(LockedJob {
            lock,
            state,
            window,
        }))
    }

    /// The state of the folder.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn state(&self) -> Result<State> {
        State::read(self.storage.as_ref(), Some(self.options.shard.index))
    }

    /// Inspects the folder without changing it.
    ///
    /// # Errors
    /// If the output is complete or begun and the options neither resume nor replace it; or it cannot be read.
    pub fn look(&self) -> Result<State> {
        // A job that is replaced may be damaged.
        if self.anew && self.storage.read(names::JOB)?.is_some() {
            self.refuse_others(names::is_of_job)?;
            return Ok(State::default());
        }
        let state = self.state()?;
        if state.job.is_none() {
            self.refuse_others(|_| false)?;
        }
        // Of a job in shards, others may have begun.
        let Shard { index, count } = self.options.shard;
        let is_begun = state.job.is_some()
            && (count == 1 || !state.parts.is_empty() || state.ends.contains_key(&index))
            && !self.is_removed(&state)?;
        if !self.options.resume && !self.anew && is_begun {
            return Err(match state.success {
                true => Error::usage(format!("{}: the output exists and is complete", self.shown))
                    .with_remedy(match count {
                        1 => remedies::taken(),
                        _ => format!("write elsewhere, or {}", self.anew()),
                    }),
                false if state.parts.is_empty() => Error::usage(format!(
                    "{}: the folder has no part, but {} is left from an output that was begun or removed here",
                    self.shown,
                    self.storage.place(names::JOB)
                ))
                .with_remedy(format!("continue with {RESUME}, or {}", self.anew())),
                false => Error::usage(format!(
                    "{}: an unfinished output is there, with {}",
                    self.shown,
                    state.counted()
                ))
                .with_remedy(format!("continue with {RESUME}, or {}", self.anew())),
            });
        }
        Ok(state)
    }

    /// Whether all parts of this shard were removed, so that the job's own files beside them are of no use any more.
    fn is_removed(&self, state: &State) -> Result<bool> {
        let storage = self.storage.as_ref();
        let Shard { index, count } = self.options.shard;
        if state.job.is_none() || !state.parts.is_empty() {
            return Ok(false);
        }
        if count == 1 && !storage.exists() {
            return Ok(true);
        }
        let is_own = |entry: &Entry| names::parse(&entry.name).is_some_and(|it| it.0 == index);
        let had_parts =
            state.ends.contains_key(&index) || storage.list(names::COMMITS)?.iter().any(is_own);
        Ok(had_parts && !self.options.resume)
    }

    /// Refuses a folder with other files than those of the job, which readers would take for parts.
    fn refuse_others(&self, is_own: impl Fn(&str) -> bool) -> Result<()> {
        if self.is_single() {
            return Ok(()); // the parts of a single file are its own
        }
        let mut names = self.storage.list("")?.into_iter().map(|entry| entry.name);
        let other = match names.find(|name| !name.starts_with(['_', '.']) && !is_own(name)) {
            None => self.storage.stray()?,
            other => other,
        };
        match other {
            None => Ok(()),
            Some(name) => Err(Error::usage(format!(
                "{OUTPUT} {}: the folder holds {name}, which is not part of an output, and readers of the folder would \
                 take it for one",
                self.shown
            ))
            .with_remedy(match names::parse(&name).is_some() {
                // A folder that was moved or copied without the files beside it.
                true => format!(
                    "if the folder was moved or copied, take along the job's files ({} belongs to them); else write to \
                     a folder of its own",
                    self.storage.place(names::JOB)
                ),
                false => "write to a folder of its own".to_owned(),
            })),
        }
    }
}

impl LockedJob {
    /// The state that was found.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The embedded stretches of the input.
    #[must_use]
    pub fn covered(&self) -> Vec<EmbeddedRange> {
        let part = |part: &Part| EmbeddedRange {
            start: part.info.start.clone(),
            end: part.info.end.clone(),
        };
        let parts = self.state.parts.values();
        let covers = |part: &&Part| part.info.end.records > 0;
        parts.filter(covers).map(part).collect()
    }

    /// Begins to write the missing parts.
    ///
    /// # Errors
    /// As [`Parts::new`].
    pub fn parts(self, about: JobFacts, create: Create, limits: Limits) -> Result<Parts> {
        let known: BTreeMap<u32, Part> = (self.state.parts.values())
            .map(|part| (part.info.number, part.clone()))
            .collect();
        Parts::new(about, create, limits, self.lock, known)
    }
}

/// The error for a lock that another run holds.
pub(super) fn busy(shown: &str) -> Error {
    Error::usage(format!("{shown}: another run is writing it"))
        .with_remedy("wait until it ends, or stop it first")
}

/// Records of a window: at most `most`, and a divisor of a part's records if one of suitable size exists.
pub(super) fn window_of(part_rows: Option<u64>, most: usize) -> usize {
    let Some(rows) = part_rows.and_then(|rows| usize::try_from(rows).ok()) else {
        return most;
    };
    let least = most / 8;
    let divisors = (least.max(1)..=most.min(rows)).rev();
    let fits = |window: &usize| rows.is_multiple_of(*window);
    divisors.into_iter().find(fits).unwrap_or(most.min(rows))
}

//! Jobs that survive failures: the output is written in parts, each published when it is complete, and a later run
//! resumes after the last part.
//!
//! ```text
//!  OUT/part-00001-00000.parquet        shard 1, its first part: a stretch of the input, published whole
//!  _OUT.embedctl/job.json              the fingerprint, created exclusively
//!  _OUT.embedctl/rejects, texts        lists that belong to a part, written before it; without an exclusive lock (on
//!                                      a store), their names carry the part's tag
//!  _OUT.embedctl/beside                on a store, files that are put beside a part once it is published
//!  _OUT.embedctl/commits               contents of each part; can be made again from the parts
//!  _OUT.embedctl/sidecars              provenances of parts in JSON Lines
//!  _OUT.embedctl/shards                written when a shard is at its end
//!  _OUT.embedctl/manifest.json         everything, once all shards are
//!  OUT/_SUCCESS                        last
//! ```
//!
//! The names in [`names`] begin with `_embedctl/` instead: the storage decides where the job's own files lie
//! ([`own_folder`](crate::storage::own_folder)).
//!
//! Published parts stay, whatever stops a run. The next run with `--resume` checks that model, options and input are
//! the same, and embeds the missing records.
//!
//! A single file with `--resume` is a job too: its parts lie in `OUT.parts/` in a format of their own
//! ([`spool`]) and become the file at the end.

mod agreement;
mod begin;
mod commit;
#[cfg(test)]
mod completion_tests;
#[cfg(test)]
mod damaged_tests;
mod ending;
mod facts;
mod fingerprint;
mod gaps;
#[cfg(test)]
mod memory_tests;
mod names;
mod open;
mod part;
mod parts;
mod paths;
#[cfg(test)]
mod proven_tests;
mod reader;
#[cfg(test)]
mod scene_tests;
mod seal;
mod shards;
mod sidecars;
mod spool;
mod state;
#[cfg(test)]
pub(crate) mod storage_tests;
#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
#[cfg(test)]
mod two_runs_tests;

use std::sync::Arc;
use std::time::Duration;

pub use agreement::Inputs;
pub use begin::LockedJob;
pub use ending::{clear_parts, clear_unbegun, forget, remove_parts};
pub use facts::JobFacts;
pub use fingerprint::{Fingerprint, INPUT_NAMES, INPUT_SIZES};
pub use open::EmbeddedWindow;
pub use part::{Manifest, Part, PartInfo, Point, ShardEnd, SourceState};
pub use parts::{Create, Limits, Made, Parts};
pub use paths::{folder_format, is_folder, is_inside, manifest_place, parts_of, rejects_of};
pub use reader::{EmbeddedRange, JobReader};
pub use reader::{point_inside, text_hash};
pub(crate) use seal::sealed;
pub use shards::{Shard, ShardRange, plan};
pub use spool::{Spool, SpoolReader};
pub use state::{JobFile, State, inspect};

use self::fingerprint::is_of_inputs;
use self::paths::refuse_file;
use crate::error::{Error, Result};
use crate::identity::{self, Difference};
use crate::output::{Destination, OutputFormat, OutputOptions};
use crate::setting::{FORCE, KEEP, OUTPUT, PART_ROWS, RESUME, REUSE, SHARD};
use crate::storage::{Content, LocalFolder, SharedFolder};

/// Bytes of a part, about: an object store takes that in one request.
const PART_BYTES: u64 = 128 << 20;

/// Maximum time for a part: the most work, in time, that a kill can cost.
const PART_TIME: Duration = Duration::from_secs(600);

/// The options that make a run a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobOptions {
    /// Records of a part at most; `None`: as many as make 128 MiB.
    pub part_rows: Option<u64>,
    /// Resume an earlier run.
    pub resume: bool,
    /// This run's share of the input.
    pub shard: Shard,
}

/// A job that was asked for.
#[derive(Debug, Clone)]
pub struct Job {
    storage: Arc<dyn SharedFolder>,
    shown: String,
    /// The format of its parts; none for those of a single file.
    format: Option<OutputFormat>,
    options: JobOptions,
    /// Whether the remains of an earlier run are removed first.
    anew: bool,
    /// The input, to prove that all shards have read the same version of it.
    inputs: Option<Arc<dyn Inputs>>,
}

impl Job {
    /// The job that the options request; `None` for a single file without `resume`.
    ///
    /// # Errors
    /// If they contradict each other.
    pub fn of(output: &OutputOptions, options: &JobOptions) -> Result<Option<Self>> {
        let Destination::Path(path) = &output.destination else {
            if options.resume || options.part_rows.is_some() || options.shard.count > 1 {
                return Err(Error::usage(format!(
                    "{RESUME}, {PART_ROWS} and {SHARD}: standard output has no parts that a run could resume"
                ))
                .with_remedy(format!("name a folder with {OUTPUT}")));
            }
            return Ok(None);
        };
        let format = folder_format(output);
        let folder = format.is_some();
        if !folder {
            refuse_file(path, options)?;
        }
        if !folder && !options.resume {
            let left = parts_of(path);
            if !output.force && left.join(names::JOB).exists() {
                return Err(Error::usage(format!(
                    "{OUTPUT} {}: an unfinished output is there, its parts in {}",
                    path.display(),
                    left.display()
                ))
                .with_remedy(format!(
                    "continue with {RESUME}, or pass {FORCE} to start anew"
                )));
            }
            return Ok(None);
        }
        let storage = match folder {
            true => LocalFolder::of_parts(path),
            false => LocalFolder::new(parts_of(path)),
        };
        Ok(Some(Self {
            storage: Arc::new(storage),
            shown: path.display().to_string(),
            format,
            options: options.clone(),
            anew: output.force && !options.resume,
            inputs: None,
        }))
    }

    /// The same job in another storage.
    #[must_use]
    pub fn with_storage(self, storage: Arc<dyn SharedFolder>) -> Self {
        Self { storage, ..self }
    }

    /// The same job, whose shards are compared with that input once all are finished. `None`: no comparison.
    #[must_use]
    pub fn with_inputs(self, inputs: Option<Arc<dyn Inputs>>) -> Self {
        Self { inputs, ..self }
    }

    /// Removes the remains of a run that was killed after its end.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn tidy(&self) -> Result<()> {
        let lock = names::lock(self.options.shard.index);
        self.storage.lock(&lock).map(drop)
    }

    /// Whether parts become one file at the end.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.format.is_none()
    }

    /// The format of the parts; none for those of a single file, which are a [`Spool`]'s.
    #[must_use]
    pub fn format(&self) -> Option<OutputFormat> {
        self.format
    }

    /// Where the parts are.
    #[must_use]
    pub fn storage(&self) -> &Arc<dyn SharedFolder> {
        &self.storage
    }

    /// Where the lists of rejected records lie, for messages.
    #[must_use]
    pub fn rejects(&self) -> String {
        self.storage.place(names::REJECTS).to_string()
    }

    /// The output, for messages.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// How to begin it anew, for messages.
    #[must_use]
    pub fn anew(&self) -> String {
        match self.options.shard.count {
            1 => format!("start anew with {FORCE}"),
            _ => format!(
                "remove it and {} and run all shards anew",
                self.storage.place(names::OWN)
            ),
        }
    }

    /// The shard that this run is.
    #[must_use]
    pub fn shard(&self) -> Shard {
        self.options.shard
    }

    /// When parts end, for vectors of about so many bytes.
    #[must_use]
    pub fn limits(&self, bytes: usize, window: usize) -> Limits {
        let most = PART_BYTES / bytes.max(1) as u64;
        Limits {
            records: self.options.part_rows.unwrap_or(most).max(1),
            window: window as u64,
            bytes: PART_BYTES,
            time: PART_TIME,
        }
    }

    /// Ending of a part's name, with its dot.
    #[must_use]
    pub fn ending(&self) -> String {
        format!(".{}", self.format_name())
    }

    fn format_name(&self) -> &'static str {
        self.format.map_or(Spool::ENDING, OutputFormat::name)
    }

    /// Settles the fingerprint: with that of the run that began the job, leaving out the keys in `except`, or as
    /// the first. That of the first run counts, and is returned.
    ///
    /// # Errors
    /// If it differs; the message names the keys.
    pub fn settle(
        &self,
        begun: &LockedJob,
        fingerprint: &Fingerprint,
        except: &[&str],
    ) -> Result<Fingerprint> {
        if let Some(job) = &begun.state.job {
            self.compare(&begun.state, fingerprint, except)?;
            return Ok(job.fingerprint.clone());
        }
        let job = JobFile {
            schema: state::SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            format: self.format_name().to_owned(),
            shards: self.options.shard.count,
            window: begun.window,
            fingerprint: fingerprint.clone(),
        };
        let text = format!("{:#}\n", sealed(&job)?);
        match self
            .storage
            .put(names::JOB, Content::Durable(text.as_bytes()))?
        {
            true => {
                if let Err(error) = self.storage.prove_exclusive(names::JOB) {
                    let _ = self.storage.remove(names::JOB);
                    return Err(error);
                }
                Ok(job.fingerprint)
            }
            // Another shard was faster.
            false if self.options.shard.count > 1 => {
                let state = self.state()?;
                self.compare(&state, fingerprint, except)?;
                Ok(state.job.map_or(job.fingerprint, |job| job.fingerprint))
            }
            false => Err(parts::taken(&self.shown, names::JOB)),
        }
    }

    /// Compares with the fingerprint that the job was begun with, leaving out the keys in `except`.
    ///
    /// # Errors
    /// If it differs; the message names the keys.
    pub fn compare(&self, state: &State, now: &Fingerprint, except: &[&str]) -> Result<()> {
        match &state.job {
            Some(job) => self.differ(&job.fingerprint, now, except),
            None => Ok(()),
        }
    }

    /// As [`Job::compare`], with a fingerprint that was found elsewhere.
    ///
    /// # Errors
    /// As there.
    pub fn differ(&self, then: &Fingerprint, now: &Fingerprint, except: &[&str]) -> Result<()> {
        let differences = then.differences(now, except);
        if differences.is_empty() {
            return Ok(());
        }
        if differences.iter().all(is_of_inputs) {
            return Err(self.of_other_input(&differences));
        }
        Err(Error::usage(format!(
            "{}: it was begun with other settings, but one output holds vectors of one kind: {}",
            self.shown,
            identity::listed(&differences)
        ))
        .with_remedy(format!(
            "give the same settings as then to resume, write elsewhere, or {}",
            self.anew()
        )))
    }

    /// The error where only the input differs, such as one that has grown.
    fn of_other_input(&self, differences: &[Difference]) -> Error {
        let (place, texts) = match self.is_single() {
            true => ("NEW", format!(" (if it holds its texts: {KEEP} text)")),
            false => ("NEW/", String::new()),
        };
        let reason = format!(
            "{}: the input is not the one that it was begun with: {}",
            self.shown,
            identity::listed(differences)
        );
        Error::usage(reason).with_remedy(format!(
            "to embed what is new and copy the other vectors, write to another place with `{OUTPUT} {place} {REUSE} {}`{texts}; \
             or give the same input, or {}",
            self.shown,
            self.anew()
        ))
    }
}

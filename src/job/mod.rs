//! Jobs that outlive failures: an output in parts, each complete and published as soon as it is, and runs that
//! go on where the last one got to.
//!
//! ```text
//!  OUT/part-00001-00000.parquet        shard 1, its first part: a stretch of the input, published whole
//!  OUT/_embedctl/job.json              the fingerprint, created exclusively
//!  OUT/_embedctl/rejects, texts        what belongs to a part, written before it
//!  OUT/_embedctl/commits               what each part holds; can be made again from the parts
//!  OUT/_embedctl/shards                written when a shard is at its end
//!  OUT/_embedctl/manifest.json         everything, once all shards are
//!  OUT/_SUCCESS                        last
//! ```
//!
//! The part is the commit: whatever stops a run, what it has published stays, and the next run with
//! `--resume` embeds what is missing, after it has seen that model, options and input are the same.
//!
//! A single file with `--resume` is a job too: its parts lie in `OUT.parts/` in a format of their own
//! ([`spool`]) and become the file at the end.

mod fingerprint;
mod names;
mod objects;
mod part;
mod parts;
mod reader;
mod shards;
mod spool;
mod state;
mod storage;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use fingerprint::Fingerprint;
pub use objects::Objects;
pub use part::{Manifest, Part, PartInfo, Point, ShardEnd, SourceState};
pub use parts::{About, Create, Done, Limits, Made, Parts};
pub(crate) use reader::text_hash;
pub use reader::{Covered, JobReader};
pub use shards::{Shard, plan};
pub use spool::{Spool, SpoolReader};
pub use state::{JobFile, State, inspect};
pub use storage::{Content, Entry, Guard, Local, Storage};

use crate::error::{Error, Result};
use crate::output::{Destination, OutputFormat, OutputOptions};
use crate::storage::Address;

/// Bytes of a part, about: an object store takes that in one request.
const PART_BYTES: u64 = 128 << 20;

/// How long a part may take: what a kill costs at most, in time.
const PART_TIME: Duration = Duration::from_secs(600);

/// What makes a run a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobOptions {
    /// Records of a part at most; `None`: as many as make 128 MiB.
    pub part_rows: Option<u64>,
    /// Go on where an earlier run got to.
    pub resume: bool,
    /// Which share of the input is this run's.
    pub shard: Shard,
}

/// A job that was asked for.
#[derive(Debug, Clone)]
pub struct Job {
    storage: Arc<dyn Storage>,
    shown: String,
    /// The format of its parts; none for those of a single file.
    format: Option<OutputFormat>,
    options: JobOptions,
    force: bool,
}

/// A job's folder, looked at and locked.
#[derive(Debug)]
pub struct Begun {
    lock: Guard,
    state: State,
    /// Records in a window.
    pub window: usize,
}

/// What a job's folder holds before anything is done.
#[derive(Debug)]
pub enum Found {
    /// Everything: there is nothing to do.
    Finished(Box<State>),
    /// There is something to do.
    Begun(Box<Begun>),
}

impl Job {
    /// The job that options ask for; none where the output is a single file that nobody wants to resume.
    ///
    /// # Errors
    /// If they contradict each other.
    pub fn of(output: &OutputOptions, options: &JobOptions) -> Result<Option<Self>> {
        let Destination::Path(path) = &output.destination else {
            if options.resume || options.part_rows.is_some() || options.shard.count > 1 {
                return Err(Error::usage(
                    "--resume, --part-rows and --shard: standard output has no parts that a run could go on with; \
                     name a folder with -o",
                ));
            }
            return Ok(None);
        };
        let folder = is_folder(path);
        if !folder && options.shard.count > 1 {
            return Err(Error::usage(format!(
                "--shard writes parts into a folder that all shards share, and -o {0} is a file; write -o {0}/",
                path.display()
            )));
        }
        if !folder && options.part_rows.is_some() && !options.resume {
            return Err(Error::usage(format!(
                "--part-rows needs a folder for the parts, and -o {0} is a file; write -o {0}/",
                path.display()
            )));
        }
        if Address::is_url_path(path) && !folder && options.resume {
            return Err(Error::usage(format!(
                "-o {0}: one object is written by one run; write parts to {0}/, which can be gone on with",
                path.display()
            )));
        }
        if !folder && options.shard.count > 1 {
            return Err(Error::usage(format!(
                "--shard writes parts into a folder that all shards share, and -o {0} is a file; write -o {0}/",
                path.display()
            )));
        }
        if !folder && options.part_rows.is_some() && !options.resume {
            return Err(Error::usage(format!(
                "--part-rows needs a folder for the parts, and -o {0} is a file; write -o {0}/",
                path.display()
            )));
        }
        if Address::is_url_path(path) && !folder && options.resume {
            return Err(Error::usage(format!(
                "-o {0}: one object cannot be gone on with; write parts of it, with -o {0}/",
                path.display()
            )));
        }
        if !folder && !options.resume {
            let left = parts_of(path);
            if !output.force && left.join(names::JOB).exists() {
                return Err(Error::usage(format!(
                    "-o {}: an unfinished output is there, its parts in {}",
                    path.display(),
                    left.display()
                ))
                .with_remedy("go on with --resume, or pass --force to start anew"));
            }
            return Ok(None);
        }
        let root = if folder { path.clone() } else { parts_of(path) };
        Ok(Some(Self {
            storage: Arc::new(Local::new(root)),
            shown: path.display().to_string(),
            format: folder.then(|| folder_format(output, path)).transpose()?,
            options: options.clone(),
            force: output.force,
        }))
    }

    /// The same job in another storage.
    #[must_use]
    pub fn with_storage(self, storage: Arc<dyn Storage>) -> Self {
        Self { storage, ..self }
    }

    /// Removes what a run has left that was killed after its last word.
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
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The output, for messages.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The shard that this run is.
    #[must_use]
    pub fn shard(&self) -> Shard {
        self.options.shard
    }

    /// Looks at the folder, removes what is left of parts that were not published, and keeps other runs out.
    /// `window` is how many records a window may have at most.
    ///
    /// # Errors
    /// If the output is there or begun and the options don't say what to do with it, another run is at work on
    /// it, or the system refuses.
    pub fn begin(&self, window: usize) -> Result<Found> {
        let storage = self.storage.as_ref();
        self.look()?;
        let Some(lock) = storage.lock(&names::lock(self.options.shard.index))? else {
            return Err(Error::usage(format!(
                "{}: another run is writing it; let it end, or stop it first",
                self.shown
            )));
        };
        if self.force && !self.options.resume {
            if self.options.shard.count > 1 {
                return Err(Error::usage(format!(
                    "--force: {} is shared by {} shards, and one must not remove what others write; remove it \
                     before they begin",
                    self.shown, self.options.shard.count
                )));
            }
            self.clear()?;
        }
        let state = self.look()?;
        if state.success {
            return Ok(Found::Finished(Box::new(state)));
        }
        // A kill between the last part and the last word.
        if state.ends.contains_key(&self.options.shard.index) && !self.is_single() {
            self.complete()?;
            return Ok(Found::Finished(Box::new(state)));
        }
        self.clear_orphans(&state)?;
        let window = match &state.job {
            Some(job) => job.window,
            None => window_of(self.options.part_rows, window),
        };
        Ok(Found::Begun(Box::new(Begun {
            lock,
            state,
            window,
        })))
    }

    /// What stands in the folder.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn state(&self) -> Result<State> {
        State::read(self.storage.as_ref(), Some(self.options.shard.index))
    }

    /// Looks at the folder, and changes nothing.
    ///
    /// # Errors
    /// If the output is there or begun, and the options don't say what to do with it; or it cannot be read.
    pub fn look(&self) -> Result<State> {
        let state = self.state()?;
        if state.job.is_none() && !self.is_single() {
            self.refuse_others()?;
        }
        // Of a job in shards, others may have begun.
        let Shard { index, count } = self.options.shard;
        let is_begun = state.job.is_some()
            && (count == 1 || !state.parts.is_empty() || state.ends.contains_key(&index));
        if !self.options.resume && !self.force && is_begun {
            return Err(match state.success {
                true => Error::usage(format!("{}: the output exists and is complete", self.shown))
                    .with_remedy("pass --force to replace it, or write elsewhere"),
                false => Error::usage(format!(
                    "{}: an unfinished output is there, with {} rows in {} parts",
                    self.shown,
                    state.rows(),
                    state.parts.len()
                ))
                .with_remedy("go on with --resume, or pass --force to start anew"),
            });
        }
        Ok(state)
    }

    /// Refuses a folder that holds somebody else's files, which readers would take for parts.
    fn refuse_others(&self) -> Result<()> {
        let other =
            (self.storage.list("")?.into_iter()).find(|entry| !entry.name.starts_with(['_', '.']));
        match other {
            None => Ok(()),
            Some(entry) => Err(Error::usage(format!(
                "-o {}: the folder holds {}, which is no part of an output, and readers of the folder would \
                 take it for one; write to a folder of its own",
                self.shown, entry.name
            ))),
        }
    }

    /// Removes everything that a job has written, what says that it is complete first.
    fn clear(&self) -> Result<()> {
        let storage = self.storage.as_ref();
        if storage.read(names::JOB)?.is_none() {
            return Ok(());
        }
        storage.remove(names::SUCCESS)?;
        storage.remove(names::MANIFEST)?;
        for entry in storage.list("")? {
            if names::parse(&entry.name).is_some() {
                storage.remove(&entry.name)?;
            }
        }
        for folder in [names::SHARDS, names::COMMITS, names::REJECTS, names::TEXTS] {
            for entry in storage.list(folder)? {
                storage.remove(&format!("{folder}/{}", entry.name))?;
            }
        }
        storage.remove(names::JOB)
    }

    /// Removes everything, the folder too: its parts have become one file.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn discard(&self) -> Result<()> {
        self.clear()?;
        self.storage.discard()
    }

    /// Removes what was put for parts that were not.
    fn clear_orphans(&self, state: &State) -> Result<()> {
        let storage = self.storage.as_ref();
        for folder in ["", names::COMMITS, names::REJECTS, names::TEXTS] {
            for entry in storage.list(folder)? {
                let orphan = names::parse(&entry.name).is_some_and(|(shard, number, _)| {
                    shard == self.options.shard.index && !state.parts.contains_key(&(shard, number))
                });
                if orphan {
                    let name = match folder {
                        "" => entry.name,
                        folder => format!("{folder}/{}", entry.name),
                    };
                    storage.remove(&name)?;
                }
            }
        }
        Ok(())
    }

    /// When parts end, for vectors of `width` numbers.
    #[must_use]
    pub fn limits(&self, width: usize, window: usize) -> Limits {
        let most = PART_BYTES / (width * size_of::<f32>()).max(1) as u64;
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
        format!(".{}", self.format.map_or(Spool::ENDING, OutputFormat::name))
    }

    /// Settles the fingerprint: with that of the run that began the job, leaving out the keys in `except`, or as
    /// the first. That of the first run counts, and is returned.
    ///
    /// # Errors
    /// If it differs; the message names the keys.
    pub fn settle(
        &self,
        begun: &Begun,
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
            format: self
                .format
                .map_or(Spool::ENDING.to_owned(), |format| format.to_string()),
            shards: self.options.shard.count,
            window: begun.window,
            fingerprint: fingerprint.clone(),
        };
        let text = format!("{:#}\n", parts::encode(&job)?);
        match self
            .storage
            .put(names::JOB, Content::Durable(text.as_bytes()))?
        {
            true => Ok(job.fingerprint),
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
        Err(Error::usage(format!(
            "{}: it was begun with other settings, and one output holds vectors of one kind: {}",
            self.shown,
            differences.join(", ")
        ))
        .with_remedy(
            "give the same as then to go on, or write elsewhere, or start anew with --force",
        ))
    }

    /// Completes the output once all shards are at their ends: the manifest, and then the word that says so.
    /// Whether they are.
    ///
    /// # Errors
    /// If parts don't add up, or the system refuses.
    pub fn complete(&self) -> Result<bool> {
        let state = State::read(self.storage.as_ref(), None)?;
        let Some(job) = &state.job else {
            return Err(Error::internal("a job without job.json was completed"));
        };
        if (1..=job.shards).any(|shard| !state.ends.contains_key(&shard)) {
            return Ok(false);
        }
        let faults = state.faults();
        if !faults.is_empty() {
            return Err(Error::internal(faults.join("; ")));
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
        let text = format!("{:#}\n", parts::encode(&manifest)?);
        // Another shard may say the same at the same time.
        self.storage
            .put(names::MANIFEST, Content::Durable(text.as_bytes()))?;
        self.storage.put(names::SUCCESS, Content::Durable(b""))?;
        Ok(true)
    }
}

impl Begun {
    /// What was found.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The stretches that are embedded.
    #[must_use]
    pub fn covered(&self) -> Vec<Covered> {
        let part = |part: &Part| Covered {
            start: part.info.start.clone(),
            end: part.info.end.clone(),
        };
        self.state.parts.values().map(part).collect()
    }

    /// Begins to write what is missing.
    ///
    /// # Errors
    /// As [`Parts::new`].
    pub fn parts(self, about: About, create: Create, limits: Limits) -> Result<Parts> {
        let known: BTreeMap<u32, Part> = (self.state.parts.values())
            .map(|part| (part.info.number, part.clone()))
            .collect();
        Parts::new(about, create, limits, self.lock, known)
    }
}

/// What a job's parts are about, before anything is known of its fingerprint.
impl About {
    /// Of the job's shard.
    #[must_use]
    pub fn of(job: &Job, sources: Vec<SourceState>) -> Self {
        Self {
            storage: Arc::clone(&job.storage),
            shown: job.shown.clone(),
            shard: job.options.shard.index,
            shards: job.options.shard.count,
            ending: job.ending(),
            fingerprint: String::new(),
            sources,
        }
    }
}

/// Whether an output is a folder: it says so by a `/` at its end, or is one.
#[must_use]
pub fn is_folder(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    text.ends_with(b"/")
        || text.ends_with(std::path::MAIN_SEPARATOR_STR.as_bytes())
        || fs::metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Removes the rest of the parts of the complete single file at `path`.
///
/// # Errors
/// If the system refuses.
pub fn remove_parts(path: &Path) -> Result<()> {
    Local::new(parts_of(path)).discard()
}

/// Removes what an unfinished run has left of the single file at `path`.
///
/// # Errors
/// If the system refuses.
pub fn forget(path: &Path) -> Result<()> {
    let storage = Local::new(parts_of(path));
    match storage.read(names::JOB)? {
        Some(_) => storage.discard(),
        None => Ok(()),
    }
}

/// Where the parts of a single file lie while it is made.
#[must_use]
pub fn parts_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".parts");
    name.into()
}

/// The format of a folder's parts: as the options say, or as the folder is called; else Parquet.
fn folder_format(output: &OutputOptions, path: &Path) -> Result<OutputFormat> {
    let format = output.format.or_else(|| OutputFormat::from_path(path));
    let format = format.unwrap_or(OutputFormat::Parquet);
    Ok(format)
}

/// Records of a window: at most `most`, and such that whole windows make a part.
fn window_of(part_rows: Option<u64>, most: usize) -> usize {
    let Some(rows) = part_rows.and_then(|rows| usize::try_from(rows).ok()) else {
        return most;
    };
    let least = most / 8;
    let divisors = (least.max(1)..=most.min(rows)).rev();
    let fits = |window: &usize| rows.is_multiple_of(*window);
    divisors.into_iter().find(fits).unwrap_or(most.min(rows))
}

/// Whether two names lead to one place, or one inside the other: inputs must not lie in the output.
#[must_use]
pub fn is_inside(path: &Path, folder: &Path) -> bool {
    if Address::is_url_path(path) && Address::is_url_path(folder) {
        let address = |path: &Path| Address::parse(&path.to_string_lossy());
        let (Ok(path), Ok(folder)) = (address(path), address(folder)) else {
            return false;
        };
        return path.to_string().starts_with(&folder.to_string());
    }
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        _ => false,
    }
}

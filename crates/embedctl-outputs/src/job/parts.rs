//! Writes rows in parts: separate files, each published whole and with a record of its content.
//!
//! A part ends where a window ends, or after its time where a portion of a window ends. Its files are written in an order such that the next run understands the state
//! after any interruption:
//!
//! ```text
//!  rejects, texts, files beside the part   without their part: removed by the next run, if its lock is exclusive
//!  the part                                from here on its stretch of the input is done
//!  (without locks, files beside the part   behind it: those of the run whose part stands ([`super::sidecars`]))
//!  its commit                              can be made again from the part
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::commit::{Commit, FileState, hashes_of};
use super::facts::JobFacts;
use super::open::{EmbeddedWindow, Open, PartList};
use super::part::{Part, PartInfo, Point, ShardEnd};
use super::seal::sealed;
use super::sidecars::{self, PartSidecars};
use super::{Job, names};
use crate::error::{Error, Result};
use crate::hash;
use crate::output::{Finish, VectorWriter};
use crate::progress::Counts;
use crate::setting::RESUME;
use crate::storage::{Content, FolderLock};
use arrow::datatypes::SchemaRef;
use embedctl_records::marks::WindowSpan;

/// Makes the writer of a file.
pub type Create = Box<dyn Fn(&Path) -> Result<Box<dyn VectorWriter>> + Send>;

/// Makes the provenance of something with these counts.
pub type Made<'a> = &'a dyn Fn(&Counts) -> Result<Value>;

/// The limits at which a part ends.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Records at most.
    pub records: u64,
    /// Records of a window at most: a part ends before one that would not fit.
    pub window: u64,
    /// Bytes of vectors and columns, about.
    pub bytes: u64,
    /// Maximum time.
    pub time: Duration,
}

/// Writes the parts of a shard that are missing.
pub struct Parts {
    about: JobFacts,
    create: Create,
    limits: Limits,
    scratch: PathBuf,
    lock: FolderLock,
    /// The existing parts.
    known: BTreeMap<u32, Part>,
    /// Where parts begin that are there: another one must end.
    starts: BTreeSet<u64>,
    open: Option<Open>,
    /// Counts at the end of the last part.
    counted: Counts,
    end: Option<ShardEnd>,
}

impl Parts {
    /// The lock, of parts that are not needed any more.
    #[must_use]
    pub fn into_lock(self) -> FolderLock {
        self.lock
    }

    /// Writes beside the parts that are `known`; `lock` is the shard's.
    ///
    /// # Errors
    /// If there is no room for files on their way.
    pub fn new(
        about: JobFacts,
        create: Create,
        limits: Limits,
        lock: FolderLock,
        known: BTreeMap<u32, Part>,
    ) -> Result<Self> {
        let scratch = about
            .job
            .storage
            .scratch(&names::lock(about.job.shard().index))?;
        Ok(Self {
            starts: known.values().map(|part| part.info.start.records).collect(),
            about,
            create,
            limits,
            scratch,
            lock,
            known,
            open: None,
            counted: Counts::default(),
            end: None,
        })
    }

    /// Takes the next window that was missing.
    ///
    /// # Errors
    /// If the system refuses, or another run writes the same parts.
    pub fn take(&mut self, done: EmbeddedWindow, made: Made<'_>) -> Result<()> {
        let (end, embedded) = (done.mark.end, done.counts.embedded);
        let is_inside = done.mark.is_inside;
        let records = end - done.mark.start;
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin(&done.mark, done.rows.columns.schema())?,
        };
        open.add(done, records)?;
        let holds_no_more = || {
            open.records + records.max(self.limits.window) > self.limits.records
                || open.bytes >= self.limits.bytes
        };
        // Only time ends a part inside of a window.
        let full = (!is_inside && holds_no_more()) || open.began.elapsed() >= self.limits.time;
        // Without a row the types of columns may still change, and all parts have the same.
        let has_rows = embedded > self.counted.embedded;
        let ends = (full && has_rows && !open.is_last) || self.starts.contains(&end);
        self.open = Some(open);
        if ends { self.commit(made) } else { Ok(()) }
    }

    /// Publishes the current part, if there is one.
    ///
    /// # Errors
    /// If the system refuses, or another run has published it.
    pub fn commit(&mut self, made: Made<'_>) -> Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let counts = open.counts.since(&self.counted);
        let mut info = open.info(&self.about, &counts)?;
        let texts = open.texts.finish(false)?;
        if !self.lock.is_exclusive() {
            let failed = |error| Error::io("read", &texts, error);
            let all = hash::of(fs::read(&texts).map_err(failed)?) + &sealed(&info)?.to_string();
            info.tag = Some(names::short(hash::of(all)));
        }
        let mut provenance = made(&counts)?;
        if let Some(object) = provenance.as_object_mut() {
            object.insert("part".to_owned(), sealed(&info)?);
        }
        if info.rejects_sha256.is_some() {
            // No other file records them.
            self.put_list(&info.rejects(), &open.rejects.finish(true)?)?;
        }
        self.put_list(&info.texts(), &texts)?;
        open.writer.finish(Finish {
            schema: open.schema,
            provenance: &provenance,
            rejects: None,
        })?;
        let part = self.publish(info)?;
        self.known.insert(part.info.number, part);
        self.counted = open.counts;
        Ok(())
    }

    /// Puts a part's files under their names, and then its commit. Those beside it come first, under a lock.
    fn publish(&self, info: PartInfo) -> Result<Part> {
        let storage = self.about.job.storage.as_ref();
        let file = format!("{}{}", info.name(), self.about.job.ending());
        let path = self.scratch.join(&file);
        let failed = |error| Error::io("read", &self.scratch, error);
        let sha256 = hashes_of(&path, self.about.job.format())?;
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.scratch).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with(&file) {
                continue;
            }
            files.push(FileState {
                bytes: entry.metadata().map_err(failed)?.len(),
                name,
                version: None,
            });
        }
        // The name of the part itself is the first.
        files.sort_by(|one, two| one.name.cmp(&two.name));
        let mut aside = None;
        if let Some(tag) = &info.tag {
            let beside = files.iter().skip(1);
            let beside: Vec<_> = beside.map(|it| self.scratch.join(&it.name)).collect();
            let aside = aside.insert(PartSidecars::aside(storage, &file, &path, tag, &beside)?);
            self.put(&file, Content::File(&path))?;
            aside.publish(storage)?;
            for file in &mut files {
                file.version = storage.version(&file.name)?;
            }
        } else {
            for file in files.iter_mut().rev() {
                self.put(&file.name, Content::File(&self.scratch.join(&file.name)))?;
                file.version = storage.version(&file.name)?;
            }
        }
        let part = Part {
            file,
            bytes: files.first().map_or(0, |file| file.bytes),
            sha256,
            info,
        };
        let commit = Commit { part, files };
        commit.put(storage)?;
        if let Some(aside) = aside {
            aside.done(storage)?;
        }
        Ok(commit.part)
    }

    /// Publishes the current part, and records the shard's `end`. A shard without any part gets one
    /// without rows, of `schema`.
    ///
    /// # Errors
    /// As [`Parts::commit`].
    pub fn finish(&mut self, end: Point, schema: SchemaRef, made: Made<'_>) -> Result<()> {
        if self.open.is_none() && self.known.is_empty() {
            let mark = WindowSpan::default();
            let mut open = self.begin(&mark, schema)?;
            open.end = end.clone();
            self.open = Some(open);
        }
        self.commit(made)?;
        let sum = |count: fn(&PartInfo) -> u64| {
            let parts = self.known.values();
            parts.map(|part| count(&part.info)).sum()
        };
        let end = ShardEnd {
            shard: self.about.job.shard().index,
            end,
            parts: self.known.len() as u64,
            rows: sum(|part| part.rows),
            rejected: sum(|part| part.rejected),
            window: self.limits.window,
            sources: self.about.of_share().to_vec(),
            stretches: self.about.stretches.clone(),
        };
        let text = sealed(&end)?.to_string();
        let name = names::shard(self.about.job.shard().index);
        self.about
            .job
            .storage
            .put(&name, Content::Durable(text.as_bytes()))?;
        self.end = Some(end);
        // Under a lock that was done at the begin.
        if !self.lock.is_exclusive() {
            let known = self.known.values();
            let known = known.map(|part| ((part.info.shard, part.info.number), part.clone()));
            self.about.job.clear_orphans(&self.lock, &known.collect())?;
        }
        Ok(())
    }

    /// The result of [`Parts::finish`].
    #[must_use]
    pub fn end(&self) -> Option<&ShardEnd> {
        self.end.as_ref()
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.about.job
    }

    /// The existing parts.
    pub fn known(&self) -> impl Iterator<Item = &Part> {
        self.known.values()
    }

    fn begin(&self, mark: &WindowSpan, schema: SchemaRef) -> Result<Open> {
        let mut known = self.known.values().rev();
        let before = known.find(|part| part.info.end.records <= mark.start);
        let number = before.map_or(0, |part| part.info.number + 1);
        let position = before.and_then(|part| part.info.position);
        if self.known.contains_key(&number) {
            return Err(Error::internal(format!(
                "part {number} would be written twice"
            )));
        }
        let name = names::part(self.about.job.shard().index, number);
        let file = format!("{name}{}", self.about.job.ending());
        Ok(Open {
            writer: (self.create)(&self.scratch.join(file))?,
            number,
            is_last: self.known.contains_key(&(number + 1)),
            start: Point {
                records: mark.start,
                hash: mark.before.clone(),
            },
            end: Point::default(),
            position: None,
            window: None,
            columns: None,
            source: position.map_or(self.about.share.start, |position| position.source),
            records: 0,
            counts: self.counted,
            schema,
            rejects: PartList::new(self.scratch.join(format!("{name}.rejects"))),
            texts: PartList::new(self.scratch.join(format!("{name}.sha256"))),
            bytes: 0,
            began: Instant::now(),
        })
    }

    /// Puts a list of the part in hand. One with a tag may be there: another run has put the same.
    fn put_list(&self, name: &str, spooled: &Path) -> Result<()> {
        if self.lock.is_exclusive() {
            return self.put(name, Content::File(spooled));
        }
        let bytes = fs::read(spooled).map_err(|error| Error::io("read", spooled, error))?;
        sidecars::put_own(self.about.job.storage.as_ref(), name, &bytes)?;
        let _ = fs::remove_file(spooled);
        Ok(())
    }

    fn put(&self, name: &str, content: Content<'_>) -> Result<()> {
        if self.about.job.storage.put(name, content)? {
            return Ok(());
        }
        Err(taken(&self.about.job.shown, name))
    }
}

/// The error if another run was faster.
pub(super) fn taken(shown: &str, name: &str) -> Error {
    Error::usage(format!(
        "{shown}: another run has written {name}; this run stops, since two runs cannot write one output"
    ))
    .with_remedy(format!("wait for the other run, and continue with {RESUME} if it does not finish"))
}

//! A run that is a job: its fingerprint, its parts, and the single file that they may become.

use std::path::PathBuf;
use std::sync::Arc;

use super::agreement::InputOf;
use super::ending::Ending;
use super::fingerprint::{LATER, SIZES, fingerprint, not_open, records};
use super::finished::{Said, of_file};
use super::reading::{range, shares, told};
use super::{EmbedOptions, OnError};
use crate::arrow::datatypes::SchemaRef;
use crate::engine::EngineInfo;
use crate::error::{Error, Result};
use crate::input::{InputOptions, RecordReader, Source};
use crate::job::{
    About, Begun, Create, Fingerprint, Job, JobReader, Parts, Places, Point, Rejected, SourceState,
    Spool, Stretch, clear_unbegun, is_inside, remove_parts,
};
use crate::model::{Model, ModelProvenance};
use crate::output::{self, Destination, OutputFormat, OutputOptions};
use crate::position::{Position, Seek};
use crate::record::SourceNames;
use crate::setting::{FORCE, LIMIT, ON_ERROR, REJECTS, RETRY_REJECTS, SAMPLE, SHARD};
use crate::storage::Location;

/// A job that is begun.
pub(super) struct JobRun {
    pub(super) job: Job,
    pub(super) begun: Begun,
    names: SourceNames,
    pub(super) sources: Vec<SourceState>,
    /// What its shard reads of the input; `None`: all of it.
    stretches: Option<Vec<Stretch>>,
    /// Types of kept columns that what is read first must not decide.
    pub(super) columns: Option<SchemaRef>,
    /// With the caller's list of files, which those that are begun stand on.
    pub(super) options: EmbedOptions,
    /// What the file says of itself whose rejected records are tried again.
    then: Option<Said>,
    /// Where rejected records stood, of an input that has changed since.
    pub(super) compared: Option<Places>,
    /// Fields are dropped in their order: the folder of the parts goes behind the lock in `begun`, which it holds.
    aside: Option<Aside>,
}

/// The parts of a single file. Those of one that is written anew go with the run, as nobody goes on with them; else
/// their folder goes with a run that puts nothing into it.
pub(super) struct Aside {
    file: PathBuf,
    anew: bool,
}

impl Drop for Aside {
    fn drop(&mut self) {
        // The next run does, otherwise.
        let _ = match self.anew {
            true => remove_parts(&self.file),
            false => clear_unbegun(&self.file),
        };
    }
}

/// The job that options ask for; none where a run is none.
///
/// # Errors
/// If options contradict each other.
pub fn of(options: &EmbedOptions) -> Result<Option<Job>> {
    let Some(mut job) = Job::of(&options.output, &options.job)? else {
        return Ok(None);
    };
    if job.is_single() {
        if options.job.retry
            && options.on_error == OnError::Null
            && options.output.resolved_format()? != OutputFormat::Parquet
        {
            return Err(Error::usage(format!(
                "{RETRY_REJECTS}: {}: which rows have no vector ({ON_ERROR} null) is told apart in Parquet alone",
                job.shown()
            ))
            .with_remedy(format!("mend the input and write the output anew, with {FORCE}")));
        }
        return Ok(Some(job));
    }
    if let Destination::Path(path) = &options.output.destination
        && let remote @ Location::Remote(_) = Location::of(path)?
    {
        let storage = options.files.storage()?;
        job = job.with_storage(remote.folder(Some(&storage))?);
    }
    if job.shard().count > 1 {
        job = job.with_inputs(Some(Arc::new(InputOf(options.clone()))));
        let InputOptions { limit, sample, .. } = &options.input;
        for (option, asked) in [(LIMIT, limit), (SAMPLE, sample)] {
            if let Some(records) = asked {
                return Err(Error::usage(format!(
                    "{option} {records}: a shard does not know how many records others read before its own"
                ))
                .with_remedy(format!("leave {option} out, or {SHARD}")));
            }
        }
    }
    if options.job.retry && options.on_error == OnError::Null {
        return Err(Error::usage(format!(
            "{RETRY_REJECTS}: under {ON_ERROR} null a rejected record is a row already, without a vector"
        ))
        .with_remedy("mend the input and write the output anew"));
    }
    if let Some(path) = &options.rejects {
        return Err(Error::usage(format!(
            "{REJECTS} {}: a folder keeps the rejects of its parts itself, in {}_embedctl/rejects",
            path.display(),
            with_slash(job.shown())
        ))
        .with_remedy("leave the option out"));
    }
    if let Destination::Path(folder) = &options.output.destination {
        let inside = options.sources.iter().filter_map(Source::path);
        if let Some(path) = inside.into_iter().find(|path| is_inside(path, folder)) {
            return Err(Error::usage(format!(
                "the input {} lies in the folder that -o names",
                path.display()
            ))
            .with_remedy("write to a folder of its own"));
        }
    }
    Ok(Some(job))
}

fn with_slash(folder: &str) -> String {
    format!("{}/", folder.trim_end_matches('/'))
}

/// Removes what an unfinished run has left of a single file that is made anew.
pub(super) fn forget(options: &EmbedOptions) -> Result<()> {
    match &options.output.destination {
        Destination::Path(path) if options.output.force => crate::job::forget(path),
        _ => Ok(()),
    }
}

/// Looks at the job's folder, and locks it.
pub(super) fn begin(mut job: Job, options: &EmbedOptions) -> Result<JobRun> {
    // Refused before anything is made.
    let mut input = RecordReader::open(&options.sources, options.input.clone())?;
    let (stretches, columns) = shares(job.shard(), options, &mut input)?;
    if stretches.is_some() && options.sources.contains(&Source::Stdin) {
        return Err(Error::usage(format!(
    "{SHARD} {}/{}: standard input cannot be read again, to prove that all shards have read the same",
    job.shard().index,
    job.shard().count
    ))
    .with_remedy("name files"));
    }
    let file = match &options.output.destination {
        Destination::Path(path) if job.is_single() => Some(path),
        _ => None,
    };
    let then = file.filter(|_| options.job.retry);
    let then = then.map(|path| of_file(path, options)).transpose()?;
    let then = then.flatten();
    if let Some(said) = &then {
        same_records(&job, &said.then, &options.input)?;
    }
    let Some(begun) = job.begin(options.input.window_rows)? else {
        return Err(Error::usage(format!(
            "{}: the output is complete; there is nothing to go on with",
            job.shown()
        ))
        .with_remedy(format!("leave it as it is, or start anew with {FORCE}")));
    };
    if options.job.retry && begun.state().success {
        job = job.with_inputs(None); // complete: its shards were compared
    }
    // Of a folder; what was known of a single file is refused above, before its parts' folder is made.
    if let Some(begun) = begun.state().job.as_ref().filter(|_| options.job.retry) {
        same_records(&job, &begun.fingerprint, &options.input)?;
    }
    let columns = match options.job.retry {
        true => begun.state().columns(job.shard().index),
        false => columns,
    };
    let names = input.names();
    Ok(JobRun {
        job,
        begun,
        sources: sources(options, &names),
        names,
        stretches,
        columns,
        then,
        compared: None,
        aside: file.cloned().map(|file| Aside {
            file,
            anew: options.job.retry,
        }),
        options: EmbedOptions {
            output: options.output(),
            ..options.clone()
        },
    })
}

/// Refuses to try some of the rejected records again: all of them stand among the records that were read then.
fn same_records(job: &Job, then: &Fingerprint, input: &InputOptions) -> Result<()> {
    for (key, now) in records(input) {
        let given = |value: Option<u64>| match value {
            Some(value) => format!("with --{key} {value}"),
            None => format!("without --{key}"),
        };
        let then = then.get(key).and_then(serde_json::Value::as_u64);
        if then != now {
            return Err(Error::usage(format!(
                "{RETRY_REJECTS} tries all records again that {} has rejected, and it was made {}, not {}",
                job.shown(),
                given(then),
                given(now)
            ))
            .with_remedy(match then {
                Some(value) => format!("give --{key} {value}"),
                None => format!("leave --{key} out"),
            }));
        }
    }
    Ok(())
}

impl JobRun {
    /// Opens the input: this shard's share of it, in windows that whole parts are made of, behind what is embedded.
    pub(super) fn reader(&self) -> Result<JobReader> {
        let mut input = InputOptions {
            shares: told(self.stretches.as_deref()),
            ..self.input()
        };
        let columns = self.begun.state().columns(self.job.shard().index);
        let is_known = columns.is_some() || input.keep.is_empty();
        // What is drawn depends on all records before it, too.
        let enters = is_known && input.sample.is_none();
        let (from, covered) = match self.position().filter(|_| enters) {
            Some((from, position)) => {
                input.start = Some(position);
                input.columns = columns;
                input.limit = input.limit.map(|most| most.saturating_sub(from.records));
                (from, Vec::new())
            }
            None => (Point::default(), self.begun.covered()),
        };
        let reader = RecordReader::open(&self.options.sources, input)?;
        let storage = self.job.storage().as_ref();
        let index = self.job.shard().index;
        let held = Rejected::read(storage, self.begun.state(), Some(index))?.unlisted;
        let has_changed = held.files().iter().any(|file| self.has_changed(file));
        Ok(JobReader::new(reader, from, covered, &self.job).without(held, has_changed))
    }

    /// Where to go on without reading what comes before: where the parts follow one another from the start, the
    /// format can be entered there, and no source has changed since they were read.
    fn position(&self) -> Option<(Point, Position)> {
        let mut at = 0;
        let mut last = None;
        let parts = self.begun.state().parts.values();
        for part in parts.filter(|part| !part.info.retry) {
            let unchanged = |then: &SourceState| {
                then.modified.is_some() && self.sources.iter().any(|now| now == then)
            };
            if part.info.start.records != at || !part.info.sources.iter().all(unchanged) {
                return None;
            }
            at = part.info.end.records;
            last = Some((part.info.end.clone(), part.info.position?));
        }
        last.filter(|(_, position)| {
            let is_inside = (position.source as usize) < self.sources.len();
            is_inside && (position.seek != Seek::Reread || position.lines == 0)
        })
    }

    /// Refuses what can be known to differ before an engine is open.
    pub(super) fn check(&self, model: &Model) -> Result<()> {
        let (files, info) = not_open();
        let now = fingerprint(&self.options, &self.sources, model, &files, &info)?;
        self.compare(&now, &[self.except(), &LATER[..]].concat())?;
        match self.job.retries() {
            true => Ok(()), // the records that it reads are compared
            false => self.job.agree(self.begun.state(), &self.sources),
        }
    }

    /// Compares with what the output, or the file that it takes the place of, was begun with.
    fn compare(&self, now: &Fingerprint, except: &[&str]) -> Result<()> {
        if let Some(said) = &self.then {
            self.job.differ(&said.then, now, except)?;
        }
        self.job.compare(self.begun.state(), now, except)
    }

    /// The keys that need not be the same: shards divide by sizes, others compare what they read.
    fn except(&self) -> &'static [&'static str] {
        if self.options.job.retry {
            &MENDED
        } else if self.job.shard().count > 1 {
            &[]
        } else {
            &[SIZES]
        }
    }

    /// Records that earlier runs have rejected.
    pub(super) fn rejected(&self) -> u64 {
        match self.job.retries() {
            true => 0, // each of them is counted again
            false => self.begun.state().rejected(),
        }
    }

    /// Whether earlier runs have embedded anything.
    pub(super) fn has_rows(&self) -> bool {
        let mut parts = self.begun.state().parts.values();
        parts.any(|part| part.info.embedded > 0)
    }

    /// What earlier runs have done, for the user.
    pub(super) fn note(&self) -> Option<String> {
        let state = self.begun.state();
        if self.job.retries() {
            let (rejected, rows) = (state.rejected(), state.rows());
            return Some(format!(
                "tried what earlier runs rejected again ({rejected}); their {rows} rows stay as they are"
            ));
        }
        (!state.parts.is_empty()).then(|| {
            format!(
                "went on behind {} of earlier runs, which are not counted here",
                state.counted()
            )
        })
    }

    /// That an older version wrote some of its parts, for the user.
    pub(super) fn of_older(&self) -> Option<String> {
        self.begun.state().of_older()
    }

    /// Settles the fingerprint and begins to write.
    pub(super) fn parts(
        self,
        model: &Model,
        files: &ModelProvenance,
        info: &EngineInfo,
        schema: SchemaRef,
    ) -> Result<(Parts, Ending)> {
        let except = self.except();
        let fingerprint = fingerprint(&self.options, &self.sources, model, files, info)?;
        self.compare(&fingerprint, except)?;
        let Self {
            job,
            begun,
            names,
            sources,
            options,
            aside,
            then,
            stretches,
            ..
        } = self;
        let fingerprint = job.settle(&begun, &fingerprint, except)?;
        let width = model.config.width;
        let dimensions = model.config.vectors().0;
        let about = About {
            job: job.clone(),
            fingerprint: fingerprint.hash(),
            share: range(stretches.as_deref(), sources.len()),
            stretches: stretches.unwrap_or_default(),
            sources,
        };
        let create: Create = match job.format() {
            None => Box::new(move |path| Ok(Box::new(Spool::new(path, width)))),
            Some(format) => {
                let (output, run, names) =
                    (options.output.clone(), options.files.clone(), names.clone());
                let dimensions = dimensions.clone();
                Box::new(move |path| {
                    let output = OutputOptions {
                        destination: Destination::Path(path.to_path_buf()),
                        format: Some(format),
                        force: true,
                        ..output.clone()
                    };
                    output::create(&output, &dimensions, names.clone(), &schema, &run)
                })
            }
        };
        let limits = job.limits(width, begun.window);
        let ending = Ending {
            job,
            fingerprint,
            names,
            dimensions,
            options,
            least: then.map_or(0, |said| said.read),
            _aside: aside,
        };
        Ok((begun.parts(about, create, limits)?, ending))
    }
}

/// Of records that are tried again: inputs may have been mended, and limits may be other ones.
pub(super) const MENDED: [&str; 2] = [SIZES, "reading"];

pub(super) fn sources(options: &EmbedOptions, names: &SourceNames) -> Vec<SourceState> {
    let sources = options.sources.iter().zip(names.iter());
    sources
        .map(|(source, name)| SourceState::of(source, name))
        .collect()
}

//! A run that is a job: its fingerprint, its parts, and the single file that they may become.

use std::path::PathBuf;
use std::sync::Arc;

use super::EmbedOptions;
use super::agreement::InputOf;
use super::ending::Ending;
use super::fingerprint::{SIZES, fingerprint};
use super::reading::{range, shares, told};
use crate::engine::EngineInfo;
use crate::error::{Error, Result};
use crate::identity::VectorIdentity;
use crate::input::{InputOptions, RecordReader, Source};
use crate::job::{
    About, Begun, Create, Job, JobReader, Parts, Point, SourceState, Spool, Stretch, clear_unbegun,
    is_inside,
};
use crate::model::{Model, ModelProvenance};
use crate::output::{self, Destination, OutputOptions};
use crate::position::{Position, Seek};
use crate::record::SourceNames;
use crate::setting::{FORCE, LIMIT, REJECTS, SAMPLE, SHARD};
use crate::storage::Location;
use arrow::datatypes::SchemaRef;

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
    /// Fields are dropped in their order: the folder of the parts goes behind the lock in `begun`, which it holds.
    aside: Option<Aside>,
}

/// The parts of the single file of this name: their folder goes with a run that puts nothing into it.
pub(super) struct Aside(PathBuf);

impl Drop for Aside {
    fn drop(&mut self) {
        // The next run does, otherwise.
        let _ = clear_unbegun(&self.0);
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
pub(super) fn begin(job: Job, options: &EmbedOptions) -> Result<JobRun> {
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
    let Some(begun) = job.begin(options.input.window_rows)? else {
        return Err(Error::usage(format!(
            "{}: the output is complete; there is nothing to go on with",
            job.shown()
        ))
        .with_remedy(format!("leave it as it is, or start anew with {FORCE}")));
    };
    let names = input.names();
    Ok(JobRun {
        job,
        begun,
        sources: sources(options, &names),
        names,
        stretches,
        columns,
        aside: file.cloned().map(Aside),
        options: EmbedOptions {
            output: options.output(),
            ..options.clone()
        },
    })
}

impl JobRun {
    /// Opens the input: this shard's share of it, in windows that whole parts are made of, behind what is embedded.
    pub(super) fn reader(&self) -> Result<JobReader> {
        let mut input = InputOptions {
            shares: told(self.stretches.as_deref()),
            window_rows: self.begun.window,
            columns: self.columns.clone(),
            ..self.options.input.clone()
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
        Ok(JobReader::new(reader, from, covered, &self.job))
    }

    /// Where to go on without reading what comes before: where the parts follow one another from the start, the
    /// format can be entered there, and no source has changed since they were read.
    fn position(&self) -> Option<(Point, Position)> {
        let mut at = 0;
        let mut last = None;
        for part in self.begun.state().parts.values() {
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
        let identity = VectorIdentity::new(model, &self.options.output)?;
        let now = fingerprint(&self.options, &self.sources, &identity)?;
        self.job.compare(self.begun.state(), &now, self.except())?;
        self.job.agree(self.begun.state(), &self.sources)
    }

    /// The keys that need not be the same: shards divide by sizes, others compare what they read.
    fn except(&self) -> &'static [&'static str] {
        match self.job.shard().count {
            1 => &[SIZES],
            _ => &[],
        }
    }

    /// Records that earlier runs have rejected.
    pub(super) fn rejected(&self) -> u64 {
        self.begun.state().rejected()
    }

    /// Whether earlier runs have embedded anything.
    pub(super) fn has_rows(&self) -> bool {
        let mut parts = self.begun.state().parts.values();
        parts.any(|part| part.info.embedded > 0)
    }

    /// What earlier runs have done, for the user.
    pub(super) fn note(&self) -> Option<String> {
        let state = self.begun.state();
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
        let identity = VectorIdentity::new(model, &self.options.output)?;
        let identity = identity.with_engine(model, files, info);
        let fingerprint = fingerprint(&self.options, &self.sources, &identity)?;
        self.job.compare(self.begun.state(), &fingerprint, except)?;
        let Self {
            job,
            begun,
            names,
            sources,
            options,
            aside,
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
            _aside: aside,
        };
        Ok((begun.parts(about, create, limits)?, ending))
    }
}

pub(super) fn sources(options: &EmbedOptions, names: &SourceNames) -> Vec<SourceState> {
    let sources = options.sources.iter().zip(names.iter());
    sources
        .map(|(source, name)| SourceState::of(source, name))
        .collect()
}

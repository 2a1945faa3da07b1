//! A run that is a job: its fingerprint, its parts, and the single file that they may become.

use std::sync::Arc;

use serde_json::json;

use super::ending::Ending;
use super::fingerprint::{SIZES, fingerprint};
use super::{EmbedOptions, OnError};
use crate::engine::{EngineInfo, Provider};
use crate::error::{Error, Result};
use crate::input::{InputOptions, Keep, Listed, RecordReader, Share, Source};
use crate::job::{
    About, Begun, Create, Found, Job, JobReader, Objects, Parts, Places, Point, SourceState, Spool,
    State, is_inside, plan,
};
use crate::model::{Model, ModelProvenance};
use crate::output::{self, Destination, OutputOptions};
use crate::position::{Position, Seek};
use crate::record::SourceNames;
use crate::storage::{Address, Readable};

/// A job that is begun.
pub(super) struct JobRun {
    pub(super) job: Job,
    pub(super) begun: Begun,
    pub(super) names: SourceNames,
    pub(super) sources: Vec<SourceState>,
    pub(super) options: EmbedOptions,
    /// Where rejected records stood, of an input that has changed since.
    pub(super) compared: Option<Places>,
}

/// The options' job; none where the run is no job.
pub(super) fn of(options: &EmbedOptions) -> Result<Option<Job>> {
    let job = Job::of(&options.output, &options.job)?;
    let Some(mut job) = job.filter(|job| !job.is_single()) else {
        return Job::of(&options.output, &options.job);
    };
    if let Destination::Path(path) = &options.output.destination
        && Address::is_url_path(path)
    {
        let address = Address::parse(&path.to_string_lossy())?;
        let objects = Objects::new(options.files.storage()?, &address);
        job = job.with_storage(Arc::new(objects));
    }
    if options.job.retry && options.on_error == OnError::Null {
        return Err(Error::usage(
            "--retry-rejects: under --on-error null a rejected record is a row already, without a vector",
        )
        .with_remedy("mend the input and write the output anew"));
    }
    if let Some(path) = &options.rejects {
        return Err(Error::usage(format!(
            "--rejects {}: a folder keeps the rejects of its parts itself, in {}_embedctl/rejects",
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

/// Whether what the options ask for is there already: what stands there, if it is complete and was made with
/// the same settings. Opens no engine.
pub(super) fn finished(options: &EmbedOptions) -> Result<Option<(State, u64)>> {
    let Some(job) = of(options)?.filter(|_| options.job.goes_on()) else {
        return Ok(None);
    };
    let (state, stored, rejected) = match (&options.output.destination, job.is_single()) {
        (Destination::Path(path), true) => {
            let state = job.look()?;
            if !path.is_file() {
                return Ok(None);
            }
            let stored =
                output::provenance(&Readable::file(path)?, options.output.resolved_format()?)?;
            let stored = stored.and_then(|all| {
                let job = serde_json::from_value(all.get("job")?.clone()).ok()?;
                Some((job, all["rows"]["rejected"].as_u64()?))
            });
            // Its parts, which knew, are gone.
            let Some((stored, rejected)) = stored else {
                return Err(Error::usage(format!(
                    "-o {}: the file exists, and was not made with --resume",
                    path.display()
                ))
                .with_remedy("pass --force to replace it, or write elsewhere"));
            };
            (state, stored, rejected)
        }
        _ => {
            let state = job.look()?;
            if options.job.retry {
                job.ended(&state)?;
                if state.rejected() > 0 {
                    return Ok(None);
                }
            }
            // A run may have been killed between its end and the last word.
            let ended = state.success || state.has_ended(job.shard().index);
            let Some(stored) = state.job.as_ref().filter(|_| ended) else {
                return Ok(None);
            };
            let (stored, rejected) = (stored.fingerprint.clone(), state.rejected());
            (state, stored, rejected)
        }
    };
    let reader = RecordReader::open(&options.sources, options.input.clone())?;
    let (model_options, _) = crate::engine::settle(&options.model, &options.engine)?;
    let model = Model::open(&model_options)?;
    let native = stored.get("precision").and_then(|it| it.get("engine")) == Some(&json!("native"));
    let provider = if native {
        Provider::Native
    } else {
        Provider::Cpu
    };
    let info = EngineInfo::new("", String::new(), provider);
    let files = model.provenance(native)?;
    let sources = sources(options, &reader.names());
    let now = fingerprint(options, &sources, &model, &files, &info)?;
    let mut except = vec!["precision"];
    if options.job.retry {
        except.extend(MENDED);
    }
    // What was mended for records that were tried again.
    let retried = state.parts.values().rfind(|part| part.info.retry);
    let sizes = |sources: &[SourceState]| -> Vec<_> {
        let sources = sources.iter();
        sources.map(|it| (it.name.clone(), it.size)).collect()
    };
    if retried.is_some_and(|part| sizes(&part.info.sources) == sizes(&sources)) {
        except.push(SIZES);
    }
    job.differ(&stored, &now, &except)?;
    match (&options.output.destination, job.is_single()) {
        // Its parts were being removed when the run was killed.
        (Destination::Path(path), true) => crate::job::remove_parts(path)?,
        _ => {
            if !state.success {
                job.complete()?;
            }
            job.tidy()?;
        }
    }
    Ok(Some((state, rejected)))
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
    let input = RecordReader::open(&options.sources, options.input.clone())?;
    shares(&job, options, &input)?;
    let found = job.begin(options.input.window_rows)?;
    let Found::Begun(begun) = found else {
        return Err(Error::usage(format!(
            "{}: the output is complete; there is nothing to go on with",
            job.shown()
        )));
    };
    Ok(JobRun {
        job,
        begun: *begun,
        names: [].into(),
        sources: Vec::new(),
        compared: None,
        options: EmbedOptions {
            output: options.output(),
            ..options.clone()
        },
    })
}

/// A kept field whose type the first records decide.
pub(super) fn untyped<'o>(options: &'o EmbedOptions, input: &RecordReader) -> Option<&'o Keep> {
    let InputOptions {
        keep, text_field, ..
    } = &options.input;
    let untyped = |keep: &&Keep| keep.kind.is_none() && keep.name != *text_field;
    let has_types = input.listed().all(|input| input.is_table);
    keep.iter().find(untyped).filter(|_| !has_types)
}

/// What the job's shard reads of the input; `None`: all of it.
fn shares(job: &Job, options: &EmbedOptions, input: &RecordReader) -> Result<Option<Vec<Share>>> {
    let shard = job.shard();
    if shard.count == 1 {
        return Ok(None);
    }
    if let Some(keep) = untyped(options, input) {
        return Err(Error::usage(format!(
            "--keep {keep}: without a type each shard would decide on one by its own records"
        ))
        .with_remedy(format!("say which, such as `--keep {keep}:string`")));
    }
    let listed: Vec<Listed> = input.listed().collect();
    plan(&listed, shard, &|number| input.stretches(number)).map(Some)
}

impl JobRun {
    /// Opens the input: this shard's share of it, in windows that whole parts are made of, behind what is embedded.
    pub(super) fn reader(&mut self) -> Result<JobReader> {
        let mut input = self.input();
        let all = RecordReader::open(&self.options.sources, input.clone())?;
        self.names = all.names();
        self.sources = sources(&self.options, &self.names);
        let shown = self.job.shown().to_owned();
        let covered = self.begun.covered();
        input.shares = shares(&self.job, &self.options, &all)?;
        let is_typed = untyped(&self.options, &all).is_none();
        let from = self.position().filter(|_| is_typed);
        let Some((from, position)) = from else {
            let reader = match &input.shares {
                // Standard input can be opened once.
                None => all,
                Some(_) => RecordReader::open(&self.options.sources, input)?,
            };
            let start = Point {
                records: 0,
                hash: String::new(),
            };
            return Ok(JobReader::new(reader, start, covered, shown));
        };
        input.start = Some(position);
        let reader = RecordReader::open(&self.options.sources, input)?;
        Ok(JobReader::new(reader, from, Vec::new(), shown))
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
        let info = EngineInfo::new("", String::new(), Provider::Native);
        let files = ModelProvenance {
            id: String::new(),
            revision: None,
            files: Vec::new(),
        };
        let now = fingerprint(&self.options, &self.sources, model, &files, &info)?;
        let later = [self.except(), vec!["model", "model_file", "precision"]].concat();
        self.job.compare(self.begun.state(), &now, &later)
    }

    /// The keys that need not be the same: shards divide by sizes, others compare what they read.
    fn except(&self) -> Vec<&'static str> {
        if self.options.job.retry {
            MENDED.to_vec()
        } else if self.job.shard().count > 1 {
            Vec::new()
        } else {
            vec![SIZES]
        }
    }

    /// Records that earlier runs have rejected.
    pub(super) fn rejected(&self) -> u64 {
        match self.options.job.retry {
            true => 0, // each of them is counted again
            false => self.begun.state().rejected(),
        }
    }

    /// What earlier runs have done, for the user.
    pub(super) fn note(&self) -> Option<String> {
        let state = self.begun.state();
        let parts = state.parts.len();
        if self.options.job.retry {
            let (rejected, rows) = (state.rejected(), state.rows());
            return Some(format!(
                "tried what earlier runs rejected again ({rejected}); their {rows} rows stay as they are"
            ));
        }
        let these = if parts == 1 { "part" } else { "parts" };
        (parts > 0).then(|| {
            format!(
                "went on behind {} rows in {parts} {these} of earlier runs, which are not counted here",
                state.rows()
            )
        })
    }

    /// Settles the fingerprint and begins to write.
    pub(super) fn parts(
        self,
        model: &Model,
        files: &ModelProvenance,
        info: &EngineInfo,
        schema: arrow::datatypes::SchemaRef,
    ) -> Result<(Parts, Ending)> {
        let except = self.except();
        let Self {
            job,
            begun,
            names,
            sources,
            options,
            compared: _,
        } = self;
        let fingerprint = fingerprint(&options, &sources, model, files, info)?;
        let fingerprint = job.settle(&begun, &fingerprint, &except)?;
        let width = model.config.width;
        let dimensions = model.config.vectors().0;
        let about = About {
            fingerprint: fingerprint.hash(),
            ..About::of(&job, sources)
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
            output: options.output,
            rejects: options.rejects,
            files: options.files,
        };
        Ok((begun.parts(about, create, limits)?, ending))
    }
}

/// Of records that are tried again: inputs may have been mended, and limits may be other ones.
const MENDED: [&str; 2] = [SIZES, "reading"];

pub(super) fn sources(options: &EmbedOptions, names: &SourceNames) -> Vec<SourceState> {
    let sources = options.sources.iter().zip(names.iter());
    sources
        .map(|(source, name)| SourceState::of(source, name))
        .collect()
}

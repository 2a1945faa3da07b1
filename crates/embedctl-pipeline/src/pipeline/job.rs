//! A run as a job: it resumes after the rows of earlier runs. Its rows become parts, or a single file assembled from
//! parts.

use std::path::PathBuf;
use std::sync::Arc;

use super::assembly::OutputRow;
use super::fingerprint::{self, sizes};
use super::made::ProvenanceBuilder;
use super::plan::RunPlan;
use super::shares::{input_range, range, shares, source_states, with_inputs};
use super::sink::{EarlierRuns, RowSink, SettledPortion};
use super::source::InputEnd;
use crate::error::{Error, Place, Result};
use crate::identity;
use crate::input::{RecordReader, Source};
use crate::job::{
    Create, EmbeddedWindow, Fingerprint, INPUT_SIZES, Job, JobFacts, JobReader, LockedJob, Parts,
    Point, ShardRange, SourceState, Spool, SpoolReader, clear_unbegun, point_inside, remove_parts,
    text_hash,
};
use crate::model::Model;
use crate::output::{
    self, BackgroundWriter, Destination, Finish, OutputOptions, RunOutput, VectorWriter,
};
use crate::position::{Position, Seek};
use crate::progress::Counts;
use crate::record::{Slot, SourceNames};
use crate::rejects;
use crate::setting::{FAIL_ON_EMPTY, FORCE, SHARD};
use arrow::buffer::NullBuffer;
use arrow::datatypes::SchemaRef;
use embedctl_records::marks::{TextHash, WindowSpan, WindowStart};
use embedctl_records::options::InputOptions;

/// The parts of a job.
pub(super) struct JobSink {
    /// The options, with the caller's list of unfinished files.
    plan: RunPlan,
    job: Job,
    names: SourceNames,
    sources: Vec<SourceState>,
    /// The shard's share of the input; `None`: all of it.
    stretches: Option<Vec<ShardRange>>,
    /// The state that was found in the folder, until the first part begins.
    begun: Option<LockedJob>,
    fingerprint: Fingerprint,
    parts: Option<Parts>,
    /// Where the last portion has ended.
    end: Point,
    /// Fields are dropped in their order: the folder of the parts goes behind the lock, which it holds.
    _aside: Option<PartsFolder>,
}

/// The parts of the single file of this name: their folder goes with a run that puts nothing into it.
struct PartsFolder(PathBuf);

impl Drop for PartsFolder {
    fn drop(&mut self) {
        // The next run does, otherwise.
        let _ = clear_unbegun(&self.0);
    }
}

impl JobSink {
    /// Inspects and locks the job's folder. Returns the job with the source of its remaining records.
    ///
    /// # Errors
    /// If the input cannot be read, the output is complete, or another run is at work on it.
    pub(super) fn open(plan: &RunPlan, job: &Job) -> Result<(JobReader, Self)> {
        let options = plan.options();
        // Refused before anything is made.
        let mut input = options.reader()?;
        let (stretches, columns) = shares(job.shard(), options, &mut input)?;
        if stretches.is_some() && options.sources.contains(&Source::Stdin) {
            return Err(Error::usage(format!(
                "{SHARD} {}/{}: standard input cannot be read again, to prove that all shards have read the same",
                job.shard().index,
                job.shard().count
            ))
            .with_remedy("name files"));
        }
        let single = match &options.output.destination {
            Destination::Path(path) if job.is_single() => Some(path),
            _ => None,
        };
        let begun = job.begin(options.input.window_rows)?;
        let aside = single.cloned().map(PartsFolder);
        // Another run may have completed the file since this one looked for it.
        let is_there = options.job.resume && single.is_some_and(|path| path.is_file());
        let Some(begun) = begun.filter(|_| !is_there) else {
            return Err(Error::usage(format!(
                "{}: the output is complete; there is nothing to resume",
                job.shown()
            ))
            .with_remedy(format!("leave it as it is, or start anew with {FORCE}")));
        };
        let mut plan = plan.clone();
        if let Some(then) = &begun.state().job {
            plan.set_line_ids(fingerprint::line_ids(&then.fingerprint));
        }
        let options = plan.options();
        let job = with_inputs(job, options);
        // Once more, if ids are now read as then.
        let (stretches, columns) = match options.input.infers_ids() {
            true => (stretches, columns),
            false => shares(job.shard(), options, &mut input)?,
        };
        let names = input.names();
        let sink = Self {
            sources: source_states(options, &names),
            plan: plan.clone(),
            job,
            names,
            stretches,
            begun: Some(begun),
            fingerprint: Fingerprint::default(),
            parts: None,
            end: Point::default(),
            _aside: aside,
        };
        Ok((sink.reader(input, columns)?, sink))
    }

    /// Reads the rest of this shard's input, in windows that divide parts evenly.
    fn reader(&self, input: RecordReader, columns: Option<SchemaRef>) -> Result<JobReader> {
        let begun = self.begun()?;
        let mut how = InputOptions {
            window_rows: begun.window,
            ..self.plan.options().record_options()
        };
        let mut range = input_range(self.stretches.as_deref(), columns);
        let known = begun.state().columns(self.job.shard().index);
        let is_known = known.is_some() || how.keep.is_empty() && !how.infers_ids();
        // A random sample depends on all records before it, too.
        let enters = is_known && how.sample.is_none();
        let (from, covered) = match self.position(begun).filter(|_| enters) {
            Some(from) => {
                range.start = from.position;
                range.columns = known;
                how.limit = how.limit.map(|most| most.saturating_sub(from.records));
                let mut covered = begun.covered();
                covered.retain(|covered| covered.end.records > from.records);
                (from, covered)
            }
            None => (WindowStart::default(), begun.covered()),
        };
        Ok(JobReader::new(
            input.again(how, &range)?,
            from,
            covered,
            &self.job,
        ))
    }

    /// The window to resume at without reading the records before it: the first that is not embedded, or not all of it.
    /// Requires that the parts cover the input from its start without a gap, that the format can be entered there, and
    /// that no source has changed since.
    fn position(&self, begun: &LockedJob) -> Option<WindowStart> {
        let mut at = 0;
        let mut last = None;
        for part in begun.state().parts.values() {
            let unchanged = |then: &SourceState| {
                then.modified.is_some() && self.sources.iter().any(|now| now == then)
            };
            if part.info.start.records != at || !part.info.sources.iter().all(unchanged) {
                return None;
            }
            at = part.info.end.records;
            last = Some(match &part.info.window {
                Some(window) => window.clone(),
                None => WindowStart {
                    records: at,
                    hash: part.info.end.hash.clone(),
                    position: Some(part.info.position?),
                },
            });
        }
        last.filter(|start| {
            let Some(position) = start.position else {
                return false;
            };
            let is_inside = (position.source as usize) < self.sources.len();
            is_inside && (position.seek != Seek::Reread || position.lines == 0)
        })
    }

    /// Refuses differences that are known before an engine is open; `plan` is that for the model's vectors.
    ///
    /// # Errors
    /// If model, settings or input differ from those of the parts.
    pub(super) fn check(&mut self, plan: &RunPlan, model: &Model) -> Result<()> {
        let line_ids = self.plan.options().input.line_ids;
        self.plan = plan.clone();
        self.plan.set_line_ids(line_ids);
        let identity = identity::of_output(model, &self.plan.output().options)?;
        let now = self.plan.fingerprint(&self.sources, &identity)?;
        let state = self.begun()?.state();
        self.job.compare(state, &now, self.except())?;
        self.job.agree(state, &self.sources)
    }

    /// The keys that may differ: shards are divided by sizes, other runs compare the records they read.
    fn except(&self) -> &'static [&'static str] {
        match self.job.shard().count {
            1 => &[INPUT_SIZES],
            _ => &[],
        }
    }

    fn begun(&self) -> Result<&LockedJob> {
        let begun = self.begun.as_ref();
        begun.ok_or_else(|| Error::internal("a job that has begun twice"))
    }

    /// The mark of a portion of a window with that mark.
    fn mark(&mut self, settled: &SettledPortion<'_>, mark: &WindowSpan) -> Result<WindowSpan> {
        let (window, portion) = (&settled.in_flight.window, settled.portion);
        let point = |records| point_inside(window, mark, records);
        let starts_at = mark.start + portion.start() as u64;
        let start = match self.end.records == starts_at && portion.start() > 0 {
            true => self.end.clone(),
            false => point(portion.start())?,
        };
        self.end = match portion.is_last {
            true => Point {
                records: mark.end,
                hash: mark.hash.clone(),
            },
            false => point(portion.end())?,
        };
        let next = (window.slots.get(portion.end())).filter(|_| !portion.is_last);
        // A run that resumes there reads from the begin of the window on.
        let inside = next.map(Slot::origin).map(|origin| Position {
            source: origin.source,
            lines: origin.line.saturating_sub(1),
            seek: Seek::Reread,
        });
        Ok(WindowSpan {
            start: start.records,
            before: start.hash,
            end: self.end.records,
            hash: self.end.hash.clone(),
            position: inside.or(mark.position),
            columns: mark.columns.clone(),
            texts: Vec::new(),
            missing: Vec::new(),
            window: mark.window.clone(),
            is_inside: !portion.is_last,
        })
    }

    fn parts(&mut self) -> Result<&mut Parts> {
        let parts = self.parts.as_mut();
        parts.ok_or_else(|| Error::internal("a job's parts before its begin"))
    }

    /// Makes the writer of a part.
    fn creates(&self, width: usize, schema: SchemaRef) -> Create {
        let Some(format) = self.job.format() else {
            let form = self.plan.forms().no_rows();
            let clock = Arc::clone(self.plan.files().clock());
            return Box::new(move |path| {
                let spool = Spool::new(path, width, form.clone(), &clock);
                Ok(Box::new(BackgroundWriter::new(Box::new(spool), &clock)))
            });
        };
        let (output, run) = (self.plan.output().clone(), self.plan.files().clone());
        let (names, forms) = (self.names.clone(), self.plan.forms());
        Box::new(move |path| {
            let output = RunOutput {
                options: OutputOptions {
                    destination: Destination::Path(path.to_path_buf()),
                    format: Some(format),
                    force: true,
                    ..output.options.clone()
                },
                ..output.clone()
            };
            let writer = output::create(&output, &forms, names.clone(), &schema, &run)?;
            Ok(Box::new(BackgroundWriter::new(writer, run.clock())))
        })
    }

    /// Puts a single file together from its parts.
    fn assemble(
        &self,
        parts: &Parts,
        mut schema: SchemaRef,
        made: &ProvenanceBuilder<'_>,
    ) -> Result<()> {
        let storage = self.job.storage();
        let names = self.names.clone();
        let (mut writer, mut rejects) = self.plan.create(names, &schema)?;
        let mut counts = Counts::default();
        for part in parts.known() {
            let mut reader = SpoolReader::open(&storage.file(&part.file)?)?;
            while let Some(rows) = reader.next_rows()? {
                schema = rows.columns.schema();
                let missing = rows.missing.as_ref().map_or(0, NullBuffer::null_count);
                counts.rows += (rows.len() - missing) as u64;
                writer.write(rows)?;
            }
            if let Some(rejects) = &mut rejects {
                rejects.append(&part.rejected(storage.as_ref())?)?;
            }
            counts.read += part.info.embedded + part.info.rejected;
            counts.embedded += part.info.embedded;
            counts.rejected += part.info.rejected;
            counts.truncated += part.info.truncated;
            counts.tokens += part.info.tokens;
            counts.reused += part.info.reused;
            counts.overflowed += part.info.overflowed;
        }
        let mut provenance = made.provenance(&counts)?;
        if let Some(object) = provenance.as_object_mut() {
            let failed = |error| Error::internal(format!("writing the fingerprint: {error}"));
            let (mut fingerprint, end) = (self.fingerprint.clone(), parts.end());
            // The first run may have read another input, and have stopped at a record of it.
            if let Some(end) = end {
                fingerprint.set(INPUT_SIZES, sizes(&end.sources));
            }
            let fingerprint = serde_json::to_value(&fingerprint).map_err(failed)?;
            object.insert("job".to_owned(), fingerprint);
            object.insert("end".to_owned(), serde_json::to_value(end).map_err(failed)?);
        }
        writer.finish(Finish {
            schema,
            provenance: &provenance,
            rejects,
        })
    }
}

impl RowSink for JobSink {
    /// Settles the fingerprint: nothing is embedded for an output that it does not fit.
    fn begin(&mut self, made: &ProvenanceBuilder<'_>, schema: SchemaRef) -> Result<EarlierRuns> {
        let begun = self.begun.take();
        let begun = begun.ok_or_else(|| Error::internal("a job that has begun twice"))?;
        let (model, files) = (&made.model, made.files()?);
        let identity = identity::of_output(model, &self.plan.output().options)?;
        let identity = identity.with_engine(model, files, &made.info);
        let fingerprint = self.plan.fingerprint(&self.sources, &identity)?;
        let except = self.except();
        self.job.compare(begun.state(), &fingerprint, except)?;
        self.fingerprint = self.job.settle(&begun, &fingerprint, except)?;
        let state = begun.state();
        let resumed = (!state.parts.is_empty()).then(|| {
            format!(
                "resumed after {} of earlier runs (counts are for this run)",
                state.counted()
            )
        });
        let earlier = EarlierRuns {
            notes: resumed.into_iter().chain(state.of_older()).collect(),
            rejected: state.rejected(),
            has_rows: state.parts.values().any(|part| part.info.embedded > 0),
        };
        let about = JobFacts {
            job: self.job.clone(),
            fingerprint: self.fingerprint.hash(),
            share: range(self.stretches.as_deref(), self.sources.len()),
            stretches: self.stretches.clone().unwrap_or_default(),
            sources: self.sources.clone(),
        };
        let width = model.config.width;
        let forms = self.plan.forms();
        let bytes =
            (forms.all().iter()).map(|form| form.usual_bytes(form.width() * size_of::<f32>()));
        let limits = self.job.limits(bytes.sum(), begun.window);
        self.parts = Some(begun.parts(about, self.creates(width, schema), limits)?);
        Ok(earlier)
    }

    fn write(&mut self, portion: SettledPortion<'_>, made: &ProvenanceBuilder<'_>) -> Result<()> {
        let lines = portion
            .rejects
            .iter()
            .map(|it| rejects::line(it, portion.names));
        let rejects = lines.collect::<Result<Vec<_>>>()?.concat();
        let rows = portion.assembly.rows(portion.rows)?;
        let counts = portion.counts;
        let mark = portion.in_flight.window.mark.as_ref();
        let mark = mark.ok_or_else(|| Error::internal("a job's window without a mark"))?;
        let done = EmbeddedWindow {
            texts: hashes(&portion, mark),
            mark: self.mark(&portion, mark)?,
            rejects,
            rows,
            counts,
        };
        self.parts()?.take(done, &|counts| made.provenance(counts))
    }

    fn streams(&mut self) -> Result<&mut dyn VectorWriter> {
        Err(Error::internal("streams in parts"))
    }

    /// Publishes the embedded rows of the current part.
    fn salvage(&mut self, made: &ProvenanceBuilder<'_>) {
        if let Some(parts) = &mut self.parts {
            let _ = parts.commit(&|counts| made.provenance(counts));
        }
    }

    fn outlives_its_run(&self) -> bool {
        true
    }

    fn finish(
        mut self: Box<Self>,
        end: InputEnd,
        schema: SchemaRef,
        _: &Counts,
        made: &ProvenanceBuilder<'_>,
    ) -> Result<bool> {
        let provenance = |counts: &Counts| made.provenance(counts);
        self.parts()?
            .finish(end.point, schema.clone(), &provenance)?;
        if !self.job.is_single() {
            // A shard may be empty, but not all of them.
            let is_sharded = self.job.shard().count > 1;
            if is_sharded && self.plan.options().fail_on_empty && self.job.is_empty()? {
                return Err(Error::input(
                    Place::file(self.job.shown()),
                    format!(
                        "no shard has a record that was embedded, which {FAIL_ON_EMPTY} forbids"
                    ),
                ));
            }
            return self.job.complete();
        }
        if let Some(parts) = self.parts.take() {
            self.assemble(&parts, schema, made)?;
            if let Destination::Path(path) = &self.plan.options().output.destination {
                remove_parts(path, parts.into_lock())?;
            }
        }
        Ok(true)
    }
}

/// The hashes of a portion's rows' texts: of chunks their own, of records that were never a text none.
fn hashes(portion: &SettledPortion<'_>, mark: &WindowSpan) -> Vec<u8> {
    let in_flight = portion.in_flight;
    let hash = |row: &OutputRow| match (row.text, &in_flight.spans) {
        (None, _) => TextHash::default(),
        (Some(text), None) => mark.texts[text as usize],
        (Some(text), Some(_)) => text_hash(in_flight.window.texts.get(text as usize)),
    };
    portion.rows.iter().flat_map(hash).collect()
}

//! A run from its plan to its report.

use std::cell::OnceCell;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crossbeam_channel::{Receiver, bounded, select, unbounded};

use super::assembly::ExtraColumns;
use super::in_flight::{InFlight, PortionLimits};
use super::job::JobSink;
use super::ledger::Ledger;
use super::notes::{empty_input, notes};
use super::plan::RunPlan;
use super::reuse::ReusedOutput;
use super::sink::{ProvenanceBuilder, RowSink, WholeSink};
use super::source::{InputEnd, RecordSource, SourceEvent, Streams, spawn_reader};
use super::tally::RunTally;
use super::tokenizing::{Batching, Tokenizing, precision_hook};
use super::workers::{Joined, Workers};
use super::{CutRemedy, EmbedOptions, ScoredTexts, Summary};
use crate::cancel::CancelToken;
use crate::engine::background::{ended, in_background};
use crate::engine::{self, BatchLimits, LoadedModel, OpeningModel, Resolved};
use crate::error::{Error, Result};
use crate::input::WrittenSignal;
use crate::job;
use crate::model::{Model, ModelProvenance};
use crate::output::{self, Destination, Forms, RunOutput};
use crate::progress::{Counts, InputSize, Progress};
use crate::record::{SourceNames, Window};
use crate::stage::{Clock, Clocks, StageWatch};
use crate::tokenize::Chunked;
use arrow::datatypes::{Schema, SchemaRef};
use embedctl_model::work::Work;

/// A run whose model's files, input and output are open, and whose engine is being opened.
pub(super) struct Run {
    pub(super) started: Instant,
    pub(super) model: OpeningModel,
    pub(super) source: Box<dyn RecordSource>,
    pub(super) sink: Box<dyn RowSink>,
    pub(super) chunked: Option<Chunked>,
    pub(super) earlier: Option<ReusedOutput>,
    pub(super) options: EmbedOptions,
    pub(super) output: RunOutput,
    /// Counts the time of writing. The list of files stays with the sink, which writes them: a detached run must not keep
    /// it alive.
    pub(super) write_clock: Arc<Clock>,
    /// The forms of the model's rows.
    pub(super) forms: Forms,
}

impl Run {
    /// Opens everything that can fail, in order of cost: files that need no model come first.
    pub(super) fn open(
        plan: &RunPlan,
        loaded: Option<&Arc<LoadedModel>>,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let started = Instant::now();
        let earlier = plan.earlier()?.cloned();
        let (source, job) = plan.source()?;
        let model = match loaded {
            Some(loaded) => ModelSource::Loaded(loaded),
            None => {
                let resolved = plan.resolved().clone();
                ModelSource::Files(Arc::new(resolved.open_files()?), Box::new(resolved))
            }
        };
        let plan = &plan.for_model(model.files())?;
        let options = plan.options();
        if let Some(earlier) = &earlier {
            earlier.check_model(model.files(), &plan.output().options)?;
        }
        let sink: Box<dyn RowSink> = match job {
            Some(mut job) => {
                job.check(plan, model.files())?;
                let input = source.input();
                let forms = plan.forms();
                let extra = options.extra_of(model.files());
                let (sources, schema) = (input.names().len(), input.schema());
                columns(plan.output(), &forms, &extra, sources, &schema)?;
                Box::new(job)
            }
            None => Box::new(WholeSink::create(plan, model.files(), source.input())?),
        };
        let unproven = earlier.as_ref().and_then(ReusedOutput::note);
        let older = plan.files().take_notes();
        for note in older.iter().map(String::as_str).chain(unproven) {
            progress.warning(note);
        }
        let model = match model {
            ModelSource::Loaded(loaded) => OpeningModel::ready(Arc::clone(loaded)),
            ModelSource::Files(model, resolved) => OpeningModel::begin(model, *resolved)?,
        };
        let chunked = match &options.chunking {
            Some(chunking) => Some(model.tokenizer().chunked(chunking)?),
            None => None,
        };
        Ok(Self {
            started,
            model,
            source,
            sink,
            chunked,
            earlier,
            options: options.clone(),
            output: plan.output().clone(),
            write_clock: Arc::clone(plan.files().clock()),
            forms: plan.forms(),
        })
    }

    fn input_size(&self) -> InputSize {
        InputSize {
            bytes: self.source.input().total_bytes(),
            records: self.source.most_records(),
        }
    }

    fn tokenizing(&self, names: &SourceNames, clocks: &Arc<Clocks>) -> Tokenizing {
        let reuse = self.earlier.as_ref();
        Tokenizing {
            tokenizer: Arc::clone(self.model.tokenizer()),
            chunked: self.chunked,
            reuse: reuse.map(|it| it.ask(self.model.model())),
            on_error: self.options.on_error,
            names: names.clone(),
            clocks: Arc::clone(clocks),
        }
    }

    /// Embeds the whole input: starts all threads, waits until the first worker can run batches, settles window after
    /// window, and publishes.
    pub(super) fn drive(
        mut self,
        progress: &dyn Progress,
        cancel: &CancelToken,
    ) -> Result<Summary> {
        // Reading and tokenizing start while the engine loads.
        let clocks = Arc::new(Clocks::with_write(&self.write_clock));
        let names = self.source.input().names();
        let input_size = self.input_size();
        let tokenizing = self.tokenizing(&names, &clocks);
        let extra = self.options.extra_of(self.model.model());
        let schema = extra.schema(&self.source.input().schema())?;
        let written = self.source.written();
        let windows = spawn_reader(self.source, &clocks)?;
        let threads = StageThreads::start(self.model, tokenizing, windows, &self.options, cancel)?;
        let loaded = Arc::clone(&threads.loaded);
        let model = Arc::clone(loaded.model());
        let load = self.started.elapsed();
        // These compute on their worker's thread; others have threads or a device of their own.
        let info = loaded.info();
        let stages = StageWatch::new(&clocks, loaded.threads(), info.provider.is_on_worker());
        progress.stages(&stages);
        progress.started(info, input_size);

        let made = threads.provenance(&self.options, self.chunked, cancel);
        if let Some(earlier) = &self.earlier {
            earlier.check(&made.model, made.files()?, &made.info, &self.output.options)?;
        }
        let before = self.sink.begin(&made, schema)?;
        let mut ledger = Ledger {
            model: &model,
            pooler: loaded.pooler(),
            names: &names,
            progress,
            made: &made,
            input: &self.options.input,
            on_error: self.options.on_error,
            extra: extra.clone(),
            format: self.output.format()?,
            counts: Counts::default(),
            reasons: Vec::new(),
            tally: RunTally::default(),
            sink: self.sink,
        };
        let columns =
            |records: &Schema| columns(&self.output, &self.forms, &extra, names.len(), records);
        let end = threads.settle_all(&mut ledger, written.as_ref(), &columns);
        // A job keeps its embedded rows if the run fails.
        let end = end.inspect_err(|_| ledger.sink.salvage(&made))?;
        drop(threads);

        // One shard may be empty. The shard that completes the output checks whether all are.
        let may_be_empty = before.has_rows || self.options.job.shard.count > 1;
        ledger.check(end.read, !self.options.fail_on_empty || may_be_empty)?;
        let empty = (end.read == 0 && !may_be_empty).then(|| empty_input(&names));
        if cancel.is_cancelled() && !ledger.sink.outlives_its_run() {
            return Err(Error::interrupted());
        }
        let schema = columns(&end.schema)?;
        let Ledger {
            counts,
            reasons,
            tally,
            sink,
            ..
        } = ledger;
        let all = (clocks.write).time(|| sink.finish(end, schema, &counts, &made))?;
        progress.published();

        let mut notes = notes(&made, &loaded, &self.output.options, before.notes, all);
        let scores = model.config.scores.is_some();
        notes.extend(tally.notes(&self.options.input, scores));
        notes.extend(empty);
        Ok(Summary {
            chunks: self.chunked.map(|_| counts.rows),
            empty: tally.empty.count,
            cut: tally.cut,
            cut_remedy: CutRemedy::of(&self.options, &model),
            reused: self.earlier.as_ref().map(|_| counts.reused),
            counts,
            engine: made.info(),
            model: model.id.clone(),
            dimensions: model.config.vectors(),
            scored: model.config.scores.as_ref().map(ScoredTexts::of),
            sparse: model.config.any_sparse().is_some(),
            multi: model.config.any_multi().is_some(),
            threads: loaded.threads(),
            max_length: model.config.limit(),
            load,
            run: self.started.elapsed().saturating_sub(load),
            stages: stages.times(),
            rejects: reasons,
            rejected_before: before.rejected,
            notes,
        })
    }
}

/// The threads behind a run's reader: one makes batches, others run them on an engine that is open.
struct StageThreads {
    /// Windows whose batches are on their way through the workers.
    windows: Receiver<Result<SourceEvent<Box<InFlight>>>>,
    workers: Workers,
    loaded: Arc<LoadedModel>,
    /// The least cosine to single precision that was measured so far.
    cosine: Joined,
    /// The model's files, which are hashed meanwhile.
    hashes: Receiver<Result<ModelProvenance>>,
    clocks: Arc<Clocks>,
}

impl StageThreads {
    /// Starts to tokenize the windows, and waits until the engine is open and the first worker can run batches.
    fn start(
        model: OpeningModel,
        tokenizing: Tokenizing,
        windows: Receiver<Result<SourceEvent<Window>>>,
        options: &EmbedOptions,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let clocks = Arc::clone(&tokenizing.clocks);
        let (batching, when_open) = bounded(1);
        let (batches, jobs) = unbounded();
        let windows = tokenizing.spawn(windows, when_open, batches)?;
        let measures = model.measures();
        let loaded = model.wait(cancel)?;
        let hashes = in_background("hash", {
            let loaded = Arc::clone(&loaded);
            move || loaded.provenance().cloned()
        })?;
        let info = loaded.info();
        let cosine = Arc::new(Mutex::new(info.cosine));
        // The tokenizer thread may be gone after an error of its own, which is found below.
        let _ = batching.send(Batching {
            limits: limits(options, &loaded),
            portions: portions(options, &loaded),
            hook: (measures && info.is_reduced()).then(|| precision_hook(&loaded, &cosine)),
            loaded: Arc::clone(&loaded),
        });
        let workers = Workers::spawn(loaded.threads(), &loaded, &clocks, &jobs)?;
        drop(jobs);
        workers.wait_for_first(cancel)?;
        Ok(Self {
            windows,
            workers,
            loaded,
            cosine,
            hashes,
            clocks,
        })
    }

    fn provenance<'c>(
        &self,
        options: &EmbedOptions,
        chunked: Option<Chunked>,
        cancel: &'c CancelToken,
    ) -> ProvenanceBuilder<'c> {
        ProvenanceBuilder {
            model: Arc::clone(self.loaded.model()),
            info: self.loaded.info().clone(),
            cosine: Arc::clone(&self.cosine),
            chunked,
            text: options.input.text(),
            query: options.input.query(),
            id: options.input.ids(),
            hashes: self.hashes.clone(),
            files: OnceCell::new(),
            cancel,
        }
    }

    /// Settles all windows in the order of the input, as soon as their batches are run. `columns` checks the columns of
    /// records, and `written` counts the windows.
    fn settle_all(
        &self,
        ledger: &mut Ledger<'_>,
        written: Option<&WrittenSignal>,
        columns: &dyn Fn(&Schema) -> Result<SchemaRef>,
    ) -> Result<InputEnd> {
        let (made, clocks) = (ledger.made, &self.clocks);
        let mut named = false;
        loop {
            match next(&self.windows, &self.workers, made.cancel)? {
                SourceEvent::Window(in_flight) => {
                    made.check_files()?;
                    // Which fields `--keep '*'` stands for is known by the first text, at the latest.
                    let window = &in_flight.window;
                    if !named && window.batch.is_none() {
                        columns(&window.columns.schema())?;
                        named = !window.texts.is_empty();
                    }
                    ledger.settle_window(&in_flight, &self.workers, clocks)?;
                    if let Some(written) = written {
                        written.window();
                    }
                }
                SourceEvent::Stream(schema) => ledger.begin_stream(&schema, clocks)?,
                SourceEvent::StreamEnd => ledger.end_stream(clocks)?,
                SourceEvent::End(end) => return Ok(end),
            }
        }
    }
}

impl RunPlan {
    /// Opens the input: all of it, or the remaining records of a job, with that job.
    fn source(&self) -> Result<(Box<dyn RecordSource>, Option<JobSink>)> {
        let options = &self.options;
        if let Some(job) = &self.job {
            let (source, sink) = JobSink::open(self, job)?;
            return Ok((Box::new(source), Some(sink)));
        }
        if let Destination::Path(path) = &options.output.destination
            && options.output.force
        {
            // The remains of an unfinished run, if the single file is made anew.
            job::forget(path)?;
        }
        let mut reader = options.reader()?;
        if options.output.is_stream()? {
            reader.begin_small();
        }
        Ok(match options.input.batches.are_whole() {
            true => (Box::new(Streams::new(reader)), None),
            false => (Box::new(reader), None),
        })
    }

    /// Runs the plan.
    ///
    /// # Errors
    /// As [`super::embed`].
    pub fn embed(&self, progress: &Arc<dyn Progress>, cancel: &CancelToken) -> Result<Summary> {
        run(self, None, progress, cancel)
    }
}

/// Runs the plan on a detached thread: a write to a pipe without an active reader can block for ever, and cancellation
/// must not wait for it.
pub(super) fn run(
    plan: &RunPlan,
    loaded: Option<&Arc<LoadedModel>>,
    progress: &Arc<dyn Progress>,
    cancel: &CancelToken,
) -> Result<Summary> {
    let run = Run::open(plan, loaded, progress.as_ref())?;
    let summary = in_background("run", {
        let (progress, cancel) = (Arc::clone(progress), cancel.clone());
        move || run.drive(progress.as_ref(), &cancel)
    })?;
    select! {
        recv(summary) -> result => result.map_err(|_| ended("run"))?,
        recv(cancel.channel()) -> _ => summary.recv_timeout(cancel.patience()).unwrap_or_else(|_| {
            plan.files().remove();
            Err(Error::interrupted())
        }),
    }
}

/// The next window in the input's order, once it is on its way through the workers.
fn next(
    windows: &Receiver<Result<SourceEvent<Box<InFlight>>>>,
    workers: &Workers,
    cancel: &CancelToken,
) -> Result<SourceEvent<Box<InFlight>>> {
    select! {
        recv(windows) -> event => event.map_err(|_| ended("tokenizer"))?,
        recv(workers.failures) -> failure => Err(failure.unwrap_or_else(|_| ended("worker"))),
        recv(cancel.channel()) -> _ => Err(Error::interrupted()),
    }
}

/// The batch size of the options, else the engine's default.
fn limits(options: &EmbedOptions, loaded: &LoadedModel) -> BatchLimits {
    let suits = loaded.limits();
    BatchLimits {
        rows: options.batch_rows.unwrap_or(suits.rows),
        ..suits
    }
}

/// How windows are cut into portions; `None` where rows of a batch change each other's vectors, which must not depend on
/// where a run was resumed.
fn portions(options: &EmbedOptions, loaded: &Arc<LoadedModel>) -> Option<PortionLimits> {
    if engine::padding::mixes_rows(loaded.model(), loaded.info()) {
        return None;
    }
    let limits = limits(options, loaded);
    // Rows of each length need batches of their own.
    let batches = if limits.equal_lengths { 16 } else { 1 };
    let tokens = limits.tokens.saturating_mul(batches);
    if loaded.engine().operations(1) > 0 {
        let counts = Arc::clone(loaded);
        let cost = move |tokens| 2.0 * counts.engine().operations(tokens) as f64;
        return Some(PortionLimits::new(loaded.engine(), tokens, cost));
    }
    let work = Work::of(loaded.model()).ok()?;
    let cost = move |tokens: usize| work.total(tokens as f64, (tokens * tokens) as f64);
    Some(PortionLimits::new(loaded.engine(), tokens, cost))
}

/// Where a run's model comes from, its files open.
enum ModelSource<'l> {
    /// What a request led to; no engine is open yet.
    Files(Arc<Model>, Box<Resolved>),
    /// A model that is ready to run.
    Loaded(&'l Arc<LoadedModel>),
}

impl ModelSource<'_> {
    fn files(&self) -> &Arc<Model> {
        match self {
            Self::Files(model, _) => model,
            Self::Loaded(loaded) => loaded.model(),
        }
    }
}

/// The columns of rows for records with these columns, from so many sources. None may have the name of an output column.
fn columns(
    output: &RunOutput,
    forms: &Forms,
    extra: &ExtraColumns,
    sources: usize,
    records: &Schema,
) -> Result<SchemaRef> {
    let schema = extra.schema(records)?;
    output::check_options(output, forms)?;
    output.check_names(forms, &schema, sources)?;
    Ok(schema)
}

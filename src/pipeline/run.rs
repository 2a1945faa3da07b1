//! A run, once everything is open: its start, its windows one after another, its end and what is checked there.

use std::cell::OnceCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use crossbeam_channel::{Receiver, bounded, select, unbounded};

use super::assembly::Extra;
use super::background::{ended, in_background, wait};
use super::ending::Ending;
use super::job::JobRun;
use super::ledger::{Ledger, Sink};
use super::maker::{Joined, Maker};
use super::opening::Opening;
use super::reading::{End, Reading, spawn_reader};
use super::reuse::Earlier;
use super::tokenizing::{First, Message, Start, Tokenizing};
use super::workers::{Workers, collect};
use super::{EmbedOptions, OnError, Summary};
use crate::batch;
use crate::cancel::CancelToken;
use crate::embedder::{self, cosine_of_samples};
use crate::engine::{BatchLimits, Engine, EngineOptions, Provider};
use crate::error::{Error, Place, Result};
use crate::input::Settled;
use crate::job;
use crate::model::{Model, ModelProvenance};
use crate::output::{self, Finish, VectorWriter};
use crate::pool::Pooler;
use crate::progress::{Counts, Progress};
use crate::provenance::ProfileUsed;
use crate::record::SourceNames;
use crate::rejects::RejectsWriter;
use crate::stage::{Clocks, StageWatch};
use crate::tokenize::{Chunked, TextTokenizer};

/// A run's parts, opened.
pub(super) struct Parts {
    pub(super) started: Instant,
    pub(super) model: Arc<Model>,
    pub(super) reader: Reading,
    pub(super) tokenizer: Arc<TextTokenizer>,
    pub(super) files: Option<ModelProvenance>,
    pub(super) engine: Opening,
    pub(super) output: Output,
    pub(super) threads: usize,
    /// Workers, where the user has said how many.
    pub(super) workers: Option<usize>,
    pub(super) on_error: OnError,
    pub(super) chunked: Option<Chunked>,
    pub(super) extra: Extra,
    pub(super) fail_on_empty: bool,
    pub(super) batch_tokens: Option<usize>,
    pub(super) batch_rows: Option<usize>,
    pub(super) profile: Option<ProfileUsed>,
    /// See [`Provenance::text`](crate::provenance::Provenance::text).
    pub(super) text: Option<String>,
    pub(super) reuse: Option<Earlier>,
}

/// Where the rows go.
#[allow(clippy::large_enum_variant)] // there is one
pub(super) enum Output {
    /// An output, and the file of its rejects.
    Whole(Box<dyn VectorWriter>, Option<RejectsWriter>),
    /// Parts, which begin once the fingerprint is known.
    Job(Box<JobRun>),
}

impl Output {
    pub(super) fn whole(
        options: &EmbedOptions,
        dimensions: &[usize],
        reader: &Reading,
    ) -> Result<Self> {
        let (force, files) = (options.output.force, &options.files);
        let (names, output) = (reader.names(), options.output());
        let schema = options.extra().schema(&reader.schema())?;
        let writer = output::create(&output, dimensions, names, &schema, files)?;
        let rejects = options.rejects.as_ref();
        let rejects = rejects.map(|path| RejectsWriter::create(path, force, files));
        Ok(Self::Whole(writer, rejects.transpose()?))
    }
}

/// Puts the parts together and runs them to the end.
pub(super) fn drive(
    parts: Parts,
    progress: &dyn Progress,
    cancel: &CancelToken,
) -> Result<Summary> {
    let (run, threads, output) = start(parts, progress, cancel)?;
    if let Some(reuse) = &run.reuse {
        reuse.check(&run.maker.provenance(&Counts::default())?)?;
    }
    let made = |counts: &Counts| run.maker.provenance(counts);
    let mut notes = run.model.notes(run.maker.info.provider == Provider::Native);
    let mut rejected_before = 0;
    let (sink, ending) = match output {
        Output::Whole(mut writer, rejects) => {
            writer.about(&|| run.maker.at_first())?;
            (Sink::Whole { writer, rejects }, None)
        }
        Output::Job(job) => {
            // Nothing is embedded for an output that it does not fit.
            let files = run.maker.files()?;
            notes.extend(job.note());
            rejected_before = job.rejected();
            let schema = run.extra.schema(&run.schema)?;
            let (parts, ending) = job.parts(&run.model, files, &run.maker.info, schema)?;
            let parts = Box::new(parts);
            let sink = Sink::Parts { parts, made: &made };
            (sink, Some(ending))
        }
    };
    let mut ledger = Ledger {
        model: &run.model,
        pooler: &run.pooler,
        names: &run.names,
        progress,
        on_error: run.on_error,
        extra: run.extra,
        counts: Counts::default(),
        reasons: Vec::new(),
        without_tokens: 0,
        sink,
    };
    let (read, end) = match run.all_windows(&threads, &mut ledger, progress, cancel) {
        Ok(end) => end,
        // What a job has embedded is not lost with the run.
        Err(error) => {
            ledger.salvage();
            return Err(error);
        }
    };
    drop(threads);

    run.check(&ledger, read)?;
    if cancel.is_cancelled() && matches!(ledger.sink, Sink::Whole { .. }) {
        return Err(Error::interrupted());
    }
    let Ledger {
        counts,
        reasons,
        without_tokens,
        sink,
        ..
    } = ledger;
    let all = run.publish(sink, ending, end, &counts, &made)?;
    progress.published();
    if !all {
        notes.push("this shard is complete; the output is, when all others are, too".to_owned());
    }
    if run.maker.info.equal_lengths {
        notes.push(crate::padding::NOTE.into());
    }
    if without_tokens > 0 {
        notes.push(format!(
            "{without_tokens} texts have no token under this model's tokenizer; their vectors are what pooling gives for \
             no token at all"
        ));
    }
    Ok(Summary {
        chunks: run.maker.chunked.map(|_| counts.rows),
        reused: run.reuse.as_ref().map(|_| counts.reused),
        counts,
        engine: run.maker.info(),
        model: run.model.id.clone(),
        dimensions: run.model.config.vectors(),
        threads: run.threads,
        max_length: run.model.config.limit(),
        load: run.load,
        run: run.started.elapsed().saturating_sub(run.load),
        stages: run.stages.times(),
        rejects: reasons,
        rejected_before,
        notes,
    })
}

/// A run that is under way: what is known of it.
struct Run<'c> {
    started: Instant,
    /// Until the first batch could run.
    load: Duration,
    model: Arc<Model>,
    pooler: Arc<Pooler>,
    names: SourceNames,
    /// Of the records, as far as it is known before the first of them is read.
    schema: SchemaRef,
    extra: Extra,
    on_error: OnError,
    fail_on_empty: bool,
    threads: usize,
    clocks: Arc<Clocks>,
    stages: StageWatch,
    settled: Option<Settled>,
    reuse: Option<Earlier>,
    maker: Maker<'c>,
    /// Stops, when it is dropped, what the engine may still be doing.
    _engine: Opening,
}

/// The threads of a run, as the calling one knows them.
struct Threads {
    windows: Receiver<Result<Message>>,
    workers: Workers,
}

/// Starts all threads, and waits until the first worker can run batches. Reading and tokenizing start while the
/// engine loads.
fn start<'c>(
    parts: Parts,
    progress: &dyn Progress,
    cancel: &'c CancelToken,
) -> Result<(Run<'c>, Threads, Output)> {
    let Parts {
        model,
        reader,
        tokenizer,
        ..
    } = parts;
    let names = reader.names();
    let total_bytes = reader.total_bytes();
    let schema = reader.schema();
    let settled = reader.settled();
    let pooler = Arc::new(Pooler::new(&model.config, tokenizer.prompt_tokens()));

    let clocks = Arc::new(Clocks::default());
    let windows = spawn_reader(reader, &clocks)?;
    let (start_sender, start) = bounded(1);
    let (jobs_sender, jobs) = unbounded();
    let tokenizing = Tokenizing {
        tokenizer: Arc::clone(&tokenizer),
        chunked: parts.chunked,
        reuse: (parts.reuse.as_ref()).map(|reuse| reuse.ask(model.config.vectors().0)),
        on_error: parts.on_error,
        names: names.clone(),
        clocks: Arc::clone(&clocks),
    };
    let windows = tokenizing.spawn(windows, start, jobs_sender)?;
    let engine: Arc<dyn Engine> = wait(cancel, &parts.engine.engine)?.into();
    let mut info = engine.info().clone();
    let hashes = in_background("hash", {
        let (model, known) = (Arc::clone(&model), parts.files);
        let native = info.provider == Provider::Native;
        move || known.map_or_else(|| model.provenance(native), Ok)
    })?;
    let suits = engine.limits();
    let threads = parts.workers.or(engine.workers()).unwrap_or(parts.threads);
    let precision = parts.engine.options.as_ref().filter(|_| info.is_reduced());
    if let Some(options) = precision {
        info.cosine = cosine_of_samples(engine.as_ref(), &tokenizer, &pooler, options)?;
    }
    let cosine = Arc::new(Mutex::new(info.cosine));
    let first = match precision {
        Some(options) => precision_sample(&engine, &pooler, &cosine, options.clone()),
        None => Box::new(|_: &_| Ok(())),
    };
    // The tokenizer thread may be gone after an error of its own, which is found below.
    let _ = start_sender.send(Start {
        limits: BatchLimits {
            tokens: parts.batch_tokens.unwrap_or(suits.tokens),
            rows: parts.batch_rows.unwrap_or(suits.rows),
            equal_lengths: suits.equal_lengths,
        },
        ragged: engine.is_ragged(),
        first,
    });
    let workers = Workers::spawn(threads, &engine, &model, &pooler, &clocks, &jobs)?;
    drop(jobs);
    workers.wait_for_first(cancel)?;
    let load = parts.started.elapsed();
    // These compute on their worker's thread; others have threads or a device of their own.
    let stages = StageWatch::new(&clocks, threads, info.provider.is_on_worker());
    progress.stages(&stages);
    progress.started(&info, total_bytes);
    let maker = Maker {
        model: Arc::clone(&model),
        info,
        cosine,
        chunked: parts.chunked,
        text: parts.text,
        profile: parts.profile,
        hashes,
        files: OnceCell::new(),
        cancel,
    };
    let run = Run {
        started: parts.started,
        load,
        model,
        pooler,
        names,
        schema,
        extra: parts.extra,
        on_error: parts.on_error,
        fail_on_empty: parts.fail_on_empty,
        threads,
        clocks,
        stages,
        settled,
        reuse: parts.reuse,
        maker,
        _engine: parts.engine,
    };
    Ok((run, Threads { windows, workers }, parts.output))
}

/// Rows of the first window by which reduced precision is measured.
const SAMPLE_ROWS: usize = 64;

/// Their tokens at most, so that it takes some tenths of a second.
const SAMPLE_TOKENS: usize = 2048;

/// Measures reduced precision by rows of the first window.
fn precision_sample(
    engine: &Arc<dyn Engine>,
    pooler: &Arc<Pooler>,
    cosine: &Joined,
    options: EngineOptions,
) -> First {
    let (engine, pooler) = (Arc::clone(engine), Arc::clone(pooler));
    let cosine = Arc::clone(cosine);
    Box::new(move |tokens| {
        let mut joined = cosine.lock().unwrap_or_else(PoisonError::into_inner);
        let sample = batch::sample(tokens, SAMPLE_ROWS, SAMPLE_TOKENS);
        *joined = embedder::cosine(engine.as_ref(), &pooler, &sample, *joined, &options)?;
        Ok(())
    })
}

impl Run<'_> {
    /// Waits for windows in the input's order and writes them, to the end of the input: how many records were
    /// read, and where it ended.
    fn all_windows(
        &self,
        threads: &Threads,
        ledger: &mut Ledger<'_>,
        progress: &dyn Progress,
        cancel: &CancelToken,
    ) -> Result<(u64, End)> {
        let Threads { windows, workers } = threads;
        let clocks = &self.clocks;
        loop {
            let message = select! {
                recv(windows) -> message => message.map_err(|_| ended("tokenizer"))??,
                recv(workers.failures) -> failure => return Err(failure.unwrap_or_else(|_| ended("worker"))),
                recv(cancel.channel()) -> _ => return Err(Error::interrupted()),
            };
            match message {
                Message::InFlight(in_flight) => {
                    let finished = collect(&in_flight, workers, progress, cancel)?;
                    clocks.write.time(|| ledger.settle(*in_flight, &finished))?;
                    if let Some(settled) = &self.settled {
                        settled.window();
                    }
                }
                Message::Stream(schema) => {
                    let schema = self.extra.schema(&schema)?;
                    let streams = ledger.streams()?;
                    clocks.write.time(|| streams.begin_stream(&schema))?;
                }
                Message::StreamEnd => {
                    let streams = ledger.streams()?;
                    clocks.write.time(|| streams.end_stream())?;
                }
                Message::End { read, end } => return Ok((read, end)),
            }
        }
    }

    /// Whether every record that was `read` is accounted for, and there is one at all where there must be.
    fn check(&self, ledger: &Ledger<'_>, read: u64) -> Result<()> {
        let counts = &ledger.counts;
        if counts.read != read || counts.embedded + counts.rejected != read {
            return Err(Error::internal(format!(
                "{read} records were read and {} accounted for: {} embedded, {} rejected",
                counts.read, counts.embedded, counts.rejected
            )));
        }
        if self.fail_on_empty && counts.embedded == 0 {
            let reason = match counts.rejected {
                0 => "there is no record to embed, which --fail-on-empty forbids".to_owned(),
                rejected => format!(
                    "none of {rejected} records can be embedded, which --fail-on-empty forbids; the first: {}",
                    ledger.reasons.first().map_or("", String::as_str)
                ),
            };
            return Err(Error::input(Place::file(self.names.join(", ")), reason));
        }
        Ok(())
    }

    /// Publishes the output; whether it is complete, which of a job in shards depends on others.
    fn publish(
        &self,
        sink: Sink<'_>,
        ending: Option<Ending>,
        end: End,
        counts: &Counts,
        made: job::Made<'_>,
    ) -> Result<bool> {
        let schema = self.extra.schema(&end.schema)?;
        self.clocks.write.time(|| match (sink, ending) {
            (Sink::Whole { writer, rejects }, _) => {
                let finish = Finish {
                    schema,
                    provenance: &made(counts)?,
                    rejects,
                };
                writer.finish(finish).map(|()| true)
            }
            (Sink::Parts { parts, .. }, Some(ending)) => {
                ending.complete(*parts, end.point, schema, made)
            }
            (Sink::Parts { .. }, None) => Err(Error::internal("parts without an end")),
        })
    }
}

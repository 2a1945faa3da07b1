//! The one file that names every stage: channels, workers, order, cancellation, ledger.
//!
//! ```text
//!  reader ──windows──► tokenizer ──in flight───────────► this thread ──► writer, rejects
//!  (thread)  (1)       (thread)  (1: back-pressure)     in input order
//!                          └─────jobs─────► workers ──done──┘
//! ```
//!
//! The batches of a window *in flight* run on any worker in any order, and the calling thread waits for
//! windows in input order, so rows cannot change places. Channels between reader, tokenizer and writer hold
//! one element each: at most five windows exist at a time (one is being read, one tokenized, one written, and
//! two wait), whatever the size of the input.
//! The calling thread waits on nothing without also waiting for cancellation, and never for the reader.

mod assembly;
mod distinct;
mod job;
mod ledger;
mod stages;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, select, unbounded};

use self::assembly::Extra;
use self::job::JobRun;
use self::ledger::{Ledger, Sink};
use self::stages::{
    Message, Reading, Start, Streams, Tokenizing, Workers, collect, ended, in_background,
    spawn_reader, spawn_tokenizer, wait,
};
use crate::batch;
use crate::cancel::CancelToken;
use crate::embedder::{self, cosine_of_samples};
use crate::engine::{self, BatchLimits, Engine, EngineInfo, EngineOptions, Provider};
use crate::error::{Error, Place, Result};
use crate::input::{InputOptions, RecordReader, Source};
use crate::job::{Job, JobOptions, State};
use crate::model::{Dimensions, Model, ModelOptions, ModelProvenance};
use crate::output::{self, Finish, OutputOptions, RunFiles, VectorWriter};
use crate::pool::Pooler;
use crate::progress::{Counts, Progress};
use crate::provenance::{ProfileUsed, Provenance};
use crate::rejects::RejectsWriter;
use crate::stage::{Clocks, StageTimes, StageWatch};
use crate::threads::{self, usable_cores};
use crate::tokenize::{Chunked, Chunking, TextTokenizer};

/// What a bad record does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Stops the run.
    #[default]
    Fail,
    /// Is counted, reported and left out.
    Skip,
    /// Is counted, reported, and stays as a row without a vector: null, with the reason in the column
    /// `embedding_error`.
    Null,
}

/// Everything that `embedctl embed` can be told.
#[derive(Debug, Clone)]
pub struct EmbedOptions {
    /// Which model, and what overrides its files.
    pub model: ModelOptions,
    /// Which engine and provider, how many workers, how large a batch.
    pub engine: EngineOptions,
    /// Sources, read one after another.
    pub sources: Vec<Source>,
    /// How to read them.
    pub input: InputOptions,
    /// Whether long texts become several rows, and how.
    pub chunking: Option<Chunking>,
    /// Where vectors go.
    pub output: OutputOptions,
    /// Whether the output is in parts, and whether an earlier run's are gone on with.
    pub job: JobOptions,
    /// What a bad record does.
    pub on_error: OnError,
    /// Where rejected records are written (JSONL).
    pub rejects: Option<PathBuf>,
    /// Files that the caller writes, with their options: none may be the output, an input or the like.
    pub others: Vec<(&'static str, PathBuf)>,
    /// Whether a run without a single row fails.
    pub fail_on_empty: bool,
    /// Rows in a batch at most; `None`: what suits the engine.
    pub batch_rows: Option<usize>,
    /// The tuned profile that some of these settings come from, as it goes into the provenance.
    pub profile: Option<ProfileUsed>,
    /// The files that the run has begun, for a program that may have to end without unwinding.
    pub files: RunFiles,
}

impl EmbedOptions {
    fn output(&self) -> OutputOptions {
        OutputOptions {
            nullable: self.on_error == OnError::Null,
            streams: self.input.window_per_batch,
            ..self.output.clone()
        }
    }

    fn extra(&self) -> Extra {
        Extra {
            chunks: self.chunking.is_some(),
            chunk_text: self.chunking.is_some_and(|chunking| chunking.text),
            errors: self.on_error == OnError::Null,
        }
    }
}

/// What a finished run did.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Rows and tokens; `embedded + rejected == read` was checked.
    pub counts: Counts,
    /// What ran the model.
    pub engine: EngineInfo,
    /// Hub id or folder of the model.
    pub model: String,
    /// Chunks embedded, where records were cut: the rows that records became.
    pub chunks: Option<u64>,
    /// Widths of a row's vectors.
    pub dimensions: Dimensions,
    /// Worker threads.
    pub threads: usize,
    /// Tokens of a row at most, where the model has a limit.
    pub max_length: Option<usize>,
    /// Time until the first batch could run: model and engine loaded.
    pub load: Duration,
    /// Time from then to the published output.
    pub run: Duration,
    /// Where that time went.
    pub stages: StageTimes,
    /// Places and reasons of the first rejected records ([`Summary::SHOWN_REJECTS`] at most).
    pub rejects: Vec<String>,
    /// Records that earlier runs of the same job have rejected.
    pub rejected_before: u64,
    /// Things a user should be told once, such as a default that was taken.
    pub notes: Vec<String>,
}

impl Summary {
    /// How many rejected records are remembered with their reasons.
    pub const SHOWN_REJECTS: usize = 10;
}

/// Runs the main job: opens model, sources, output and engine, embeds every record, publishes.
///
/// # Errors
/// Anything that stops the run; nothing stands under the output's name then.
pub fn embed(
    options: &EmbedOptions,
    progress: &Arc<dyn Progress>,
    cancel: &CancelToken,
) -> Result<Summary> {
    run(options, None, open_engine, progress, cancel)
}

/// Whether sources can be read and outputs be written, as far as that can be told without a model: for
/// whoever has to fetch one first. Reads nothing, leaves nothing behind.
///
/// # Errors
/// As [`embed`].
pub fn check(options: &EmbedOptions) -> Result<()> {
    let reader = RecordReader::open(&options.sources, options.input.clone())?;
    check_places(options)?;
    let (schema, files) = (options.extra().schema(&reader.schema())?, &options.files);
    if let Some(job) = job::of(options)? {
        job.look()?;
        if !job.is_single() {
            return Ok(());
        }
    }
    let output = options.output();
    let dimensions = &options.model.dimensions;
    output::check(&output, dimensions, options.sources.len(), &schema, files)?;
    match &options.rejects {
        Some(path) => RejectsWriter::check(path, options.output.force, files),
        None => Ok(()),
    }
}

/// Whether no two files of the run stand under one name: they would replace each other, or the input.
/// Looks at names alone; [`check`] and [`embed`] do so first.
///
/// # Errors
/// If two do; the message names both.
pub fn check_places(options: &EmbedOptions) -> Result<()> {
    threads::check(options.engine.workers)?;
    if job::of(options)?.is_some_and(|job| !job.is_single()) {
        return Ok(());
    }
    let inputs = options.sources.iter().map(Source::path);
    let rejects = options.rejects.iter().map(|path| ("--rejects", path));
    let others = options.others.iter().map(|(option, path)| (*option, path));
    let others: Vec<_> = rejects
        .chain(others)
        .map(|(option, path)| (option, path.as_path()))
        .collect();
    output::refuse_overlap(&options.output, &others, inputs)
}

/// The job that options ask for; none where a run is none.
///
/// # Errors
/// If options contradict each other.
pub fn job(options: &EmbedOptions) -> Result<Option<Job>> {
    job::of(options)
}

/// Under `--resume`, what stands at the output, if it is complete and was made from the same input with the same
/// settings: then there is nothing to do. With how many records were rejected. Opens no engine.
///
/// # Errors
/// If it is complete and was made with others, or cannot be read.
pub fn finished(options: &EmbedOptions) -> Result<Option<(State, u64)>> {
    job::finished(options)
}

/// As [`embed`], with an engine that is open already; [`EmbedOptions::engine`] says nothing then.
///
/// # Errors
/// As [`embed`].
pub fn embed_with(
    engine: Box<dyn Engine>,
    options: &EmbedOptions,
    progress: &Arc<dyn Progress>,
    cancel: &CancelToken,
) -> Result<Summary> {
    let open = |_: &_, _, _| Ok(Opening::done(engine));
    run(options, None, open, progress, cancel)
}

/// A model that is read, hashed and ready to tokenize, for several runs.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The model.
    pub model: Arc<Model>,
    /// Its tokenizer.
    pub tokenizer: Arc<TextTokenizer>,
    /// Its files and their hashes.
    pub files: ModelProvenance,
}

/// As [`embed_with`], with a model that is open, too; [`EmbedOptions::model`] says nothing then.
///
/// # Errors
/// As [`embed`].
pub fn embed_opened(
    opened: &Opened,
    engine: Box<dyn Engine>,
    options: &EmbedOptions,
    progress: &Arc<dyn Progress>,
    cancel: &CancelToken,
) -> Result<Summary> {
    let open = |_: &_, _, _| Ok(Opening::done(engine));
    run(options, Some(opened), open, progress, cancel)
}

fn run(
    options: &EmbedOptions,
    opened: Option<&Opened>,
    open: impl FnOnce(&Arc<Model>, EngineOptions, usize) -> Result<Opening>,
    progress: &Arc<dyn Progress>,
    cancel: &CancelToken,
) -> Result<Summary> {
    let started = Instant::now();
    // Everything that can be refused without work is refused first: sources, model, output.
    check_places(options)?;
    let mut job = match job::of(options)? {
        Some(job) => Some(job::begin(job, options)?),
        None => {
            job::forget(options)?;
            None
        }
    };
    let reader = match &mut job {
        Some(job) => Reading::Job(job.reader()?),
        None => {
            let mut reader = RecordReader::open(&options.sources, options.input.clone())?;
            if options.output.is_stream()? {
                reader.begin_small();
            }
            match options.input.window_per_batch {
                true => Reading::Streams(Streams::new(reader)),
                false => Reading::Plain(reader),
            }
        }
    };
    let (model_options, engine_options) = engine::settle(&options.model, &options.engine)?;
    let model = match opened {
        Some(opened) => Arc::clone(&opened.model),
        None => Arc::new(Model::open(&model_options)?),
    };
    let extra = options.extra();
    let output = match job {
        Some(job) => {
            job.check(&model)?;
            Output::Job(Box::new(job))
        }
        None => Output::whole(options, &model.config.vectors().0, &reader)?,
    };
    for note in options.files.take_notes() {
        progress.warning(&note);
    }
    let asked = Some(options.engine.workers).filter(|&workers| workers > 0);
    let threads = asked.unwrap_or_else(usable_cores);
    let tokenizer = match opened {
        Some(opened) => Arc::clone(&opened.tokenizer),
        None => Arc::new(TextTokenizer::new(&model, threads)?),
    };
    let chunked = match &options.chunking {
        Some(chunking) => Some(tokenizer.chunked(chunking)?),
        None => None,
    };
    let parts = Parts {
        started,
        workers: asked,
        engine: open(&model, engine_options, threads)?,
        tokenizer,
        files: opened.map(|opened| opened.files.clone()),
        model,
        reader,
        output,
        threads,
        on_error: options.on_error,
        chunked,
        extra,
        fail_on_empty: options.fail_on_empty,
        batch_tokens: options.engine.batch_tokens,
        batch_rows: options.batch_rows,
        profile: options.profile.clone(),
    };
    // A write to a pipe that nobody empties can block for ever, so nobody waits for the run itself either.
    let run = in_background("run", {
        let (progress, cancel) = (Arc::clone(progress), cancel.clone());
        move || drive(parts, progress.as_ref(), &cancel)
    })?;
    select! {
        recv(run) -> result => result.map_err(|_| ended("run"))?,
        recv(cancel.channel()) -> _ => run.recv_timeout(LAST_BATCHES).unwrap_or_else(|_| {
            options.files.remove();
            Err(Error::interrupted())
        }),
    }
}

/// Rows of the first window by which reduced precision is measured.
const SAMPLE_ROWS: usize = 64;

/// Their tokens at most, so that it takes some tenths of a second.
const SAMPLE_TOKENS: usize = 2048;

/// How long a cancelled run may take to finish its last batches and to clean up after itself.
const LAST_BATCHES: Duration = Duration::from_secs(4);

/// A run's parts, opened.
struct Parts {
    started: Instant,
    model: Arc<Model>,
    reader: Reading,
    tokenizer: Arc<TextTokenizer>,
    files: Option<ModelProvenance>,
    engine: Opening,
    output: Output,
    threads: usize,
    /// Workers, where the user has said how many.
    workers: Option<usize>,
    on_error: OnError,
    chunked: Option<Chunked>,
    extra: Extra,
    fail_on_empty: bool,
    batch_tokens: Option<usize>,
    batch_rows: Option<usize>,
    profile: Option<ProfileUsed>,
}

/// Where the rows go.
#[allow(clippy::large_enum_variant)] // there is one
enum Output {
    /// An output, and the file of its rejects.
    Whole(Box<dyn VectorWriter>, Option<RejectsWriter>),
    /// Parts, which begin once the fingerprint is known.
    Job(Box<JobRun>),
}

impl Output {
    fn whole(options: &EmbedOptions, dimensions: &[usize], reader: &Reading) -> Result<Self> {
        let (force, files) = (options.output.force, &options.files);
        let (names, output) = (reader.names(), options.output());
        let schema = options.extra().schema(&reader.schema())?;
        let writer = output::create(&output, dimensions, names, &schema, files)?;
        let rejects = options.rejects.as_ref();
        let rejects = rejects.map(|path| RejectsWriter::create(path, force, files));
        Ok(Self::Whole(writer, rejects.transpose()?))
    }
}

/// The engine, being opened on a thread of its own: that can take long and must not hold up a signal.
///
/// Dropped before it is open, it asks the opening to stop and waits a moment: the process may be about to
/// exit, which tears a native library down under a thread that is still inside.
struct Opening {
    engine: Receiver<Result<Box<dyn Engine>>>,
    stop: CancelToken,
    /// What it is opened with; `None` for one that is open, whose precision was measured then.
    options: Option<EngineOptions>,
}

impl Opening {
    const GRACE: Duration = Duration::from_secs(2);

    /// An engine that is open.
    fn done(engine: Box<dyn Engine>) -> Self {
        let (sender, receiver) = bounded(1);
        // There is room for one, and the other end is held.
        let _ = sender.send(Ok(engine));
        Self {
            engine: receiver,
            stop: CancelToken::new(),
            options: None,
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.stop.cancel();
        let _ = self.engine.recv_timeout(Self::GRACE);
    }
}

fn open_engine(model: &Arc<Model>, engine: EngineOptions, threads: usize) -> Result<Opening> {
    let model = Arc::clone(model);
    let stop = CancelToken::new();
    let options = EngineOptions {
        workers: threads,
        cancel: stop.clone(),
        ..engine
    };
    let kept = options.clone();
    let engine = in_background("engine", move || crate::padding::open(&model, &options))?;
    Ok(Opening {
        engine,
        stop,
        options: Some(kept),
    })
}

/// Puts the parts together and runs them to the end.
fn drive(parts: Parts, progress: &dyn Progress, cancel: &CancelToken) -> Result<Summary> {
    let Parts {
        started,
        model,
        reader,
        tokenizer,
        threads,
        ..
    } = parts;
    let names = reader.names();
    let total_bytes = reader.total_bytes();
    let schema = reader.schema();
    let pooler = Arc::new(Pooler::new(&model.config, tokenizer.prompt_tokens()));

    // Reading and tokenizing start while the engine loads.
    let clocks = Arc::new(Clocks::default());
    let settled = reader.settled();
    let windows = spawn_reader(reader, &clocks)?;
    let (start_sender, start) = bounded(1);
    let (jobs_sender, jobs) = unbounded();
    let windows = spawn_tokenizer(
        Tokenizing {
            tokenizer: Arc::clone(&tokenizer),
            chunked: parts.chunked,
        },
        parts.on_error,
        windows,
        start,
        jobs_sender,
        names.clone(),
        &clocks,
    )?;
    let engine: Arc<dyn Engine> = wait(cancel, &parts.engine.engine)?.into();
    let mut info = engine.info().clone();
    let hashes = in_background("hash", {
        let (model, known) = (Arc::clone(&model), parts.files);
        let native = info.provider == Provider::Native;
        move || known.map_or_else(|| model.provenance(native), Ok)
    })?;
    let suits = engine.limits();
    let threads = parts.workers.or(engine.workers()).unwrap_or(threads);
    let precision = parts.engine.options.as_ref().filter(|_| info.is_reduced());
    if let Some(options) = precision {
        info.cosine = cosine_of_samples(engine.as_ref(), &tokenizer, &pooler, options)?;
    }
    let cosine = Arc::new(Mutex::new(info.cosine));
    // The tokenizer thread may be gone after an error of its own, which is found below.
    let _ = start_sender.send(Start {
        limits: BatchLimits {
            tokens: parts.batch_tokens.unwrap_or(suits.tokens),
            rows: parts.batch_rows.unwrap_or(suits.rows),
            equal_lengths: suits.equal_lengths,
        },
        ragged: engine.is_ragged(),
        first: match precision.cloned() {
            Some(options) => {
                let (engine, pooler) = (Arc::clone(&engine), Arc::clone(&pooler));
                let cosine = Arc::clone(&cosine);
                Box::new(move |tokens| {
                    let mut joined = cosine.lock().unwrap_or_else(PoisonError::into_inner);
                    let sample = batch::sample(tokens, SAMPLE_ROWS, SAMPLE_TOKENS);
                    *joined =
                        embedder::cosine(engine.as_ref(), &pooler, &sample, *joined, &options)?;
                    Ok(())
                })
            }
            None => Box::new(|_| Ok(())),
        },
    });
    let workers = Workers::spawn(threads, &engine, &model, &pooler, &clocks, &jobs)?;
    drop(jobs);
    workers.wait_for_first(cancel)?;
    let load = started.elapsed();
    // These compute on their worker's thread; others have threads or a device of their own.
    let stages = StageWatch::new(&clocks, threads, info.provider.is_on_worker());
    progress.stages(&stages);
    progress.started(&info, total_bytes);

    let files = OnceCell::new();
    let made = |counts: &Counts| {
        let files = match files.get() {
            Some(files) => files,
            None => {
                let hashed = wait(cancel, &hashes)?;
                files.get_or_init(|| hashed)
            }
        };
        let info = EngineInfo {
            cosine: *cosine.lock().unwrap_or_else(PoisonError::into_inner),
            ..info.clone()
        };
        let profile = parts.profile.as_ref();
        let provenance = Provenance::new(&model, files, &info, parts.chunked, counts, profile);
        serde_json::to_value(&provenance)
            .map_err(|error| Error::internal(format!("writing the provenance: {error}")))
    };
    let mut notes = model.notes(info.provider == Provider::Native);
    let mut rejected_before = 0;
    let (sink, ending) = match parts.output {
        Output::Whole(writer, rejects) => (Sink::Whole { writer, rejects }, None),
        Output::Job(job) => {
            // Nothing is embedded for an output that it does not fit.
            let hashed = wait(cancel, &hashes)?;
            notes.extend(job.note());
            rejected_before = job.rejected();
            let (parts, ending) =
                job.parts(&model, &hashed, &info, parts.extra.schema(&schema)?)?;
            let _ = files.set(hashed);
            let parts = Box::new(parts);
            let sink = Sink::Parts { parts, made: &made };
            (sink, Some(ending))
        }
    };
    let mut ledger = Ledger {
        model: &model,
        pooler: &pooler,
        names: &names,
        progress,
        on_error: parts.on_error,
        extra: parts.extra,
        counts: Counts::default(),
        reasons: Vec::new(),
        without_tokens: 0,
        sink,
    };
    let mut step = || -> Result<_> {
        let message = select! {
            recv(windows) -> message => message.map_err(|_| ended("tokenizer"))??,
            recv(workers.failures) -> failure => return Err(failure.unwrap_or_else(|_| ended("worker"))),
            recv(cancel.channel()) -> _ => return Err(Error::interrupted()),
        };
        match message {
            Message::InFlight(in_flight) => {
                let finished = collect(&in_flight, &workers, progress, cancel)?;
                clocks.write.time(|| ledger.settle(*in_flight, &finished))?;
                if let Some(settled) = &settled {
                    settled.window();
                }
                Ok(None)
            }
            Message::Stream(schema) => {
                let schema = parts.extra.schema(&schema)?;
                let streams = ledger.streams()?;
                clocks.write.time(|| streams.begin_stream(&schema))?;
                Ok(None)
            }
            Message::StreamEnd => {
                let streams = ledger.streams()?;
                clocks.write.time(|| streams.end_stream())?;
                Ok(None)
            }
            Message::End { read, end } => Ok(Some((read, end))),
        }
    };
    let ended = loop {
        match step() {
            Ok(None) => {}
            Ok(Some(end)) => break Ok(end),
            Err(error) => break Err(error),
        }
    };
    let (read, end) = match ended {
        Ok(end) => end,
        // What a job has embedded is not lost with the run.
        Err(error) => {
            ledger.salvage();
            return Err(error);
        }
    };
    drop(workers);

    let Ledger {
        counts,
        reasons,
        without_tokens,
        sink,
        ..
    } = ledger;
    if counts.read != read || counts.embedded + counts.rejected != read {
        return Err(Error::internal(format!(
            "{read} records were read and {} accounted for: {} embedded, {} rejected",
            counts.read, counts.embedded, counts.rejected
        )));
    }
    if parts.fail_on_empty && counts.embedded == 0 {
        let reason = match counts.rejected {
            0 => "there is no record to embed, which --fail-on-empty forbids".to_owned(),
            rejected => format!(
                "none of {rejected} records can be embedded, which --fail-on-empty forbids; the first: {}",
                reasons.first().map_or("", String::as_str)
            ),
        };
        return Err(Error::input(Place::file(names.join(", ")), reason));
    }
    if cancel.is_cancelled() && matches!(sink, Sink::Whole { .. }) {
        return Err(Error::interrupted());
    }
    let schema = parts.extra.schema(&end.schema)?;
    let all = clocks.write.time(|| match (sink, ending) {
        (Sink::Whole { writer, rejects }, _) => {
            let finish = Finish {
                schema,
                provenance: &made(&counts)?,
                rejects,
            };
            writer.finish(finish).map(|()| true)
        }
        (Sink::Parts { parts, .. }, Some(ending)) => {
            ending.complete(*parts, end.point, schema, &made)
        }
        (Sink::Parts { .. }, None) => Err(Error::internal("parts without an end")),
    })?;
    progress.published();
    if !all {
        notes.push("this shard is complete; the output is, when all others are, too".to_owned());
    }
    info.cosine = *cosine.lock().unwrap_or_else(PoisonError::into_inner);
    if info.equal_lengths {
        notes.push(crate::padding::NOTE.into());
    }
    if without_tokens > 0 {
        notes.push(format!(
            "{without_tokens} texts have no token under this model's tokenizer; their vectors are what pooling gives for \
             no token at all"
        ));
    }
    Ok(Summary {
        chunks: parts.chunked.map(|_| counts.rows),
        counts,
        engine: info,
        model: model.id.clone(),
        dimensions: model.config.vectors(),
        threads,
        max_length: model.config.limit(),
        load,
        run: started.elapsed().saturating_sub(load),
        stages: stages.times(),
        rejects: reasons,
        rejected_before,
        notes,
    })
}

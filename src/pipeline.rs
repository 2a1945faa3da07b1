//! The one file that names every stage: channels, workers, order, cancellation, ledger.
//!
//! ```text
//!  reader ──windows──► tokenizer ──flights──────────────► this thread ──► writer, rejects
//!  (thread)  (1)       (thread)  (1: back-pressure)        in input order
//!                          └─────jobs─────► workers ──done──┘
//! ```
//!
//! A *flight* is a window on its way: its batches run on any worker in any order, and the calling thread
//! waits for flights in input order, so rows cannot change places. Channels between reader, tokenizer and
//! writer hold one element each: at most four windows exist at a time, whatever the size of the input.
//! The calling thread waits on nothing without also waiting for cancellation, and never for the reader.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};

use crate::batch::{self, Plan, TokenRows};
use crate::cancel::CancelToken;
use crate::embedder::{Finished, RowWorker, panic_message, usable_cores};
use crate::engine::{self, BatchLimits, Engine, EngineInfo, EngineOptions};
use crate::error::{Error, Result};
use crate::input::{InputOptions, RecordReader, Source};
use crate::model::{Model, ModelOptions};
use crate::output::{self, Finish, OutputOptions, VectorWriter};
use crate::pool::Pooler;
use crate::progress::{Counts, Progress};
use crate::provenance::Provenance;
use crate::record::{Origin, Reject, RowRef, Rows, SourceNames, Texts, Window};
use crate::rejects::RejectsWriter;
use crate::tokenize::TextTokenizer;

/// What a bad record does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Stops the run.
    #[default]
    Fail,
    /// Is counted, reported and left out.
    Skip,
}

/// Everything that `embedctl embed` can be told.
#[derive(Debug, Clone)]
pub struct EmbedOptions {
    /// Which model, and what overrides its files.
    pub model: ModelOptions,
    /// Which engine and provider. [`EngineOptions::workers`] is set by the pipeline.
    pub engine: EngineOptions,
    /// Sources, read one after another.
    pub sources: Vec<Source>,
    /// How to read them.
    pub input: InputOptions,
    /// Where vectors go.
    pub output: OutputOptions,
    /// What a bad record does.
    pub on_error: OnError,
    /// Where rejected records are written (JSONL).
    pub rejects: Option<PathBuf>,
    /// Padded tokens in a batch at most; `None`: what suits the engine.
    pub batch_tokens: Option<usize>,
    /// Rows in a batch at most; `None`: what suits the engine.
    pub batch_rows: Option<usize>,
    /// Worker threads; `None`: one per usable core.
    pub threads: Option<usize>,
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
    /// Width of a vector.
    pub dimensions: usize,
    /// Worker threads.
    pub threads: usize,
    /// Tokens of a row at most, where the model has a limit.
    pub max_length: Option<usize>,
    /// Time until the first batch could run: model and engine loaded.
    pub load: Duration,
    /// Time from then to the published output.
    pub run: Duration,
    /// Places and reasons of the first rejected records ([`Summary::SHOWN_REJECTS`] at most).
    pub rejects: Vec<String>,
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
    let started = Instant::now();
    // Everything that can be refused without work is refused first: model, sources, output.
    let model = Arc::new(Model::open(&options.model)?);
    let reader = RecordReader::open(&options.sources, options.input.clone())?;
    let names = reader.names();
    let total_bytes = reader.total_bytes();
    let writer = output::create(&options.output, model.config.width, names.clone())?;
    let rejects = match &options.rejects {
        Some(path) => Some(RejectsWriter::create(path, options.output.force)?),
        None => None,
    };
    let threads = options.threads.unwrap_or_else(usable_cores).max(1);
    let tokenizer = TextTokenizer::new(&model, threads)?;
    let pooler = Arc::new(Pooler::new(&model.config, tokenizer.prompt_tokens()));

    // Reading and tokenizing start while the engine loads; files are hashed meanwhile.
    let windows = spawn_reader(reader)?;
    let (limits_sender, limits) = bounded(1);
    let (jobs_sender, jobs) = unbounded();
    let flights = spawn_tokenizer(
        tokenizer,
        options.on_error,
        windows,
        limits,
        jobs_sender,
        names.clone(),
    )?;
    let hashes = in_background("hash", {
        let model = Arc::clone(&model);
        move || model.provenance()
    })?;
    let engine = wait(cancel, &open_engine(&model, options, threads)?)?;
    let info = engine.info().clone();
    let suits = engine.limits();
    let _ = limits_sender.send(BatchLimits {
        tokens: options.batch_tokens.unwrap_or(suits.tokens),
        rows: options.batch_rows.unwrap_or(suits.rows),
    });
    let workers = Workers::spawn(threads, engine, &model, &pooler, &jobs)?;
    drop(jobs);
    workers.wait_for_first(cancel)?;
    let load = started.elapsed();
    progress.started(&info, total_bytes);

    let mut ledger = Ledger {
        model: &model,
        pooler: &pooler,
        names: &names,
        progress: progress.as_ref(),
        on_error: options.on_error,
        counts: Counts::default(),
        reasons: Vec::new(),
        without_tokens: 0,
        writer,
        rejects,
    };
    let (read, schema) = loop {
        let flight = select! {
            recv(flights) -> message => message.map_err(|_| ended("tokenizer"))??,
            recv(workers.failures) -> failure => return Err(failure.unwrap_or_else(|_| ended("worker"))),
            recv(cancel.channel()) -> _ => return Err(Error::Interrupted),
        };
        match flight {
            Message::Flight(flight) => {
                let finished = collect(&flight, &workers, progress.as_ref(), cancel)?;
                ledger.settle(*flight, finished)?;
            }
            Message::End { read, schema } => break (read, schema),
        }
    };
    drop(workers);

    ledger.counts.read = read;
    if ledger.counts.embedded + ledger.counts.rejected != read {
        return Err(Error::Internal(format!(
            "{read} records were read, but {} embedded and {} rejected",
            ledger.counts.embedded, ledger.counts.rejected
        )));
    }
    let files = wait(cancel, &hashes)?;
    let provenance = Provenance::new(&model, &files, &info, &ledger.counts);
    let provenance = serde_json::to_value(&provenance)
        .map_err(|error| Error::Internal(format!("writing the provenance: {error}")))?;
    if cancel.is_cancelled() {
        return Err(Error::Interrupted);
    }
    // The main output is published last: where it stands, everything else does.
    if let Some(rejects) = ledger.rejects {
        rejects.finish()?;
    }
    ledger.writer.finish(&Finish {
        schema,
        provenance: &provenance,
    })?;
    let mut notes = model.notes.clone();
    if ledger.without_tokens > 0 {
        notes.push(format!(
            "{} texts have no token under this model's tokenizer; their vectors are what pooling gives for no token at all",
            ledger.without_tokens
        ));
    }
    Ok(Summary {
        counts: ledger.counts,
        engine: info,
        model: model.id.clone(),
        dimensions: model.config.width,
        threads,
        max_length: model.config.limit(),
        load,
        run: started.elapsed() - load,
        rejects: ledger.reasons,
        notes,
    })
}

/// What the tokenizer hands on, in input order.
enum Message {
    Flight(Box<Flight>),
    End { read: u64, schema: SchemaRef },
}

/// What the reader hands on.
enum Read {
    Window(Window),
    End { read: u64, schema: SchemaRef },
}

/// A window on its way through the workers.
struct Flight {
    texts: Texts,
    origins: Vec<Origin>,
    columns: RecordBatch,
    rejects: Vec<Reject>,
    consumed: u64,
    tokens: Arc<TokenRows>,
    batches: usize,
    done: Receiver<Finished>,
}

/// A batch to run.
struct Job {
    plan: Plan,
    tokens: Arc<TokenRows>,
    done: Sender<Finished>,
}

/// A thread that ended without saying why.
fn ended(what: &str) -> Error {
    Error::Internal(format!("the {what} thread ended early"))
}

/// Runs `work` on a thread of its own; its result, or its panic as an error, comes through the channel.
fn in_background<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<Receiver<Result<T>>> {
    let (sender, receiver) = bounded(1);
    spawn(name, move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        // The other side may be gone after an error; there is nobody to tell then.
        let _ = sender
            .send(result.unwrap_or_else(|panic| Err(Error::Internal(panic_message(&*panic)))));
    })?;
    Ok(receiver)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_string())
        .spawn(work)
        .map_err(|error| Error::Internal(format!("starting the {name} thread: {error}")))
}

/// Waits for a result or for cancellation.
fn wait<T>(cancel: &CancelToken, result: &Receiver<Result<T>>) -> Result<T> {
    select! {
        recv(result) -> message => message.map_err(|_| ended("background"))?,
        recv(cancel.channel()) -> _ => Err(Error::Interrupted),
    }
}

fn open_engine(
    model: &Arc<Model>,
    options: &EmbedOptions,
    threads: usize,
) -> Result<Receiver<Result<Box<dyn Engine>>>> {
    let model = Arc::clone(model);
    let options = EngineOptions {
        workers: threads,
        ..options.engine.clone()
    };
    in_background("engine", move || engine::open(&model, &options))
}

/// Reads windows on a thread that nobody waits for: it may block on a silent pipe for ever.
fn spawn_reader(mut reader: RecordReader) -> Result<Receiver<Result<Read>>> {
    let (sender, receiver) = bounded(1);
    spawn("read", move || {
        let mut read = 0;
        loop {
            let next = catch_unwind(AssertUnwindSafe(|| reader.next_window()))
                .unwrap_or_else(|panic| Err(Error::Internal(panic_message(&*panic))));
            let (message, last) = match next {
                Ok(Some(window)) => {
                    read += (window.texts.len() + window.rejects.len()) as u64;
                    (Ok(Read::Window(window)), false)
                }
                Ok(None) => {
                    let schema = reader.schema();
                    (Ok(Read::End { read, schema }), true)
                }
                Err(error) => (Err(error), true),
            };
            if sender.send(message).is_err() || last {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// Tokenizes windows in order, cuts them into batches, and launches them.
fn spawn_tokenizer(
    tokenizer: TextTokenizer,
    on_error: OnError,
    windows: Receiver<Result<Read>>,
    limits: Receiver<BatchLimits>,
    jobs: Sender<Job>,
    names: SourceNames,
) -> Result<Receiver<Result<Message>>> {
    let (sender, receiver) = bounded(1);
    spawn("tokenize", move || {
        let mut known = None;
        let mut launch = |window: Window| -> Result<Option<(Flight, Vec<Job>)>> {
            if let (OnError::Fail, Some(reject)) = (on_error, window.rejects.first()) {
                return Err(bad_record(&names, reject));
            }
            let tokens = Arc::new(tokenizer.tokenize(&window.texts)?);
            let limits = match known {
                Some(limits) => limits,
                // Without limits there is no engine: the run is over and its error told elsewhere.
                None => match limits.recv() {
                    Ok(limits) => *known.insert(limits),
                    Err(_) => return Ok(None),
                },
            };
            Ok(Some(flight(window, tokens, limits)))
        };
        for read in windows {
            let launched = match read {
                Ok(Read::End { read, schema }) => {
                    let _ = sender.send(Ok(Message::End { read, schema }));
                    return;
                }
                Ok(Read::Window(window)) => catch_unwind(AssertUnwindSafe(|| launch(window)))
                    .unwrap_or_else(|panic| Err(Error::Internal(panic_message(&*panic)))),
                Err(error) => Err(error),
            };
            match launched {
                Ok(Some((flight, batches))) => {
                    // Sent before its jobs: this is where a slow writer or slow workers hold us back.
                    if sender.send(Ok(Message::Flight(Box::new(flight)))).is_err() {
                        return;
                    }
                    if batches.into_iter().any(|job| jobs.send(job).is_err()) {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return;
                }
            }
        }
    })?;
    Ok(receiver)
}

fn flight(window: Window, tokens: Arc<TokenRows>, limits: BatchLimits) -> (Flight, Vec<Job>) {
    let plans = batch::plan(&tokens, limits);
    let (sender, done) = unbounded();
    let flight = Flight {
        texts: window.texts,
        origins: window.origins,
        columns: window.columns,
        rejects: window.rejects,
        consumed: window.consumed,
        tokens: Arc::clone(&tokens),
        batches: plans.len(),
        done,
    };
    let job = |plan| Job {
        plan,
        tokens: Arc::clone(&tokens),
        done: sender.clone(),
    };
    (flight, plans.into_iter().map(job).collect())
}

/// The threads that run batches. Dropped, they stop at the next batch.
struct Workers {
    stop: CancelToken,
    threads: Vec<JoinHandle<()>>,
    ready: Receiver<()>,
    failures: Receiver<Error>,
}

impl Workers {
    fn spawn(
        count: usize,
        engine: Box<dyn Engine>,
        model: &Arc<Model>,
        pooler: &Arc<Pooler>,
        jobs: &Receiver<Job>,
    ) -> Result<Self> {
        let engine: Arc<dyn Engine> = engine.into();
        let (ready_sender, ready) = bounded(count);
        let (failure_sender, failures) = bounded(count);
        let mut workers = Self {
            stop: CancelToken::new(),
            threads: Vec::new(),
            ready,
            failures,
        };
        for index in 0..count {
            let (engine, model, pooler) =
                (Arc::clone(&engine), Arc::clone(model), Arc::clone(pooler));
            let (jobs, stop) = (jobs.clone(), workers.stop.clone());
            let (ready, failed) = (ready_sender.clone(), failure_sender.clone());
            let thread = spawn(&format!("worker-{index}"), move || {
                let made = catch_unwind(AssertUnwindSafe(|| {
                    RowWorker::new(engine.as_ref(), &model, &pooler)
                }))
                .unwrap_or_else(|panic| Err(Error::Internal(panic_message(&*panic))));
                match made {
                    Ok(worker) => {
                        let _ = ready.send(());
                        run_jobs(worker, &jobs, &stop, &failed);
                    }
                    Err(error) => {
                        let _ = failed.send(error);
                    }
                }
            })?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// Waits until one worker can run batches.
    fn wait_for_first(&self, cancel: &CancelToken) -> Result<()> {
        select! {
            recv(self.ready) -> ready => ready.map_err(|_| self.failure()),
            recv(self.failures) -> failure => Err(failure.unwrap_or_else(|_| ended("worker"))),
            recv(cancel.channel()) -> _ => Err(Error::Interrupted),
        }
    }

    /// Why a channel that workers hold was closed.
    fn failure(&self) -> Error {
        self.failures.try_recv().unwrap_or_else(|_| ended("worker"))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.cancel();
        for thread in self.threads.drain(..) {
            // A panic has been reported through its job; there is nothing to add.
            let _ = thread.join();
        }
    }
}

fn run_jobs(
    mut worker: RowWorker,
    jobs: &Receiver<Job>,
    stop: &CancelToken,
    failed: &Sender<Error>,
) {
    while !stop.is_cancelled() {
        let job = select! {
            recv(jobs) -> job => match job {
                Ok(job) => job,
                Err(_) => return,
            },
            recv(stop.channel()) -> _ => return,
        };
        let result = catch_unwind(AssertUnwindSafe(|| worker.run(&job.plan, &job.tokens)))
            .unwrap_or_else(|panic| Err(Error::Internal(panic_message(&*panic))));
        match result {
            Ok(finished) => {
                let _ = job.done.send(finished);
            }
            Err(error) => {
                // Whichever window is being waited for: the run is over.
                let _ = failed.send(error);
                return;
            }
        }
    }
}

/// Waits for all batches of a flight.
fn collect(
    flight: &Flight,
    workers: &Workers,
    progress: &dyn Progress,
    cancel: &CancelToken,
) -> Result<Vec<Finished>> {
    let mut all = Vec::with_capacity(flight.batches);
    while all.len() < flight.batches {
        let finished = select! {
            recv(flight.done) -> message => message.map_err(|_| workers.failure())?,
            recv(workers.failures) -> failure => return Err(failure.unwrap_or_else(|_| ended("worker"))),
            recv(cancel.channel()) -> _ => return Err(Error::Interrupted),
        };
        let tokens: usize = finished
            .rows
            .iter()
            .map(|&row| flight.tokens.get(row as usize).len())
            .sum();
        progress.batch(finished.rows.len() as u64, tokens as u64);
        all.push(finished);
    }
    Ok(all)
}

fn place(names: &SourceNames, origin: &Origin) -> String {
    let name = names
        .get(origin.source as usize)
        .map_or("input", String::as_str);
    format!("{name}:{}", origin.line)
}

fn bad_record(names: &SourceNames, reject: &Reject) -> Error {
    Error::BadRecord {
        place: place(names, &reject.origin),
        reason: reject.reason.clone(),
    }
}

/// Counts every record and writes every row.
struct Ledger<'a> {
    model: &'a Model,
    pooler: &'a Pooler,
    names: &'a SourceNames,
    progress: &'a dyn Progress,
    on_error: OnError,
    counts: Counts,
    reasons: Vec<String>,
    without_tokens: u64,
    writer: Box<dyn VectorWriter>,
    rejects: Option<RejectsWriter>,
}

impl Ledger<'_> {
    /// Puts a flight's vectors back into input order, writes them, and accounts for every record.
    fn settle(&mut self, mut flight: Flight, finished: Vec<Finished>) -> Result<()> {
        let width = self.pooler.width();
        let rows = flight.texts.len();
        let mut vectors = vec![0.0_f32; rows * width];
        let mut present = vec![false; rows];
        let mut failed: Vec<(u32, String)> = Vec::new();
        for batch in finished {
            for (&row, vector) in batch.rows.iter().zip(batch.vectors.chunks_exact(width)) {
                let row = row as usize;
                vectors[row * width..(row + 1) * width].copy_from_slice(vector);
                present[row] = true;
            }
            failed.extend(batch.failed);
        }
        for row in (0..rows).filter(|&row| flight.tokens.get(row).is_empty()) {
            let mut vector = Vec::with_capacity(width);
            self.pooler
                .finish_empty(self.model.config.hidden_width, &mut vector);
            vectors[row * width..(row + 1) * width].copy_from_slice(&vector);
            present[row] = true;
            self.without_tokens += 1;
        }
        for (row, reason) in failed {
            let text = flight.texts.get(row as usize).as_bytes();
            flight.rejects.push(Reject {
                origin: flight.origins[row as usize],
                reason,
                raw: text[..text.len().min(Reject::RAW_BYTES)].to_vec(),
            });
        }
        let missing = present.iter().filter(|&&present| !present).count();
        let read = rows + flight.rejects.len() - missing;
        flight
            .rejects
            .sort_by_key(|reject| (reject.origin.source, reject.origin.offset));
        for reject in &flight.rejects {
            self.reject(reject)?;
        }
        let refs = self.number(&flight, &present);
        let written = Rows {
            columns: flight.columns,
            origins: flight.origins,
            refs,
            vectors,
            dimensions: width,
        };
        let written = if missing == 0 {
            written
        } else {
            written.retain(&present)?
        };
        let embedded = written.len() as u64;
        self.writer.write(written)?;
        self.counts.embedded += embedded;
        self.counts.read += read as u64;
        self.counts.tokens += flight.tokens.tokens() as u64;
        self.counts.truncated += flight.tokens.truncated() as u64;
        self.counts.consumed = flight.consumed;
        self.progress.written(&self.counts);
        Ok(())
    }

    fn reject(&mut self, reject: &Reject) -> Result<()> {
        if self.on_error == OnError::Fail {
            return Err(bad_record(self.names, reject));
        }
        self.counts.rejected += 1;
        if self.reasons.len() < Summary::SHOWN_REJECTS {
            let place = place(self.names, &reject.origin);
            self.reasons.push(format!("{place}: {}", reject.reason));
        }
        match &mut self.rejects {
            Some(rejects) => rejects.write(reject, self.names),
            None => Ok(()),
        }
    }

    /// Numbers a flight's rows among all records read: rejected ones have numbers too. A row that failed
    /// in the engine is among the flight's rejects and keeps its number.
    fn number(&self, flight: &Flight, present: &[bool]) -> Vec<RowRef> {
        let key = |origin: &Origin| (origin.source, origin.offset);
        let mut rejects = flight.rejects.iter().peekable();
        let mut record = self.counts.read;
        let mut refs = Vec::with_capacity(present.len());
        for (origin, &present) in flight.origins.iter().zip(present) {
            while rejects
                .next_if(|reject| key(&reject.origin) < key(origin))
                .is_some()
            {
                record += 1;
            }
            if !present {
                rejects.next();
            }
            refs.push(RowRef { record, part: 0 });
            record += 1;
        }
        refs
    }
}

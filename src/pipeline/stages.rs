//! The threads between reading and writing: reader, tokenizer, workers, and what travels between them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};

use super::OnError;
use super::distinct::Distinct;
use super::ledger::bad_record;
use crate::batch::{self, Plan, TokenRows};
use crate::cancel::CancelToken;
use crate::embedder::{Finished, RowWorker};
use crate::engine::{BatchLimits, Engine};
use crate::error::{Error, Result};
use crate::halving::TokenLimit;
use crate::input::{RecordReader, Settled};
use crate::job::{JobReader, Point};
use crate::model::Model;
use crate::pool::Pooler;
use crate::progress::{BatchDone, Progress};
use crate::record::{Mark, Origin, Reject, SourceNames, Texts, Window};
use crate::stage::{Clocks, Watch};
use crate::threads::{exhausted, panic_message};
use crate::tokenize::{Chunked, Chunks, Span, TextTokenizer};

/// What the tokenizer waits for before it launches anything: the engine's.
pub(super) struct Start {
    pub(super) limits: BatchLimits,
    /// See [`Engine::is_ragged`].
    pub(super) ragged: bool,
    /// What is done with the first window's tokens.
    pub(super) first: First,
}

/// Looks at a window's tokens; an error ends the run.
pub(super) type First = Box<dyn FnOnce(&TokenRows) -> Result<()> + Send>;

/// What the tokenizer hands on, in input order.
pub(super) enum Message {
    InFlight(Box<InFlight>),
    /// See [`Read::Stream`].
    Stream(SchemaRef),
    /// See [`Read::StreamEnd`].
    StreamEnd,
    End {
        read: u64,
        end: End,
    },
}

/// The end of the input.
pub(super) struct End {
    pub(super) schema: SchemaRef,
    /// Of a job: all that was read.
    pub(super) point: Point,
}

/// Reads windows: all of the input's, or those that a job still has to embed.
pub(super) enum Reading {
    Plain(RecordReader),
    /// Arrow streams, whose record batches are answered one by one.
    Streams(Streams),
    Job(JobReader),
}

impl Reading {
    pub(super) fn names(&self) -> SourceNames {
        match self {
            Self::Plain(reader) | Self::Streams(Streams { reader, .. }) => reader.names(),
            Self::Job(reader) => reader.names(),
        }
    }

    pub(super) fn total_bytes(&self) -> Option<u64> {
        match self {
            Self::Plain(reader) | Self::Streams(Streams { reader, .. }) => reader.total_bytes(),
            Self::Job(reader) => reader.total_bytes(),
        }
    }

    /// Who is told of windows that are written. A job's windows are the same in every run, however its input
    /// comes, so nobody is told.
    pub(super) fn settled(&self) -> Option<Settled> {
        match self {
            Self::Plain(reader) | Self::Streams(Streams { reader, .. }) => Some(reader.settled()),
            Self::Job(_) => None,
        }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        match self {
            Self::Plain(reader) | Self::Streams(Streams { reader, .. }) => reader.schema(),
            Self::Job(reader) => reader.schema(),
        }
    }

    fn next(&mut self) -> Result<Next> {
        let window = match self {
            Self::Plain(reader) => reader.next_window()?,
            Self::Streams(streams) => return streams.next(),
            Self::Job(reader) => reader.next_window()?,
        };
        Ok(window.map_or(Next::End, Next::Window))
    }

    fn end(&self) -> End {
        End {
            schema: self.schema(),
            point: match self {
                Self::Plain(_) | Self::Streams(_) => Point::default(),
                Self::Job(reader) => reader.end(),
            },
        }
    }
}

/// What comes next of the input.
#[allow(clippy::large_enum_variant)] // windows, as a rule
enum Next {
    Window(Window),
    Stream(SchemaRef),
    StreamEnd,
    End,
}

/// Stream after stream, or one.
pub(super) struct Streams {
    reader: RecordReader,
    /// Whether one has begun and not ended.
    inside: bool,
}

impl Streams {
    pub(super) fn new(reader: RecordReader) -> Self {
        Self {
            reader,
            inside: false,
        }
    }

    fn next(&mut self) -> Result<Next> {
        if !self.inside {
            let schema = self.reader.next_stream()?;
            self.inside = schema.is_some();
            return Ok(schema.map_or(Next::End, Next::Stream));
        }
        let window = self.reader.next_window()?;
        self.inside = window.is_some();
        Ok(window.map_or(Next::StreamEnd, Next::Window))
    }
}

/// What the reader hands on.
#[allow(clippy::large_enum_variant)] // windows, as a rule
pub(super) enum Read {
    Window(Window),
    /// A stream of record batches begins, of this schema.
    Stream(SchemaRef),
    /// It has ended.
    StreamEnd,
    End {
        read: u64,
        end: End,
    },
}

/// A window on its way through the workers, which know its distinct texts alone.
pub(super) struct InFlight {
    /// Records, or their chunks.
    pub(super) texts: Texts,
    /// What the chunks are parts of, where records are cut.
    pub(super) spans: Option<Vec<Span>>,
    /// Of the records.
    pub(super) origins: Vec<Origin>,
    pub(super) columns: RecordBatch,
    /// The record batch that the window is, where batches are answered, and the number of its first row.
    pub(super) batch: Option<(RecordBatch, u64)>,
    pub(super) rejects: Vec<Reject>,
    pub(super) consumed: u64,
    pub(super) warnings: Vec<String>,
    pub(super) mark: Option<Mark>,
    pub(super) distinct: Distinct,
    /// Of the distinct texts.
    pub(super) tokens: Arc<TokenRows>,
    pub(super) batches: usize,
    pub(super) done: Receiver<Finished>,
}

/// A batch to run.
pub(super) struct Job {
    pub(super) plan: Plan,
    pub(super) tokens: Arc<TokenRows>,
    pub(super) done: Sender<Finished>,
}

/// A thread that ended without saying why.
pub(super) fn ended(what: &str) -> Error {
    Error::internal(format!("the {what} thread ended early"))
}

/// Runs `work` on a thread of its own; its result, or its panic as an error, comes through the channel.
pub(super) fn in_background<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<Receiver<Result<T>>> {
    let (sender, receiver) = bounded(1);
    spawn(name, move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        // The other side may be gone after an error; there is nobody to tell then.
        let _ = sender
            .send(result.unwrap_or_else(|panic| Err(Error::internal(panic_message(&*panic)))));
    })?;
    Ok(receiver)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_string())
        .spawn(work)
        .map_err(exhausted)
}

/// Waits for a result or for cancellation.
pub(super) fn wait<T>(cancel: &CancelToken, result: &Receiver<Result<T>>) -> Result<T> {
    select! {
        recv(result) -> message => message.map_err(|_| ended("background"))?,
        recv(cancel.channel()) -> _ => Err(Error::interrupted()),
    }
}

/// Reads windows on a thread that nobody waits for: it may block on a silent pipe for ever.
pub(super) fn spawn_reader(
    mut reader: Reading,
    clocks: &Arc<Clocks>,
) -> Result<Receiver<Result<Read>>> {
    let (sender, receiver) = bounded(1);
    let clocks = Arc::clone(clocks);
    spawn("read", move || {
        let mut read = 0;
        loop {
            let next = catch_unwind(AssertUnwindSafe(|| clocks.read.time(|| reader.next())))
                .unwrap_or_else(|panic| Err(Error::internal(panic_message(&*panic))));
            let message = next.map(|next| match next {
                Next::Window(window) => {
                    read += (window.texts.len() + window.rejects.len()) as u64;
                    Read::Window(window)
                }
                Next::Stream(schema) => Read::Stream(schema),
                Next::StreamEnd => Read::StreamEnd,
                Next::End => Read::End {
                    read,
                    end: reader.end(),
                },
            });
            let last = matches!(message, Ok(Read::End { .. }) | Err(_));
            if sender.send(message).is_err() || last {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// How texts become tokens.
pub(super) struct Tokenizing {
    pub(super) tokenizer: Arc<TextTokenizer>,
    /// How texts are cut into chunks, if they are.
    pub(super) chunked: Option<Chunked>,
}

/// Tokenizes windows in order, cuts them into batches, and launches them.
pub(super) fn spawn_tokenizer(
    tokenizing: Tokenizing,
    on_error: OnError,
    windows: Receiver<Result<Read>>,
    start: Receiver<Start>,
    jobs: Sender<Job>,
    names: SourceNames,
    clocks: &Arc<Clocks>,
) -> Result<Receiver<Result<Message>>> {
    let (sender, receiver) = bounded(1);
    let clocks = Arc::clone(clocks);
    let Tokenizing { tokenizer, chunked } = tokenizing;
    spawn("tokenize", move || {
        let mut known = None;
        let mut launch = |mut window: Window| -> Result<Option<(InFlight, Vec<Job>)>> {
            if let (OnError::Fail, Some(reject)) = (on_error, window.rejects.first()) {
                return Err(bad_record(&names, reject));
            }
            let (spans, distinct, tokens) = clocks.tokenize.time(|| -> Result<_> {
                if let Some(chunked) = chunked {
                    let chunks = tokenizer.chunk(&window.texts, chunked, &clocks.tokenize)?;
                    let Chunks {
                        texts,
                        tokens,
                        spans,
                    } = chunks;
                    let distinct = Distinct::new(&texts);
                    window.texts = texts;
                    let tokens = distinct.of_texts(&tokens);
                    return Ok((Some(spans), distinct, tokens));
                }
                let distinct = Distinct::new(&window.texts);
                let text = |number| window.texts.get(distinct.first(number));
                let tokens = tokenizer.tokenize_each(distinct.len(), text, &clocks.tokenize)?;
                Ok((None, distinct, tokens))
            })?;
            let (limits, ragged) = match known {
                Some(known) => known,
                // Without limits there is no engine: the run is over and its error told elsewhere.
                None => match start.recv() {
                    Ok(start) => {
                        (start.first)(&tokens)?;
                        *known.insert((start.limits, start.ragged))
                    }
                    Err(_) => return Ok(None),
                },
            };
            let (in_flight, batches) = clocks
                .tokenize
                .time(|| prepare(window, spans, distinct, tokens, limits, ragged));
            let padded = if ragged {
                in_flight.tokens.tokens()
            } else {
                let padded = |job: &Job| job.plan.rows.len() * job.plan.length;
                batches.iter().map(padded).sum()
            };
            let duplicates = in_flight.distinct.rows() - in_flight.distinct.len();
            clocks.planned(
                in_flight.tokens.tokens() as u64,
                padded as u64,
                duplicates as u64,
            );
            Ok(Some((in_flight, batches)))
        };
        for read in windows {
            let launched = match read {
                Ok(Read::End { read, end }) => {
                    let _ = sender.send(Ok(Message::End { read, end }));
                    return;
                }
                Ok(Read::Stream(schema)) => {
                    if sender.send(Ok(Message::Stream(schema))).is_err() {
                        return;
                    }
                    continue;
                }
                Ok(Read::StreamEnd) => {
                    if sender.send(Ok(Message::StreamEnd)).is_err() {
                        return;
                    }
                    continue;
                }
                Ok(Read::Window(window)) => catch_unwind(AssertUnwindSafe(|| launch(window)))
                    .unwrap_or_else(|panic| Err(Error::internal(panic_message(&*panic)))),
                Err(error) => Err(error),
            };
            match launched {
                Ok(Some((in_flight, batches))) => {
                    // Sent before its jobs: this is where a slow writer or slow workers hold us back.
                    if sender
                        .send(Ok(Message::InFlight(Box::new(in_flight))))
                        .is_err()
                    {
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

fn prepare(
    window: Window,
    spans: Option<Vec<Span>>,
    distinct: Distinct,
    tokens: TokenRows,
    limits: BatchLimits,
    ragged: bool,
) -> (InFlight, Vec<Job>) {
    let tokens = Arc::new(tokens);
    let plans = batch::plan(&tokens, limits, ragged);
    let (sender, done) = unbounded();
    let first = window.first_line().unwrap_or(0);
    let batch = window.batch.map(|batch| (batch, first));
    let in_flight = InFlight {
        batch,
        texts: window.texts,
        spans,
        origins: window.origins,
        columns: window.columns,
        rejects: window.rejects,
        consumed: window.consumed,
        warnings: window.warnings,
        mark: window.mark,
        distinct,
        tokens: Arc::clone(&tokens),
        batches: plans.len(),
        done,
    };
    let job = |plan| Job {
        plan,
        tokens: Arc::clone(&tokens),
        done: sender.clone(),
    };
    (in_flight, plans.into_iter().map(job).collect())
}

/// The threads that run batches. Dropped, they stop at the next batch.
pub(super) struct Workers {
    pub(super) stop: CancelToken,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) ready: Receiver<()>,
    pub(super) failures: Receiver<Error>,
    /// Keeps that channel open: at the end of the input workers leave one by one, which is no failure.
    _failed: Sender<Error>,
}

impl Workers {
    pub(super) fn spawn(
        count: usize,
        engine: &Arc<dyn Engine>,
        model: &Arc<Model>,
        pooler: &Arc<Pooler>,
        clocks: &Arc<Clocks>,
        jobs: &Receiver<Job>,
    ) -> Result<Self> {
        let (ready_sender, ready) = bounded(count);
        let (failure_sender, failures) = bounded(count);
        let mut workers = Self {
            stop: CancelToken::new(),
            threads: Vec::new(),
            ready,
            failures,
            _failed: failure_sender.clone(),
        };
        let limit: Arc<TokenLimit> = Arc::default();
        for index in 0..count {
            let limit = Arc::clone(&limit);
            let (engine, model, pooler) =
                (Arc::clone(engine), Arc::clone(model), Arc::clone(pooler));
            let clocks = Arc::clone(clocks);
            let (jobs, stop) = (jobs.clone(), workers.stop.clone());
            let (ready, failed) = (ready_sender.clone(), failure_sender.clone());
            let thread = spawn(&format!("worker-{index}"), move || {
                let made = catch_unwind(AssertUnwindSafe(|| {
                    RowWorker::new(engine.as_ref(), &model, &pooler, &limit, &clocks)
                }))
                .unwrap_or_else(|panic| Err(Error::internal(panic_message(&*panic))));
                match made {
                    Ok(worker) => {
                        let _ = ready.send(());
                        run_jobs(worker, &jobs, &stop, &failed, &clocks);
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
    pub(super) fn wait_for_first(&self, cancel: &CancelToken) -> Result<()> {
        select! {
            recv(self.ready) -> ready => ready.map_err(|_| self.failure()),
            recv(self.failures) -> failure => Err(failure.unwrap_or_else(|_| ended("worker"))),
            recv(cancel.channel()) -> _ => Err(Error::interrupted()),
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
    clocks: &Clocks,
) {
    while !stop.is_cancelled() {
        let mut waiting = Watch::start();
        let job = select! {
            recv(jobs) -> job => match job {
                Ok(job) => job,
                Err(_) => return,
            },
            recv(stop.channel()) -> _ => return,
        };
        waiting.lap(&clocks.wait);
        let result = catch_unwind(AssertUnwindSafe(|| worker.run(&job.plan, &job.tokens)))
            .unwrap_or_else(|panic| Err(Error::internal(panic_message(&*panic))));
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

/// Waits for all batches of a window in flight.
pub(super) fn collect(
    in_flight: &InFlight,
    workers: &Workers,
    progress: &dyn Progress,
    cancel: &CancelToken,
) -> Result<Vec<Finished>> {
    for warning in &in_flight.warnings {
        progress.warning(warning);
    }
    progress.window(in_flight.consumed, in_flight.tokens.tokens() as u64);
    let mut all = Vec::with_capacity(in_flight.batches);
    while all.len() < in_flight.batches {
        let finished = select! {
            recv(in_flight.done) -> message => message.map_err(|_| workers.failure())?,
            recv(workers.failures) -> failure => return Err(failure.unwrap_or_else(|_| ended("worker"))),
            recv(cancel.channel()) -> _ => return Err(Error::interrupted()),
        };
        if let Some(warning) = &finished.warning {
            progress.warning(warning);
        }
        let mut done = BatchDone::default();
        for number in finished.rows.iter().map(|&number| number as usize) {
            done.rows += in_flight.distinct.copies(number);
            done.run += 1;
            done.tokens += in_flight.tokens.get(number).len() as u64;
        }
        progress.batch(done);
        all.push(finished);
    }
    Ok(all)
}

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

mod agreement;
mod assembly;
mod background;
mod distinct;
mod ending;
#[cfg(test)]
mod fake;
mod fingerprint;
mod finished;
mod job;
mod ledger;
mod maker;
mod opening;
mod reading;
mod reuse;
mod run;
mod start;
#[cfg(test)]
mod tests;
mod tokenizing;
mod workers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::select;

pub(crate) use self::assembly::{Assembly, Extra, Planned};
use self::background::{ended, in_background};
pub(crate) use self::distinct::Distinct;
pub use self::finished::{Complete, finished};
pub use self::job::of as job;
pub(crate) use self::ledger::record_place;
use self::opening::{Opening, open_engine};
use self::reading::{Reading, Streams};
pub(crate) use self::reuse::{Asked, Earlier};
use self::run::{Output, create, drive};
use self::start::Parts;
use crate::cancel::CancelToken;
use crate::engine::{self, Engine, EngineInfo, EngineOptions};
use crate::error::{Error, Result};
use crate::input::{InputOptions, RecordReader, Source};
use crate::job::{JobOptions, folder_format};
use crate::model::{Dimensions, Model, ModelOptions, ModelProvenance};
use crate::named::named;
use crate::output::{self, Destination, OutputOptions, RunFiles};
use crate::progress::{Counts, Progress};
use crate::provenance::ProfileUsed;
use crate::rejects::RejectsWriter;
use crate::setting::{REJECTS, SetBy};
use crate::stage::StageTimes;
use crate::threads::{self, usable_cores};
use crate::tokenize::{Chunking, TextTokenizer};

named! {
    /// What a bad record does.
    #[derive(Default)]
    pub enum OnError {
        /// Stops the run.
        #[default]
        Fail = "fail",
        /// Is counted, reported and left out.
        Skip = "skip",
        /// Is counted, reported, and stays as a row without a vector: null, with the reason in the column
        /// `embedding_error`.
        Null = "null",
    }
}

/// Everything that `embedctl embed` can be told.
#[derive(Debug, Clone, Default)]
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
    /// An earlier output, whose vectors are taken for texts that it holds.
    pub reuse: Option<PathBuf>,
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
    /// The output as it will be written.
    pub(crate) fn output(&self) -> OutputOptions {
        OutputOptions {
            format: folder_format(&self.output).or(self.output.format),
            nullable: self.on_error == OnError::Null,
            streams: self.input.window_per_batch,
            ..self.output.clone()
        }
    }

    /// The output's columns beside those of records.
    pub(crate) fn extra(&self) -> Extra {
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
    /// Rows whose vectors were taken from an earlier output, where there was one.
    pub reused: Option<u64>,
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
    Earlier::of(options)?;
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
        Some(path) => RejectsWriter::check(path, output.force, files),
        None => Ok(()),
    }
}

/// Whether no two files of the run stand under one name: they would replace each other, or what is read.
/// Looks at names alone; [`check`] and [`embed`] do so first.
///
/// # Errors
/// If two do; the message names both.
pub fn check_places(options: &EmbedOptions) -> Result<()> {
    threads::check(options.engine.workers)?;
    let is_folder = job::of(options)?.is_some_and(|job| !job.is_single());
    let inputs = options.sources.iter().map(Source::path);
    let rejects = options.rejects.iter().map(|path| (REJECTS.into(), path));
    let others = options
        .others
        .iter()
        .map(|(option, path)| (SetBy::Name(option), path));
    let others: Vec<_> = rejects
        .chain(others)
        .map(|(option, path)| (option, path.as_path()))
        .collect();
    let out = match &options.output.destination {
        Destination::Path(path) if !is_folder => Some((SetBy::Name("-o"), path.as_path())),
        _ => None,
    };
    let mut written = others.iter().copied().chain(out);
    if let Some((option, path)) = written.find(|(_, path)| options.model.is_read_from(path)) {
        let (path, model) = (path.display(), &options.model.model);
        let reason = format!("{option} {path}: the model {model} is read from a file of that name");
        return Err(Error::usage(reason).with_remedy("write it elsewhere"));
    }
    let reuse = options.reuse.as_deref();
    output::refuse_overlap(&options.output, is_folder, &others, inputs, reuse)
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

/// As [`embed`], with an engine that is open already, and a model, if one is given; [`EmbedOptions::engine`] and
/// [`EmbedOptions::model`] say nothing then.
///
/// # Errors
/// As [`embed`].
pub fn embed_with(
    engine: Box<dyn Engine>,
    opened: Option<&Opened>,
    options: &EmbedOptions,
    progress: &Arc<dyn Progress>,
    cancel: &CancelToken,
) -> Result<Summary> {
    let open = |_: &_, _, _| Ok(Opening::done(engine));
    run(options, opened, open, progress, cancel)
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
    let reuse = Earlier::of(options)?;
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
    if let Some(reuse) = &reuse {
        reuse.check_model(&model)?;
    }
    let output = match job {
        Some(job) => {
            job.check(&model)?;
            Output::Job(Box::new(job))
        }
        None => {
            let (input, dimensions) = (reader.input(), model.config.vectors().0);
            let schema = options.extra().schema(&input.schema())?;
            let (writer, rejects) = create(options, &dimensions, input.names(), &schema)?;
            Output::Whole(writer, rejects)
        }
    };
    let unproven = reuse.as_ref().and_then(Earlier::note);
    let older = options.files.take_notes();
    for note in older.iter().map(String::as_str).chain(unproven) {
        progress.warning(note);
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
        chunked,
        reuse,
        // Not the caller's, which would live as long as a run that nobody waits for: what writes stands in `output`,
        // and that alone keeps them.
        options: EmbedOptions {
            files: RunFiles::new(),
            ..options.clone()
        },
    };
    // A write to a pipe that nobody empties can block for ever, so nobody waits for the run itself either.
    let run = in_background("run", {
        let (progress, cancel) = (Arc::clone(progress), cancel.clone());
        move || drive(parts, progress.as_ref(), &cancel)
    })?;
    select! {
        recv(run) -> result => result.map_err(|_| ended("run"))?,
        recv(cancel.channel()) -> _ => run.recv_timeout(cancel.patience()).unwrap_or_else(|_| {
            options.files.remove();
            Err(Error::interrupted())
        }),
    }
}

//! A run's start: its threads, and the wait until the first worker can run batches.

use std::cell::OnceCell;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, unbounded};

use super::EmbedOptions;
use super::background::{in_background, wait};
use super::maker::{Joined, Maker};
use super::opening::Opening;
use super::reading::{Reading, spawn_reader};
use super::reuse::Earlier;
use super::run::Output;
use super::tokenizing::{Look, Message, Start, Tokenizing};
use super::workers::Workers;
use crate::batch;
use crate::cancel::CancelToken;
use crate::embedder::{self, cosine_of_samples};
use crate::engine::{BatchLimits, Engine, EngineOptions};
use crate::error::Result;
use crate::input::Settled;
use crate::model::{Model, ModelProvenance};
use crate::pool::Pooler;
use crate::progress::Progress;
use crate::record::SourceNames;
use crate::stage::{Clocks, StageWatch};
use crate::threads::locked;
use crate::tokenize::{Chunked, TextTokenizer};
use arrow::datatypes::SchemaRef;

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
    pub(super) chunked: Option<Chunked>,
    pub(super) reuse: Option<Earlier>,
    pub(super) options: EmbedOptions,
}

/// A run that is under way: what is known of it.
pub(super) struct Run<'c> {
    pub(super) started: Instant,
    /// Until the first batch could run.
    pub(super) load: Duration,
    pub(super) model: Arc<Model>,
    pub(super) pooler: Arc<Pooler>,
    pub(super) names: SourceNames,
    /// Of the records, as far as it is known before the first of them is read.
    pub(super) schema: SchemaRef,
    pub(super) options: EmbedOptions,
    pub(super) threads: usize,
    pub(super) clocks: Arc<Clocks>,
    pub(super) stages: StageWatch,
    pub(super) settled: Option<Settled>,
    pub(super) reuse: Option<Earlier>,
    pub(super) maker: Maker<'c>,
    /// Stops, when it is dropped, what the engine may still be doing.
    _engine: Opening,
}

/// The threads of a run, as the calling one knows them.
pub(super) struct Threads {
    pub(super) windows: Receiver<Result<Message>>,
    pub(super) workers: Workers,
}

/// Starts all threads, and waits until the first worker can run batches. Reading and tokenizing start while the
/// engine loads.
pub(super) fn start<'c>(
    parts: Parts,
    progress: &dyn Progress,
    cancel: &'c CancelToken,
) -> Result<(Run<'c>, Threads, Output)> {
    let Parts {
        model,
        mut reader,
        tokenizer,
        ..
    } = parts;
    let names = reader.input().names();
    let total_bytes = reader.input().total_bytes();
    let schema = reader.input().schema();
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
        on_error: parts.options.on_error,
        names: names.clone(),
        clocks: Arc::clone(&clocks),
    };
    let windows = tokenizing.spawn(windows, start, jobs_sender)?;
    let engine: Arc<dyn Engine> = wait(cancel, &parts.engine.engine)?.into();
    let mut info = engine.info().clone();
    let hashes = in_background("hash", {
        let (model, known) = (Arc::clone(&model), parts.files);
        let weights = info.provider.weights();
        move || known.map_or_else(|| model.provenance(weights), Ok)
    })?;
    let suits = engine.limits();
    let threads = parts.workers.or(engine.workers()).unwrap_or(parts.threads);
    let precision = parts.engine.options.as_ref().filter(|_| info.is_reduced());
    if let Some(options) = precision {
        info.cosine = cosine_of_samples(engine.as_ref(), &tokenizer, &pooler, options)?;
    }
    let cosine = Arc::new(Mutex::new(info.cosine));
    let look = match precision {
        Some(options) => precision_sample(&engine, &pooler, &cosine, options.clone()),
        None => Box::new(|_: &_| Ok(())),
    };
    // The tokenizer thread may be gone after an error of its own, which is found below.
    let _ = start_sender.send(Start {
        limits: BatchLimits {
            tokens: parts.options.engine.batch_tokens.unwrap_or(suits.tokens),
            rows: parts.options.batch_rows.unwrap_or(suits.rows),
            equal_lengths: suits.equal_lengths,
        },
        ragged: engine.is_ragged(),
        look,
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
        text: parts.options.input.text(),
        profile: parts.options.profile.clone(),
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
        options: parts.options,
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

/// Operations that a core does in about a second in single precision: this much is done for long rows.
const SECOND: u64 = 100_000_000_000;

/// Measures reduced precision by rows of the first window and its longest ones; and again by the longest rows of a
/// later window, where they are more than twice as long: attention sums over all of a row, so that errors may grow with
/// its length.
fn precision_sample(
    engine: &Arc<dyn Engine>,
    pooler: &Arc<Pooler>,
    cosine: &Joined,
    options: EngineOptions,
) -> Look {
    let (engine, pooler) = (Arc::clone(engine), Arc::clone(pooler));
    let cosine = Arc::clone(cosine);
    let most = long_tokens(|tokens| engine.operations(tokens));
    let mut longest = None;
    Box::new(move |tokens| {
        let sample = match longest {
            Some(length) => batch::longest(tokens, 2 * length, most),
            None => {
                let mut sample = batch::sample(tokens, SAMPLE_ROWS, SAMPLE_TOKENS);
                sample.append(&batch::longest(tokens, sample.longest(), most));
                sample
            }
        };
        if sample.tokens() == 0 {
            return Ok(());
        }
        longest = longest.max(Some(sample.longest()));
        let mut joined = locked(&cosine);
        *joined = embedder::cosine(engine.as_ref(), &pooler, &sample, *joined, &options)?;
        Ok(())
    })
}

/// Tokens that long rows may have together: as many as take a second, and half as many as the other rows' at least.
fn long_tokens(operations: impl Fn(usize) -> u64) -> usize {
    let (mut fits, mut too_long) = (SAMPLE_TOKENS / 2, 1 << 20);
    while fits + 1 < too_long {
        let middle = usize::midpoint(fits, too_long);
        match operations(middle) <= SECOND {
            true => fits = middle,
            false => too_long = middle,
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_take_a_second_or_half_a_sample() {
        // all-MiniLM-L6-v2 and a model of 7 billion parameters: products of a token, and of a pair of tokens.
        let of = |products: u64, pairs: u64| {
            move |tokens: usize| tokens as u64 * (products + tokens as u64 * pairs)
        };
        let small = long_tokens(of(21_000_000, 9_216));
        assert!((2000..4000).contains(&small), "{small}");
        assert_eq!(long_tokens(of(14_000_000_000, 500_000)), SAMPLE_TOKENS / 2);
        assert_eq!(long_tokens(|_| 0), (1 << 20) - 1);
    }
}

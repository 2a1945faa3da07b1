//! The tokenizer: texts of windows become tokens, and tokens batches, in input order. Windows' tokens are also those by
//! which reduced precision is measured.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::OnError;
use super::in_flight::{Distinct, InFlight, PortionLimits, cut_portions};
use super::reuse::EarlierVectors;
use super::source::SourceEvent;
use super::workers::{BatchJob, Joined};
use crate::batch::{self, BatchPlan, TokenRows};
use crate::engine::{BatchLimits, LoadedModel};
use crate::error::{Error, Result};
use crate::record::{SourceNames, Texts, Window};
use crate::reuse::Found;
use crate::stage::Clocks;
use crate::threads::{guarded, locked, spawn};
use crate::tokenize::{Chunked, Chunks, TextTokenizer};

/// How tokens are cut into batches, which is known once the engine is open.
pub(super) struct Batching {
    pub(super) limits: BatchLimits,
    /// How much a portion of a window holds; `None`: windows stay whole.
    pub(super) portions: Option<PortionLimits>,
    pub(super) loaded: Arc<LoadedModel>,
    /// Sees each window's tokens.
    pub(super) hook: Option<WindowHook>,
}

/// How texts become tokens, and tokens batches.
pub(super) struct Tokenizing {
    pub(super) tokenizer: Arc<TextTokenizer>,
    /// How texts are cut into chunks, if they are.
    pub(super) chunked: Option<Chunked>,
    /// The earlier output in which texts are looked up first, if any.
    pub(super) reuse: Option<EarlierVectors>,
    pub(super) on_error: OnError,
    pub(super) names: SourceNames,
    pub(super) clocks: Arc<Clocks>,
}

impl Tokenizing {
    /// Tokenizes windows in order, cuts them into batches, and launches them, once it is known how.
    pub(super) fn spawn(
        mut self,
        windows: Receiver<Result<SourceEvent<Window>>>,
        when_open: Receiver<Batching>,
        jobs: Sender<BatchJob>,
    ) -> Result<Receiver<Result<SourceEvent<Box<InFlight>>>>> {
        let (sender, receiver) = bounded(1);
        spawn("tokenize", move || {
            let mut batching = None;
            for event in windows {
                let mut batches = Vec::new();
                let event = event.and_then(|event| match event {
                    SourceEvent::Window(window) => {
                        let window = guarded(|| self.tokenize(window), Error::internal)?;
                        let mut in_flight = Box::new(window);
                        // Without an engine the run is over, and its error told elsewhere.
                        if batching.is_none() {
                            batching = when_open.recv().ok();
                        }
                        if let Some(batching) = &mut batching {
                            let cut = || self.cut(&mut in_flight, batching);
                            batches = guarded(cut, Error::internal)?;
                        }
                        Ok(SourceEvent::Window(in_flight))
                    }
                    SourceEvent::Stream(schema) => Ok(SourceEvent::Stream(schema)),
                    SourceEvent::StreamEnd => Ok(SourceEvent::StreamEnd),
                    SourceEvent::End(end) => Ok(SourceEvent::End(end)),
                });
                let is_over = batching.is_none() && matches!(event, Ok(SourceEvent::Window(_)));
                let last = matches!(event, Ok(SourceEvent::End(_)) | Err(_));
                // Sent before its jobs: this is where a slow writer or slow workers hold us back.
                if is_over || sender.send(event).is_err() || last {
                    return;
                }
                if batches.into_iter().any(|job| jobs.send(job).is_err()) {
                    return;
                }
            }
        })?;
        Ok(receiver)
    }

    /// Cuts a window's tokens into batches.
    fn cut(&self, in_flight: &mut InFlight, batching: &mut Batching) -> Result<Vec<BatchJob>> {
        // No batch shares them yet.
        let loaded = &batching.loaded;
        loaded.bounds().refuse(Arc::make_mut(&mut in_flight.tokens));
        let tokens = &in_flight.tokens;
        if let Some(hook) = &mut batching.hook {
            hook(tokens)?;
        }
        let (limits, ragged) = (batching.limits, loaded.engine().is_ragged());
        let clocks = &self.clocks;
        // An answered batch stays whole.
        let whole = in_flight.window.batch.is_some();
        let most = batching.portions.as_ref().filter(|_| !whole);
        let (mut portions, plans) = clocks.tokenize.time(|| {
            let portions = cut_portions(in_flight, most);
            let runs = portions.iter().map(|portion| portion.runs.iter().copied());
            let plans = runs.map(|runs| batch::plan_rows(tokens, runs, limits, ragged));
            let plans: Vec<Vec<BatchPlan>> = plans.collect();
            (portions, plans)
        });
        let runs = portions.iter().flat_map(|portion| &portion.runs);
        let real: usize = runs.map(|&row| tokens.get(row as usize).len()).sum();
        let padded = match ragged {
            true => real,
            false => {
                let plans = plans.iter().flatten();
                plans.map(|plan| plan.rows.len() * plan.length).sum()
            }
        };
        let distinct = &in_flight.distinct;
        let ran = (0..distinct.len()).filter(|&text| in_flight.found.get(text).is_none());
        let again = |number| {
            distinct
                .copies(number)
                .saturating_sub(in_flight.vectors_of(number))
        };
        let duplicates: u64 = ran.map(again).sum();
        clocks.planned(real as u64, padded as u64, duplicates);
        let (sender, done) = unbounded();
        for (portion, plans) in portions.iter_mut().zip(&plans) {
            portion.batches = plans.len();
        }
        in_flight.portions = portions;
        in_flight.done = done;
        let plans = plans.into_iter().enumerate();
        let plans =
            plans.flat_map(|(portion, plans)| plans.into_iter().map(move |it| (portion, it)));
        let job = |(portion, plan)| BatchJob {
            portion,
            plan,
            tokens: Arc::clone(&in_flight.tokens),
            shared: in_flight.shared.clone(),
            done: sender.clone(),
        };
        Ok(plans.map(job).collect())
    }

    fn tokenize(&mut self, mut window: Window) -> Result<InFlight> {
        if let (OnError::Fail, Some(reject)) = (self.on_error, window.rejects().next()) {
            return Err(Error::record(
                reject.origin.place(&self.names),
                &reject.cause,
            ));
        }
        let clocks = Arc::clone(&self.clocks);
        clocks.tokenize.time(|| {
            let (tokenizer, watch) = (&self.tokenizer, &self.clocks.tokenize);
            let Some(chunked) = self.chunked else {
                let distinct = Distinct::new(&window.texts);
                let found = found(&mut self.reuse, &window.texts, &distinct)?;
                let wanted = |text: &usize| found.get(*text).is_none();
                let wanted: Vec<usize> = (0..distinct.len()).filter(wanted).collect();
                let text = |number: usize| window.texts.get(distinct.first(wanted[number]));
                let tokens = tokenizer.tokenize_each(wanted.len(), text, watch);
                return Ok(InFlight::new(window, None, distinct, found, (tokens, None)));
            };
            let Chunks {
                texts,
                tokens,
                shared,
                spans,
            } = tokenizer.chunk(&window.texts, chunked, watch);
            if let Some(shared) = shared {
                let distinct = Distinct::of_shared(&shared, &spans, &window.texts);
                let records = std::mem::replace(&mut window.texts, texts);
                let (chunks, found) = (Some((spans, records)), Found::default());
                let tokens = (tokens, Some(Arc::new(shared)));
                return Ok(InFlight::new(window, chunks, distinct, found, tokens));
            }
            let distinct = Distinct::new(&texts);
            let found = found(&mut self.reuse, &texts, &distinct)?;
            let tokens = distinct.of_texts(&tokens, |text| found.get(text).is_none());
            let records = std::mem::replace(&mut window.texts, texts);
            let chunks = Some((spans, records));
            Ok(InFlight::new(
                window,
                chunks,
                distinct,
                found,
                (tokens, None),
            ))
        })
    }
}

/// What an earlier output has of the distinct texts.
fn found(reuse: &mut Option<EarlierVectors>, texts: &Texts, distinct: &Distinct) -> Result<Found> {
    match reuse {
        Some(reuse) => reuse.find(texts, distinct),
        None => Ok(Found::default()),
    }
}

/// Sees a window's tokens before they run; an error ends the run.
pub(super) type WindowHook = Box<dyn FnMut(&TokenRows) -> Result<()> + Send>;

/// Rows of the first window by which reduced precision is measured.
const SAMPLE_ROWS: usize = 64;

/// Upper limit on their tokens, so that the measurement takes some tenths of a second.
const SAMPLE_TOKENS: usize = 2048;

/// Operations per core and second in single precision, roughly: the budget for long rows.
const SECOND: u64 = 100_000_000_000;

/// Measures reduced precision by rows of the first window and its longest ones; and again by the longest rows of a
/// later window, where they are more than twice as long: attention sums over all of a row, so that errors may grow with
/// its length.
pub(super) fn precision_hook(loaded: &Arc<LoadedModel>, cosine: &Joined) -> WindowHook {
    let (loaded, cosine) = (Arc::clone(loaded), Arc::clone(cosine));
    let most = long_tokens(|tokens| loaded.engine().operations(tokens));
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
        *joined = loaded.cosine(&sample, *joined)?;
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

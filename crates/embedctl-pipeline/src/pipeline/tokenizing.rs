//! The tokenizer: texts of windows become tokens, and tokens batches, in input order.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::OnError;
use super::batching::Batching;
use super::in_flight::{Distinct, InFlight, cut_portions};
use super::reuse::EarlierVectors;
use super::source::SourceEvent;
use super::workers::BatchJob;
use crate::batch::{self, BatchPlan};
use crate::error::{Error, Result};
use crate::record::{SourceNames, Texts, Window};
use crate::reuse::Found;
use crate::stage::Clocks;
use crate::threads::{guarded, spawn};
use crate::tokenize::TextTokenizer;
use crate::tokenize::chunks::{Chunked, Chunks};

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

//! The tokenizer: texts of windows become tokens, and tokens batches, in input order.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::OnError;
use super::distinct::Distinct;
use super::ledger::bad_record;
use super::reading::{Passed, Read};
use super::reuse::{Asked, with_found};
use super::workers::Job;
use crate::batch::{self, TokenRows};
use crate::engine::BatchLimits;
use crate::engine::row_worker::Finished;
use crate::error::{Error, Result};
use crate::record::{SourceNames, Texts, Window};
use crate::reuse::Found;
use crate::stage::Clocks;
use crate::threads::{guarded, spawn};
use crate::tokenize::{Chunked, Chunks, Span, TextTokenizer};

/// What the tokenizer waits for before it launches anything: the engine's.
pub(super) struct Start {
    pub(super) limits: BatchLimits,
    /// See [`crate::engine::Engine::is_ragged`].
    pub(super) ragged: bool,
    /// Sees each window's tokens.
    pub(super) look: Look,
}

/// Looks at a window's tokens before they run; an error ends the run.
pub(super) type Look = Box<dyn FnMut(&TokenRows) -> Result<()> + Send>;

/// What the tokenizer hands on.
pub(super) type Message = Passed<Box<InFlight>>;

/// A window on its way through the workers, which know its distinct texts alone.
pub(super) struct InFlight {
    /// Its texts are records, or their chunks.
    pub(super) window: Window,
    /// What the chunks are parts of, where records are cut.
    pub(super) spans: Option<Vec<Span>>,
    /// The texts of the records, where the window's are chunks.
    pub(super) records: Option<Texts>,
    pub(super) distinct: Distinct,
    /// Vectors that an earlier output has of the distinct texts.
    pub(super) found: Found,
    /// Of the distinct texts; those that were found have none.
    pub(super) tokens: Arc<TokenRows>,
    pub(super) batches: usize,
    pub(super) done: Receiver<Finished>,
}

/// How texts become tokens, and tokens batches.
pub(super) struct Tokenizing {
    pub(super) tokenizer: Arc<TextTokenizer>,
    /// How texts are cut into chunks, if they are.
    pub(super) chunked: Option<Chunked>,
    /// Where texts are looked up first, if they are.
    pub(super) reuse: Option<Asked>,
    pub(super) on_error: OnError,
    pub(super) names: SourceNames,
    pub(super) clocks: Arc<Clocks>,
}

/// A window's texts, tokenized.
struct Tokenized {
    window: Window,
    /// What its texts are parts of, where records are cut.
    spans: Option<Vec<Span>>,
    records: Option<Texts>,
    distinct: Distinct,
    found: Found,
    /// Of the distinct texts; those that were found have none.
    tokens: TokenRows,
}

/// A window's own side of what is launched, and its batches.
type Launched = (InFlight, Vec<Job>);

impl Tokenizing {
    /// Tokenizes windows in order, cuts them into batches, and launches them, once `start` has come.
    pub(super) fn spawn(
        mut self,
        windows: Receiver<Result<Read>>,
        start: Receiver<Start>,
        jobs: Sender<Job>,
    ) -> Result<Receiver<Result<Message>>> {
        let (sender, receiver) = bounded(1);
        spawn("tokenize", move || {
            let mut started = None;
            for read in windows {
                let (message, batches) = match self.next(read, &mut started, &start) {
                    Ok(Some((message, batches))) => (Ok(message), batches),
                    Ok(None) => return,
                    Err(error) => (Err(error), Vec::new()),
                };
                let last = matches!(message, Ok(Message::End(_)) | Err(_));
                // Sent before its jobs: this is where a slow writer or slow workers hold us back.
                if sender.send(message).is_err() || last {
                    return;
                }
                if batches.into_iter().any(|job| jobs.send(job).is_err()) {
                    return;
                }
            }
        })?;
        Ok(receiver)
    }

    /// What is handed on for what was read, and the batches that belong to it; `None` where the run is over.
    fn next(
        &mut self,
        read: Result<Read>,
        started: &mut Option<Start>,
        start: &Receiver<Start>,
    ) -> Result<Option<(Message, Vec<Job>)>> {
        let window = match read? {
            Read::Window(window) => window,
            Read::Stream(schema) => return Ok(Some((Message::Stream(schema), Vec::new()))),
            Read::StreamEnd => return Ok(Some((Message::StreamEnd, Vec::new()))),
            Read::End(end) => return Ok(Some((Message::End(end), Vec::new()))),
        };
        let launched = guarded(|| self.launch(window, started, start), Error::internal)?;
        Ok(launched.map(|(in_flight, batches)| (Message::Window(Box::new(in_flight)), batches)))
    }

    fn launch(
        &mut self,
        window: Window,
        started: &mut Option<Start>,
        start: &Receiver<Start>,
    ) -> Result<Option<Launched>> {
        if let (OnError::Fail, Some(reject)) = (self.on_error, window.rejects.first()) {
            return Err(bad_record(&self.names, reject));
        }
        let clocks = Arc::clone(&self.clocks);
        let tokenized = clocks.tokenize.time(|| self.tokenize(window))?;
        let Start {
            limits,
            ragged,
            look,
        } = match started {
            Some(known) => known,
            // Without limits there is no engine: the run is over and its error told elsewhere.
            None => match start.recv() {
                Ok(start) => started.insert(start),
                Err(_) => return Ok(None),
            },
        };
        let (limits, ragged) = (*limits, *ragged);
        look(&tokenized.tokens)?;
        let (in_flight, batches) = clocks.tokenize.time(|| prepare(tokenized, limits, ragged));
        let tokens = in_flight.tokens.tokens();
        let padded = |job: &Job| job.plan.rows.len() * job.plan.length;
        let padded = match ragged {
            true => tokens,
            false => batches.iter().map(padded).sum(),
        };
        let distinct = &in_flight.distinct;
        let ran = (0..distinct.len()).filter(|&text| in_flight.found.get(text).is_none());
        let duplicates: u64 = ran.map(|text| distinct.copies(text) - 1).sum();
        clocks.planned(tokens as u64, padded as u64, duplicates);
        Ok(Some((in_flight, batches)))
    }

    fn tokenize(&mut self, mut window: Window) -> Result<Tokenized> {
        let (tokenizer, watch) = (&self.tokenizer, &self.clocks.tokenize);
        let reuse = &mut self.reuse;
        let mut find = |texts: &Texts, distinct: &Distinct| match reuse {
            Some(reuse) => reuse.find(texts, distinct),
            None => Ok(Found::default()),
        };
        if let Some(chunked) = self.chunked {
            let Chunks {
                texts,
                tokens,
                spans,
            } = tokenizer.chunk(&window.texts, chunked, watch)?;
            let distinct = Distinct::new(&texts);
            let found = find(&texts, &distinct)?;
            let wanted = |text: usize| found.get(text).is_none();
            let tokens = distinct.of_texts(&tokens, wanted);
            let records = std::mem::replace(&mut window.texts, texts);
            return Ok(Tokenized {
                window,
                spans: Some(spans),
                records: Some(records),
                tokens: with_found(&found, distinct.len(), tokens),
                found,
                distinct,
            });
        }
        let distinct = Distinct::new(&window.texts);
        let found = find(&window.texts, &distinct)?;
        let wanted = |text: &usize| found.get(*text).is_none();
        let wanted: Vec<usize> = (0..distinct.len()).filter(wanted).collect();
        let text = |number: usize| window.texts.get(distinct.first(wanted[number]));
        let tokens = tokenizer.tokenize_each(wanted.len(), text, watch)?;
        Ok(Tokenized {
            tokens: with_found(&found, distinct.len(), tokens),
            window,
            spans: None,
            records: None,
            distinct,
            found,
        })
    }
}

/// Cuts a window's tokens into batches.
fn prepare(tokenized: Tokenized, limits: BatchLimits, ragged: bool) -> Launched {
    let Tokenized {
        window,
        spans,
        records,
        distinct,
        found,
        tokens,
    } = tokenized;
    let tokens = Arc::new(tokens);
    let plans = batch::plan(&tokens, limits, ragged);
    let (sender, done) = unbounded();
    let in_flight = InFlight {
        window,
        spans,
        records,
        distinct,
        found,
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

//! A run whose files are open, to its report.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use crossbeam_channel::{Receiver, bounded, select, unbounded};

use super::batching::{Batching, Joined};
use super::in_flight::InFlight;
use super::ledger::Ledger;
use super::made::{HashedFiles, ProvenanceBuilder};
use super::notes::{empty_input, notes};
use super::output_forms::OutputForms;
use super::reuse::ReusedOutput;
use super::sink::RowSink;
use super::source::{InputEnd, RecordSource, SourceEvent, spawn_reader};
use super::tally::RunTally;
use super::tokenizing::Tokenizing;
use super::workers::Workers;
use super::{EmbedOptions, Summary};
use crate::cancel::CancelToken;
use crate::engine::background::{ended, in_background};
use crate::engine::{LoadedModel, OpeningModel};
use crate::error::{Error, Result};
use crate::input::WrittenSignal;
use crate::progress::{Counts, InputSize, Progress};
use crate::record::{SourceNames, Window};
use crate::stage::{Clock, Clocks, StageWatch};
use crate::tokenize::chunks::Chunked;
use arrow::datatypes::{Schema, SchemaRef};

/// A run whose model's files, input and output are open, and whose engine is being opened.
pub(super) struct Run {
    pub(super) started: Instant,
    pub(super) model: OpeningModel,
    pub(super) source: Box<dyn RecordSource>,
    pub(super) sink: Box<dyn RowSink>,
    pub(super) chunked: Option<Chunked>,
    pub(super) earlier: Option<ReusedOutput>,
    pub(super) options: EmbedOptions,
    pub(super) output: OutputForms,
    /// Counts the time of writing. The list of files stays with the sink, which writes them: a detached run must not keep
    /// it alive.
    pub(super) write_clock: Arc<Clock>,
}

impl Run {
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

        let (hashes, cosine) = (&threads.hashes, &threads.cosine);
        let made =
            ProvenanceBuilder::new(&loaded, &self.options, self.chunked, hashes, cosine, cancel);
        if let Some(earlier) = &self.earlier {
            earlier.check(
                &made.model,
                made.files()?,
                &made.info,
                self.output.options(),
            )?;
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
        let columns = |records: &Schema| self.output.columns(&extra, names.len(), records);
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

        let mut notes = notes(&made, &loaded, self.output.options(), before.notes, all);
        let scores = model.config.scores.is_some();
        notes.extend(tally.notes(&self.options.input, scores));
        notes.extend(empty);
        Ok(Summary {
            chunks: self.chunked.map(|_| counts.rows),
            empty: tally.empty.count,
            cut: tally.cut,
            reused: self.earlier.as_ref().map(|_| counts.reused),
            counts,
            load,
            run: self.started.elapsed().saturating_sub(load),
            rejects: reasons,
            rejected_before: before.rejected,
            notes,
            ..Summary::of_model(&loaded, made.info(), &self.options, stages.times())
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
    hashes: HashedFiles,
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
        let cosine = Arc::new(Mutex::new(loaded.info().cosine));
        // The tokenizer thread may be gone after an error of its own, which is found below.
        let _ = batching.send(Batching::of(options, &loaded, measures, &cosine));
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

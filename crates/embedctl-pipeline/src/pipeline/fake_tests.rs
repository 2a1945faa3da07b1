//! An engine of the tests that misbehaves as it is told, and a writer that keeps what it is given.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::output_forms::OutputForms;
use super::run::Run;
use super::sink::WholeSink;
use super::*;
use crate::batch::Batch;
use crate::engine::{
    BatchLimits, Engine, EngineInfo, EngineOptions, Engines, MachineEngines, OpeningModel, Output,
    Provider, ResolvedEngine, SkippedCandidate, Worker,
};
use crate::input::{RecordReader, Source};
use crate::model::{Knows, Model, ModelOptions};
use crate::output::{Destination, Finish, Forms, OutputOptions, VectorWriter};
use crate::progress::Silent;
use crate::record::{RowRef, Rows};
use embedctl_records::options::InputOptions;

pub(super) const WIDTH: usize = 48;

/// What a fake engine does with a batch.
pub(super) type Behaviour = fn(&Batch, usize) -> Result<f32>;

struct Fake {
    info: EngineInfo,
    behaviour: Behaviour,
    /// Operations for a token, as it says.
    operations: u64,
    batches: Arc<AtomicUsize>,
}

/// The engines of a program that passes its one engine in.
#[derive(Debug)]
struct NoEngines;

impl Engines for NoEngines {
    fn knows(&self) -> Knows {
        embedctl_checkpoint::knows
    }

    fn usual(&self, _: bool) -> &'static [Provider] {
        &[Provider::Native]
    }

    fn left_out(&self, _: bool) -> Option<(Provider, String)> {
        None
    }

    fn on_this_machine<'a>(
        &'a self,
        _: &'a EngineOptions,
        _: bool,
        _: &'a CancelToken,
    ) -> Box<dyn MachineEngines + 'a> {
        Box::new(NoEnginesHere)
    }
}

struct NoEnginesHere;

impl MachineEngines for NoEnginesHere {
    fn reason_to_skip(&self, _: Provider) -> Option<String> {
        None
    }

    fn open(
        &self,
        _: &Model,
        _: &ResolvedEngine,
        _: Provider,
        _: &mut Vec<SkippedCandidate>,
    ) -> Result<Box<dyn Engine>> {
        unreachable!("the engine is passed in")
    }
}

struct FakeWorker {
    behaviour: Behaviour,
    batches: Arc<AtomicUsize>,
    states: Vec<f32>,
}

impl Engine for Fake {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        BatchLimits {
            tokens: 64,
            rows: 4,
            equal_lengths: false,
        }
    }

    fn operations(&self, tokens: usize) -> u64 {
        self.operations * tokens as u64
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        Ok(Box::new(FakeWorker {
            behaviour: self.behaviour,
            batches: Arc::clone(&self.batches),
            states: Vec::new(),
        }))
    }
}

impl Worker for FakeWorker {
    /// Every component of a token's state is the token's id, plus what the behaviour adds.
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        let number = self.batches.fetch_add(1, Ordering::Relaxed);
        let added = (self.behaviour)(batch, number)?;
        self.states.clear();
        for &id in &batch.ids {
            self.states
                .resize(self.states.len() + WIDTH, id as f32 + added);
        }
        Ok(Output::Tokens {
            states: &self.states,
            width: WIDTH,
        })
    }
}

/// Keeps what is written.
#[derive(Default, Clone)]
pub(super) struct Kept(pub(super) Arc<Mutex<Written>>);

#[derive(Default)]
pub(super) struct Written {
    pub(super) vectors: Vec<f32>,
    pub(super) ids: Vec<String>,
    pub(super) refs: Vec<RowRef>,
    pub(super) finished: bool,
}

impl Written {
    /// Which records the rows came from.
    pub(super) fn records(&self) -> Vec<u64> {
        self.refs.iter().map(|one| one.record).collect()
    }
}

impl VectorWriter for Kept {
    fn write(&mut self, rows: Rows) -> Result<()> {
        let mut written = self.0.lock().unwrap();
        let ids = arrow::array::AsArray::as_string::<i32>(rows.columns.column(0));
        written
            .ids
            .extend(ids.iter().map(|id| id.unwrap_or("-").to_string()));
        written.refs.extend(&rows.refs);
        written.vectors.extend(rows.vectors.values().flatten());
        Ok(())
    }

    fn finish(self: Box<Self>, _: Finish<'_>) -> Result<()> {
        self.0.lock().unwrap().finished = true;
        Ok(())
    }
}

/// An engine of that behaviour, which says that a token takes so many operations.
pub(super) fn fake(behaviour: Behaviour, operations: u64) -> Box<dyn Engine> {
    Box::new(Fake {
        info: EngineInfo::new("fake", "1".into(), Provider::Cpu),
        behaviour,
        operations,
        batches: Arc::default(),
    })
}

/// The model that the engine pretends to run.
pub(super) fn model_options() -> ModelOptions {
    ModelOptions {
        // Mean pooling and nothing that hides what came out of the engine.
        model: "../../fixtures/parity/bert-mean-legacy/model".into(),
        normalize: Some(false),
        ..ModelOptions::default()
    }
}

/// That model on `engine`, on three threads.
pub(super) fn loaded(engine: Box<dyn Engine>) -> Arc<LoadedModel> {
    loaded_with(engine, None)
}

/// The same with batches of so many tokens.
pub(super) fn loaded_with(
    engine: Box<dyn Engine>,
    batch_tokens: Option<usize>,
) -> Arc<LoadedModel> {
    let options = EngineOptions {
        workers: 3,
        batch_tokens,
        ..EngineOptions::default()
    };
    let resolved = Resolved::of(
        &model_options(),
        &options,
        Arc::new(NoEngines),
        &CancelToken::new(),
    )
    .unwrap();
    Arc::new(LoadedModel::with_engine(resolved, engine).unwrap())
}

/// Runs `lines` through an engine of the given behaviour.
pub(super) fn run(
    lines: &str,
    behaviour: Behaviour,
    on_error: OnError,
    cancel: &CancelToken,
) -> (Result<Summary>, Kept) {
    run_with(lines, behaviour, on_error, cancel, |_| ())
}

/// As [`run`], otherwise opened as `change` says.
pub(super) fn run_with(
    lines: &str,
    behaviour: Behaviour,
    on_error: OnError,
    cancel: &CancelToken,
    change: impl FnOnce(&mut Run),
) -> (Result<Summary>, Kept) {
    let mut file = tempfile::Builder::new().suffix(".txt").tempfile().unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    let input = InputOptions {
        max_record_bytes: 200,
        window_rows: 7,
        window_bytes: 1 << 20,
        ..InputOptions::default()
    };
    let loaded = loaded(fake(behaviour, 0));
    let kept = Kept::default();
    let sources = [Source::Path(file.path().to_path_buf())];
    let mut run = Run {
        started: Instant::now(),
        model: OpeningModel::ready(loaded),
        earlier: None,
        source: Box::new(RecordReader::open(&sources, input).unwrap()),
        sink: Box::new(WholeSink {
            writer: Box::new(kept.clone()),
            rejects: None,
        }),
        chunked: None,
        output: OutputForms {
            output: OutputOptions::new(Destination::Stdout).into(),
            forms: Forms::dense(&[WIDTH]),
        },
        options: EmbedOptions {
            on_error,
            ..EmbedOptions::default()
        },
        write_clock: Arc::default(),
    };
    change(&mut run);
    (run.drive(&Silent, cancel), kept)
}

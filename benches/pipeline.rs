//! What the pipeline carries with inference taken away: what a fast device will ask of it.
//!
//! Runs everything from file to Parquet with an engine that only hands back a buffer, beside the two
//! things it is compared with: the tokenizer alone, and the tokenizers crate alone. All three run in
//! turn, so that a machine that drifts is fair to all; processor time is printed beside elapsed time,
//! since other people's work changes only the latter.
//!
//! ```text
//! cargo bench --profile dev --bench pipeline -- target/corpus/short-100k.txt [hidden|pooled] [ROUNDS]
//! ```
//!
//! `pooled` (the default): the engine returns rows of 384, as a device does that pools; `hidden`: token
//! states, which the pipeline pools.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use common::{processor_seconds, whole_run};
use embedctl::batch::Batch;
use embedctl::cancel::CancelToken;
use embedctl::engine::{
    self, BatchLimits, Engine, EngineInfo, EngineOptions, LoadedModel, Output, Provider, Resolved,
    Worker,
};
use embedctl::input::{InputOptions, RecordReader, Source};
use embedctl::model::{Model, ModelOptions, WeightsPreference};
use embedctl::pipeline::{self, Summary};
use embedctl::progress::{Progress, Silent};
use embedctl::record::Texts;
use embedctl::stage::Stage;
use rayon::prelude::*;

const MODEL: &str = "fixtures/models/all-MiniLM-L6-v2";

/// Width of the null engine's rows and states.
const WIDTH: usize = 384;

/// A budget of the size that suits devices.
const LIMITS: BatchLimits = BatchLimits {
    tokens: 8192,
    rows: 1024,
    equal_lengths: false,
};

fn main() {
    // `cargo bench` adds its own flag.
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let Some(corpus) = args.next() else {
        eprintln!("name a corpus: make one with benches/corpus/make.sh");
        return;
    };
    let hidden = match args.next().as_deref() {
        None | Some("pooled") => false,
        Some("hidden") => true,
        Some(other) => panic!("{other}: say pooled or hidden"),
    };
    let rounds = args
        .next()
        .map_or(5, |rounds| rounds.parse().expect("a number of rounds"));
    let threads = embedctl::usable_cores();
    let options = ModelOptions {
        model: MODEL.into(),
        ..ModelOptions::default()
    };
    let model = Model::open(&options, WeightsPreference::Onnx).expect("the model");
    let spent = processor_seconds();
    let tokenizer = model.text_tokenizer(threads).expect("the tokenizer");
    println!(
        "preparing the tokenizer: {:.0} ms of processor time",
        (processor_seconds() - spent) * 1e3
    );
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads");
    let windows = windows(Path::new(&corpus));
    let rows: usize = windows.iter().map(Texts::len).sum();
    println!(
        "{rows} rows in {} windows, {threads} threads",
        windows.len()
    );
    let mut measured: [Vec<Cost>; 3] = Default::default();
    let mut last = None;
    for round in 0..=rounds {
        let costs = [
            cost(rows, || {
                windows
                    .iter()
                    .for_each(|texts| crate_alone(&model, &pool, texts));
            }),
            cost(rows, || {
                for texts in &windows {
                    std::hint::black_box(tokenizer.tokenize(texts));
                }
            }),
            cost(rows, || last = Some(run(&corpus, &options, hidden))),
        ];
        // The first round warms up caches and files.
        if round > 0 {
            for (all, cost) in measured.iter_mut().zip(costs) {
                all.push(cost);
            }
        }
    }
    for (what, all) in ["tokenizers crate", "tokenizer", "pipeline"]
        .iter()
        .zip(&measured)
    {
        let rates: Vec<String> = all.iter().map(|one| format!("{:.0}", one.rate)).collect();
        println!(
            "{what:>16}: {:>7.0} rows/s, {:>5.2} us of processor time a row   [{}]",
            median(all.iter().map(|one| one.rate)),
            median(all.iter().map(|one| one.processor)),
            rates.join(" ")
        );
    }
    let [alone, _, whole] = &measured;
    println!(
        "the pipeline carries {:.2} times what the tokenizers crate alone does",
        median(whole.iter().map(|one| one.rate)) / median(alone.iter().map(|one| one.rate))
    );
    let Some(summary) = last else { return };
    let stages = summary.stages;
    for stage in Stage::ALL {
        println!(
            "{stage:>16}: {:>5.2} us a row, {:>4.1} % of busy time",
            stages.busy(stage).as_secs_f64() * 1e6 / rows as f64,
            100.0 * stages.share(stage)
        );
    }
    println!(
        "{} limits, start-up {:.2} s",
        stages.limit,
        summary.load.as_secs_f64()
    );
}

/// What one pass over the corpus took.
struct Cost {
    /// Rows per second of elapsed time.
    rate: f64,
    /// Microseconds of processor time a row, of all threads.
    processor: f64,
}

/// Start-up is part of a pipeline's run here: with 100,000 rows it is some percent.
fn cost(rows: usize, work: impl FnOnce()) -> Cost {
    let (start, spent) = (Instant::now(), processor_seconds());
    work();
    Cost {
        rate: rows as f64 / start.elapsed().as_secs_f64(),
        processor: (processor_seconds() - spent) * 1e6 / rows as f64,
    }
}

/// The corpus, read.
fn windows(corpus: &Path) -> Vec<Texts> {
    let mut reader = RecordReader::open(&[Source::Path(corpus.into())], InputOptions::default())
        .expect("the corpus");
    let mut windows = Vec::new();
    while let Some(window) = reader.next_window().expect("a window") {
        windows.push(window.texts);
    }
    windows
}

/// The tokenizers crate at its best: no offsets, chunks of 256 texts.
fn crate_alone(model: &Model, pool: &rayon::ThreadPool, texts: &Texts) {
    pool.install(|| {
        let tokens: usize = (0..texts.len().div_ceil(256))
            .into_par_iter()
            .map(|chunk| {
                let rows = chunk * 256..((chunk + 1) * 256).min(texts.len());
                rows.map(|row| {
                    let encoding = model.tokenizer.encode_fast(texts.get(row), true);
                    encoding.expect("tokens").len()
                })
                .sum::<usize>()
            })
            .sum();
        assert!(tokens > 0);
    });
}

/// The whole pipeline around a null engine.
fn run(corpus: &str, model: &ModelOptions, hidden: bool) -> Summary {
    let folder = tempfile::tempdir().expect("a folder");
    let options = whole_run(corpus, folder.path());
    let progress: Arc<dyn Progress> = Arc::new(Silent);
    let (engine, cancel) = (EngineOptions::default(), CancelToken::new());
    let resolved = Resolved::of(model, &engine, engine::installed(), &cancel);
    let resolved = resolved.expect("the options");
    let loaded = LoadedModel::with_engine(resolved, Box::new(Null::new(hidden)));
    let loaded = Arc::new(loaded.expect("the model"));
    pipeline::embed_with(&loaded, &options, &progress, &cancel).expect("a run")
}

/// An engine that does nothing.
struct Null {
    info: EngineInfo,
    hidden: bool,
    values: Arc<[f32]>,
}

impl Null {
    fn new(hidden: bool) -> Self {
        let info = EngineInfo::new("null", "0".into(), Provider::Cpu);
        // Values that compress as badly as a model's do.
        let mut state = 1_u32;
        let mut value = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        let count = if hidden { LIMITS.tokens } else { LIMITS.rows };
        Self {
            info,
            hidden,
            values: (0..count * WIDTH).map(|_| value()).collect(),
        }
    }
}

impl Engine for Null {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        LIMITS
    }

    fn worker(&self) -> embedctl::Result<Box<dyn Worker>> {
        Ok(Box::new(NullWorker {
            hidden: self.hidden,
            values: Arc::clone(&self.values),
        }))
    }
}

struct NullWorker {
    hidden: bool,
    values: Arc<[f32]>,
}

impl Worker for NullWorker {
    fn run(&mut self, batch: &Batch) -> embedctl::Result<Output<'_>> {
        Ok(if self.hidden {
            Output::Tokens {
                states: &self.values[..batch.ids.len() * WIDTH],
                width: WIDTH,
            }
        } else {
            Output::Pooled {
                rows: &self.values[..batch.rows() * WIDTH],
                width: WIDTH,
            }
        })
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

//! How much of the engine's own speed the whole pipeline keeps.
//!
//! Runs the same library on the same batches twice, in turn: the engine alone (batches made beforehand,
//! nothing read, tokenized, pooled or written) and the whole pipeline from file to Parquet. Both exclude
//! start-up, which is printed beside. On a machine that others use too, compare processor time rather
//! than rows per second.
//!
//! ```text
//! cargo bench --profile dev --bench engine -- target/corpus/short.txt [PROVIDER] [ROUNDS]
//! ```

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use common::{processor_seconds, whole_run};
use embedctl::batch::{self, Batch, BatchPlan};
use embedctl::cancel::CancelToken;
use embedctl::engine::{self, Engine, EngineOptions, Resolved};
use embedctl::input::{InputOptions, RecordReader, Source};
use embedctl::model::{Model, ModelOptions};
use embedctl::pipeline::{self, Summary};
use embedctl::progress::{Progress, Silent};
use embedctl::stage::Stage;

const MODEL: &str = "fixtures/models/all-MiniLM-L6-v2";

fn main() {
    // `cargo bench` adds its own flag.
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let Some(corpus) = args.next() else {
        eprintln!("name a corpus: make one with benches/corpus/make.sh");
        return;
    };
    let provider = args.next().unwrap_or_else(|| "cpu".into());
    let rounds = args
        .next()
        .map_or(5, |rounds| rounds.parse().expect("a number of rounds"));
    let threads = embedctl::usable_cores();
    let options = EngineOptions {
        providers: provider.parse().expect("a provider"),
        workers: threads,
        ..EngineOptions::default()
    };
    let model_options = ModelOptions {
        model: MODEL.into(),
        ..ModelOptions::default()
    };
    let cancel = CancelToken::new();
    let resolved = Resolved::of(&model_options, &options, engine::installed(), &cancel);
    let resolved = resolved.expect("the options");
    let model = resolved.open_files().expect("the model");
    let engine = resolved.open_engine(&model, &cancel).expect("the engine");
    let batches = batches(&model, engine.as_ref(), Path::new(&corpus), threads);
    let rows: usize = batches.iter().map(Batch::rows).sum();
    let tokens: usize = batches.iter().map(|batch| batch.ids.len()).sum();
    println!(
        "{} {} ({}), {rows} rows, {tokens} tokens in {} batches, {threads} threads",
        engine.info().engine,
        engine.info().version,
        engine.info().provider,
        batches.len()
    );
    let mut alone = [Vec::new(), Vec::new()];
    let mut whole = [Vec::new(), Vec::new()];
    let mut shares = Stage::ALL.map(|_| Vec::new());
    for round in 0..=rounds {
        let spent = processor_seconds();
        let rate = rows as f64 / run_alone(engine.as_ref(), &batches, threads);
        let spent = (processor_seconds() - spent) * 1e6 / rows as f64;
        let summary = run_whole(&corpus, resolved.clone());
        let busy = summary.stages.total().as_secs_f64() * 1e6 / rows as f64;
        let whole_rate = rows as f64 / summary.run.as_secs_f64();
        // The first round warms up caches and files.
        if round > 0 {
            alone[0].push(rate);
            alone[1].push(spent);
            whole[0].push(whole_rate);
            whole[1].push(busy);
            for (shares, stage) in shares.iter_mut().zip(Stage::ALL) {
                shares.push(summary.stages.share(stage));
            }
            println!(
                "round {round}: engine alone {rate:.0} rows/s ({spent:.0} us of processor time a row), \
                 file to Parquet {whole_rate:.0} rows/s ({busy:.0} us; start-up {:.2} s)",
                summary.load.as_secs_f64()
            );
        }
    }
    let (alone, whole) = (alone.map(median), whole.map(median));
    println!(
        "median: engine alone {:.0} rows/s ({:.0} us), file to Parquet {:.0} rows/s ({:.0} us): {:.1} % of the \
         speed, {:.1} % of the processor time",
        alone[0],
        alone[1],
        whole[0],
        whole[1],
        100.0 * whole[0] / alone[0],
        100.0 * whole[1] / alone[1]
    );
    for (shares, stage) in shares.into_iter().zip(Stage::ALL) {
        println!("{stage:>9}: {:>5.2} % of busy time", 100.0 * median(shares));
    }
}

/// The batches that the pipeline makes of the corpus.
fn batches(model: &Model, engine: &dyn Engine, corpus: &Path, threads: usize) -> Vec<Batch> {
    let tokenizer = model.text_tokenizer(threads).expect("the tokenizer");
    let mut reader = RecordReader::open(&[Source::Path(corpus.into())], InputOptions::default())
        .expect("the corpus");
    let mut batches = Vec::new();
    while let Some(window) = reader.next_window().expect("a window") {
        let tokens = tokenizer.tokenize(&window.texts);
        let plans: Vec<BatchPlan> = batch::plan(&tokens, engine.limits(), engine.is_ragged());
        batches.extend(plans.iter().map(|plan| {
            let mut batch = Batch::default();
            batch.fill(plan, &tokens, &model.config.frame);
            batch
        }));
    }
    batches
}

/// Seconds that the engine needs for all batches.
fn run_alone(engine: &dyn Engine, batches: &[Batch], threads: usize) -> f64 {
    let mut workers: Vec<_> = (0..threads)
        .map(|_| engine.worker().expect("a worker"))
        .collect();
    for worker in &mut workers {
        worker.run(&batches[0]).expect("a batch");
    }
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for worker in &mut workers {
            scope.spawn(|| {
                while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                    worker.run(batch).expect("a batch");
                }
            });
        }
    });
    start.elapsed().as_secs_f64()
}

/// Runs the whole pipeline.
fn run_whole(corpus: &str, model: Resolved) -> Summary {
    let folder = tempfile::tempdir().expect("a folder");
    let options = whole_run(corpus, folder.path());
    let progress: Arc<dyn Progress> = Arc::new(Silent);
    pipeline::embed(model, &options, &progress, &CancelToken::new()).expect("a run")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

//! Batch text embedding: records in, vectors out, in the same order.
//!
//! ```text
//!  input ──► tokenize ──► batch ──► engine ──► pool ──► output
//!  records   token ids    equal-    hidden     vectors  rows in the
//!  + origin  (rayon)      length    states              input's order
//!                         batches   (workers)
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
// A panic needs a reason: `expect` states the invariant.
#![warn(clippy::unwrap_used)]

pub mod bench;
pub mod cache;
pub mod engine;
#[cfg(feature = "serve")]
pub mod serve;
pub mod storage;

pub use arrow;
pub use embedctl_common::threads::{locked, usable_cores};
pub use embedctl_common::{
    Error, ErrorKind, Result, cancel, error, safe_text, secrets, setting, size, stage,
};
pub use embedctl_data::output::rejects;
pub use embedctl_hub as hub;
pub use embedctl_model as model;
pub use embedctl_ort::{built, device, runtime};
pub use embedctl_outputs::{identity, inspect, job, progress, reuse};
pub use embedctl_pipeline::{pipeline, survey};
pub use embedctl_records::{position, record};
pub use embedctl_rows as rows;
pub use embedctl_rows::{batch, pool, tokenize};
pub use embedctl_search::search;
pub use engine::availability::info;
pub use identity::provenance;
pub use inspect::reference;

use embedctl_common::{atomic, hash, named, threads};

/// ```
/// use embedctl::Embedder;
/// use embedctl::cancel::CancelToken;
/// use embedctl::engine::{self, EngineOptions, Resolved};
/// use embedctl::model::ModelOptions;
///
/// # fn main() -> embedctl::Result<()> {
/// let model = ModelOptions {
///     model: "fixtures/models/all-MiniLM-L6-v2".into(),
///     ..ModelOptions::default()
/// };
/// let engine = EngineOptions {
///     providers: "rten".parse().expect("a provider's name"),
///     ..EngineOptions::default()
/// };
/// let cancel = CancelToken::new();
/// let resolved = Resolved::of(&model, &engine, engine::installed(), &cancel)?;
/// let mut embedder = Embedder::open(resolved, &cancel)?;
/// let vectors = embedder.embed(&["A cat sits on a mat.", "On a rug there is a cat.", "Interest rates rose."])?;
/// let similarity = |a: usize, b: usize| -> f32 { vectors[a].iter().zip(&vectors[b]).map(|(x, y)| x * y).sum() };
/// assert_eq!(vectors[0].len(), 384);
/// assert!(similarity(0, 1) > similarity(0, 2));
/// # Ok(())
/// # }
/// ```
pub use embedctl_engine::Embedder;

/// ```
/// use embedctl::Scorer;
/// use embedctl::cancel::CancelToken;
/// use embedctl::engine::{self, EngineOptions, Resolved};
/// use embedctl::model::{ModelOptions, ScoreTask};
///
/// # fn main() -> embedctl::Result<()> {
/// let model = ModelOptions {
///     model: "fixtures/scores/bert/model".into(),
///     ..ModelOptions::default()
/// };
/// let cancel = CancelToken::new();
/// let resolved = Resolved::of(&model, &EngineOptions::default(), engine::installed(), &cancel)?;
/// let pairs = ScoreTask { pairs: true, softmax: false };
/// let mut scorer = Scorer::open(resolved, pairs, &cancel)?;
/// let scores = scorer.score_pairs(&[("who is it?", "a cat"), ("who is it?", "it rains")])?;
/// assert_eq!((scores.len(), scores[0].len()), (2, scorer.labels().len()));
/// # Ok(())
/// # }
/// ```
pub use embedctl_engine::Scorer;

/// Where records come from, and how they are read.
pub mod input {
    pub use embedctl_data::input::*;
    pub use embedctl_records::csv_options::{CsvEscape, CsvOptions, CsvQuote, Delimiter};
    pub use embedctl_records::fields::{IdType, Keep, KeepType, LineIds};
    pub use embedctl_records::format::{InputFacts, InputFormat};
    pub use embedctl_records::options::{
        BatchWindows, DEFAULT_MAX_RECORD_BYTES, DEFAULT_WINDOW_ROWS, HEADING, InputOptions,
        InputRange, Part, Share, WINDOW_BYTES,
    };
    pub use embedctl_records::template::Template;
}

/// Where vectors go, how they are written, and how they are read back.
pub mod output {
    pub use embedctl_data::output::*;
    pub use embedctl_records::quantize::{Dtype, Ranges};
    pub use embedctl_records::vectors::{StoredVector, TakeVector, rows_of};
}

/// The vocabulary of providers, how they are got, and whether they work.
pub mod provider {
    pub use embedctl_engine::provider::*;
    pub use embedctl_ort::provider::*;
}

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;

/// The examples of the library in docs/library.md work.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
struct LibraryGuide;

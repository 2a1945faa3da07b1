//! A run, from its plan to its report.
//!
//! ```text
//!  plan ──► source ──windows──► tokenizer ──in flight──────────► ledger ──► sink ──► report
//!           (thread)  (1)       (thread)  (1: back-pressure)    in input order (writer: a thread)
//!                                   └─────jobs─────► workers ──done──┘
//! ```
//!
//! [`RunPlan`] (`plan.rs`) settles what a run will do, `open.rs` opens its files, and `run.rs` does it from top to bottom.
//! Where records come from is behind one interface (`source.rs`), and so is where rows go (`sink.rs`, and of a job
//! `job.rs`).
//!
//! The batches of a window *in flight* run on any worker in any order, and the calling thread waits for windows, and for
//! the portions of a slow model's window (`in_flight.rs`), in input order, so rows cannot change places. Channels between
//! reader, tokenizer and writer hold one element each: at most five windows exist at a time (one is being read, one
//! tokenized, one settled, and two wait), and the rows of one more that the writer of a file has, whatever the size of the
//! input. The calling thread waits on nothing without also waiting for cancellation, and never for the reader.

mod assembly;
mod batching;
mod cuts;
#[cfg(test)]
mod fake_tests;
mod fingerprint;
mod finished;
mod in_flight;
#[cfg(test)]
mod in_flight_tests;
mod job;
mod keys;
mod labels;
mod ledger;
mod made;
mod notes;
mod open;
mod options;
mod output_forms;
#[cfg(test)]
mod overflow_tests;
mod plan;
#[cfg(test)]
mod portion_tests;
mod reuse;
mod run;
mod shares;
mod sink;
mod source;
mod summary;
mod tally;
#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
mod tokenizing;
mod workers;

use std::sync::Arc;

pub(crate) use self::assembly::{Assembly, ExtraColumns, OutputRow};
pub use self::cuts::{CutRemedy, CutTokens};
pub use self::finished::Complete;
pub(crate) use self::in_flight::Distinct;
pub use self::options::{EmbedOptions, OnError};
pub use self::plan::{RunPlan, check_places, job};
pub(crate) use self::reuse::EarlierVectors;
pub use self::summary::{ScoredTexts, Summary};
use crate::cancel::CancelToken;
use crate::engine::{LoadedModel, Resolved};
use crate::error::Result;
use crate::output::RunFiles;
use crate::progress::Progress;

/// Runs the main job: settles a plan, opens model, sources, output and engine, embeds every record, publishes.
///
/// # Errors
/// Anything that stops the run; nothing stands under the output's name then.
pub fn embed(
    model: Resolved,
    options: &EmbedOptions,
    progress: &Arc<dyn Progress>,
    cancel: &CancelToken,
) -> Result<Summary> {
    RunPlan::new(model, options, &RunFiles::new())?.embed(progress, cancel)
}

/// As [`embed`], with a model that is ready to run.
///
/// # Errors
/// As [`embed`].
pub fn embed_with(
    loaded: &Arc<LoadedModel>,
    options: &EmbedOptions,
    progress: &Arc<dyn Progress>,
    cancel: &CancelToken,
) -> Result<Summary> {
    let plan = RunPlan::new(loaded.resolved().clone(), options, &RunFiles::new())?;
    open::run(&plan, Some(loaded), progress, cancel)
}

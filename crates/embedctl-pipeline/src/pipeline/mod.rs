//! A run, from its plan to its report.
//!
//! ```text
//!  plan ──► source ──windows──► tokenizer ──in flight──────────► ledger ──► sink ──► report
//!           (thread)  (1)       (thread)  (1: back-pressure)    in input order (writer: a thread)
//!                                   └─────jobs─────► workers ──done──┘
//! ```
//!
//! [`RunPlan`] (`plan.rs`) settles what a run will do, `run.rs` does it from top to bottom. Where records come from is
//! behind one interface (`source.rs`), and so is where rows go (`sink.rs`, and of a job `job.rs`).
//!
//! The batches of a window *in flight* run on any worker in any order, and the calling thread waits for windows, and for
//! the portions of a slow model's window (`in_flight.rs`), in input order, so rows cannot change places. Channels between reader, tokenizer and writer hold
//! one element each: at most five windows exist at a time (one is being read, one tokenized, one settled, and
//! two wait), and the rows of one more that the writer of a file has, whatever the size of the input.
//! The calling thread waits on nothing without also waiting for cancellation, and never for the reader.

mod assembly;
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
mod notes;
#[cfg(test)]
mod overflow_tests;
mod plan;
#[cfg(test)]
mod portion_tests;
mod reuse;
mod run;
mod sink;
mod source;
mod tally;
#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
mod tokenizing;
mod workers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::assembly::{Assembly, ExtraColumns, OutputRow};
pub use self::cuts::{CutRemedy, CutTokens};
pub use self::finished::Complete;
pub(crate) use self::in_flight::Distinct;
use self::labels::LabelColumns;
pub use self::plan::{RunPlan, check_places, job};
pub(crate) use self::reuse::EarlierVectors;
use crate::cancel::CancelToken;
use crate::engine::{EngineInfo, LoadedModel, Resolved};
use crate::error::Result;
use crate::input::{RecordReader, Source, implied_format};
use crate::job::{JobOptions, folder_format};
use crate::model::Model;
use crate::named::named;
use crate::output::{Forms, OutputFormat, OutputOptions, RunFiles, RunOutput};
use crate::progress::{Counts, Progress};
use crate::stage::StageTimes;
use crate::tokenize::{ChunkBy, Chunking};
use embedctl_records::fields::Keep;
use embedctl_records::format::InputFormat;
use embedctl_records::options::{HEADING, InputOptions};
use embedctl_records::quantize::Dtype;
use embedctl_rows::Dimensions;
use embedctl_rows::score::ScoreKind;
use embedctl_vectors::Terms;

named! {
    /// The effect of a bad record.
    #[derive(Default)]
    pub enum OnError {
        /// Stops the run.
        #[default]
        Fail = "fail",
        /// Is counted, reported and left out.
        Skip = "skip",
        /// Is counted, reported, and stays as a row without a vector: null, with the reason in the column
        /// `embedding_error`.
        Null = "null",
    }
}

/// All options of `embedctl embed`, but for those of its model and its engine.
#[derive(Debug, Clone, Default)]
pub struct EmbedOptions {
    /// Sources, read one after another.
    pub sources: Vec<Source>,
    /// How to read them.
    pub input: InputOptions,
    /// Chunking of long texts into several rows, if any.
    pub chunking: Option<Chunking>,
    /// Whether each row gets a UUID, made of its source and id.
    pub uuid: bool,
    /// The output of the vectors.
    pub output: OutputOptions,
    /// Whether the output is in parts, and whether parts of an earlier run are resumed.
    pub job: JobOptions,
    /// The effect of a bad record.
    pub on_error: OnError,
    /// An earlier output, whose vectors are reused for equal texts.
    pub reuse: Option<PathBuf>,
    /// How many of a row's highest scores are written with their labels, where a row has several scores.
    pub top_labels: Option<usize>,
    /// File of rejected records (JSONL).
    pub rejects: Option<PathBuf>,
    /// Files that the caller writes, with their options. None may be the output or an input.
    pub others: Vec<(&'static str, PathBuf)>,
    /// Whether a run without a single row fails.
    pub fail_on_empty: bool,
    /// Maximum rows in a batch; `None`: the engine's default.
    pub batch_rows: Option<usize>,
}

impl EmbedOptions {
    /// The reader of the input. What can be read of rejected records is read where they stay as rows.
    pub(crate) fn reader(&self) -> Result<RecordReader> {
        let mut reader = RecordReader::open(&self.sources, self.record_options())?;
        if self.on_error == OnError::Null {
            reader.keep_rejected();
        }
        Ok(reader)
    }

    /// How records are read. The place of each row stands beside a matrix, under the names that columns of a table have.
    pub(crate) fn record_options(&self) -> InputOptions {
        InputOptions {
            source_columns: self.input.source_columns && !self.writes_a_matrix(),
            ..self.input.clone()
        }
    }

    /// The same with what nobody named: documents are read as such, and the headings above their chunks are columns.
    fn settled(&self) -> Self {
        let mut settled = self.clone();
        let as_markdown = self.chunking.is_some_and(|it| it.by == ChunkBy::Markdown);
        let input = &mut settled.input;
        input.format = (input.format).or_else(|| implied_format(&self.sources, as_markdown));
        if let Some(chunking) = &mut settled.chunking
            && input.format == Some(InputFormat::File)
        {
            let is_heading = |keep: &Keep| keep.name == HEADING;
            chunking.heading |= input.keep.iter().any(is_heading);
            input.keep.retain(|keep| !is_heading(keep));
        }
        settled
    }

    fn writes_a_matrix(&self) -> bool {
        let format = folder_format(&self.output).map_or_else(|| self.output.resolved_format(), Ok);
        format.is_ok_and(OutputFormat::is_matrix)
    }

    /// The type of a vector's components that will be written: into a folder also where no format is given.
    ///
    /// # Errors
    /// If the format is not known, or does not hold that type.
    pub fn written_dtype(&self) -> Result<Dtype> {
        self.run_output().options.resolved_dtype()
    }

    /// The output as it will be written.
    fn run_output(&self) -> RunOutput {
        RunOutput {
            options: OutputOptions {
                format: folder_format(&self.output).or(self.output.format),
                ..self.output.clone()
            },
            nullable: self.on_error == OnError::Null,
            streams: self.input.batches.are_whole(),
            names_files: self.input.source_columns && self.writes_a_matrix(),
        }
    }

    /// The forms of the rows of `model`.
    ///
    /// # Errors
    /// If the output's format cannot hold them as they are asked for.
    fn forms_of(&self, model: &Model) -> Result<Forms> {
        let output = self.run_output().options;
        let mut forms = model.config.forms();
        if output.sparse_tokens && model.config.any_sparse().is_some() {
            forms = forms.with_terms(&Terms::named(model.terms()));
        }
        output.check_forms(&forms)?;
        Ok(forms)
    }

    /// The output's columns beside those of records.
    pub(crate) fn extra(&self) -> ExtraColumns {
        ExtraColumns {
            chunks: self.chunking.is_some(),
            chunk_text: self.chunking.is_some_and(|chunking| chunking.text),
            chunk_id: self.chunking.is_some_and(|chunking| chunking.id),
            heading: self.chunking.is_some_and(|chunking| chunking.heading),
            uuid: self.uuid,
            // A batch that is answered as it came has no column of ids.
            no_ids: self.input.id_field.is_none() && !self.input.batches.are_whole(),
            errors: self.on_error == OnError::Null,
            labels: None,
        }
    }

    /// The same with those that are known by the model.
    pub(crate) fn extra_of(&self, model: &Model) -> ExtraColumns {
        ExtraColumns {
            labels: LabelColumns::of(model.config.scores.as_ref(), self.top_labels),
            ..self.extra()
        }
    }
}

/// What the scores of a row are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoredTexts {
    /// A text.
    Single,
    /// A pair of texts.
    Pairs,
}

impl ScoredTexts {
    fn of(scores: &ScoreKind) -> Self {
        match scores.pairs {
            true => Self::Pairs,
            false => Self::Single,
        }
    }
}

/// The results of a finished run.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Rows and tokens; `embedded + rejected == read` was checked.
    pub counts: Counts,
    /// The engine that ran the model.
    pub engine: EngineInfo,
    /// Hub id or folder of the model.
    pub model: String,
    /// Chunks embedded, where records were cut: the rows that records became.
    pub chunks: Option<u64>,
    /// Widths of a row's vectors.
    pub dimensions: Dimensions,
    /// What was scored, where rows have scores.
    pub scored: Option<ScoredTexts>,
    /// Whether vectors are sparse.
    pub sparse: bool,
    /// Whether each token has a vector.
    pub multi: bool,
    /// Worker threads.
    pub threads: usize,
    /// Tokens of a row at most, where the model has a limit.
    pub max_length: Option<usize>,
    /// Time until the first batch could run: model and engine loaded.
    pub load: Duration,
    /// Time from then until the output was published.
    pub run: Duration,
    /// That time by stage.
    pub stages: StageTimes,
    /// Places and reasons of the first rejected records ([`Summary::SHOWN_REJECTS`] at most).
    pub rejects: Vec<String>,
    /// Embedded texts of nothing but white space.
    pub empty: u64,
    /// Tokens that were cut off, of texts beyond the model's limit.
    pub cut: CutTokens,
    /// The settings that keep them.
    pub cut_remedy: CutRemedy,
    /// Rows whose vectors were taken from an earlier output, where there was one.
    pub reused: Option<u64>,
    /// Records that earlier runs of the same job have rejected.
    pub rejected_before: u64,
    /// Notes for the user, such as a default that was chosen.
    pub notes: Vec<String>,
}

impl Summary {
    /// Maximum number of rejected records kept with their reasons.
    pub const SHOWN_REJECTS: usize = 10;
}

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
    run::run(&plan, Some(loaded), progress, cancel)
}

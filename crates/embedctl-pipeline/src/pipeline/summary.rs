//! The results of a finished run.

use std::time::Duration;

use embedctl_rows::Dimensions;
use embedctl_rows::score::ScoreKind;

use super::EmbedOptions;
use super::cuts::{CutRemedy, CutTokens};
use crate::engine::{EngineInfo, LoadedModel};
use crate::progress::Counts;
use crate::stage::StageTimes;

/// What the scores of a row are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoredTexts {
    /// A text.
    Single,
    /// A pair of texts.
    Pairs,
}

impl ScoredTexts {
    pub(super) fn of(scores: &ScoreKind) -> Self {
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

    /// What is known of a run by its model, its engine and its options, with the time of its stages; no row yet.
    pub(super) fn of_model(
        loaded: &LoadedModel,
        engine: EngineInfo,
        options: &EmbedOptions,
        stages: StageTimes,
    ) -> Self {
        let model = loaded.model();
        Self {
            engine,
            model: model.id.clone(),
            dimensions: model.config.vectors(),
            scored: model.config.scores.as_ref().map(ScoredTexts::of),
            sparse: model.config.any_sparse().is_some(),
            multi: model.config.any_multi().is_some(),
            threads: loaded.threads(),
            max_length: model.config.limit(),
            cut_remedy: CutRemedy::of(options, model),
            counts: Counts::default(),
            chunks: None,
            load: Duration::ZERO,
            run: Duration::ZERO,
            stages,
            rejects: Vec::new(),
            empty: 0,
            cut: CutTokens::default(),
            reused: None,
            rejected_before: 0,
            notes: Vec::new(),
        }
    }
}

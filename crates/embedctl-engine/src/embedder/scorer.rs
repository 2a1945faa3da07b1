//! A model ready to score: rerankers and classifiers, for programs that hold their texts in memory.

use crate::embedder::Embedder;
use crate::{EngineInfo, Resolved};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::pair::TextPair;
use embedctl_model::{Model, ModelOptions, ModelTask, ScoreTask};
use embedctl_rows::score::ScoreKind;

/// Scores pairs of texts, or single texts, held in memory.
pub struct Scorer {
    embedder: Embedder,
}

impl Scorer {
    /// Opens a model with its engine, to be asked for scores as `task` says.
    ///
    /// # Errors
    /// If the model's files or the engine cannot be had, or the model gives no scores.
    pub fn open(resolved: Resolved, task: ScoreTask, cancel: &CancelToken) -> Result<Self> {
        let model = ModelOptions {
            task: ModelTask::Score(task),
            ..resolved.model().clone()
        };
        Ok(Self {
            embedder: Embedder::open(resolved.with_settings(&model), cancel)?,
        })
    }

    /// The names of a row's scores: as many as a row has.
    #[must_use]
    pub fn labels(&self) -> &[String] {
        self.kind().map_or(&[], |kind| &kind.labels)
    }

    /// The engine that runs the model.
    #[must_use]
    pub fn engine(&self) -> &EngineInfo {
        self.embedder.engine()
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        self.embedder.model()
    }

    /// How many of the texts or pairs so far overflowed in fp16 and were computed in bf16.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.embedder.overflowed()
    }

    fn kind(&self) -> Option<&ScoreKind> {
        self.model().config.scores.as_ref()
    }

    /// The scores of pairs, such as a query and a document, in their order: a number for each label.
    ///
    /// # Errors
    /// If the model was opened for single texts, the engine fails, or a pair (the error names its index) gets no finite
    /// score.
    pub fn score_pairs<A: AsRef<str>, B: AsRef<str>>(
        &mut self,
        pairs: &[(A, B)],
    ) -> Result<Vec<Vec<f32>>> {
        self.check(true)?;
        let joined = pairs.iter().map(|(first, second)| {
            let (first, second) = (first.as_ref(), second.as_ref());
            TextPair { first, second }.joined()
        });
        self.embedder.embed(&joined.collect::<Vec<_>>())
    }

    /// The scores of single texts, in their order: a number for each label.
    ///
    /// # Errors
    /// As [`Scorer::score_pairs`], of a model that was opened for pairs.
    pub fn score_texts<S: AsRef<str>>(&mut self, texts: &[S]) -> Result<Vec<Vec<f32>>> {
        self.check(false)?;
        self.embedder.embed(texts)
    }

    fn check(&self, pairs: bool) -> Result<()> {
        let opened = self.kind().is_some_and(|kind| kind.pairs);
        if opened == pairs {
            return Ok(());
        }
        let name = |pairs| {
            if pairs {
                "pairs of texts"
            } else {
                "single texts"
            }
        };
        Err(Error::usage(format!(
            "the model was opened to score {}, but {} were given",
            name(opened),
            name(pairs)
        )))
    }
}

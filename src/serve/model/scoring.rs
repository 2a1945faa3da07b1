//! The parts of a served model that gives scores: it takes single texts and pairs alike.

use std::sync::Arc;

use crate::batch::TokenRows;
use crate::engine::LoadedModel;
use crate::error::{Cause, Result};
use crate::record::Texts;
use crate::rows::score::{ScoreForm, ScoreKind};
use crate::rows::{Frame, ModelConfig, PairFrame};
use crate::tokenize::TextTokenizer;

/// How a model scores.
pub(super) struct Scoring {
    kind: ScoreKind,
    /// That of single texts; `None` where the model's chat template takes pairs alone.
    texts: Option<TextTokenizer>,
    pairs: TextTokenizer,
    /// The tokens around a text, where rows of texts need token types because rows of pairs have some.
    typed: Option<Frame>,
}

impl Scoring {
    /// Of a model that was opened for scores.
    ///
    /// # Errors
    /// If a tokenizer cannot be made.
    pub fn of(loaded: &LoadedModel) -> Result<Option<Self>> {
        let (model, threads) = (Arc::clone(loaded.model()), loaded.threads());
        let Some(kind) = &model.config.scores else {
            return Ok(None);
        };
        let tokenizer = |pairs| {
            let config = ModelConfig {
                scores: Some(ScoreKind {
                    pairs,
                    ..kind.clone()
                }),
                ..model.config.clone()
            };
            let file = model.transformer.join("tokenizer.json");
            TextTokenizer::new(Arc::clone(&model.tokenizer), &config, file, threads)
        };
        let frame = &model.config.frame;
        let has_types = kind.chat.is_none() && frame.pair.as_ref().is_some_and(PairFrame::is_typed);
        let texts = match kind.chat {
            Some(_) => tokenizer(false).ok(),
            None => Some(tokenizer(false)?),
        };
        Ok(Some(Self {
            kind: kind.clone(),
            texts,
            pairs: tokenizer(true)?,
            typed: has_types.then(|| frame.clone()),
        }))
    }

    /// The names of a row's scores.
    pub fn labels(&self) -> Vec<String> {
        self.kind.labels.clone()
    }

    /// The rows of single texts.
    pub fn tokenize(&self, texts: &Texts) -> TokenRows {
        let Some(tokenizer) = &self.texts else {
            let mut rows = TokenRows::default();
            let refused = || Cause::of("the model's chat template takes pairs of texts alone");
            (0..texts.len()).for_each(|_| rows.push_refused(refused()));
            return rows;
        };
        let rows = tokenizer.tokenize(texts);
        match &self.typed {
            Some(frame) => rows.typed(frame),
            None => rows,
        }
    }

    /// The tokenizer of pairs.
    pub fn pairs(&self) -> &TextTokenizer {
        &self.pairs
    }

    /// Brings a row's raw scores into this form, in place.
    pub fn finish(&self, form: ScoreForm, scores: &mut [f32]) {
        self.kind.finish(form, scores);
    }
}

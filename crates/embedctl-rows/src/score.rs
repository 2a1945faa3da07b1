//! Scores of texts and of pairs of texts.
//!
//! A head is a way to pool tokens' states and modules behind it, so that scores go the way of vectors: the network, the
//! pooler, the output.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::DenseActivation;
use embedctl_common::error::Cause;

/// What is known of a model's scores.
#[derive(Debug, Clone)]
pub struct ScoreKind {
    /// The names of a row's scores: the model's labels.
    pub labels: Vec<String>,
    /// Whether a row's text is a pair of texts.
    pub pairs: bool,
    /// Whether several scores become probabilities.
    pub softmax: bool,
    /// The functions over the scores that the head gives, one after another: the last of the model's steps.
    pub activations: Vec<DenseActivation>,
    /// The chat that texts are put into.
    pub chat: Option<Arc<dyn ChatFormat>>,
}

/// How texts are put into a chat: a model's template.
pub trait ChatFormat: fmt::Debug + Send + Sync {
    /// The file that it was read from.
    fn file(&self) -> &Path;

    /// The chat of a row's text: a message, or one for each text of a pair; `prompt` is the system's.
    ///
    /// # Errors
    /// If the template refuses the text, or does not come to an end.
    fn of_text(&self, prompt: &str, text: &str, is_pair: bool) -> Result<String, Cause>;
}

/// The form of a row's scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreForm {
    /// As the head gives them.
    Raw,
    /// Behind the functions that the model's files and the user's options name: as a run writes them.
    Written,
    /// Between 0 and 1: behind the sigmoid if there is one label, else behind softmax.
    Probability,
}

impl ScoreKind {
    /// Brings a row's raw scores into this form, in place.
    pub fn finish(&self, form: ScoreForm, scores: &mut [f32]) {
        let probability = match self.is_single() {
            true => DenseActivation::Sigmoid,
            false => DenseActivation::Softmax,
        };
        let functions = match form {
            ScoreForm::Raw => &[][..],
            ScoreForm::Written => &self.activations,
            ScoreForm::Probability => &[probability],
        };
        for &function in functions {
            function.apply(scores);
        }
    }

    /// Whether a row has one score alone.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.labels.len() == 1
    }

    /// The number of the highest of a row's scores; of equal ones the first.
    #[must_use]
    pub fn best(scores: &[f32]) -> usize {
        let better = |best: usize, next: usize| match scores[next] > scores[best] {
            true => next,
            false => best,
        };
        (1..scores.len()).fold(0, better)
    }
}

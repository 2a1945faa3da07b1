//! Scores of texts and of pairs of texts: the classification heads of transformers, and the logits of two tokens, as
//! sentence-transformers' `CrossEncoder` reads them.
//!
//! A head is a way to pool tokens' states and modules behind it, so that scores go the way of vectors: the network, the
//! pooler, the output.

pub(crate) mod activation;
mod bounded_template;
pub(crate) mod chat;
mod jinja;
pub(crate) mod labels;
mod python;
mod template_source;

use std::sync::Arc;

use crate::DenseActivation;

pub use chat::{ChatMessage, ChatTemplate};

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
    pub chat: Option<Arc<ChatTemplate>>,
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

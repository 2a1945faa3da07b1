//! The server's view of a model: what it is, tokens of texts, and workers.

use std::collections::BTreeMap;

use embedctl_common::Texts;
use embedctl_common::error::{Cause, Result};
use embedctl_common::pair::TextPair;
use embedctl_rows::batch::{BatchLimits, TokenRows};
use embedctl_rows::score::ScoreForm;
use embedctl_vectors::RowForm;
use serde::Serialize;
use serde_json::Value;

use crate::corpus::ServedCorpus;

/// A model, as requests and answers need to know it.
#[derive(Debug, Clone)]
pub struct ModelCard {
    /// Hub id or folder.
    pub id: String,
    /// Commit, where known.
    pub revision: Option<String>,
    /// A hash of the model's files, in hexadecimal: other files have another one.
    pub digest: String,
    /// The form of its rows. Where a row has vectors of several widths, requests choose one of them, by default the last.
    pub form: RowForm,
    /// The names of a row's scores; empty where rows are vectors.
    pub labels: Vec<String>,
    /// Whether a request may cut the vector shorter (Matryoshka models).
    pub cuts: bool,
    /// Tokens of a row at most; longer texts are cut.
    pub max_length: Option<usize>,
    /// The prompt before every text of requests that name none.
    pub prompt: String,
    /// The prompts that requests can name; empty where requests cannot.
    pub prompts: BTreeMap<String, String>,
    /// Whether vectors have length 1.
    pub normalized: bool,
    /// How token states become a vector: `mean`.
    pub pooling: String,
    /// Whether the numbers of an answer are rounded to float16, as those of an output that the server is like.
    pub is_half: bool,
    /// The side on which long texts are cut: `right`.
    pub truncation: &'static str,
    /// Batches that suit the engine.
    pub limits: BatchLimits,
    /// Threads that run batches.
    pub workers: usize,
    /// Further members of `/info`.
    pub details: serde_json::Map<String, Value>,
}

impl ModelCard {
    /// Type of a component of an answer, as other servers name it.
    pub(crate) fn dtype(&self) -> &'static str {
        match self.is_half {
            true => "float16",
            false => "float32",
        }
    }

    /// The name in `model_type` of `/info`, as text-embeddings-inference has it.
    pub(crate) fn model_type(&self) -> &'static str {
        match self.form {
            RowForm::Dense(_) | RowForm::Tokens(_) => "embedding",
            RowForm::Sparse(_) => "sparse",
            RowForm::Scores(0 | 1) => "reranker",
            RowForm::Scores(_) => "classifier",
        }
    }

    /// Why a route that answers with the numbers of models of these types is of no use, where the model is of another one.
    pub(crate) fn check_type(&self, types: &[&str]) -> Result<(), MissingHead> {
        let own = self.model_type();
        if types.contains(&own) {
            return Ok(());
        }
        let wanted: Vec<&str> = types.iter().map(|of_type| given_by(of_type).0).collect();
        let (gives, routes) = given_by(own);
        let (id, wanted) = (&self.id, wanted.join(" or "));
        let reason = format!(
            "the model {id} has no head that gives {wanted}: it gives {gives}; use {routes}"
        );
        Err(MissingHead(reason))
    }
}

/// Why the model has no head for a route.
#[derive(Debug)]
pub(crate) struct MissingHead(pub String);

/// The numbers that models of this type give for a row, and the routes that answer with them.
fn given_by(model_type: &str) -> (&'static str, &'static str) {
    match model_type {
        "sparse" => ("sparse vectors", "/embed_sparse"),
        "reranker" => ("scores of pairs", "/rerank or /predict"),
        "classifier" => ("scores of labels", "/predict"),
        _ => ("vectors", "/embed and /v1/embeddings"),
    }
}

/// A token of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// Its characters in the text; of a special token its name.
    pub text: String,
    /// Whether the tokenizer adds it.
    pub special: bool,
    /// Its first character in the text; `null` for special tokens.
    pub start: Option<usize>,
    /// The character after its last.
    pub stop: Option<usize>,
}

/// A model behind a server.
pub trait ServedModel: Send + Sync + 'static {
    /// Its name, its settings and its limits.
    fn card(&self) -> &ModelCard;

    /// The tokens of each text as its row runs, behind `prompt` (`None`: the model's own). Texts that cannot run are
    /// refused rows.
    fn tokenize(&self, texts: &Texts, prompt: Option<&str>) -> TokenRows;

    /// The tokens of each pair of texts, as its row runs. Pairs that cannot run are refused rows. Only called of models that
    /// give scores.
    fn tokenize_pairs(&self, pairs: &[TextPair<'_>]) -> TokenRows;

    /// Brings a row's scores, which workers give as [`ScoreForm::Raw`], into this form, in place.
    fn finish(&self, form: ScoreForm, scores: &mut [f32]);

    /// The rows of texts that a client has tokenized, without special tokens.
    ///
    /// # Errors
    /// If they are not what the model's own tokenizer would give.
    fn frame(&self, ids: &[Vec<u32>]) -> Result<TokenRows, Cause>;

    /// The tokens of a text one by one, not cut to the model's length.
    ///
    /// # Errors
    /// If the tokenizer fails on the text.
    fn tokens(&self, text: &str, prompt: Option<&str>, special: bool) -> Result<Vec<Token>, Cause>;

    /// The first `dimensions` components of a row of full width, as a vector of that width; `None` where it has no
    /// finite length. Only called if [`ModelCard::cuts`].
    fn cut(&self, row: &[f32], dimensions: usize) -> Option<Vec<f32>>;

    /// Rows that queries are compared with, if the server has some.
    fn corpus(&self) -> Option<&dyn ServedCorpus> {
        None
    }

    /// A worker for one thread.
    ///
    /// # Errors
    /// If the engine cannot make another one.
    fn worker(&self) -> Result<Box<dyn ServedWorker>>;
}

/// The numbers of a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServedRow {
    /// The places of a sparse vector's entries, in ascending order; empty of other rows.
    pub indices: Vec<u32>,
    /// The vector's components, the scores, or the values of the entries.
    pub values: Vec<f32>,
    /// Whether they overflowed in fp16 and were computed in bf16.
    pub has_overflowed: bool,
}

impl From<Vec<f32>> for ServedRow {
    fn from(values: Vec<f32>) -> Self {
        Self {
            values,
            ..Self::default()
        }
    }
}

/// One thread's way to run rows.
pub trait ServedWorker: Send {
    /// The numbers of each row in order, or why a row has none. Rows may be run again after an error.
    ///
    /// # Errors
    /// If the engine fails.
    fn run(&mut self, rows: &TokenRows) -> Result<Vec<Result<ServedRow, Cause>>>;
}

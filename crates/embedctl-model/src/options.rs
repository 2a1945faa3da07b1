//! The user's options about the model.

use std::path::PathBuf;
use std::str::FromStr;

use super::onnx_file::OnnxChoice;
use super::precision::Precision;
use super::weights::WeightsKind;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::named::named;
use embedctl_common::setting::{DIMENSIONS, NORMALIZE, POOLING, Setting};
use embedctl_rows::PoolingMode;
use embedctl_vectors::{Forms, RowForm};

/// What a model is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ModelTask {
    /// Vectors of texts.
    #[default]
    Embed,
    /// Scores, by the model's classification head or the logits of some of its tokens.
    Score(ScoreTask),
}

/// How scores are asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScoreTask {
    /// Whether a row's text is a pair of texts ([`TextPair`](embedctl_common::TextPair)).
    pub pairs: bool,
    /// Whether several scores of a row become probabilities, whose sum is 1.
    pub softmax: bool,
}

named! {
    /// What a text is to a search: the model's prompt for it is taken, and the route of a Router.
    pub enum TextRole("task", "choose one of") {
        /// What is searched for.
        Query = "query",
        /// What is found.
        Document = "document",
    }
}

/// The task that texts are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextTask {
    /// A role that texts may have with every model.
    Role(TextRole),
    /// A task of the model's own.
    Own(String),
}

impl TextTask {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Role(role) => role.name(),
            Self::Own(name) => name,
        }
    }
}

impl FromStr for TextTask {
    type Err = Cause;

    fn from_str(text: &str) -> Result<Self, Cause> {
        match text.parse() {
            Ok(role) => Ok(Self::Role(role)),
            Err(unknown) if text.trim().is_empty() => Err(unknown),
            Err(_) => Ok(Self::Own(text.to_owned())),
        }
    }
}

/// The user's options about the model.
#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    /// Hub id `org/name`, `org/name@revision`, or a folder.
    pub model: String,
    /// What the model is asked for.
    pub task: ModelTask,
    /// Path of the ONNX file inside the repository.
    pub model_file: Option<String>,
    /// The native engine's arithmetic, or the kind of ONNX file.
    pub precision: Option<Precision>,
    /// The kind of weights to take; `None`: as the providers prefer.
    pub kind: Option<WeightsKind>,
    /// The folder of the Hub's cache; `None`: from the environment, as `huggingface_hub` does.
    pub cache_dir: Option<PathBuf>,
    /// Pooling modes whose results are concatenated.
    pub pooling: Option<Vec<PoolingMode>>,
    /// Whether to normalize vectors; `None`: as the model's files decide.
    pub normalize: Option<bool>,
    /// The most tokens of a row, special tokens included.
    pub max_length: Option<usize>,
    /// The text of a prompt.
    pub prompt: Option<String>,
    /// The name of one of the model's own prompts.
    pub prompt_name: Option<String>,
    /// Components kept (Matryoshka); several make a vector each. Empty: as the model's files decide.
    pub dimensions: Vec<usize>,
    /// The forms of vectors, without sizes, where the model's files leave it open: several give a text a vector of each, from
    /// one pass. Empty: as the files say, and dense where they leave it open.
    pub vectors: Vec<RowForm>,
    /// The task that texts are for, where the model treats some differently; `None`: as its files say.
    pub text_task: Option<TextTask>,
    /// Entries of a sparse vector that are kept at most; `None`: as the model's files say.
    pub max_active_dims: Option<usize>,
    /// By how much a document's vectors become fewer, where each token has one: at least 1.
    pub pool_factor: Option<f64>,
    /// Whether the states of a whole text are pooled by its chunks (late chunking), each of which gets a vector.
    pub late: bool,
}

impl ModelOptions {
    /// The role of texts, where one is given.
    #[must_use]
    pub fn role(&self) -> Option<TextRole> {
        match self.text_task {
            Some(TextTask::Role(role)) => Some(role),
            Some(TextTask::Own(_)) | None => None,
        }
    }

    /// The forms of rows that are asked for, as far as they are: a model's files decide about the rest.
    #[must_use]
    pub fn asked_forms(&self) -> Forms {
        if matches!(self.task, ModelTask::Score(_)) {
            return RowForm::Scores(0).into();
        }
        let dense = Forms::dense(&self.dimensions);
        let form = |asked: &RowForm| match asked.is_dense() {
            true => dense.first().clone(),
            false => asked.clone(),
        };
        let asked = self.vectors.iter().map(form);
        Forms::new(asked.collect()).unwrap_or(dense)
    }

    /// The ONNX file that is asked for.
    #[must_use]
    pub fn onnx(&self) -> OnnxChoice {
        OnnxChoice {
            file: self.model_file.clone(),
            precision: self.precision,
        }
    }

    /// Refuses the options that say how a dense vector is made, where rows are something else. `about` names such vectors
    /// and `instead` the rows, for the message.
    ///
    /// # Errors
    /// If one of them is given.
    pub(crate) fn refuse_dense(&self, about: &str, instead: &str) -> Result<()> {
        let dense = [
            (POOLING, self.pooling.is_some()),
            (NORMALIZE, self.normalize.is_some()),
            (DIMENSIONS, !self.dimensions.is_empty()),
        ];
        refuse_given(&dense, about, instead)
    }
}

/// Refuses the first of these options that is given: it is about other rows than these.
pub(crate) fn refuse_given(options: &[(Setting, bool)], about: &str, instead: &str) -> Result<()> {
    match options.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(
            Error::usage(format!("{option} is about {about}, but {instead}"))
                .with_remedy("leave it out"),
        ),
        None => Ok(()),
    }
}

//! The configuration decided by a repository's metadata: pooling, later modules, length, prompts, padding.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::frame::{Frame, Side};
use super::layers::{AutoEncoder, Dense, DenseActivation, LayerNorm};
use super::multi::MultiKind;
use super::pool::PoolingRule;
use super::score::ScoreKind;
use super::sparse::SparseKind;
use embedctl_common::named::named;
use embedctl_vectors::{Forms, RowForm, Terms};

/// Widths of a row's vectors, one as a rule: a number in JSON then, else a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dimensions(pub Vec<usize>);

impl Serialize for Dimensions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Dimensions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Widths {
            One(usize),
            Several(Vec<usize>),
        }
        Ok(Self(match Widths::deserialize(deserializer)? {
            Widths::One(width) => vec![width],
            Widths::Several(widths) => widths,
        }))
    }
}

/// How position ids are made, for graphs that ask for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionIds {
    /// 0, 1, 2, … over the real tokens.
    FromZero,
    /// The RoBERTa family: every token other than this one is counted, from this id + 1 on; this one,
    /// also where a text spells it out, has its own id as its position.
    AfterPadding(u32),
}

named! {
    /// How the states of a text's tokens become one vector: names of the Pooling module's newer schema, and spellings
    /// of the older.
    pub enum PoolingMode("pooling mode", "the modes are") {
        Cls = "cls",
        Max = "max",
        Mean = "mean",
        MeanSqrtLen = "mean_sqrt_len_tokens" | "mean_sqrt_len" | "mean-sqrt-len" | "mean-sqrt-len-tokens",
        WeightedMean = "weightedmean" | "weighted_mean" | "weighted-mean",
        LastToken = "lasttoken" | "last" | "last_token" | "last-token",
    }
}

/// A module after pooling, in the order of `modules.json`.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// `activation(weight · x + bias)`.
    Dense(Dense),
    /// Layer normalization with learned scale and shift.
    LayerNorm(LayerNorm),
    /// Division by the Euclidean norm (at least 1e-12).
    Normalize,
    /// A function of every component, or of all of them.
    Activation(DenseActivation),
    /// A wide product of which the greatest components stay.
    AutoEncoder(AutoEncoder),
}

/// The output of the graph that is read, and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputChoice {
    /// Token-level states `[rows, length, width]`: to be pooled.
    Tokens(String),
    /// A finished vector a row `[rows, width]`: taken as it is.
    Sentence(String),
}

impl OutputChoice {
    /// The output's name in the graph.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Tokens(name) | Self::Sentence(name) => name,
        }
    }
}

/// Prompts of `config_sentence_transformers.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompts {
    /// Prompts by name.
    pub by_name: BTreeMap<String, String>,
    /// The name of the default prompt.
    pub default: Option<String>,
}

/// A model's configuration as far as embedding needs it, the user's overrides applied.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// What is known of scores, if the model gives them: for a text, or for a pair of texts. At most one of this and the next
    /// two is there; without any, rows are vectors in full.
    pub scores: Option<ScoreKind>,
    /// What is known of sparse vectors, if the model gives them.
    pub sparse: Option<SparseKind>,
    /// What is known of the vectors of tokens, if the model gives them.
    pub multi: Option<MultiKind>,
    /// The configurations of the other kinds of vectors that a row gets from the same states of its tokens. They differ
    /// from this one in what is done with the states, and in nothing before.
    pub beside: Vec<Self>,
    /// Tokens of a row at most, special tokens included.
    pub max_length: usize,
    /// The most that [`ModelConfig::max_length`] can be; [`ModelConfig::UNLIMITED`] where any number will do.
    pub greatest_length: usize,
    /// Positions that the model has, where a row beyond them cannot be run and `max_length` reaches them.
    pub positions_limit: Option<usize>,
    /// The tokens around a text.
    pub frame: Frame,
    /// The side on which a long text is cut.
    pub truncation_side: Side,
    /// Id of the padding token. Rows are always padded on the right: an encoder with absolute positions gives another
    /// vector behind left padding, a causal one ignores all later tokens. So only right padding gives the vector of the
    /// text alone.
    pub padding_id: u32,
    /// Ids of special tokens (they end a prompt's count).
    pub special_ids: BTreeSet<u32>,
    /// Position ids, for graphs that take them.
    pub positions: PositionIds,
    /// The graph's output to read.
    pub output: OutputChoice,
    /// Pooling modes whose results are concatenated, in this order.
    pub pooling: Vec<PoolingMode>,
    /// Whether prompt tokens take part in pooling.
    pub include_prompt: bool,
    /// Modules that every token's state passes before pooling.
    pub token_steps: Vec<Step>,
    /// A token that does not count at the end of a row: the last token that is pooled is the last that is not this one.
    pub not_last: Option<u32>,
    /// Modules after pooling.
    pub steps: Vec<Step>,
    /// Components kept after the last module (Matryoshka); several make a vector each, empty keeps all.
    pub dimensions: Vec<usize>,
    /// Normalize after everything else, the cut to `dimensions` included.
    pub normalize_last: bool,
    /// Width of a hidden state (of a finished vector, where the graph pools).
    pub hidden_width: usize,
    /// Width of a row's finished vectors, all together.
    pub width: usize,
    /// Prompts by name.
    pub prompts: Prompts,
    /// The prompt in force, put before every text.
    pub prompt: String,
    /// A token that is left out once the text is cut (model2vec's unknown one).
    pub dropped_id: Option<u32>,
    /// Characters after which a text is cut before it is tokenized (model2vec).
    pub most_characters: Option<usize>,
    /// Whether token states are pooled by the chunks of a text; late chunking.
    pub late: bool,
}

impl ModelConfig {
    /// Which tokens a graph pools, where it may pool rows by itself; `None`: only the processor can. It cannot where modules
    /// come between states and pooling, where a row has several vectors or one for each token, or where a prompt is left out,
    /// whose length only the tokenizer knows.
    #[must_use]
    pub fn pooled_in_graph(&self) -> Option<PoolingRule> {
        let is_pooled = match &self.sparse {
            Some(sparse) => sparse.terms.is_none() && sparse.weighed.is_none() && !sparse.by_token,
            None => self.multi.is_none(),
        };
        let is_one_row = !self.late && self.beside.is_empty() && !self.pooling.is_empty();
        let keeps_prompt = self.include_prompt || self.prompt.is_empty();
        (is_pooled && is_one_row && keeps_prompt && self.token_steps.is_empty())
            .then(|| PoolingRule::new(self, 0))
    }

    /// The form of a row's numbers, of the first kind where there are several.
    #[must_use]
    pub fn form(&self) -> RowForm {
        if self.scores.is_some() {
            RowForm::Scores(self.width)
        } else if self.sparse.is_some() {
            RowForm::Sparse(Terms::new(self.width))
        } else if self.multi.is_some() {
            RowForm::Tokens(self.width)
        } else {
            RowForm::Dense(self.vectors().0)
        }
    }

    /// Whether a row's text is a pair of texts.
    #[must_use]
    pub fn takes_pairs(&self) -> bool {
        self.scores.as_ref().is_some_and(|scores| scores.pairs)
    }

    /// The forms of a row's numbers, in the order of columns.
    #[must_use]
    pub fn forms(&self) -> Forms {
        let forms = self.of_all_kinds().map(Self::form);
        Forms::new(forms.collect()).expect("a model gives numbers of a form")
    }

    /// [`ModelConfig::max_length`] of a model that states no limit.
    pub const UNLIMITED: usize = usize::MAX / 4;

    /// The limit in tokens, where the model has one.
    #[must_use]
    pub fn limit(&self) -> Option<usize> {
        (self.max_length != Self::UNLIMITED).then_some(self.max_length)
    }

    /// Widths of a row's vectors.
    #[must_use]
    pub fn vectors(&self) -> Dimensions {
        match self.dimensions.is_empty() {
            true => Dimensions(vec![self.width]),
            false => Dimensions(self.dimensions.clone()),
        }
    }

    /// Whether finished vectors have unit length by construction.
    #[must_use]
    pub fn normalized(&self) -> bool {
        self.normalize_last
            || (self.dimensions.is_empty() && self.steps.last() == Some(&Step::Normalize))
    }

    /// This configuration and those of the other kinds of vectors that the model gives in one pass, in the order of columns.
    pub fn of_all_kinds(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.beside)
    }

    /// The forms of the model's vectors, in the order of columns; none for scores.
    pub fn vector_forms(&self) -> impl Iterator<Item = RowForm> {
        let forms = self.of_all_kinds().map(Self::form);
        forms.filter(|form| !matches!(form, RowForm::Scores(_)))
    }

    /// What is known of sparse vectors, if a row has such, alone or beside others.
    #[must_use]
    pub fn any_sparse(&self) -> Option<&SparseKind> {
        self.of_all_kinds().find_map(|it| it.sparse.as_ref())
    }

    /// What is known of the vectors of tokens, if a row has such, alone or beside others.
    #[must_use]
    pub fn any_multi(&self) -> Option<&MultiKind> {
        self.of_all_kinds().find_map(|it| it.multi.as_ref())
    }
}

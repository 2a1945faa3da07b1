//! What a repository's metadata decides: pooling, later modules, length, prompts, padding.

use std::collections::BTreeMap;

use super::modules::{Dense, LayerNorm};

/// Which side padding goes to, or tokens are cut from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Side {
    Left,
    Right,
}

/// How rows are padded to a batch's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Padding {
    /// Token id of the padding token.
    pub id: u32,
    /// Where it goes.
    pub side: Side,
}

/// How position ids start, for graphs that ask for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Positions {
    /// Position of the first real token: 0, or pad id + 1 for the RoBERTa family.
    pub first: i64,
    /// Position fed at padding.
    pub padding: i64,
}

/// How the states of a text's tokens become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PoolingMode {
    Cls,
    Max,
    Mean,
    MeanSqrtLen,
    WeightedMean,
    LastToken,
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
}

/// Which output of the graph is read, and what it holds.
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
    /// The one used when none is asked for.
    pub default: Option<String>,
}

/// A model's configuration as far as embedding needs it.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// Tokens of a row at most, special tokens included.
    pub max_length: usize,
    /// Which side of a long text is cut off.
    pub truncation_side: Side,
    /// How rows are padded.
    pub padding: Padding,
    /// Position ids, for graphs that take them.
    pub positions: Positions,
    /// The graph's output to read.
    pub output: OutputChoice,
    /// Pooling modes whose results are concatenated, in this order.
    pub pooling: Vec<PoolingMode>,
    /// Whether prompt tokens take part in pooling.
    pub include_prompt: bool,
    /// Modules after pooling.
    pub steps: Vec<Step>,
    /// Components kept after the last module (Matryoshka).
    pub dimensions: Option<usize>,
    /// Prompts by name.
    pub prompts: Prompts,
    /// The prompt in force, put before every text.
    pub prompt: String,
}

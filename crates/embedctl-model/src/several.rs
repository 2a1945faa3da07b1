//! Vectors of several kinds in one pass: each layer works on the same states of tokens.

use crate::multi::MultiKind;
use crate::options::{ModelOptions, VectorKind};
use crate::sparse::SparseKind;
use crate::{Model, ModelConfig, OutputChoice};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::VECTORS;

impl ModelOptions {
    /// The options for vectors of each kind alone, in the order of columns, where several are asked for.
    pub(crate) fn of_each_kind(&self) -> Vec<Self> {
        let asked = |kind: &VectorKind| self.vectors.contains(kind);
        let kinds: Vec<VectorKind> = VectorKind::ALL.into_iter().filter(asked).collect();
        if kinds.len() < 2 {
            return Vec::new();
        }
        let of_kind = |kind| {
            let mut options = self.clone();
            options.vectors = vec![kind];
            if kind != VectorKind::Dense {
                options.pooling = None;
                options.normalize = None;
                options.dimensions = Vec::new();
            }
            options.max_active_dims = (self.max_active_dims).filter(|_| kind == VectorKind::Sparse);
            options.pool_factor = self.pool_factor.filter(|_| kind == VectorKind::Multi);
            options
        };
        kinds.into_iter().map(of_kind).collect()
    }
}

impl Model {
    /// The model for several kinds of vectors, of the same model opened for each of them: the first with the
    /// configurations of all others.
    ///
    /// # Errors
    /// If one of them does not work on the same states of tokens.
    pub(crate) fn joined(models: Vec<Self>, options: &ModelOptions) -> Result<Self> {
        let mut models = models.into_iter();
        let first = models.next();
        let mut first = first.ok_or_else(|| Error::internal("several kinds, but none"))?;
        first.config.check_shares_states(&first, options)?;
        for other in models {
            other.config.check_shares_states(&first, options)?;
            let notes = other.notes.into_iter();
            let new: Vec<String> = notes.filter(|it| !first.notes.contains(it)).collect();
            first.notes.extend(new);
            first.onnx = first.onnx.and_then(|onnx| other.onnx.map(|_| onnx));
            first.config.beside.push(other.config);
        }
        first.options = options.clone();
        Ok(first)
    }
}

impl ModelConfig {
    /// This configuration and those of the other kinds of vectors that the model gives in one pass, in the order of columns.
    pub fn of_all_kinds(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.beside)
    }

    /// The kinds of the model's vectors, in the order of columns; none for scores.
    pub fn vector_kinds(&self) -> impl Iterator<Item = VectorKind> {
        self.of_all_kinds().filter_map(|it| it.form().kind())
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

    /// Checks that vectors are made of the same states of tokens as those of `first`.
    fn check_shares_states(&self, first: &Model, options: &ModelOptions) -> Result<()> {
        let shared = &first.config;
        let makes_logits =
            (self.sparse.as_ref()).is_some_and(|kind| kind.terms.is_some() || kind.by_token);
        let why = if makes_logits {
            "its sparse vectors are made of logits, not of states of tokens"
        } else if !matches!(self.output, OutputChoice::Tokens(_)) || self.output != shared.output {
            "its network gives finished vectors, but no states of tokens that each kind is made of"
        } else if self.max_length != shared.max_length
            || self.prompt != shared.prompt
            || self.frame != shared.frame
            || self.truncation_side != shared.truncation_side
        {
            "its kinds of vectors are made of other tokens of a text each"
        } else {
            return Ok(());
        };
        let kinds: Vec<&str> = options.vectors.iter().map(|kind| kind.name()).collect();
        Err(Error::model(
            &first.id,
            format!(
                "cannot give {VECTORS} {} in one pass: {why}",
                kinds.join(",")
            ),
        )
        .with_remedy("embed each kind in a run of its own"))
    }
}

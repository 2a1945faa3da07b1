//! What stands behind a network: the modules, and what a row's numbers are.

use std::path::Path;

use super::multi::{self, MultiContext};
use super::pooling::{Pooled, check_widths, dimensions, hidden_width, pooling, width_after};
use super::score::{self, ScoreFiles};
use super::sparse;
use super::stated::StatedSettings;
use crate::CheckpointFiles;
use crate::graph::Graph;
use crate::heads;
use crate::modules::Modules;
use crate::options::{ModelOptions, ModelTask, ScoreTask};
use crate::tokenizer::TokenizerFiles;
use embedctl_common::error::{Error, Result};
use embedctl_rows::multi::MultiKind;
use embedctl_rows::score::ScoreKind;
use embedctl_rows::sparse::SparseKind;
use embedctl_rows::{OutputChoice, QueryExpansion, Step};

/// The modules behind a network, and what is known of its rows: without scores, sparse vectors or vectors of tokens they are
/// vectors in full.
#[derive(Default)]
pub(super) struct ResolvedHead {
    pub pooled: Pooled,
    pub scores: Option<ScoreKind>,
    pub sparse: Option<SparseKind>,
    pub multi: Option<MultiKind>,
    /// The components of a sparse vector, which no module states.
    terms: Option<usize>,
}

/// What a head is resolved from.
pub(super) struct HeadSources<'a> {
    pub root: &'a Path,
    pub stated: &'a StatedSettings,
    /// The graph that is run for this head; `None`: the checkpoint is.
    pub graph: Option<&'a Graph>,
    pub checkpoint: Option<&'a CheckpointFiles>,
    pub output: &'a OutputChoice,
    pub multi: Option<&'a MultiContext<'a>>,
    pub expansion: Option<QueryExpansion>,
    pub tokenizer: &'a TokenizerFiles,
    pub options: &'a ModelOptions,
}

/// A head after the options about vectors.
pub(super) struct ShapedHead {
    pub head: ResolvedHead,
    pub hidden_width: usize,
    /// The components that are kept, of each vector of a row; empty: all.
    pub dimensions: Vec<usize>,
    /// The width of a row.
    pub width: usize,
    /// Whether a vector is normalized after components are left out.
    pub normalize_last: bool,
}

impl HeadSources<'_> {
    /// Resolves the head and applies the options about vectors; `sparse` is the kind of sparse vectors, where such are made.
    ///
    /// # Errors
    /// If the files or widths contradict each other, or the options ask for what the model does not do.
    pub fn resolve(
        &self,
        sparse: Option<SparseKind>,
        modules: Option<Modules>,
        notes: &mut Vec<String>,
    ) -> Result<ShapedHead> {
        let head = match self.options.task {
            ModelTask::Embed => self.vectors(sparse, modules, notes),
            ModelTask::Score(task) => self.scores(task, modules, notes),
        };
        self.shaped(head?)
    }

    /// Applies the options about normalization and components.
    ///
    /// # Errors
    /// If widths contradict each other, or the model has not so many components.
    fn shaped(&self, mut head: ResolvedHead) -> Result<ShapedHead> {
        let (hidden_width, full) = self.widths(&head)?;
        let normalize = self.options.normalize;
        let steps = &mut head.pooled.steps;
        if normalize == Some(false) {
            while steps.last() == Some(&Step::Normalize) {
                steps.pop();
            }
        }
        let is_dense = self.options.task == ModelTask::Embed && self.multi.is_none();
        let truncate_dim = (self.stated.whole.truncate_dim.as_ref()).filter(|_| is_dense);
        let (dimensions, width) =
            dimensions(full, self.options, (&self.stated.whole_file, truncate_dim))?;
        let ends_normalized = steps.last() == Some(&Step::Normalize) && dimensions.is_empty();
        Ok(ShapedHead {
            head,
            hidden_width,
            dimensions,
            width,
            normalize_last: normalize == Some(true) && !ends_normalized,
        })
    }

    /// The head of a model that gives scores.
    fn scores(
        &self,
        task: ScoreTask,
        modules: Option<Modules>,
        notes: &mut Vec<String>,
    ) -> Result<ResolvedHead> {
        let files = ScoreFiles {
            task,
            root: self.root,
            folder: &self.stated.folder,
            config_file: &self.stated.transformer_file,
            modules,
            checkpoint: self.checkpoint,
            sentence: &self.stated.sentence,
            activation: self.stated.whole.activation_fn.as_deref(),
            tokenizer: self.tokenizer,
            width: self.stated.transformer.width(),
        };
        let (pooled, kind) = score::resolve(files, self.options, notes)?;
        Ok(ResolvedHead {
            pooled,
            scores: Some(kind),
            ..ResolvedHead::default()
        })
    }

    /// The head of a model that gives vectors: sparse ones, one for each token, or one in full for a text.
    fn vectors(
        &self,
        sparse: Option<SparseKind>,
        modules: Option<Modules>,
        notes: &mut Vec<String>,
    ) -> Result<ResolvedHead> {
        match (sparse, self.multi) {
            (Some(kind), _) if kind.terms.is_some() => self.terms(kind, modules),
            (Some(kind), _) if kind.weighed.is_some() => self.weighed_tokens(kind),
            (_, Some(multi)) => {
                let (tokenizer, options) = (self.tokenizer, self.options);
                let (pooled, kind) =
                    multi::resolve(multi, modules, tokenizer, self.expansion, options)?;
                Ok(ResolvedHead {
                    pooled,
                    multi: Some(kind),
                    ..ResolvedHead::default()
                })
            }
            (sparse, None) => self.pooled_states(sparse, modules, notes),
        }
    }

    /// The logits of a masked language model, a component for each term of its vocabulary.
    fn terms(&self, kind: SparseKind, modules: Option<Modules>) -> Result<ResolvedHead> {
        let graph = self.graph.map(|graph| (graph, self.output));
        let (pooled, count) = sparse::pooled(modules, graph, &self.stated.transformer_file)?;
        Ok(ResolvedHead {
            pooled,
            sparse: Some(kind),
            terms: Some(count),
            ..ResolvedHead::default()
        })
    }

    /// A layer beside the network gives each token of a text its weight.
    fn weighed_tokens(&self, kind: SparseKind) -> Result<ResolvedHead> {
        let (pooled, count) = sparse::pooled(None, None, &self.stated.transformer_file)?;
        let layer = heads::weights(&self.root.join(heads::SPARSE_HEAD))?;
        Ok(ResolvedHead {
            pooled: Pooled {
                steps: vec![Step::Dense(layer)],
                ..pooled
            },
            sparse: Some(kind),
            terms: Some(count),
            ..ResolvedHead::default()
        })
    }

    /// A vector in full, which an autoencoder may make sparse.
    fn pooled_states(
        &self,
        sparse: Option<SparseKind>,
        modules: Option<Modules>,
        notes: &mut Vec<String>,
    ) -> Result<ResolvedHead> {
        let transformer = &self.stated.transformer;
        let mut pooled = pooling(
            modules,
            transformer,
            self.output,
            self.options,
            notes,
            self.root,
        )?;
        let files = self.checkpoint.filter(|_| self.graph.is_none());
        if let Some(layer) = files.map(heads::projection).transpose()?.flatten() {
            pooled.project(layer, self.root)?;
        }
        Ok(ResolvedHead {
            pooled,
            sparse,
            ..ResolvedHead::default()
        })
    }

    /// The width of a hidden state, and of a row's numbers before some of them are left out.
    fn widths(&self, head: &ResolvedHead) -> Result<(usize, usize)> {
        let ResolvedHead { pooled, terms, .. } = head;
        let transformer = &self.stated.transformer;
        let hidden = hidden_width(self.graph, self.output, transformer, pooled.width).ok_or_else(
            || {
                Error::model(
                    self.root.display(),
                    "neither the graph nor config.json (hidden_size) says how wide a hidden state is",
                )
            },
        )?;
        let is_weighed = (head.sparse.as_ref()).is_some_and(|kind| kind.weighed.is_some());
        let full = match terms {
            Some(terms) => {
                if is_weighed {
                    width_after(hidden, &pooled.steps, self.root)?;
                }
                *terms
            }
            None if self.multi.is_some() => width_after(hidden, &pooled.steps, self.root)?,
            None => check_widths(hidden, self.output, pooled, self.root)?,
        };
        Ok((hidden, full))
    }
}

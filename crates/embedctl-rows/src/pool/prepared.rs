//! A pooler of a model: what decides its vectors, and what it takes.

use embedctl_common::hash::Hash;

use super::forms::PooledForm;
use super::{Pooler, PoolingRule};
use crate::{ModelConfig, OutputChoice, Step};

impl Pooler {
    /// A pooler for `config`; `prompt_tokens` is the number of leading tokens that belong to the prompt,
    /// left out of pooling where the model says so.
    #[must_use]
    pub fn new(config: &ModelConfig, prompt_tokens: usize) -> Self {
        Self {
            rule: PoolingRule::new(config, prompt_tokens),
            pools: matches!(config.output, OutputChoice::Tokens(_)),
            token_steps: config.token_steps.clone().into(),
            form: PooledForm {
                form: config.form(),
                scores: config.scores.is_some(),
                sparse: config.sparse.clone(),
                multi: config.multi.clone(),
            },
            kinds: match config.beside.is_empty() {
                true => Vec::new(),
                false => {
                    let alone = ModelConfig {
                        beside: Vec::new(),
                        ..config.clone()
                    };
                    let kinds = std::iter::once(&alone).chain(&config.beside);
                    kinds.map(|it| Self::new(it, prompt_tokens)).collect()
                }
            },
            steps: config.steps.clone().into(),
            kept: config.vectors().0,
            normalize_last: config.normalize_last,
        }
    }

    /// The same, which leaves a model's scores as its head gives them.
    #[must_use]
    pub fn of_raw_scores(config: &ModelConfig, prompt_tokens: usize) -> Self {
        let mut config = config.clone();
        let functions = config.scores.as_ref().map_or(0, |it| it.activations.len());
        config.steps.truncate(config.steps.len() - functions);
        Self::new(&config, prompt_tokens)
    }

    /// A SHA-256 of all that decides the vector of given states.
    #[must_use]
    pub fn digest(&self) -> String {
        let Self {
            rule:
                PoolingRule {
                    modes,
                    excluded,
                    not_last,
                },
            pools,
            token_steps,
            form:
                PooledForm {
                    form: _, // follows from the others
                    scores,
                    sparse,
                    multi,
                },
            kinds,
            steps,
            kept,
            normalize_last,
        } = self;
        let mut hash = Hash::default();
        hash.add(format!(
            "{modes:?} {pools} {excluded} {not_last:?} {scores} {kept:?} {normalize_last} {}\n",
            token_steps.steps().len()
        ));
        if let Some(sparse) = sparse {
            hash.add(format!("{sparse:?}\n"));
        }
        if let Some(multi) = multi {
            hash.add(format!("{multi:?}\n"));
        }
        kinds.iter().for_each(|kind| hash.add(kind.digest()));
        let steps = token_steps.steps().iter().chain(steps.steps());
        steps.for_each(|step| step.add_to(&mut hash));
        hash.hex()
    }

    /// Whether token states of this width fit the modules.
    #[must_use]
    pub fn accepts(&self, width: usize) -> bool {
        if !self.kinds.is_empty() {
            return self.kinds.iter().all(|kind| kind.accepts(width));
        }
        if self.terms().is_some() {
            return self.pools && self.kept == [width];
        }
        if self.form.multi.is_some() || self.weighs() {
            return self.pools && self.accepts_pooled(width);
        }
        self.pools && self.accepts_pooled(width * self.rule.modes.len())
    }

    /// Whether pooled rows of this width fit the modules.
    #[must_use]
    pub fn accepts_pooled(&self, pooled: usize) -> bool {
        if !self.kinds.is_empty() {
            return false;
        }
        let steps = self.steps.steps();
        match steps
            .iter()
            .find(|step| !matches!(step, Step::Normalize | Step::Activation(_)))
        {
            Some(Step::Dense(dense)) => dense.input == pooled,
            Some(Step::LayerNorm(norm)) => norm.weight.len() == pooled,
            Some(Step::AutoEncoder(module)) => module.input == pooled,
            _ => self.kept.iter().all(|&kept| kept <= pooled),
        }
    }
}

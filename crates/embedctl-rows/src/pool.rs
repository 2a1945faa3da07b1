//! From hidden states to finished vectors: pooling, the modules after it, normalization. Pure.
//!
//! The arithmetic is that of sentence-transformers' modules, in f32, row by row, so that a row's vector
//! depends on nothing but its own states. Sums over the tokens of long rows are f64's (PyTorch adds pairwise).

#[cfg(test)]
mod digest_tests;
mod forms;
mod modes;
mod modules;
#[cfg(test)]
mod modules_tests;
mod prepared;
#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;

use crate::Step;
use crate::multi::MultiKind;
use crate::sparse::SparseKind;
use embedctl_vectors::RowForm;
use modes::pool_one;
use modules::{PackedSteps, normalize};

pub use modes::PoolingRule;

/// Turns a model's output into finished vectors.
#[derive(Debug, Clone)]
pub struct Pooler {
    rule: PoolingRule,
    pools: bool,
    token_steps: PackedSteps,
    /// Whether its rows are scores.
    scores: bool,
    /// How its vectors are sparse, if they are.
    sparse: Option<SparseKind>,
    /// Which of its tokens have vectors, if they have.
    multi: Option<MultiKind>,
    /// Where rows have vectors of several kinds, the pooler of each; else empty.
    kinds: Vec<Self>,
    /// The form of its rows, of the first kind where there are several.
    form: RowForm,
    steps: PackedSteps,
    /// Widths of the vectors that are cut out of one.
    kept: Vec<usize>,
    normalize_last: bool,
}

impl Pooler {
    /// Width of a row's finished vectors, all together.
    #[must_use]
    pub fn width(&self) -> usize {
        self.kept.iter().sum()
    }

    /// Pools the states `[tokens, width]` of the row `ids`, and appends the pooled vector to `out`, which
    /// [`Pooler::finish_rows`] takes.
    pub fn pool(&self, states: &[f32], width: usize, ids: &[u32], out: &mut Vec<f32>) {
        let stepped = self.stepped(states, width);
        let states = stepped.as_deref().unwrap_or(states);
        self.rule.pool(states, width, ids, out);
    }

    /// The finished vectors of these parts of a row's states, see [`Pooler::add_parts`].
    fn parts(&self, states: &[f32], width: usize, parts: &[std::ops::Range<usize>]) -> Vec<f32> {
        let stepped = self.stepped(states, width);
        let states = stepped.as_deref().unwrap_or(states);
        let all = 0..states.len() / width.max(1);
        let mut pooled = Vec::with_capacity(parts.len() * width * self.rule.modes.len());
        for part in parts {
            let part = if part.is_empty() { &all } else { part };
            for &mode in &self.rule.modes {
                pool_one(mode, states, width, part, 0, &mut pooled);
            }
        }
        let mut vectors = Vec::with_capacity(parts.len() * self.width());
        self.finish_rows(pooled, parts.len(), &mut vectors);
        vectors
    }

    /// Each token's state behind the modules before pooling, which keep its width; `None` where there are none.
    fn stepped(&self, states: &[f32], width: usize) -> Option<Vec<f32>> {
        if self.token_steps.steps().is_empty() {
            return None;
        }
        let mut all = Vec::with_capacity(states.len());
        let tokens = states.len() / width;
        // NaN is found at the end.
        self.token_steps
            .run(states.to_vec(), tokens, |state| match state {
                Some(state) => all.extend_from_slice(state),
                None => all.resize(all.len() + width, f32::NAN),
            });
        Some(all)
    }

    /// What tells how near a row's states are to others: its finished vector, or the vector that scores are made of. All of
    /// the row's tokens count.
    pub fn compared(&self, states: &[f32], width: usize, out: &mut Vec<f32>) {
        let tokens = states.len() / width;
        if !self.kinds.is_empty() {
            let kinds = self.kinds.iter();
            return kinds.for_each(|kind| kind.compared(states, width, out));
        }
        if self.multi.is_some() {
            return self.finish_rows(states.to_vec(), tokens, out);
        }
        if self.weighs() {
            return out.extend(self.token_weights(states, tokens));
        }
        let stepped = self.stepped(states, width);
        let states = stepped.as_deref().unwrap_or(states);
        let mut pooled = Vec::with_capacity(width * self.rule.modes.len());
        self.rule
            .pool_counted(states, width, &(0..tokens), &mut pooled);
        self.compared_pooled(&pooled, out);
    }

    /// The same of a pooled row.
    pub fn compared_pooled(&self, row: &[f32], out: &mut Vec<f32>) {
        match self.scores {
            true => out.extend_from_slice(row),
            false => self.finish_rows(row.to_vec(), 1, out),
        }
    }

    /// Finishes `rows` pooled rows, by [`Pooler::pool`], the graph or the device, with all of the modes; appends
    /// [`Pooler::width`] components of each to `out`. A row's vector does not depend on the rows beside it.
    pub fn finish_rows(&self, pooled: Vec<f32>, rows: usize, out: &mut Vec<f32>) {
        self.steps.run(pooled, rows, |vector| {
            let (start, end) = (out.len(), out.len() + self.width());
            if let Some(vector) = vector
                && self.cut(vector, out).is_none()
            {
                out.truncate(start);
            }
            // The caller finds NaN and rejects the row.
            out.resize(end, f32::NAN);
        });
    }

    /// The vector of a text without any token: zeros, as pooling gives without tokens, then the later modules.
    pub fn finish_empty(&self, hidden_width: usize, out: &mut Vec<f32>) {
        let width = if self.pools {
            hidden_width * self.rule.modes.len()
        } else {
            hidden_width
        };
        self.finish_rows(vec![0.0; width], 1, out);
    }

    /// The beginnings of a vector, each as it would be alone; `None` where one's length is beyond f32, or the vector is
    /// shorter than one.
    fn cut(&self, vector: &[f32], out: &mut Vec<f32>) -> Option<()> {
        self.kept
            .iter()
            .try_for_each(|&kept| self.cut_to(kept, vector, out))
    }

    /// Appends the first `kept` components of a whole vector, as they would be if only these were kept.
    ///
    /// Returns `None` where their length is beyond f32, or the vector is shorter.
    pub fn cut_to(&self, kept: usize, vector: &[f32], out: &mut Vec<f32>) -> Option<()> {
        let is_normalized = self.steps.steps().last() == Some(&Step::Normalize);
        let start = out.len();
        out.extend_from_slice(vector.get(..kept)?);
        if self.normalize_last && !(is_normalized && kept == vector.len()) {
            normalize(&mut out[start..])?;
        }
        Some(())
    }
}

//! From hidden states to finished vectors: pooling, the modules after it, normalization. Pure.
//!
//! The arithmetic is that of sentence-transformers' modules, in f32, row by row, so that a row's vector
//! depends on nothing but its own states. Sums over the tokens of long rows are f64's (PyTorch adds pairwise).

mod compared;
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

use forms::PooledForm;
use modes::pool_one;
use modules::{PackedSteps, normalize};

pub use modes::PoolingRule;

/// Turns a model's output into finished vectors.
#[derive(Debug, Clone)]
pub struct Pooler {
    rule: PoolingRule,
    pools: bool,
    token_steps: PackedSteps,
    /// The form of its rows, of the first kind where there are several.
    form: PooledForm,
    /// Where rows have vectors of several kinds, the pooler of each; else empty.
    kinds: Vec<Self>,
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
        let is_normalized = self.steps.end_normalized();
        let start = out.len();
        out.extend_from_slice(vector.get(..kept)?);
        if self.normalize_last && !(is_normalized && kept == vector.len()) {
            normalize(&mut out[start..])?;
        }
        Some(())
    }
}

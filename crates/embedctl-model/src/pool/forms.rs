//! Rows of every form: dense, sparse, or a vector for each token.

use super::Pooler;
use crate::Step;
use embedctl_common::vectors::{MultiRows, RowVector, RowVectors, SparseRow, SparseRows};
use embedctl_native::kernels::{Isa, TermPooling};

impl Pooler {
    pub(super) fn terms(&self) -> Option<TermPooling> {
        self.sparse.as_ref()?.terms
    }

    /// No vectors yet, of the form of this pooler's.
    #[must_use]
    pub fn no_rows(&self) -> RowVectors {
        if !self.kinds.is_empty() {
            return RowVectors::Several(self.kinds.iter().map(Self::no_rows).collect());
        }
        match (&self.sparse, &self.multi) {
            (Some(_), _) => RowVectors::Sparse(SparseRows::default()),
            (None, Some(_)) => RowVectors::Multi(MultiRows::new(self.width())),
            (None, None) => RowVectors::dense(self.width()),
        }
    }

    /// No rows yet whose vectors are those of parts of a text ([`Pooler::add_parts`]).
    #[must_use]
    pub fn no_rows_of_parts(&self) -> RowVectors {
        RowVectors::Multi(MultiRows::new(self.width()))
    }

    /// The pooler of each kind of vectors, where rows have several.
    #[must_use]
    pub fn kinds(&self) -> &[Self] {
        &self.kinds
    }

    /// Pools these parts of a row's states `[tokens, width]`, each into a vector, and appends them to `out` as a row
    /// ([`Pooler::no_rows_of_parts`]). A part without a token is pooled as the whole row.
    pub fn add_parts(
        &self,
        states: &[f32],
        width: usize,
        parts: &[std::ops::Range<usize>],
        out: &mut RowVectors,
    ) {
        let vectors = self.parts(states, width, parts);
        out.push(RowVector::of_tokens(self.width(), &vectors));
    }

    /// Finishes the states of the row `ids`, of whose tokens the first `seen` are the text's own, and appends the vectors of
    /// its tokens to `out`, which is of this pooler's form.
    pub fn add_tokens(
        &self,
        states: &[f32],
        width: usize,
        (ids, seen): (&[u32], usize),
        out: &mut RowVectors,
    ) {
        let (Some(multi), RowVectors::Multi(rows)) = (&self.multi, out) else {
            return;
        };
        let (mut own, mut count) = (Vec::with_capacity(states.len()), 0);
        for place in multi.places(ids, seen) {
            own.extend_from_slice(&states[place * width..(place + 1) * width]);
            count += 1;
        }
        let mut vectors = Vec::with_capacity(count * self.width());
        self.finish_rows(own, count, &mut vectors);
        for pooling in &multi.poolings {
            vectors = pooling.apply(vectors, self.width());
        }
        rows.push(&vectors);
    }

    /// Gives each token of the row `ids`, which has these states, its weight, and appends the greatest of each term to `out`,
    /// which is of this pooler's form.
    pub fn add_weights(&self, states: &[f32], ids: &[u32], out: &mut RowVectors) {
        if let (Some(sparse), RowVectors::Sparse(rows)) = (&self.sparse, out) {
            sparse.weigh(ids, &self.token_weights(states, ids.len()), rows);
        }
    }

    pub(super) fn token_weights(&self, states: &[f32], tokens: usize) -> Vec<f32> {
        let mut weights = Vec::with_capacity(tokens);
        self.steps.run(states.to_vec(), tokens, |weight| {
            weights.push(weight.map_or(f32::NAN, |weight| weight[0]));
        });
        weights
    }

    /// Whether each token of a row has a weight.
    #[must_use]
    pub fn weighs(&self) -> bool {
        self.sparse
            .as_ref()
            .is_some_and(|sparse| sparse.weighed.is_some())
    }

    /// Whether each token of a row has a vector.
    #[must_use]
    pub fn is_multi(&self) -> bool {
        self.multi.is_some()
    }

    /// Pools the states of the row `ids` as [`Pooler::pool`] does and finishes it; appends it to vectors of this pooler's form
    /// ([`Pooler::no_rows`]).
    pub fn add_states(&self, states: &[f32], width: usize, ids: &[u32], out: &mut RowVectors) {
        let Some(pooling) = self.terms() else {
            let mut pooled = Vec::new();
            self.pool(states, width, ids, &mut pooled);
            return self.add(out, |vector| self.finish_rows(pooled, 1, vector));
        };
        // The states are logits.
        self.add(out, |vector| {
            let (isa, mut odd) = (Isa::best(), 0.0);
            let start = vector.len();
            vector.resize(start + width, 0.0);
            for token in self.rule.counted(ids) {
                let logits = &states[token * width..(token + 1) * width];
                pooling.take(isa, logits, &mut vector[start..], &mut odd);
            }
            for top in &mut vector[start..] {
                *top = pooling.finish(*top) + odd;
            }
        });
    }

    /// Finishes a row that the graph or the device has pooled; appends it to vectors of this pooler's form.
    pub fn add_pooled(&self, row: &[f32], out: &mut RowVectors) {
        self.add(out, |vector| self.finish_rows(row.to_vec(), 1, vector));
    }

    /// As [`Pooler::finish_empty`], to vectors of this pooler's form.
    pub fn add_empty(&self, hidden_width: usize, out: &mut RowVectors) {
        match out {
            RowVectors::Multi(rows) => return rows.push(&[]),
            RowVectors::Several(rows) => {
                let kinds = self.kinds.iter().zip(rows);
                return kinds.for_each(|(kind, rows)| kind.add_empty(hidden_width, rows));
            }
            RowVectors::Dense { .. } | RowVectors::Sparse(_) => {}
        }
        match &self.sparse {
            Some(sparse) if sparse.terms.is_some() || sparse.by_token || self.weighs() => {
                self.add_entries(SparseRow::default(), out);
            }
            _ => self.add(out, |vector| self.finish_empty(hidden_width, vector)),
        }
    }

    /// Finishes a row whose entries the engine has made.
    pub fn add_entries(&self, row: SparseRow<'_>, out: &mut RowVectors) {
        if let (Some(sparse), RowVectors::Sparse(rows)) = (&self.sparse, out) {
            let normalizes = self.steps.steps().contains(&Step::Normalize);
            sparse.finish(row, normalizes, rows);
        }
    }

    /// Adds the vector that `make` makes in full.
    fn add(&self, out: &mut RowVectors, make: impl FnOnce(&mut Vec<f32>)) {
        match out {
            RowVectors::Dense { values, .. } => make(values),
            // Their rows come by `add_tokens`, and kind by kind.
            RowVectors::Multi(_) | RowVectors::Several(_) => {}
            RowVectors::Sparse(_) => {
                let mut values = Vec::with_capacity(self.width());
                make(&mut values);
                let indices: Vec<u32> = (0..).take(values.len()).collect();
                let (indices, values) = (&indices[..], &values[..]);
                // Its modules have run.
                if let (Some(sparse), RowVectors::Sparse(rows)) = (&self.sparse, out) {
                    let normalizes =
                        self.terms().is_some() && self.steps.steps().contains(&Step::Normalize);
                    sparse.finish(SparseRow { indices, values }, normalizes, rows);
                }
            }
        }
    }
}

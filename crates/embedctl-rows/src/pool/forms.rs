//! Rows of every form: dense, sparse, or a vector for each token.

use super::Pooler;
use crate::Step;
use crate::multi::MultiKind;
use crate::sparse::SparseKind;
use embedctl_kernels::{Isa, TermPooling};
use embedctl_vectors::{Numbers, RowForm, RowVector, RowVectors};

/// The form of a pooler's rows, and how they get it.
#[derive(Debug, Clone)]
pub(super) struct PooledForm {
    pub(super) form: RowForm,
    /// Whether its rows are scores.
    pub(super) scores: bool,
    /// How its vectors are sparse, if they are.
    pub(super) sparse: Option<SparseKind>,
    /// Which of its tokens have vectors, if they have.
    pub(super) multi: Option<MultiKind>,
}

impl Pooler {
    pub(super) fn terms(&self) -> Option<TermPooling> {
        self.form.sparse.as_ref()?.terms
    }

    /// No rows yet, of the form of this pooler's.
    #[must_use]
    pub fn no_rows(&self) -> RowVectors {
        self.kinds()
            .iter()
            .map(|kind| kind.form.form.no_rows())
            .collect()
    }

    /// No rows yet whose vectors are those of parts of a text ([`Pooler::add_parts`]).
    #[must_use]
    pub fn no_rows_of_parts(&self) -> RowVectors {
        Numbers::of_vectors(self.width()).into()
    }

    /// The pooler of each kind of vectors, of which a row has a part each.
    #[must_use]
    pub fn kinds(&self) -> &[Self] {
        match &self.kinds[..] {
            [] => std::slice::from_ref(self),
            several => several,
        }
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
        out.push(RowVector::of_vectors(self.width(), &vectors).into());
    }

    pub(super) fn token_weights(&self, states: &[f32], tokens: usize) -> Vec<f32> {
        let mut weights = Vec::with_capacity(tokens);
        self.steps.run(states.to_vec(), tokens, |weight| {
            weights.push(weight.map_or(f32::NAN, |weight| weight[0]));
        });
        weights
    }

    /// Whether each token of a row has a weight.
    pub(super) fn weighs(&self) -> bool {
        let sparse = self.form.sparse.as_ref();
        sparse.is_some_and(|sparse| sparse.weighed.is_some())
    }

    /// Makes the numbers of the row `ids` of its tokens' states `[tokens, width]`, and appends them to `out`, which is of this
    /// pooler's form. The first `seen` of the tokens are the text's own.
    pub fn add_states(
        &self,
        states: &[f32],
        width: usize,
        (ids, seen): (&[u32], usize),
        out: &mut Numbers,
    ) {
        match (&self.form.sparse, &self.form.multi) {
            (Some(sparse), _) if sparse.weighed.is_some() => {
                sparse.weigh(ids, &self.token_weights(states, ids.len()), out);
            }
            (None, Some(multi)) => {
                let places = multi.places(ids, seen);
                out.push_values(&self.token_vectors(multi, states, width, places));
            }
            _ => self.add(out, |vector| self.pool_states(states, width, ids, vector)),
        }
    }

    /// The vectors of the tokens in these places.
    fn token_vectors(
        &self,
        multi: &MultiKind,
        states: &[f32],
        width: usize,
        places: impl Iterator<Item = usize>,
    ) -> Vec<f32> {
        let (mut own, mut count) = (Vec::with_capacity(states.len()), 0);
        for place in places {
            own.extend_from_slice(&states[place * width..(place + 1) * width]);
            count += 1;
        }
        let mut vectors = Vec::with_capacity(count * self.width());
        self.finish_rows(own, count, &mut vectors);
        for pooling in &multi.poolings {
            vectors = pooling.apply(vectors, self.width());
        }
        vectors
    }

    /// Pools the states of the row `ids` as [`Pooler::pool`] does and finishes it, or makes of its logits the weights of all
    /// terms; appends these to `vector`.
    fn pool_states(&self, states: &[f32], width: usize, ids: &[u32], vector: &mut Vec<f32>) {
        let Some(pooling) = self.terms() else {
            let mut pooled = Vec::new();
            self.pool(states, width, ids, &mut pooled);
            return self.finish_rows(pooled, 1, vector);
        };
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
    }

    /// Finishes a row that the graph or the device has pooled; appends it to rows of this pooler's form.
    pub fn add_pooled(&self, row: &[f32], out: &mut Numbers) {
        self.add(out, |vector| self.finish_rows(row.to_vec(), 1, vector));
    }

    /// As [`Pooler::finish_empty`], to rows of this pooler's form ([`Pooler::no_rows`]).
    pub fn add_empty(&self, hidden_width: usize, out: &mut RowVectors) {
        for (kind, out) in self.kinds().iter().zip(out.parts_mut()) {
            let has_no_entry = (kind.form.sparse.as_ref())
                .is_some_and(|it| it.terms.is_some() || it.by_token || it.weighed.is_some());
            match kind.form.multi.is_some() || has_no_entry {
                true => out.push_nothing(),
                false => kind.add(out, |vector| kind.finish_empty(hidden_width, vector)),
            }
        }
    }

    /// Finishes a row whose entries the engine has made; appends it to rows of this pooler's form.
    pub fn add_entries(&self, row: RowVector<'_>, out: &mut Numbers) {
        if let Some(sparse) = &self.form.sparse {
            let normalizes = self.steps.steps().contains(&Step::Normalize);
            sparse.finish(row.entries(), normalizes, out);
        }
    }

    /// Adds the vector that `make` makes in full.
    fn add(&self, out: &mut Numbers, make: impl FnOnce(&mut Vec<f32>)) {
        let Some(sparse) = &self.form.sparse else {
            return make(out.values_mut());
        };
        let mut values = Vec::with_capacity(self.width());
        make(&mut values);
        // Its modules have run.
        let normalizes = self.terms().is_some() && self.steps.steps().contains(&Step::Normalize);
        sparse.finish((0..).zip(values), normalizes, out);
    }
}

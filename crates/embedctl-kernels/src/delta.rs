//! The gated delta rule of one head: a state that each token lets decay, corrects and reads.

use super::isa::{Isa, with_floats};
use super::simd::{MOST_LANES, Simd};

/// Vectors of a state's columns that are computed at a time: with a row of keys their state stays in the nearest cache.
const COLUMNS: usize = 4;

/// A head's part of a row. Each token has, at the places from its start that are named here, a query and a key of
/// `key_size` channels, a value of `value_size` channels, how much the state is corrected, and how much of it is left.
#[derive(Debug, Clone, Copy)]
pub struct DeltaHead<'a> {
    /// The row's tokens, one after another.
    pub rows: &'a [f32],
    /// Floats of a token.
    pub stride: usize,
    /// The first channel of the query.
    pub query: usize,
    /// The first channel of the key.
    pub key: usize,
    /// The first channel of the value.
    pub value: usize,
    /// The place of the share by which the state is corrected.
    pub correction: usize,
    /// The place of the share that is left of the state.
    pub decay: usize,
    /// Channels of queries and keys.
    pub key_size: usize,
    /// Channels of values.
    pub value_size: usize,
}

impl DeltaHead<'_> {
    /// Floats of the memory that [`delta_rule`] takes for keys of so many channels.
    #[must_use]
    pub fn state_floats(key_size: usize) -> usize {
        key_size.saturating_mul(COLUMNS * MOST_LANES)
    }
}

/// Runs a row through a head's state `S`, which is zero at first: `S = decay S`, `S += key (value - S' key) correction`,
/// and the token's output in `out`, `[tokens, value_size]`, is `S' query`. Columns of the state do not depend on each
/// other, so blocks of them run one after another.
///
/// # Panics
/// `state` has fewer than [`DeltaHead::state_floats`], or `out` or the rows are too short.
pub fn delta_rule(isa: Isa, head: DeltaHead<'_>, state: &mut [f32], out: &mut [f32]) {
    assert!(
        state.len() >= DeltaHead::state_floats(head.key_size),
        "room for the state"
    );
    with_floats!(isa, s => head.run(s, state, out));
}

impl DeltaHead<'_> {
    #[inline(always)]
    fn run<S: Simd>(&self, s: S, state: &mut [f32], out: &mut [f32]) {
        let mut first = 0;
        while first + COLUMNS * S::LANES <= self.value_size {
            self.columns::<S, COLUMNS>(s, first, state, out);
            first += COLUMNS * S::LANES;
        }
        while first < self.value_size {
            self.columns::<S, 1>(s, first, state, out);
            first += S::LANES;
        }
    }

    /// `N` vectors of columns from number `first` on; the last vector may have fewer.
    #[inline(always)]
    fn columns<S: Simd, const N: usize>(
        &self,
        s: S,
        first: usize,
        state: &mut [f32],
        out: &mut [f32],
    ) {
        let width = (N * S::LANES).min(self.value_size - first);
        let state = &mut state[..self.key_size * N * S::LANES];
        state.fill(0.0);
        let tokens = self.rows.chunks_exact(self.stride);
        for (token, out) in tokens.zip(out.chunks_exact_mut(self.value_size)) {
            let query = &token[self.query..][..self.key_size];
            let key = &token[self.key..][..self.key_size];
            let value = &token[self.value + first..][..width];
            let out = &mut out[first..][..width];
            let decay = s.splat(token[self.decay]);
            let correction = s.splat(token[self.correction]);
            // What the state has at the key.
            let mut known = [s.splat(0.0); N];
            for (row, key) in state.chunks_exact(N * S::LANES).zip(key) {
                let key = s.splat(*key);
                for (known, row) in known.iter_mut().zip(row.chunks_exact(S::LANES)) {
                    *known = s.fma(s.load(row), key, *known);
                }
            }
            let mut change = known;
            for (change, value) in change.iter_mut().zip(value.chunks(S::LANES)) {
                let difference = s.sub(s.load_part(value, 0.0), s.mul(*change, decay));
                *change = s.mul(difference, correction);
            }
            let mut read = [s.splat(0.0); N];
            let rows = state.chunks_exact_mut(N * S::LANES);
            for (row, (key, query)) in rows.zip(key.iter().zip(query)) {
                let (key, query) = (s.splat(*key), s.splat(*query));
                let columns = row.chunks_exact_mut(S::LANES).zip(&change).zip(&mut read);
                for ((row, change), read) in columns {
                    let new = s.fma(key, *change, s.mul(s.load(row), decay));
                    s.store(row, new);
                    *read = s.fma(new, query, *read);
                }
            }
            for (out, read) in out.chunks_mut(S::LANES).zip(read) {
                s.store_part(out, read);
            }
        }
    }
}

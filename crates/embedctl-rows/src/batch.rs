//! Batches: windows cut into runs of nearly equal length under a token budget. Pure; nothing is padded here.
//!
//! Batching decides much of the speed. Rows of a window are sorted by token count and cut by a budget of *tokens* (rows
//! × longest row), so that short rows run together with hardly any padding. The longest go first, so that no worker is
//! left with a long batch at the end of a window.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::Frame;
use embedctl_common::error::Cause;

/// Batch shapes that suit an engine; the user's `--batch-tokens` and `--batch-size` go before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Padded tokens in a batch at most (rows × longest row); a single longer row still forms a batch.
    pub tokens: usize,
    /// Rows in a batch at most.
    pub rows: usize,
    /// Whether rows of different length must not run together.
    pub equal_lengths: bool,
}

/// The token ids of a window's rows, special tokens included, in one allocation. A row that cannot be run has no
/// tokens, and a cause.
#[derive(Debug, Clone, Default)]
pub struct TokenRows {
    ids: Vec<u32>,
    /// Token types, as many as ids, of rows that differ in where their second text begins; else empty.
    types: Vec<u32>,
    ends: Vec<usize>,
    /// Tokens of each row's text that are not in the row.
    lost: Vec<u32>,
    refused: BTreeMap<usize, Cause>,
}

impl TokenRows {
    /// Appends one row; `lost`: tokens of its text that were cut off.
    pub fn push(&mut self, ids: impl IntoIterator<Item = u32>, lost: usize) {
        self.ids.extend(ids);
        self.ends.push(self.ids.len());
        self.lost.push(u32::try_from(lost).unwrap_or(u32::MAX));
    }

    /// Appends one row with the type of each of its tokens. Either all rows have types, or none.
    pub fn push_typed(&mut self, tokens: impl IntoIterator<Item = (u32, u32)>, lost: usize) {
        for (id, kind) in tokens {
            self.ids.push(id);
            self.types.push(kind);
        }
        self.push([], lost);
    }

    /// The types of row `index`, where rows have some of their own.
    ///
    /// # Panics
    /// If `index` is not below [`TokenRows::len`].
    #[must_use]
    pub fn types(&self, index: usize) -> Option<&[u32]> {
        (!self.types.is_empty()).then(|| &self.types[self.span(index)])
    }

    /// Appends a row that cannot be run.
    pub fn push_refused(&mut self, cause: Cause) {
        self.refused.insert(self.len(), cause);
        self.push([], 0);
    }

    /// Appends row `index` of `other`.
    ///
    /// # Panics
    /// If `index` is not below [`TokenRows::len`] of `other`.
    pub fn push_row(&mut self, other: &Self, index: usize) {
        match other.refusal(index) {
            Some(cause) => self.push_refused(cause.clone()),
            None => self.push_part(other, index, 0..other.get(index).len()),
        }
    }

    /// Appends the tokens of row `index` of `other` in that range, as a row that is cut as the other is.
    fn push_part(&mut self, other: &Self, index: usize, part: Range<usize>) {
        if let Some(types) = other.types(index) {
            self.types.extend_from_slice(&types[part.clone()]);
        }
        let ids = other.get(index)[part].iter().copied();
        self.push(ids, other.lost(index));
    }

    /// Makes one row of the last two.
    fn join_last(&mut self) {
        let last = self.ends.len() - 2;
        self.ends.remove(last);
        self.lost.pop();
    }

    /// Refuses the rows that hold an id of `ids` or above, or more than `positions` tokens; `cause` says why of one.
    pub fn refuse_beyond(
        &mut self,
        ids: Option<usize>,
        positions: Option<usize>,
        cause: &dyn Fn(&[u32]) -> Cause,
    ) {
        let is_beyond = |row: &[u32]| {
            let greatest = row.iter().max().map(|&id| id as usize);
            ids.zip(greatest).is_some_and(|(ids, id)| id >= ids)
                || positions.is_some_and(|positions| row.len() > positions)
        };
        let rows = (0..self.len()).map(|row| (row, self.get(row)));
        let found: BTreeMap<usize, Cause> = rows
            .filter(|(_, ids)| is_beyond(ids))
            .map(|(row, ids)| (row, cause(ids)))
            .collect();
        if found.is_empty() {
            return;
        }
        let mut rest = Self::default();
        for row in 0..self.len() {
            match found.get(&row) {
                Some(cause) => rest.push_refused(cause.clone()),
                None => rest.push_row(self, row),
            }
        }
        *self = rest;
    }

    /// Why row `index` cannot be run, if it cannot.
    #[must_use]
    pub fn refusal(&self, index: usize) -> Option<&Cause> {
        self.refused.get(&index)
    }

    /// The rows that cannot be run, in order, with their causes.
    pub fn refusals(&self) -> impl Iterator<Item = (usize, &Cause)> {
        self.refused.iter().map(|(&row, cause)| (row, cause))
    }

    /// These rows with the token types that `frame` gives each of them, so that they can stand beside rows with types
    /// of their own.
    #[must_use]
    pub fn typed(mut self, frame: &Frame) -> Self {
        let types = (0..self.len()).flat_map(|row| frame.types(self.get(row).len()));
        self.types = types.collect();
        self
    }

    /// Appends all rows of `other`.
    pub fn append(&mut self, other: &Self) {
        let start = self.ids.len();
        let rows = self.len();
        let refused = other.refusals();
        self.refused
            .extend(refused.map(|(row, cause)| (rows + row, cause.clone())));
        self.ids.extend_from_slice(&other.ids);
        self.types.extend_from_slice(&other.types);
        self.ends.extend(other.ends.iter().map(|end| start + end));
        self.lost.extend_from_slice(&other.lost);
    }

    /// The ids of row `index`.
    ///
    /// # Panics
    /// If `index` is not below [`TokenRows::len`].
    #[must_use]
    pub fn get(&self, index: usize) -> &[u32] {
        &self.ids[self.span(index)]
    }

    fn span(&self, index: usize) -> Range<usize> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        start..self.ends[index]
    }

    /// Tokens of the longest row; 0 if there is none.
    #[must_use]
    pub fn longest(&self) -> usize {
        (0..self.len())
            .map(|row| self.get(row).len())
            .max()
            .unwrap_or(0)
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Tokens in all rows together, padding not counted.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// Whether row `index` was cut to the model's length.
    ///
    /// # Panics
    /// If `index` is not below [`TokenRows::len`].
    #[must_use]
    pub fn is_truncated(&self, index: usize) -> bool {
        self.lost[index] > 0
    }

    /// Tokens of row `index`'s text that were cut off, about: of a long text no more is tokenized than the limit needs,
    /// and the rest is taken to have as many tokens a byte.
    ///
    /// # Panics
    /// If `index` is not below [`TokenRows::len`].
    #[must_use]
    pub fn lost(&self, index: usize) -> usize {
        self.lost[index] as usize
    }

    /// How many rows were cut to the model's length.
    #[must_use]
    pub fn truncated(&self) -> usize {
        self.lost.iter().filter(|&&lost| lost > 0).count()
    }
}

/// Some of `tokens`' rows, evenly spread: at most `rows`, and no more than fit into a budget of `most` tokens.
#[must_use]
pub fn sample(tokens: &TokenRows, rows: usize, most: usize) -> TokenRows {
    let mut sample = TokenRows::default();
    let step = tokens.len().div_ceil(rows.max(1)).max(1);
    for row in (0..tokens.len()).step_by(step) {
        let length = tokens.get(row).len();
        if sample.tokens() + length <= most {
            sample.push_part(tokens, row, 0..length);
        }
    }
    sample
}

/// The longest of `tokens`' rows that are longer than `than`: as many as fit into a budget of `most` tokens. If the
/// very longest doesn't, its beginning and end stand for it.
#[must_use]
pub fn longest(tokens: &TokenRows, than: usize, most: usize) -> TokenRows {
    let length = |row: &usize| tokens.get(*row).len();
    let mut order: Vec<usize> = (0..tokens.len()).filter(|row| length(row) > than).collect();
    order.sort_by_key(|row| std::cmp::Reverse(length(row)));
    let mut longest = TokenRows::default();
    for row in order {
        let length = length(&row);
        if longest.tokens() + length <= most {
            longest.push_part(tokens, row, 0..length);
        } else if longest.is_empty() && most > than {
            let (begin, end) = (most.div_ceil(2), most / 2);
            longest.push_part(tokens, row, 0..begin);
            // One row of both parts.
            longest.push_part(tokens, row, length - end..length);
            longest.join_last();
        }
    }
    longest
}

/// Rows of a window that will run together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchPlan {
    /// Indices into the window.
    pub rows: Vec<u32>,
    /// Tokens of the longest of them.
    pub length: usize,
}

/// Cuts a window into batches under `limits`, as [`plan_rows`] does.
#[must_use]
pub fn plan(tokens: &TokenRows, limits: BatchLimits, ragged: bool) -> Vec<BatchPlan> {
    let rows = u32::try_from(tokens.len()).expect("a window has fewer than 2^32 rows");
    plan_rows(tokens, 0..rows, limits, ragged)
}

/// Cuts some rows of a window into batches under `limits`: sorted by length, longest first. Rows without any token
/// are left out (there is nothing to run). Every other row is in exactly one batch. `ragged`: for an engine
/// that runs rows without padding, so that only real tokens count.
#[must_use]
pub fn plan_rows(
    tokens: &TokenRows,
    rows: impl IntoIterator<Item = u32>,
    limits: BatchLimits,
    ragged: bool,
) -> Vec<BatchPlan> {
    let rows = rows.into_iter();
    plan_those(
        tokens,
        rows.filter(|&row| !tokens.get(row as usize).is_empty())
            .collect(),
        limits,
        ragged,
    )
}

/// As [`plan_rows`], of rows that all have tokens.
fn plan_those(
    tokens: &TokenRows,
    mut order: Vec<u32>,
    limits: BatchLimits,
    ragged: bool,
) -> Vec<BatchPlan> {
    order.sort_by_key(|&row| std::cmp::Reverse(tokens.get(row as usize).len()));
    let mut plans = Vec::new();
    let mut rest = order.as_slice();
    while let Some(&longest) = rest.first() {
        let length = tokens.get(longest as usize).len();
        let most = if limits.equal_lengths {
            rest.partition_point(|&row| tokens.get(row as usize).len() == length)
        } else {
            rest.len()
        };
        let fit = if ragged {
            let ends = rest.iter().scan(0, |sum, &row| {
                *sum += tokens.get(row as usize).len();
                Some(*sum)
            });
            ends.take_while(|&sum| sum <= limits.tokens).count()
        } else {
            limits.tokens / length
        };
        let rows = fit.clamp(1, limits.rows.max(1)).min(most);
        let (rows, after) = rest.split_at(rows);
        plans.push(BatchPlan {
            rows: rows.to_vec(),
            length,
        });
        rest = after;
    }
    plans
}

/// Rows that run together: all tokens, one row after another, nothing padded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Token ids, special tokens included.
    pub ids: Vec<u32>,
    /// Token types, as many as ids; empty where rows state none, which then are 0.
    pub types: Vec<u32>,
    /// Where each row ends in `ids`.
    pub ends: Vec<usize>,
    /// How many tokens of each row, from its first on, all tokens attend to; empty where they attend to all.
    pub seen: Vec<usize>,
}

impl Batch {
    /// Fills this batch with the rows of `plan`, reusing its memory; token types are the rows' own, or else those of
    /// `frame`.
    pub fn fill(&mut self, plan: &BatchPlan, tokens: &TokenRows, frame: &Frame) {
        self.clear();
        for row in plan.rows.iter().map(|&row| row as usize) {
            let ids = tokens.get(row).iter().copied();
            match tokens.types(row) {
                Some(types) => {
                    self.types.extend_from_slice(types);
                    self.ids.extend(ids);
                    self.ends.push(self.ids.len());
                }
                None => self.push(ids, frame),
            }
        }
    }

    /// Appends one row.
    pub fn push(&mut self, ids: impl IntoIterator<Item = u32>, frame: &Frame) {
        let start = self.ids.len();
        self.ids.extend(ids);
        let own = self.ids.len() - start;
        if frame.types.is_some() {
            self.types.extend(frame.types(own));
        }
        if let Some(expansion) = &frame.expansion {
            let length = expansion.length.max(own);
            self.ids.resize(start + length, expansion.id);
            if frame.types.is_some() {
                self.types.resize(start + length, 0);
            }
            if frame.hides_tokens() {
                self.seen.push(own);
            }
        }
        self.ends.push(self.ids.len());
    }

    /// How many tokens of row `index` all tokens attend to.
    ///
    /// # Panics
    /// As [`Batch::span`].
    #[must_use]
    pub fn seen(&self, index: usize) -> usize {
        let all = self.span(index).len();
        self.seen.get(index).copied().unwrap_or(all)
    }

    /// Takes all rows away and keeps the memory.
    pub fn clear(&mut self) {
        self.ids.clear();
        self.types.clear();
        self.ends.clear();
        self.seen.clear();
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.ends.len()
    }

    /// Where row `index` lies in [`Batch::ids`].
    ///
    /// # Panics
    /// If `index` is not below [`Batch::rows`].
    #[must_use]
    pub fn span(&self, index: usize) -> Range<usize> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        start..self.ends[index]
    }

    /// The ids of row `index`.
    ///
    /// # Panics
    /// As [`Batch::span`].
    #[must_use]
    pub fn row(&self, index: usize) -> &[u32] {
        &self.ids[self.span(index)]
    }

    /// Tokens of the longest row.
    #[must_use]
    pub fn longest(&self) -> usize {
        (0..self.rows())
            .map(|row| self.span(row).len())
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(lengths: &[usize]) -> TokenRows {
        let mut rows = TokenRows::default();
        for (row, &length) in lengths.iter().enumerate() {
            rows.push((0..length).map(|token| (row * 1000 + token) as u32), 0);
        }
        rows
    }

    #[test]
    fn the_longest_rows_fit_their_budget_or_are_shortened() {
        let tokens = rows(&[5, 900, 40, 8000, 1200]);
        let lengths = |than, most| {
            let longest = longest(&tokens, than, most);
            (0..longest.len())
                .map(|row| longest.get(row).len())
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(10, 1 << 20), [8000, 1200, 900, 40]);
        assert_eq!(lengths(1000, 1 << 20), [8000, 1200]);
        assert_eq!(lengths(10, 8050), [8000, 40]);
        assert_eq!(lengths(10, 2001), [2001]);
        assert!(lengths(8000, 1 << 20).is_empty());
        // A shortened row that is not longer shows nothing new.
        assert!(lengths(3000, 2000).is_empty());
        let whole = tokens.get(3);
        let cut = longest(&tokens, 10, 101);
        assert_eq!(cut.get(0)[..51], whole[..51]);
        assert_eq!(cut.get(0)[51..], whole[whole.len() - 50..]);
    }

    #[test]
    fn a_sample_is_spread_and_within_its_budget() {
        let tokens = rows(&[5; 100]);
        let ids = |sample: &TokenRows| {
            (0..sample.len())
                .map(|row| sample.get(row)[0] / 1000)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&sample(&tokens, 4, 1000)), [0, 25, 50, 75]);
        assert_eq!(ids(&sample(&tokens, 4, 12)), [0, 25]);
        assert_eq!(ids(&sample(&rows(&[500, 3]), 4, 10)), [1]);
        assert!(sample(&rows(&[]), 4, 10).is_empty());
    }

    proptest! {
        #[test]
        fn every_row_with_tokens_is_in_exactly_one_batch_within_the_limits(
            lengths in proptest::collection::vec(0_usize..300, 0..200),
            tokens in 1_usize..2000,
            max_rows in 0_usize..40,
            equal_lengths: bool,
            ragged: bool,
        ) {
            let limits = BatchLimits { tokens, rows: max_rows, equal_lengths };
            let plans = plan(&rows(&lengths), limits, ragged);
            let mut seen: Vec<u32> = plans.iter().flat_map(|plan| plan.rows.clone()).collect();
            seen.sort_unstable();
            let expected: Vec<u32> =
                (0..lengths.len()).filter(|&row| lengths[row] > 0).map(|row| row as u32).collect();
            prop_assert_eq!(seen, expected);
            for plan in &plans {
                let longest = plan.rows.iter().map(|&row| lengths[row as usize]).max();
                prop_assert_eq!(longest, Some(plan.length));
                if equal_lengths {
                    prop_assert!(plan.rows.iter().all(|&row| lengths[row as usize] == plan.length));
                }
                prop_assert!(plan.rows.len() <= max_rows.max(1));
                let real: usize = plan.rows.iter().map(|&row| lengths[row as usize]).sum();
                let taken = if ragged { real } else { plan.rows.len() * plan.length };
                prop_assert!(plan.rows.len() == 1 || taken <= tokens);
            }
            prop_assert!(plans.windows(2).all(|pair| pair[0].length >= pair[1].length));
        }

        #[test]
        fn a_batch_holds_each_rows_ids_and_types(
            lengths in proptest::collection::vec(1_usize..20, 1..12),
        ) {
            let tokens = rows(&lengths);
            let all = BatchLimits { tokens: usize::MAX, rows: usize::MAX, equal_lengths: false };
            let plan = plan(&tokens, all, false).remove(0);
            let frame = Frame { types: Some((vec![2], 0, vec![1])), ..Frame::default() };
            let mut batch = Batch::default();
            batch.fill(&plan, &tokens, &frame);
            prop_assert_eq!(batch.rows(), lengths.len());
            prop_assert_eq!(batch.longest(), plan.length);
            for (index, &row) in plan.rows.iter().enumerate() {
                prop_assert_eq!(batch.row(index), tokens.get(row as usize));
                let types: Vec<u32> = frame.types(batch.row(index).len()).collect();
                prop_assert_eq!(&batch.types[batch.span(index)], types.as_slice());
            }
        }
    }
}

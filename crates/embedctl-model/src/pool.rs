//! From hidden states to finished vectors: pooling, the modules after it, normalization. Pure.
//!
//! The arithmetic is that of sentence-transformers' modules, in f32, row by row, so that a row's vector
//! depends on nothing but its own states. Sums over the tokens of long rows are f64's (PyTorch adds pairwise).

#[cfg(test)]
mod digest_tests;
mod modules;
#[cfg(test)]
mod modules_tests;

use crate::ModelConfig;
use crate::OutputChoice;
use crate::PoolingMode;
use crate::Step;
use crate::multi::MultiKind;
use crate::sparse::SparseKind;
use embedctl_common::hash::Hash;
use embedctl_common::vectors::{MultiRows, RowVectors, SparseRow, SparseRows};
use embedctl_native::kernels::{Isa, TermPooling};
use modules::{PackedSteps, normalize};

pub use modules::is_finite;

/// Turns a model's output into finished vectors.
#[derive(Debug, Clone)]
pub struct Pooler {
    modes: Vec<PoolingMode>,
    pools: bool,
    excluded: usize,
    token_steps: PackedSteps,
    not_last: Option<u32>,
    /// Whether its rows are scores.
    scores: bool,
    /// How its vectors are sparse, if they are.
    sparse: Option<SparseKind>,
    /// Which of its tokens have vectors, if they have.
    multi: Option<MultiKind>,
    steps: PackedSteps,
    /// Widths of the vectors that are cut out of one.
    kept: Vec<usize>,
    normalize_last: bool,
}

impl Pooler {
    /// A pooler for `config`; `prompt_tokens` is the number of leading tokens that belong to the prompt,
    /// left out of pooling where the model says so.
    #[must_use]
    pub fn new(config: &ModelConfig, prompt_tokens: usize) -> Self {
        Self {
            modes: config.pooling.clone(),
            pools: matches!(config.output, OutputChoice::Tokens(_)),
            excluded: if config.include_prompt {
                0
            } else {
                prompt_tokens
            },
            token_steps: config.token_steps.clone().into(),
            not_last: config.not_last,
            scores: config.kind.scores().is_some(),
            sparse: config.kind.sparse().cloned(),
            multi: config.kind.multi().cloned(),
            steps: config.steps.clone().into(),
            kept: config.vectors().0,
            normalize_last: config.normalize_last,
        }
    }

    /// The same, which leaves a model's scores as its head gives them.
    #[must_use]
    pub fn of_raw_scores(config: &ModelConfig, prompt_tokens: usize) -> Self {
        let mut config = config.clone();
        let functions = config.kind.scores().map_or(0, |it| it.activations.len());
        config.steps.truncate(config.steps.len() - functions);
        Self::new(&config, prompt_tokens)
    }

    /// A SHA-256 of all that decides the vector of given states.
    #[must_use]
    pub fn digest(&self) -> String {
        let Self {
            modes,
            pools,
            excluded,
            token_steps,
            not_last,
            scores,
            sparse,
            multi,
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
        let steps = token_steps.steps().iter().chain(steps.steps());
        steps.for_each(|step| step.add_to(&mut hash));
        hash.hex()
    }

    /// Width of a row's finished vectors, all together.
    #[must_use]
    pub fn width(&self) -> usize {
        self.kept.iter().sum()
    }

    /// Whether token states of this width fit the modules.
    #[must_use]
    pub fn accepts(&self, width: usize) -> bool {
        if self.terms().is_some() {
            return self.pools && self.kept == [width];
        }
        if self.multi.is_some() {
            return self.pools && self.accepts_pooled(width);
        }
        self.pools && self.accepts_pooled(width * self.modes.len())
    }

    /// Whether pooled rows of this width fit the modules.
    #[must_use]
    pub fn accepts_pooled(&self, pooled: usize) -> bool {
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

    /// Where the tokens of the row `ids` end that are pooled.
    #[must_use]
    pub fn end(&self, ids: &[u32]) -> usize {
        let counts = |id: &u32| Some(*id) != self.not_last;
        match self.not_last {
            // Of a row without any other token the first one is taken.
            Some(_) => ids.iter().rposition(counts).unwrap_or(0) + 1,
            None => ids.len(),
        }
        .min(ids.len())
    }

    /// Pools a row's states `[tokens, width]`, those of real tokens at `real`, and appends the pooled vector to `out`,
    /// which [`Pooler::finish_rows`] takes.
    pub fn pool(
        &self,
        states: &[f32],
        width: usize,
        real: &std::ops::Range<usize>,
        out: &mut Vec<f32>,
    ) {
        let stepped = self.stepped(states, width);
        let states = stepped.as_deref().unwrap_or(states);
        for &mode in &self.modes {
            pool_one(mode, states, width, real, self.excluded, out);
        }
    }

    /// Pools these parts of a row's states `[tokens, width]`, each into a vector, and finishes them. A part without a token
    /// is pooled as the whole row.
    #[must_use]
    pub fn parts(
        &self,
        states: &[f32],
        width: usize,
        parts: &[std::ops::Range<usize>],
    ) -> Vec<f32> {
        let stepped = self.stepped(states, width);
        let states = stepped.as_deref().unwrap_or(states);
        let all = 0..states.len() / width.max(1);
        let mut pooled = Vec::with_capacity(parts.len() * width * self.modes.len());
        for part in parts {
            let part = if part.is_empty() { &all } else { part };
            for &mode in &self.modes {
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

    /// What tells how near a row's states are to others: its finished vector, or the vector that scores are made of.
    pub fn compared(&self, states: &[f32], width: usize, out: &mut Vec<f32>) {
        let tokens = 0..states.len() / width;
        if self.multi.is_some() {
            return self.finish_rows(states.to_vec(), tokens.end, out);
        }
        if !self.scores {
            let mut pooled = Vec::with_capacity(width * self.modes.len());
            self.pool(states, width, &tokens, &mut pooled);
            return self.finish_rows(pooled, 1, out);
        }
        for &mode in &self.modes {
            pool_one(mode, states, width, &tokens, self.excluded, out);
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

    fn terms(&self) -> Option<TermPooling> {
        self.sparse.as_ref()?.terms
    }

    /// No vectors yet, of the form of this pooler's.
    #[must_use]
    pub fn no_rows(&self) -> RowVectors {
        match (&self.sparse, &self.multi) {
            (Some(_), _) => RowVectors::Sparse(SparseRows::default()),
            (None, Some(_)) => RowVectors::Multi(MultiRows::new(self.width())),
            (None, None) => RowVectors::dense(self.width()),
        }
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

    /// Whether each token of a row has a vector.
    #[must_use]
    pub fn is_multi(&self) -> bool {
        self.multi.is_some()
    }

    /// Pools a row's states as [`Pooler::pool`] does and finishes it; appends it to vectors of this pooler's form
    /// ([`Pooler::no_rows`]).
    pub fn add_states(
        &self,
        states: &[f32],
        width: usize,
        real: &std::ops::Range<usize>,
        out: &mut RowVectors,
    ) {
        let Some(pooling) = self.terms() else {
            let mut pooled = Vec::new();
            self.pool(states, width, real, &mut pooled);
            return self.add(out, |vector| self.finish_rows(pooled, 1, vector));
        };
        // The states are logits.
        self.add(out, |vector| {
            let (isa, mut odd) = (Isa::best(), 0.0);
            let start = vector.len();
            vector.resize(start + width, 0.0);
            for token in real.clone() {
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
        if let RowVectors::Multi(rows) = out {
            return rows.push(&[]);
        }
        match &self.sparse {
            Some(sparse) if sparse.terms.is_some() || sparse.by_token => {
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
            // Its rows come by `add_tokens`.
            RowVectors::Multi(_) => {}
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

    /// The vector of a text without any token: zeros, as pooling gives without tokens, then the later modules.
    pub fn finish_empty(&self, hidden_width: usize, out: &mut Vec<f32>) {
        let width = if self.pools {
            hidden_width * self.modes.len()
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

/// Pools one mode; `states` is `[length, width]`, `real` the row's real tokens; the first `excluded` of these are left
/// out. Appends `width` components to `out`.
fn pool_one(
    mode: PoolingMode,
    states: &[f32],
    width: usize,
    real: &std::ops::Range<usize>,
    excluded: usize,
    out: &mut Vec<f32>,
) {
    let start = (real.start + excluded).min(real.end);
    let token = |index: usize| &states[index * width..(index + 1) * width];
    match mode {
        // With every token excluded the reference falls back to the first one.
        PoolingMode::Cls => {
            out.extend_from_slice(token(if start < real.end { start } else { real.start }));
        }
        PoolingMode::LastToken => {
            if start < real.end {
                out.extend_from_slice(token(real.end - 1));
            } else {
                out.resize(out.len() + width, 0.0);
            }
        }
        PoolingMode::Max => {
            let base = out.len();
            out.resize(base + width, f32::NEG_INFINITY);
            for index in start..real.end {
                // NaN and infinity must survive: they are found and reported later.
                for (max, &value) in out[base..].iter_mut().zip(token(index)) {
                    if !value.is_finite() {
                        *max = f32::NAN;
                    } else if value > *max {
                        *max = value;
                    }
                }
            }
        }
        PoolingMode::Mean | PoolingMode::MeanSqrtLen | PoolingMode::WeightedMean => {
            // Weights count from the first real token, the prompt's included.
            #[allow(clippy::cast_precision_loss)]
            let weight = |index: usize| match mode {
                PoolingMode::WeightedMean => (index - real.start + 1) as f32,
                _ => 1.0,
            };
            let base = out.len();
            out.resize(base + width, 0.0);
            let tokens = start..real.end;
            let weights: f64 = tokens.clone().map(|index| f64::from(weight(index))).sum();
            #[allow(clippy::cast_possible_truncation)] // the reference's is one of f32, too
            let weights = (weights as f32).max(1e-9);
            let divisor = match mode {
                PoolingMode::MeanSqrtLen => weights.sqrt(),
                _ => weights,
            };
            sum_tokens(states, width, tokens, weight, &mut out[base..]);
            out[base..].iter_mut().for_each(|sum| *sum /= divisor);
        }
    }
}

/// Tokens whose states are summed in f32 before a longer sum continues in f64. So short a sum is accurate enough, and
/// rows of up to so many tokens keep the bits of a plain f32 sum.
const SUMMED: usize = 32;

/// Adds the weighted states of `tokens` to `out`.
fn sum_tokens(
    states: &[f32],
    width: usize,
    tokens: std::ops::Range<usize>,
    weight: impl Fn(usize) -> f32,
    out: &mut [f32],
) {
    let add = |tokens: std::ops::Range<usize>, out: &mut [f32]| {
        for index in tokens {
            let weight = weight(index);
            for (sum, &value) in out.iter_mut().zip(&states[index * width..]) {
                *sum += weight * value;
            }
        }
    };
    if tokens.len() <= SUMMED {
        add(tokens, out);
        return;
    }
    let mut sums = vec![0.0_f64; width];
    let (mut from, end) = (tokens.start, tokens.end);
    while from < end {
        let next = (from + SUMMED).min(end);
        out.fill(0.0);
        add(from..next, out);
        for (sum, &value) in sums.iter_mut().zip(&*out) {
            *sum += f64::from(value);
        }
        from = next;
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        #[allow(clippy::cast_possible_truncation)] // a vector's components are f32
        let sum = sum as f32;
        *out = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dense, DenseActivation, LayerNorm, Residual};

    const STATES: [f32; 8] = [1.0, -1.0, 3.0, 5.0, 2.0, 0.5, 9.0, 9.0];

    fn pooled(mode: PoolingMode, real: std::ops::Range<usize>, excluded: usize) -> Vec<f32> {
        let mut out = Vec::new();
        pool_one(mode, &STATES, 2, &real, excluded, &mut out);
        out
    }

    #[test]
    fn padding_takes_no_part_on_either_side() {
        assert_eq!(pooled(PoolingMode::Mean, 0..3, 0), [2.0, 1.5]);
        assert_eq!(pooled(PoolingMode::Mean, 1..3, 0), [2.5, 2.75]);
        assert_eq!(pooled(PoolingMode::Max, 0..3, 0), [3.0, 5.0]);
        assert_eq!(pooled(PoolingMode::Cls, 1..4, 0), [3.0, 5.0]);
        assert_eq!(pooled(PoolingMode::LastToken, 0..3, 0), [2.0, 0.5]);
    }

    #[test]
    fn an_excluded_prompt_keeps_the_weights_of_what_follows() {
        assert_eq!(pooled(PoolingMode::Cls, 0..3, 1), [3.0, 5.0]);
        assert_eq!(
            pooled(PoolingMode::WeightedMean, 0..3, 1),
            [(3.0 * 2.0 + 2.0 * 3.0) / 5.0, (10.0 + 1.5) / 5.0]
        );
        assert_eq!(pooled(PoolingMode::Mean, 0..2, 5), [0.0, 0.0]);
        assert_eq!(pooled(PoolingMode::LastToken, 0..2, 5), [0.0, 0.0]);
    }

    /// Every mode over rows of all lengths, with a common part as hidden states have it: sums one after another are off
    /// by 4e-5 at 8,000 tokens and 1e-4 at 32,000.
    #[test]
    fn pooling_is_exact_at_every_length() {
        let width = 24;
        for length in [
            1, 2, 31, 32, 33, 63, 64, 65, 100, 511, 512, 2048, 8000, 8192, 32_000,
        ] {
            let mut state = 0x2545_f491_4f6c_dd1d_u64;
            let states: Vec<f32> = (0..length * width)
                .map(|index| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let noise = (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0;
                    noise + (index % width) as f32 * 0.1 - 1.0
                })
                .collect();
            for excluded in [0, 1, 5] {
                for (mode, limit) in [
                    (PoolingMode::Cls, 0.0),
                    (PoolingMode::LastToken, 0.0),
                    (PoolingMode::Max, 0.0),
                    (PoolingMode::Mean, 5e-7),
                    (PoolingMode::MeanSqrtLen, 5e-7),
                    (PoolingMode::WeightedMean, 5e-7),
                ] {
                    let start = excluded.min(length);
                    let tokens = start..length;
                    let value = |token: usize, i: usize| f64::from(states[token * width + i]);
                    let weighted = |weight: &dyn Fn(usize) -> f64, i: usize| -> (f64, f64) {
                        let sum = tokens
                            .clone()
                            .map(|token| weight(token) * value(token, i))
                            .sum();
                        (sum, tokens.clone().map(weight).sum::<f64>().max(1e-9))
                    };
                    let want = |i: usize| match mode {
                        PoolingMode::Cls => value(if start < length { start } else { 0 }, i),
                        PoolingMode::LastToken if start < length => value(length - 1, i),
                        PoolingMode::LastToken => 0.0,
                        PoolingMode::Max => {
                            let values = tokens.clone().map(|token| value(token, i));
                            values.fold(f64::NEG_INFINITY, f64::max)
                        }
                        PoolingMode::WeightedMean => {
                            let (sum, weights) = weighted(&|token| (token + 1) as f64, i);
                            sum / weights
                        }
                        PoolingMode::Mean | PoolingMode::MeanSqrtLen => {
                            let (sum, count) = weighted(&|_| 1.0, i);
                            match mode {
                                PoolingMode::Mean => sum / count,
                                _ => sum / count.sqrt(),
                            }
                        }
                    };
                    let mut got = Vec::new();
                    pool_one(mode, &states, width, &(0..length), excluded, &mut got);
                    let most = (0..width)
                        .map(|i| want(i).abs())
                        .filter(|most| most.is_finite());
                    let most = most.fold(0.0, f64::max);
                    for (i, got) in got.into_iter().enumerate() {
                        let (got, want) = (f64::from(got), want(i));
                        assert!(
                            got == want || (got - want).abs() <= limit * most,
                            "{mode:?} over {length} tokens but {excluded}: {got} for {want}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn normalizing_zero_gives_zero() {
        let mut zero = [0.0, 0.0];
        normalize(&mut zero).unwrap();
        assert_eq!(zero, [0.0, 0.0]);
    }

    fn finished(steps: Vec<Step>, pooled: [f32; 2]) -> Vec<f32> {
        let pooler = Pooler {
            modes: vec![PoolingMode::Mean],
            pools: true,
            excluded: 0,
            token_steps: Vec::new().into(),
            not_last: None,
            scores: false,
            sparse: None,
            multi: None,
            steps: steps.into(),
            kept: vec![2],
            normalize_last: false,
        };
        let mut out = Vec::new();
        pooler.finish_rows(pooled.to_vec(), 1, &mut out);
        assert_eq!(out.len(), 2);
        out
    }

    #[test]
    fn several_widths_are_each_as_it_would_be_alone() {
        let states = [0.3, -0.7, 0.2, 0.9];
        for (steps, normalize_last) in [
            (vec![Step::Normalize], true),
            (vec![Step::Normalize], false),
            (Vec::new(), true),
        ] {
            let with = |kept: Vec<usize>| {
                let pooler = Pooler {
                    modes: vec![PoolingMode::Mean],
                    pools: true,
                    excluded: 0,
                    token_steps: Vec::new().into(),
                    not_last: None,
                    scores: false,
                    sparse: None,
                    multi: None,
                    steps: steps.clone().into(),
                    kept,
                    normalize_last,
                };
                let mut out = Vec::new();
                pooler.finish_rows(states.to_vec(), 1, &mut out);
                out
            };
            let alone = [vec![1], vec![3], vec![4], vec![2]].map(with);
            assert_eq!(with(vec![1, 3, 4, 2]), alone.concat());
            let length: f32 = alone[1].iter().map(|value| value * value).sum();
            assert_eq!((length - 1.0).abs() < 1e-6, normalize_last);
        }
    }

    fn dense_with(activation: DenseActivation, bias: f32) -> Step {
        Step::Dense(Dense {
            input: 2,
            output: 2,
            weight: vec![1.0, 0.0, 0.0, 1.0].into(),
            bias: vec![bias; 2],
            activation,
            residual: Residual::None,
        })
    }

    #[test]
    fn nothing_turns_nan_or_infinity_into_numbers() {
        use DenseActivation::{Gelu, Identity, Relu, Sigmoid, Silu, Tanh};
        let norm = || {
            Step::LayerNorm(LayerNorm {
                weight: vec![1.0; 2],
                bias: vec![0.0; 2],
                epsilon: 1e-5,
            })
        };
        for activation in [Identity, Tanh, Relu, Gelu, Sigmoid, Silu] {
            let after = || vec![dense_with(activation, 0.0), Step::Normalize];
            assert!(is_finite(&finished(after(), [3.0, -4.0])));
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                assert!(!is_finite(&finished(after(), [bad, 1.0])), "{bad}");
                // A text without tokens has zeros here.
                let biased = vec![dense_with(activation, bad), Step::Normalize];
                assert!(!is_finite(&finished(biased, [0.0, 0.0])), "bias {bad}");
            }
        }
        for overflowing in [[1e20, -1e20], [3e38, -3e38]] {
            assert!(!is_finite(&finished(vec![Step::Normalize], overflowing)));
            assert!(!is_finite(&finished(vec![norm()], overflowing)));
            assert!(is_finite(&finished(Vec::new(), overflowing)));
        }
        let mut out = Vec::new();
        let states = [f32::NEG_INFINITY, 1.0, 2.0, 3.0];
        pool_one(PoolingMode::Max, &states, 2, &(0..2), 0, &mut out);
        assert!(!is_finite(&out));
    }
}

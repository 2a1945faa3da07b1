//! Pooling modes: the tokens of a row that each of them takes, their weights, and the vector that they become.
//!
//! [`PoolingRule`] alone decides which tokens are pooled. The processor adds their states ([`pool_one`]); a graph multiplies
//! all states of a row by [`PoolingRule::weigh`].

use std::ops::Range;

use crate::{ModelConfig, PoolingMode};

/// Which tokens of a row are pooled, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolingRule {
    pub(super) modes: Vec<PoolingMode>,
    /// Tokens at the beginning of a row that are left out: those of the prompt.
    pub(super) excluded: usize,
    /// A token that does not count at the end of a row.
    pub(super) not_last: Option<u32>,
}

impl PoolingRule {
    /// The rule of `config`; `prompt_tokens` is the number of leading tokens that belong to the prompt, left out of pooling
    /// where the model says so.
    #[must_use]
    pub fn new(config: &ModelConfig, prompt_tokens: usize) -> Self {
        Self {
            modes: config.pooling.clone(),
            excluded: if config.include_prompt {
                0
            } else {
                prompt_tokens
            },
            not_last: config.not_last,
        }
    }

    /// The modes, whose vectors follow one another.
    #[must_use]
    pub fn modes(&self) -> &[PoolingMode] {
        &self.modes
    }

    /// The token that does not count at the end of a row, if there is one.
    #[must_use]
    pub fn not_last(&self) -> Option<u32> {
        self.not_last
    }

    /// The places of the tokens of the row `ids` that count.
    #[must_use]
    pub fn counted(&self, ids: &[u32]) -> Range<usize> {
        let counts = |id: &u32| Some(*id) != self.not_last;
        let end = match self.not_last {
            // Of a row without any other token the first one is taken.
            Some(_) => ids.iter().rposition(counts).unwrap_or(0) + 1,
            None => ids.len(),
        };
        0..end.min(ids.len())
    }

    /// Pools the states `[tokens, width]` of the row `ids`, and appends a vector for each mode to `out`.
    pub(super) fn pool(&self, states: &[f32], width: usize, ids: &[u32], out: &mut Vec<f32>) {
        self.pool_counted(states, width, &self.counted(ids), out);
    }

    /// The same of the tokens at `counted`.
    pub(super) fn pool_counted(
        &self,
        states: &[f32],
        width: usize,
        counted: &Range<usize>,
        out: &mut Vec<f32>,
    ) {
        for &mode in &self.modes {
            pool_one(mode, states, width, counted, self.excluded, out);
        }
    }

    /// Writes the weights of the tokens of the row `ids` to `out`, `[modes, length]`, of which a product with the row's states
    /// is the pooled row. For `max` the weight of each token that takes part is 1. Places behind the row have the weight 0.
    ///
    /// # Panics
    /// If `out` has no room for the row's tokens.
    pub fn weigh(&self, ids: &[u32], length: usize, out: &mut [f32]) {
        let counted = self.counted(ids);
        for (&mode, weights) in self.modes.iter().zip(out.chunks_exact_mut(length.max(1))) {
            weights.fill(0.0);
            match taken(mode, &counted, self.excluded) {
                PooledTokens::One(place) => weights[place] = 1.0,
                PooledTokens::None => {}
                PooledTokens::Greatest(tokens) => weights[tokens].fill(1.0),
                PooledTokens::Sum {
                    tokens,
                    weight,
                    divisor,
                } => {
                    for place in tokens {
                        weights[place] = weight.at(place) / divisor;
                    }
                }
            }
        }
    }
}

/// The tokens that a mode takes of a row, by their places.
enum PooledTokens {
    /// One token's state.
    One(usize),
    /// None: the vector is zero.
    None,
    /// The greatest value of each component over these.
    Greatest(Range<usize>),
    /// The weighted sum of these, divided by a number.
    Sum {
        tokens: Range<usize>,
        weight: TokenWeight,
        divisor: f32,
    },
}

/// A token's weight in a sum.
#[derive(Clone, Copy)]
enum TokenWeight {
    /// All weigh the same.
    Equal,
    /// Its number, counted from 1 at this place on.
    From(usize),
}

impl TokenWeight {
    #[allow(clippy::cast_precision_loss)] // rows are far shorter than 2^24 tokens
    fn at(self, place: usize) -> f32 {
        match self {
            Self::Equal => 1.0,
            Self::From(first) => (place - first + 1) as f32,
        }
    }
}

/// The tokens that `mode` takes of those at `real`, of which the first `excluded` are left out.
fn taken(mode: PoolingMode, real: &Range<usize>, excluded: usize) -> PooledTokens {
    let start = (real.start + excluded).min(real.end);
    let is_empty = start == real.end;
    match mode {
        // With every token excluded the reference falls back to the first one.
        PoolingMode::Cls if is_empty => PooledTokens::One(real.start),
        PoolingMode::Cls => PooledTokens::One(start),
        PoolingMode::LastToken if is_empty => PooledTokens::None,
        PoolingMode::LastToken => PooledTokens::One(real.end - 1),
        PoolingMode::Max => PooledTokens::Greatest(start..real.end),
        PoolingMode::Mean | PoolingMode::MeanSqrtLen | PoolingMode::WeightedMean => {
            let weight = match mode {
                // Weights count from the first real token, the prompt's included.
                PoolingMode::WeightedMean => TokenWeight::From(real.start),
                _ => TokenWeight::Equal,
            };
            let tokens = start..real.end;
            let sum: f64 = tokens
                .clone()
                .map(|place| f64::from(weight.at(place)))
                .sum();
            #[allow(clippy::cast_possible_truncation)] // the reference's is one of f32, too
            let sum = (sum as f32).max(1e-9);
            let divisor = match mode {
                PoolingMode::MeanSqrtLen => sum.sqrt(),
                _ => sum,
            };
            PooledTokens::Sum {
                tokens,
                weight,
                divisor,
            }
        }
    }
}

/// Pools one mode; `states` is `[length, width]`, `real` the row's real tokens; the first `excluded` of these are left
/// out. Appends `width` components to `out`.
pub(super) fn pool_one(
    mode: PoolingMode,
    states: &[f32],
    width: usize,
    real: &Range<usize>,
    excluded: usize,
    out: &mut Vec<f32>,
) {
    let token = |index: usize| &states[index * width..(index + 1) * width];
    let base = out.len();
    match taken(mode, real, excluded) {
        PooledTokens::One(place) => out.extend_from_slice(token(place)),
        PooledTokens::None => out.resize(base + width, 0.0),
        PooledTokens::Greatest(tokens) => {
            out.resize(base + width, f32::NEG_INFINITY);
            for index in tokens {
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
        PooledTokens::Sum {
            tokens,
            weight,
            divisor,
        } => {
            out.resize(base + width, 0.0);
            let weight = |index| weight.at(index);
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
    tokens: Range<usize>,
    weight: impl Fn(usize) -> f32,
    out: &mut [f32],
) {
    let add = |tokens: Range<usize>, out: &mut [f32]| {
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

//! Scaled dot-product attention of one text, all heads.
//!
//! For each head of keys, keys are transposed into panels and values copied, once ([`packing`]); then tiles of
//! queries go over them: scores, the softmax of whole rows in base 2, and the weighted sum of values.

mod packing;

use std::collections::TryReserveError;
use std::f32::consts::LOG2_E;
use std::ops::Range;

use self::packing::{pack_query, pack_weights, score_top};
use super::isa::{Arithmetic, Isa, with};
use super::lines::Lines;
use super::math::exp2_negative;
use super::simd::{MOST_LANES, Simd};
use super::tile::{Block, Dot, Floats, MOST_ROWS, Next, Pairs, Sums, multiply, split};

/// The shape of attention: what does not depend on the text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values, each shared by as many query heads as divide evenly.
    pub kv_heads: usize,
    /// Channels of a head.
    pub head_width: usize,
    /// What scores are multiplied with, usually `1 / sqrt(head_width)`.
    pub scale: f32,
    /// Which keys a query sees.
    pub sight: Sight,
}

/// Which keys a query sees: from `before` positions before its own to `after` behind, its own included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// `usize::MAX` for all.
    pub before: usize,
    /// 0 for causal attention, `usize::MAX` for all.
    pub after: usize,
}

impl Sight {
    /// Every key.
    pub const ALL: Self = Self {
        before: usize::MAX,
        after: usize::MAX,
    };
}

/// Queries, keys or values: token `i`'s heads lie side by side from `data[i * stride]` on.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Floats, of which the first belongs to the text's first token.
    pub data: &'a [f32],
    /// Floats from token to token.
    pub stride: usize,
}

/// Added to scores by how far a key stands from the query.
#[derive(Debug, Clone, Copy)]
pub struct RelativeBias<'a> {
    /// `2 * reach + 1` values for each head: that of key `k` for query `q` at `k - q + reach`.
    pub table: &'a [f32],
    /// The greatest distance in the table.
    pub reach: usize,
}

/// Room that calls share. It grows to the longest text, by itself where it was not asked to before, and then
/// allocates no more.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    keys: Lines,
    values: Lines,
    scores: Lines,
    weights: Vec<i32>,
    queries: Vec<i32>,
    /// What one step of each key's integers is worth.
    key_scales: Vec<f32>,
    /// One vector's worth of keys, transposed.
    turned: Vec<f32>,
}

impl AttentionScratch {
    /// Room for a text of `len` tokens and heads of `width` channels, in any arithmetic and any instructions.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn try_reserve(&mut self, width: usize, len: usize) -> Result<(), TryReserveError> {
        let padded = len.next_multiple_of(2 * MOST_LANES);
        let columns = width.next_multiple_of(2 * MOST_LANES);
        self.keys.try_grow(padded.saturating_mul(width))?;
        self.values.try_grow(padded.saturating_mul(columns))?;
        self.scores.try_grow(padded.saturating_mul(MOST_ROWS))?;
        try_fill(&mut self.turned, columns * MOST_LANES)?;
        try_fill(&mut self.key_scales, padded)?;
        try_fill(&mut self.queries, MOST_ROWS * width)?;
        try_fill(&mut self.weights, MOST_ROWS * SUMMED)
    }
}

/// Lengthens `list` with zeros to `len`, if it is shorter.
fn try_fill<T: Copy + Default>(list: &mut Vec<T>, len: usize) -> Result<(), TryReserveError> {
    let more = len.saturating_sub(list.len());
    list.try_reserve_exact(more)?;
    list.resize(list.len() + more, T::default());
    Ok(())
}

/// Keys whose weighted values are summed at once; even.
const SUMMED: usize = 512;

impl Attention {
    /// Attention among the `len` tokens of one text. Token `i`'s result, heads side by side, begins at
    /// `out[i * stride]`. [`Arithmetic::I8`] is computed as [`Arithmetic::I16`].
    ///
    /// # Panics
    /// `kv_heads` doesn't divide `heads`, an input or `out` is too short, the bias doesn't reach, or the system refuses
    /// memory that was not reserved.
    #[expect(
        clippy::too_many_arguments,
        reason = "three inputs, their text and where the result goes"
    )]
    pub fn run(
        &self,
        isa: Isa,
        arithmetic: Arithmetic,
        scratch: &mut AttentionScratch,
        (queries, keys, values): (Input<'_>, Input<'_>, Input<'_>),
        len: usize,
        bias: Option<RelativeBias<'_>>,
        out: &mut [f32],
        stride: usize,
    ) {
        if len == 0 {
            return;
        }
        assert!(
            self.kv_heads > 0 && self.heads.is_multiple_of(self.kv_heads),
            "query heads share key heads evenly"
        );
        assert!(self.head_width > 0, "heads of no channels");
        let check = |have: usize, stride: usize, heads: usize| {
            let width = heads * self.head_width;
            assert!(
                stride >= width && have >= (len - 1) * stride + width,
                "too few values for the tokens"
            );
        };
        check(queries.data.len(), queries.stride, self.heads);
        check(keys.data.len(), keys.stride, self.kv_heads);
        check(values.data.len(), values.stride, self.kv_heads);
        check(out.len(), stride, self.heads);
        if let Some(bias) = bias {
            assert!(bias.reach + 1 >= len, "a bias that reaches over the text");
            assert!(
                bias.table.len() >= self.heads * (2 * bias.reach + 1),
                "a bias for each head"
            );
        }
        let text = Text {
            shape: self,
            queries,
            keys,
            values,
            len,
            bias,
        };
        with!(isa, s => match arithmetic {
            Arithmetic::F32 => text.run(s, Floats, scratch, out, stride),
            Arithmetic::I16 | Arithmetic::I8 => text.run(s, Pairs, scratch, out, stride),
        });
    }
}

/// One call.
struct Text<'a> {
    shape: &'a Attention,
    queries: Input<'a>,
    keys: Input<'a>,
    values: Input<'a>,
    len: usize,
    bias: Option<RelativeBias<'a>>,
}

impl Text<'_> {
    #[inline(always)]
    fn run<S: Simd, D: Dot>(
        &self,
        s: S,
        dot: D,
        scratch: &mut AttentionScratch,
        out: &mut [f32],
        stride: usize,
    ) {
        let shape = self.shape;
        let width = shape.head_width;
        scratch
            .try_reserve(width, self.len)
            .expect("memory for the text");
        let score_top = score_top(width);
        let mut sums = Sums::new();
        for kv_head in 0..shape.kv_heads {
            self.pack_keys::<S, D>(s, kv_head, score_top, scratch);
            let value_scale = self.pack_values::<S, D>(s, kv_head, scratch);
            let group = shape.heads / shape.kv_heads;
            for head in kv_head * group..(kv_head + 1) * group {
                for (first, rows) in split(self.len, S::NARROW_ROWS) {
                    let tile = Tile {
                        head,
                        first,
                        rows,
                        value_scale,
                        score_top,
                    };
                    let out = &mut out[first * stride..];
                    self.tile(s, dot, tile, &mut sums, scratch, out, stride);
                }
            }
        }
    }

    /// Asks for a token that will be read next: tokens lie so far apart that no processor foresees them.
    #[inline(always)]
    fn ahead<S: Simd>(&self, s: S, input: &Input<'_>, token: usize, head: usize) {
        let from = token * input.stride + head * self.shape.head_width;
        s.prefetch(
            input
                .data
                .get(from..from + self.shape.head_width)
                .unwrap_or(&[]),
        );
    }

    /// A tile of queries of one head; `out` begins at its first token.
    #[expect(clippy::too_many_arguments, reason = "room that its callers share")]
    #[inline(always)]
    fn tile<S: Simd, D: Dot>(
        &self,
        s: S,
        dot: D,
        tile: Tile,
        sums: &mut Sums,
        scratch: &mut AttentionScratch,
        out: &mut [f32],
        stride: usize,
    ) {
        let Tile {
            head,
            first,
            rows,
            value_scale,
            score_top,
        } = tile;
        let width = self.shape.head_width;
        let per = D::ARITHMETIC.per_lane();
        let steps = width.div_ceil(per);
        let panel = 2 * S::LANES;
        let columns = width.next_multiple_of(panel);
        let padded = self.len.next_multiple_of(panel);

        let mut scales = [self.shape.scale; MOST_ROWS];
        for (i, to) in scratch
            .queries
            .chunks_exact_mut(steps)
            .take(rows)
            .enumerate()
        {
            self.ahead(s, &self.queries, first + rows + i, head);
            let query =
                &self.queries.data[(first + i) * self.queries.stride + head * width..][..width];
            scales[i] *= match D::ARITHMETIC {
                Arithmetic::F32 => {
                    for (to, x) in to.iter_mut().zip(query) {
                        *to = x.to_bits() as i32;
                    }
                    1.0
                }
                _ => pack_query(s, query, score_top, to),
            };
        }

        // Keys that any of these queries sees, from the start of a panel on.
        let Sight { before, after } = self.shape.sight;
        let sights: [Range<usize>; MOST_ROWS] = std::array::from_fn(|i| {
            let query = first + i;
            let end = query.saturating_add(after).saturating_add(1);
            query.saturating_sub(before)..end.min(self.len)
        });
        let start = sights[0].start / panel * panel;
        let end = sights[rows - 1].end;
        let is_biased = self.bias.is_some();
        let mut tops = [s.splat(f32::NEG_INFINITY); MOST_ROWS];
        let scores = scratch.scores.floats_mut();
        for keys in (start..end).step_by(panel) {
            let left = Block {
                data: &scratch.queries,
                stride: steps,
            };
            let right = Block {
                data: &scratch.keys.dwords()[keys * steps..],
                stride: panel,
            };
            multiply::<S, D, false>(s, dot, (rows, steps), left, right, Next::default(), sums);
            let key_scales = &scratch.key_scales[keys..][..panel];
            let all = sights[rows - 1].start <= keys && keys + panel <= sights[0].end;
            for i in 0..rows {
                let sums = sums.0[i][..panel].chunks_exact(S::LANES);
                let scores = scores[i * padded + keys..][..panel].chunks_exact_mut(S::LANES);
                let key_scales = key_scales.chunks_exact(S::LANES);
                let scale = s.splat(scales[i] * LOG2_E);
                let mut top = tops[i];
                for (j, ((sums, scores), key_scales)) in
                    sums.zip(scores).zip(key_scales).enumerate()
                {
                    let sums = s.load_i(sums);
                    let product = match D::ARITHMETIC {
                        Arithmetic::F32 => s.as_float(sums),
                        _ => s.mul(s.to_float(sums), s.load(key_scales)),
                    };
                    let key = keys + j * S::LANES;
                    let mut score = s.mul(product, scale);
                    if is_biased {
                        score = self.biased(s, score, (head, first + i, key));
                    }
                    if !all {
                        score = mask(s, score, key, &sights[i]);
                    }
                    top = s.max(top, score);
                    s.store(scores, score);
                }
                tops[i] = top;
            }
        }
        let mut top = [0.0; MOST_ROWS];
        for i in 0..rows {
            top[i] = s.greatest(tops[i]);
        }

        let mut totals = [0.0; MOST_ROWS];
        for from in (start..end).step_by(SUMMED) {
            let keys = SUMMED.min(end - from);
            let mut factors = [value_scale; MOST_ROWS];
            for i in 0..rows {
                let scores = &mut scratch.scores.floats_mut()[i * padded + from..]
                    [..keys.next_multiple_of(panel)];
                let sum = soften::<S, D>(s, scores, top[i]);
                totals[i] += sum;
                if D::ARITHMETIC != Arithmetic::F32 {
                    let to = &mut scratch.weights[i * (SUMMED / 2)..][..scores.len() / 2];
                    factors[i] *= pack_weights(s, scores, sum, to);
                }
            }
            let left = match D::ARITHMETIC {
                Arithmetic::F32 => Block {
                    data: &scratch.scores.dwords()[from..],
                    stride: padded,
                },
                _ => Block {
                    data: &scratch.weights,
                    stride: SUMMED / 2,
                },
            };
            for c in (0..columns).step_by(panel) {
                let right = Block {
                    data: &scratch.values.dwords()[from / per * columns + c..],
                    stride: columns,
                };
                multiply::<S, D, false>(
                    s,
                    dot,
                    (rows, keys.div_ceil(per)),
                    left,
                    right,
                    Next::default(),
                    sums,
                );
                for i in 0..rows {
                    let factor = s.splat(factors[i]);
                    let out = &mut out[i * stride + head * width..][..width][c..];
                    let used = out.len().min(panel);
                    let out = out[..used].chunks_mut(S::LANES);
                    for (out, sums) in out.zip(sums.0[i].chunks_exact(S::LANES)) {
                        let sums = s.load_i(sums);
                        let mut value = match D::ARITHMETIC {
                            Arithmetic::F32 => s.as_float(sums),
                            _ => s.mul(s.to_float(sums), factor),
                        };
                        if from != start {
                            value = s.add(s.load_part(out, 0.0), value);
                        }
                        if from + keys == end {
                            value = s.mul(value, s.splat(1.0 / totals[i]));
                        }
                        s.store_part(out, value);
                    }
                }
            }
        }
    }

    /// Scores in base 2 with the bias of the keys from `key` on.
    #[inline(always)]
    fn biased<S: Simd>(
        &self,
        s: S,
        score: S::F,
        (head, query, key): (usize, usize, usize),
    ) -> S::F {
        let Some(bias) = &self.bias else {
            return score;
        };
        let table = &bias.table[head * (2 * bias.reach + 1)..];
        // A key may be one of the padding, beyond the table.
        let table = table.get(key + bias.reach - query..).unwrap_or(&[]);
        s.fma(s.load_part(table, 0.0), s.splat(LOG2_E), score)
    }
}

/// Queries of one head.
#[derive(Clone, Copy)]
struct Tile {
    head: usize,
    first: usize,
    rows: usize,
    value_scale: f32,
    score_top: f32,
}

/// Scores of keys that are out of sight become minus infinity.
#[inline(always)]
fn mask<S: Simd>(s: S, score: S::F, key: usize, sight: &Range<usize>) -> S::F {
    if sight.start <= key && key + S::LANES <= sight.end {
        return score;
    }
    let (keys, never) = (
        s.add(s.iota(), s.splat(key as f32)),
        s.splat(f32::NEG_INFINITY),
    );
    let score = s.select_less(keys, s.splat(sight.end as f32), score, never);
    s.select_less(keys, s.splat(sight.start as f32), never, score)
}

/// Scores become `2^(score - top)`, or 0 where they were minus infinity; returns their sum.
#[inline(always)]
fn soften<S: Simd, D: Dot>(s: S, scores: &mut [f32], top: f32) -> f32 {
    let (zero, least, top) = (s.splat(0.0), s.splat(f32::MIN), s.splat(top));
    let coarse = D::ARITHMETIC != Arithmetic::F32;
    let mut sums = [zero; 2];
    for pair in scores.chunks_exact_mut(2 * S::LANES) {
        for (sum, x) in sums.iter_mut().zip(pair.chunks_exact_mut(S::LANES)) {
            let score = s.load(x);
            let weight = exp2_negative(s, s.sub(score, top), coarse);
            let weight = s.select_less(score, least, zero, weight);
            *sum = s.add(*sum, weight);
            s.store(x, weight);
        }
    }
    s.sum(s.add(sums[0], sums[1]))
}

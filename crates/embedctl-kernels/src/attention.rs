//! Scaled dot-product attention of one text, all heads.
//!
//! For each head of keys, keys are transposed into panels and values copied, once ([`packing`]); then tiles of
//! queries go over them: scores, the softmax of whole rows in base 2, and the weighted sum of values, a block of
//! [`SUMMED`] keys at a time.

mod packing;
mod scratch;
mod softmax;
#[cfg_attr(not(kernels = "amx"), allow(dead_code))]
mod tiles;

use std::f32::consts::LOG2_E;
use std::ops::Range;

use self::packing::{AS_IS, pack_weights, score_top};
pub use self::scratch::AttentionScratch;
use self::softmax::{Heavy, KeyWeights, SHORT, exponentiate, mask, take_heavy};
use super::amx;
use super::isa::{Isa, with, with_floats, with_tiles};
use super::math::tanh;
use super::operand::round16;
use super::rounding::part;
use super::simd::Simd;
use super::tile::{
    Block, Dot, Floats, MOST_ROWS, MOST_WIDTH, Next, Pairs, Raw, TileSums, multiply, split,
    tile_start,
};
use embedctl_common::Arithmetic;

/// The shape of attention, the same for all texts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values, each shared by as many query heads as divide evenly.
    pub kv_heads: usize,
    /// Channels of a head.
    pub head_width: usize,
    /// Factor of scores, usually `1 / sqrt(head_width)`; above zero.
    pub scale: f32,
    /// Scores become `c * tanh(score / c)`; above zero.
    pub softcap: Option<f32>,
    /// The keys that a query sees.
    pub sight: Sight,
}

/// The keys that a query sees: from `before` positions before its own to `after` behind, its own included, of the first
/// `keys` of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// `usize::MAX` for all.
    pub before: usize,
    /// 0 for causal attention, `usize::MAX` for all.
    pub after: usize,
    /// `usize::MAX` for all. Each query must see one of them.
    pub keys: usize,
}

impl Sight {
    /// Every key.
    pub const ALL: Self = Self {
        before: usize::MAX,
        after: usize::MAX,
        keys: usize::MAX,
    };
}

/// Queries, keys or values: token `i`'s heads lie side by side from `data[i * stride]` on.
#[derive(Debug, Clone, Copy)]
pub struct HeadsInput<'a> {
    /// Floats from the text's first token on.
    pub data: &'a [f32],
    /// Floats from token to token.
    pub stride: usize,
}

/// Added to scores: that of key `k` for query `q` of a head stands at `first + k + q * of_query` of the head's values.
#[derive(Debug, Clone, Copy)]
pub struct ScoreBias<'a> {
    table: &'a [f32],
    of_head: usize,
    first: usize,
    of_query: isize,
}

impl<'a> ScoreBias<'a> {
    /// By how far a key stands from the query: `2 * reach + 1` values for each head, that of key `k` for query `q` at
    /// `k - q + reach`.
    #[must_use]
    pub fn by_distance(table: &'a [f32], reach: usize) -> Self {
        Self {
            table,
            of_head: 2 * reach + 1,
            first: reach,
            of_query: -1,
        }
    }

    /// For each pair, `[heads, len, len]`.
    #[must_use]
    pub fn of_pairs(table: &'a [f32], len: usize) -> Self {
        Self {
            table,
            of_head: len * len,
            first: 0,
            of_query: len.cast_signed(),
        }
    }

    /// Whether there is a value for each pair of `len` tokens and each of `heads` heads.
    fn covers(&self, heads: usize, len: usize) -> bool {
        let last = len - 1;
        let ends = [0, last].map(|query| {
            self.first
                .checked_add_signed(self.of_query * query.cast_signed())
                .is_some_and(|first| first + last < self.of_head)
        });
        ends == [true; 2] && self.table.len() >= heads * self.of_head
    }
}

/// Keys whose weighted values are summed at once; even.
const SUMMED: usize = 512;

impl Attention {
    /// Parts of the `len` queries of a text, about `count` and nearly even, that [`Attention::run`] takes one by one.
    pub fn parts(
        isa: Isa,
        arithmetic: Arithmetic,
        len: usize,
        count: usize,
    ) -> impl Iterator<Item = Range<usize>> {
        let height = match takes_tiles(isa, arithmetic) {
            true => amx::ROWS,
            false => with_floats!(isa, s => narrow_rows(s)),
        };
        let tiles = len.div_ceil(height).max(1);
        let each = tiles.div_ceil(count.max(1));
        let start = move |tile| tile_start(len, height, tile);
        (0..tiles)
            .step_by(each)
            .map(move |tile| start(tile)..start((tile + each).min(tiles)))
    }

    /// Attention of the queries `part` to the `len` tokens of one text: all of them, or one of [`Attention::parts`]. The
    /// result of the part's query `i`, heads side by side, begins at `out[i * stride]`; it is the same bits in each part.
    /// All but [`Arithmetic::Fp32`] is computed as [`Arithmetic::Int16`]; bfloat16 is, too, unless there are tiles.
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
        (queries, keys, values): (HeadsInput<'_>, HeadsInput<'_>, HeadsInput<'_>),
        len: usize,
        part: Range<usize>,
        bias: Option<ScoreBias<'_>>,
        out: &mut [f32],
        stride: usize,
    ) {
        if part.is_empty() {
            return;
        }
        assert!(part.end <= len, "queries of the text");
        assert!(
            self.kv_heads > 0 && self.heads.is_multiple_of(self.kv_heads),
            "query heads share key heads evenly"
        );
        assert!(self.head_width > 0, "heads of no channels");
        let check = |have: usize, tokens: usize, stride: usize, heads: usize| {
            let width = heads * self.head_width;
            assert!(
                stride >= width && have >= (tokens - 1) * stride + width,
                "too few values for the tokens"
            );
        };
        check(queries.data.len(), len, queries.stride, self.heads);
        check(keys.data.len(), len, keys.stride, self.kv_heads);
        check(values.data.len(), len, values.stride, self.kv_heads);
        check(out.len(), part.len(), stride, self.heads);
        if let Some(bias) = bias {
            assert!(
                bias.covers(self.heads, len),
                "a bias for each head that reaches over the text"
            );
        }
        macro_rules! text {
            ($width:literal) => {
                Text::<$width> {
                    shape: self,
                    queries,
                    keys,
                    values,
                    len,
                    part,
                    bias,
                }
            };
        }
        if takes_tiles(isa, arithmetic) {
            let _: Option<()> = with_tiles!(isa, s, tiles => {
                text!(0).run_tiles(s, tiles, scratch, out, stride);
            });
            return;
        }
        macro_rules! run {
            ($width:literal) => {{
                let text = text!($width);
                match arithmetic {
                    Arithmetic::Fp32 => {
                        with_floats!(isa, s => text.run(s, Floats, scratch, out, stride));
                    }
                    Arithmetic::Bf16 | Arithmetic::Int16 | Arithmetic::Int8 => {
                        with!(isa, s => text.run(s, Pairs, scratch, out, stride));
                    }
                }
            }};
        }
        match self.head_width {
            32 => run!(32),
            64 => run!(64),
            _ => run!(0),
        }
    }
}

/// Whether attention is computed by tiles: in bfloat16. Integers have 16 bits, and single precision would need three times
/// as many products.
fn takes_tiles(isa: Isa, arithmetic: Arithmetic) -> bool {
    isa.has_tiles() && arithmetic == Arithmetic::Bf16
}

/// Queries of a tile at most.
#[inline(always)]
fn narrow_rows<S: Simd>(_: S) -> usize {
    S::NARROW_ROWS
}

/// One call. `WIDTH` is the channels of a head where loops over them are written out, else 0.
struct Text<'a, const WIDTH: usize> {
    shape: &'a Attention,
    queries: HeadsInput<'a>,
    keys: HeadsInput<'a>,
    values: HeadsInput<'a>,
    len: usize,
    /// The queries that are wanted.
    part: Range<usize>,
    bias: Option<ScoreBias<'a>>,
}

impl<const WIDTH: usize> Text<'_, WIDTH> {
    /// Channels of a head.
    #[inline(always)]
    fn width(&self) -> usize {
        match WIDTH {
            0 => self.shape.head_width,
            known => known,
        }
    }

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
        let width = self.width();
        scratch
            .try_reserve(width, self.len)
            .expect("memory for the text");
        let mut sums = TileSums::new();
        for kv_head in 0..shape.kv_heads {
            let key_worth = self.pack_keys::<S, D>(s, kv_head, scratch);
            let value_worth = self.pack_values::<S, D>(s, kv_head, scratch);
            let group = shape.heads / shape.kv_heads;
            for head in kv_head * group..(kv_head + 1) * group {
                let query = match D::ARITHMETIC {
                    Arithmetic::Fp32 => AS_IS,
                    _ => self.step(s, &self.queries, head, score_top(width)),
                };
                let head = QueryHead {
                    index: head,
                    kv_index: kv_head,
                    query_factor: query.factor,
                    // Scores become powers of 2.
                    score_worth: query.worth * key_worth * shape.scale * LOG2_E,
                    value_worth,
                };
                let tiles = split(self.len, S::NARROW_ROWS);
                for (first, rows) in tiles.filter(|(first, _)| self.part.contains(first)) {
                    let out = &mut out[(first - self.part.start) * stride..];
                    self.tile(
                        s,
                        dot,
                        head,
                        first..first + rows,
                        &mut sums,
                        scratch,
                        out,
                        stride,
                    );
                }
            }
        }
    }

    /// Asks for a token that will be read next: tokens lie so far apart that no processor foresees them.
    #[inline(always)]
    fn prefetch_token<S: Simd>(&self, s: S, input: &HeadsInput<'_>, token: usize, head: usize) {
        let from = token * input.stride + head * self.width();
        s.prefetch(input.data.get(from..from + self.width()).unwrap_or(&[]));
    }

    /// A tile of queries of one head; `out` begins at its first token.
    #[expect(clippy::too_many_arguments, reason = "room that its callers share")]
    #[inline(always)]
    fn tile<S: Simd, D: Dot>(
        &self,
        s: S,
        dot: D,
        head: QueryHead,
        queries: Range<usize>,
        sums: &mut TileSums,
        scratch: &mut AttentionScratch,
        out: &mut [f32],
        stride: usize,
    ) {
        let (first, rows) = (queries.start, queries.len());
        let width = self.width();
        let per = D::ARITHMETIC.per_lane();
        let steps = width.div_ceil(per);
        let panel = 2 * S::LANES;
        let columns = width.next_multiple_of(panel);
        let padded = self.len.next_multiple_of(panel);

        for (query, to) in queries.zip(scratch.queries.chunks_exact_mut(steps)) {
            self.prefetch_token(s, &self.queries, query + rows, head.index);
            let query = self.row(&self.queries, query, head.index);
            if D::ARITHMETIC == Arithmetic::Fp32 {
                for (to, x) in to.iter_mut().zip(query) {
                    *to = x.to_bits() as i32;
                }
            } else {
                round16(s, query, s.splat(head.query_factor), to);
            }
        }

        // Keys that any of these queries sees, from the start of a panel on.
        let Sight {
            before,
            after,
            keys,
        } = self.shape.sight;
        let seen = self.len.min(keys);
        let mut sights = [const { 0..0 }; MOST_ROWS];
        for (i, sight) in sights.iter_mut().enumerate() {
            let query = first + i;
            let end = query.saturating_add(after).saturating_add(1);
            *sight = query.saturating_sub(before)..end.min(seen);
        }
        let start = sights[0].start / panel * panel;
        let end = sights[rows - 1].end;

        // Scores, as the products give them, or as powers of 2 where there is a bias.
        let is_biased = self.bias.is_some() || self.shape.softcap.is_some();
        let floats = is_biased || D::ARITHMETIC == Arithmetic::Fp32;
        let worth = s.splat(head.score_worth);
        let least = match floats {
            true => s.as_int(s.splat(f32::NEG_INFINITY)),
            false => s.splat_i(i32::MIN),
        };
        let mut tops = [least; MOST_ROWS];
        let scores = scratch.scores.dwords_mut();
        for keys in (start..end).step_by(panel) {
            let left = Block {
                data: &scratch.queries,
                stride: steps,
            };
            let right = Block {
                data: &scratch.keys.dwords()[keys * steps..],
                stride: panel,
            };
            let scores = &mut scores[keys..];
            let next = Next::default();
            multiply(
                s,
                dot,
                (rows, steps),
                left,
                right,
                next,
                Raw,
                scores,
                padded,
            );
            // Where all see all, keys that fill up the last panel are the last key again, and no score is higher.
            let last = sights[0].end == self.len && !is_biased;
            let all = sights[rows - 1].start <= keys && (last || keys + panel <= sights[0].end);
            for i in 0..rows {
                let scores = scores[i * padded..][..panel].chunks_exact_mut(S::LANES);
                for (j, scores) in scores.enumerate() {
                    let key = keys + j * S::LANES;
                    let mut score = s.load_i(scores);
                    if is_biased {
                        let power = s.mul(D::value(s, score), worth);
                        score = s.as_int(self.biased(s, power, (head.index, first + i, key)));
                        s.store_i(scores, score);
                    }
                    if !all {
                        score = mask(s, score, least, key, &sights[i]);
                    }
                    tops[i] = match floats {
                        true => s.as_int(s.max(s.as_float(tops[i]), s.as_float(score))),
                        false => s.max_i(tops[i], score),
                    };
                }
            }
        }

        // Their softmax, a block of keys at a time, and the sum of values.
        let worth = if is_biased { 1.0 } else { head.score_worth };
        let mut shifts = [0.0; MOST_ROWS];
        for i in 0..rows {
            shifts[i] = -worth
                * s.greatest(match floats {
                    true => s.as_float(tops[i]),
                    false => s.to_float(tops[i]),
                });
        }
        let mut totals = [0.0; MOST_ROWS];
        for from in (start..end).step_by(SUMMED) {
            let keys = SUMMED.min(end - from);
            let is_last = from + keys == end;
            let scores = scratch.scores.floats_mut();
            let softened = keys.next_multiple_of(panel);
            let mut block_sums = [0.0; MOST_ROWS];
            for i in 0..rows {
                let scores = &mut scores[i * padded + from..][..softened];
                let power = (worth, shifts[i]);
                block_sums[i] = match floats {
                    true => exponentiate::<S, D, true>(s, scores, from, &sights[i], power),
                    false => exponentiate::<S, D, false>(s, scores, from, &sights[i], power),
                };
                totals[i] += block_sums[i];
            }
            // Factors of this block's sums and of the sums before it.
            let mut factors = [1.0; MOST_ROWS];
            let mut before = [1.0; MOST_ROWS];
            scratch.heavy.clear();
            for i in 0..rows {
                let mut divisor = 1.0;
                if D::ARITHMETIC != Arithmetic::Fp32 {
                    let scores = &mut scores[i * padded + from..][..softened];
                    // The greatest weight of a row is 1: a single block needs no look for its own.
                    let mut weights = match from == start && is_last {
                        true => KeyWeights {
                            sum: block_sums[i],
                            top: 1.0,
                        },
                        false => KeyWeights::of(s, scores),
                    };
                    let seen = sights[i].end.min(from + keys);
                    let seen = seen.saturating_sub(sights[i].start.max(from));
                    if self.len >= SHORT {
                        let place = (i, from, seen);
                        take_heavy(s, scores, &mut weights, place, &mut scratch.heavy);
                    }
                    let to = &mut scratch.weights[i * (SUMMED / 2)..][..softened / 2];
                    divisor = pack_weights(s, scores, weights, to);
                }
                if is_last {
                    divisor *= totals[i];
                    before[i] = 1.0 / totals[i];
                }
                factors[i] = head.value_worth / divisor;
            }
            let left = match D::ARITHMETIC {
                Arithmetic::Fp32 => Block {
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
                let (steps, next) = (keys.div_ceil(per), Next::default());
                let to = sums.dwords_mut();
                multiply(
                    s,
                    dot,
                    (rows, steps),
                    left,
                    right,
                    next,
                    Raw,
                    to,
                    MOST_WIDTH,
                );
                for i in 0..rows {
                    let factor = s.splat(factors[i]);
                    let out = &mut out[i * stride + head.index * width..][..width][c..];
                    let used = out.len().min(panel);
                    // Not zipped: a call to make the iterator took a twentieth of long texts' time.
                    for at in (0..used).step_by(S::LANES) {
                        let out = &mut out[at..used.min(at + S::LANES)];
                        let sums = s.load_i(&sums.0[i][at..]);
                        let mut value = s.mul(D::value(s, sums), factor);
                        if from != start {
                            value = s.fma(s.load_part(out, 0.0), s.splat(before[i]), value);
                        }
                        s.store_part(out, value);
                    }
                }
            }
            for &Heavy { row, key, weight } in &scratch.heavy {
                let out = &mut out[row * stride + head.index * width..][..width];
                let value = self.row(&self.values, key, head.kv_index);
                let weight = s.splat(weight * before[row]);
                for at in (0..width).step_by(S::LANES) {
                    let out = &mut out[at..width.min(at + S::LANES)];
                    let sum = s.fma(part(s, value, at, 0.0), weight, s.load_part(out, 0.0));
                    s.store_part(out, sum);
                }
            }
        }
    }

    /// Scores in base 2, bent and with the bias of the keys from `key` on.
    #[inline(always)]
    fn biased<S: Simd>(
        &self,
        s: S,
        score: S::F,
        (head, query, key): (usize, usize, usize),
    ) -> S::F {
        let score = match self.shape.softcap {
            None => score,
            Some(cap) => {
                let cap = cap * LOG2_E;
                s.mul(tanh(s, s.mul(score, s.splat(1.0 / cap))), s.splat(cap))
            }
        };
        let Some(bias) = &self.bias else {
            return score;
        };
        let table = &bias.table[head * bias.of_head..];
        let first = (bias.first + key).wrapping_add_signed(bias.of_query * query.cast_signed());
        // A key may be one of the padding, beyond the table.
        let table = table.get(first..).unwrap_or(&[]);
        s.fma(s.load_part(table, 0.0), s.splat(LOG2_E), score)
    }
}

/// A head of queries, and the value of its integers' steps.
#[derive(Clone, Copy)]
struct QueryHead {
    index: usize,
    /// Of its keys and values.
    kv_index: usize,
    query_factor: f32,
    /// Of a product of query and key, as a power of 2.
    score_worth: f32,
    value_worth: f32,
}

//! Attention by tiles, in bfloat16.
//!
//! Keys are a matrix of a panel for every 64 of them, values one whose inputs are keys. Blocks of 32 queries go over the
//! panels that one of them sees: scores, the softmax of whole rows in base 2, and the weighted sum of values. A key that a
//! query doesn't see has the weight 0, which changes no sum, so that results do not depend on the block.

use std::f32::consts::LOG2_E;
use std::ops::Range;

use super::super::amx::{ROWS, SIDE, SumRow, TILE, TileProduct, TileRows, Tiles, WIDTH};
use super::super::lines::floats_mut;
use super::super::rounding::bfloat16;
use super::super::simd::{MOST_LANES, Simd};
use super::super::tile::WidenedHalves;
use super::super::tile_layout::{near_line, place_in_panel};
use super::softmax::{exponentiate, mask};
use super::{AttentionScratch, Sight, Text};

/// Keys of a group: the inputs of a tile.
const GROUP: usize = 2 * SIDE;

impl<const KNOWN: usize> Text<'_, KNOWN> {
    /// All heads.
    #[inline(always)]
    pub(super) fn run_tiles<S: Simd, T: Tiles>(
        &self,
        s: S,
        tiles: T,
        scratch: &mut AttentionScratch,
        out: &mut [f32],
        stride: usize,
    ) {
        let shape = self.shape;
        scratch
            .try_reserve(shape.head_width, self.len)
            .expect("memory for the text");
        let configured = tiles.configure(ROWS);
        let multiply = |rows: TileRows<'_>, sums: &mut [SumRow]| {
            tiles.multiply(&configured, TileProduct::Halves, rows, sums);
        };
        let group = shape.heads / shape.kv_heads;
        for kv_head in 0..shape.kv_heads {
            self.lay_keys(s, kv_head, scratch);
            self.lay_values(kv_head, scratch);
            for head in kv_head * group..(kv_head + 1) * group {
                for first in self.part.clone().step_by(ROWS) {
                    let queries = first..self.part.end.min(first + ROWS);
                    let out = &mut out[(first - self.part.start) * stride..];
                    self.block(s, head, queries, multiply, scratch, out, stride);
                }
            }
        }
    }

    /// Keys in panels, a column each; those beyond the last are zero.
    #[inline(always)]
    fn lay_keys<S: Simd>(&self, s: S, head: usize, scratch: &mut AttentionScratch) {
        let groups = self.shape.head_width.div_ceil(GROUP);
        let panels = scratch
            .keys
            .dwords_mut()
            .chunks_exact_mut(groups * SIDE * WIDTH);
        for (first, panel) in (0..self.len).step_by(WIDTH).zip(panels) {
            let columns = WIDTH.min((self.len - first).next_multiple_of(GROUP));
            for column in (0..columns).step_by(SIDE) {
                for group in 0..groups {
                    // Lines of sixteen keys, then their transposed tile.
                    let mut block = [[0; SIDE]; SIDE];
                    let keys = self.len.saturating_sub(first + column);
                    for (key, line) in block.iter_mut().enumerate().take(keys) {
                        let token = first + column + key;
                        self.prefetch_token(s, &self.keys, token + SIDE, head);
                        *line = near_line(&self.row(&self.keys, token, head)[group * GROUP..]);
                    }
                    let at = place_in_panel(groups * SIDE, group * SIDE, column);
                    transpose(s, &block, &mut panel[at..]);
                }
            }
        }
    }

    /// Values, two keys to a dword, in a panel for every 64 channels; those beyond the last key are zero.
    #[inline(always)]
    fn lay_values(&self, head: usize, scratch: &mut AttentionScratch) {
        let width = self.shape.head_width;
        let rows = self.len.next_multiple_of(GROUP) / 2;
        let panels = scratch.values.dwords_mut().chunks_exact_mut(rows * WIDTH);
        for (first, panel) in (0..width).step_by(WIDTH).zip(panels) {
            let channels = first..width.min(first + WIDTH);
            let used = channels.len().next_multiple_of(GROUP);
            for pair in 0..rows {
                let mut both = [[0.0_f32; WIDTH]; 2];
                for (key, to) in (2 * pair..self.len).zip(&mut both) {
                    let row = self.row(&self.values, key, head);
                    to[..channels.len()].copy_from_slice(&row[channels.clone()]);
                }
                for from in (0..used).step_by(SIDE) {
                    let to = &mut panel[place_in_panel(rows, pair, from)..][..SIDE];
                    for (to, channel) in to.iter_mut().zip(from..) {
                        let [even, odd] = [both[0][channel], both[1][channel]].map(
                            #[inline(always)]
                            |value| u32::from(bfloat16(value).cast_unsigned()),
                        );
                        *to = (even | odd << 16).cast_signed();
                    }
                }
            }
        }
    }

    /// A block of queries of one head; `out` begins at its first token.
    #[expect(clippy::too_many_arguments, reason = "room that its callers share")]
    #[inline(always)]
    fn block<S: Simd>(
        &self,
        s: S,
        head: usize,
        queries: Range<usize>,
        multiply: impl Fn(TileRows<'_>, &mut [SumRow]),
        scratch: &mut AttentionScratch,
        out: &mut [f32],
        stride: usize,
    ) {
        let (first, rows) = (queries.start, queries.len());
        let width = self.shape.head_width;
        let groups = width.div_ceil(GROUP);
        let steps = groups * SIDE;
        let AttentionScratch {
            keys,
            values,
            scores,
            query_tiles,
            weight_tiles,
            ..
        } = scratch;
        for (row, query) in queries.enumerate() {
            self.prefetch_token(s, &self.queries, query + 1, head);
            let query = self.row(&self.queries, query, head);
            let at = row / SIDE * SIDE * steps + row % SIDE * SIDE;
            for (group, floats) in query.chunks(GROUP).enumerate() {
                let to = &mut query_tiles.dwords_mut()[at + group * TILE..];
                to[..SIDE].copy_from_slice(&near_line(floats));
            }
        }

        // Panels of keys that one of these queries sees.
        let Sight {
            before,
            after,
            keys: seen,
        } = self.shape.sight;
        let seen = self.len.min(seen);
        let sight = |row: usize| -> Range<usize> {
            let query = first + row;
            let end = query.saturating_add(after).saturating_add(1);
            query.saturating_sub(before).min(seen)..end.min(seen)
        };
        let start = sight(0).start / WIDTH * WIDTH;
        let end = sight(rows - 1).end;
        let is_biased = self.bias.is_some() || self.shape.softcap.is_some();
        let scores = scores.dwords_mut().as_chunks_mut::<WIDTH>().0;
        // Columns of a panel's keys from `key` on.
        let columns = |key: usize| WIDTH.min((end - key).next_multiple_of(GROUP));
        let row_of = |row: usize, key: usize| (key - start) / WIDTH * ROWS + row;
        let worth = s.splat(self.shape.scale * LOG2_E);
        let mut tops = [s.splat(f32::NEG_INFINITY); ROWS];
        for key in (start..end).step_by(WIDTH) {
            let own = &mut scores[row_of(0, key)..][..ROWS];
            let operands = TileRows {
                left: query_tiles.dwords(),
                tile: SIDE * steps,
                rows,
                right: &keys.dwords()[key * steps..][..WIDTH * steps],
                half: WIDTH / 2 * steps,
                groups,
                columns: columns(key),
                adds: false,
                ahead: (std::ptr::null(), 0),
            };
            multiply(operands, own);
            for (row, scores) in own[..rows].iter_mut().enumerate() {
                let sight = sight(row);
                let all = sight.start <= key && key + columns(key) <= sight.end;
                for at in (0..columns(key)).step_by(S::LANES) {
                    let mut score = s.load_i(&scores[at..]);
                    if is_biased {
                        let power = s.mul(s.as_float(score), worth);
                        let place = (head, first + row, key + at);
                        score = s.as_int(self.biased(s, power, place));
                        s.store_i(&mut scores[at..], score);
                    }
                    if !all {
                        let none = s.as_int(s.splat(f32::NEG_INFINITY));
                        score = mask(s, score, none, key + at, &sight);
                    }
                    tops[row] = s.max(tops[row], s.as_float(score));
                }
            }
        }

        // Their softmax, as tiles.
        let worth = if is_biased {
            1.0
        } else {
            self.shape.scale * LOG2_E
        };
        let groups = (end - start).div_ceil(GROUP);
        let tile = groups * TILE;
        let weights = weight_tiles.dwords_mut();
        let mut factors = [0.0_f32; ROWS];
        for row in 0..rows {
            let power = (worth, -worth * s.greatest(tops[row]));
            let mut total = 0.0;
            for key in (start..end).step_by(WIDTH) {
                let own = &mut scores[row_of(row, key)][..columns(key)];
                let own = floats_mut(own);
                total += exponentiate::<S, WidenedHalves, true>(s, own, key, &sight(row), power);
                for (number, group) in own.chunks_exact(GROUP).enumerate() {
                    let group_at = (key - start) / GROUP + number;
                    let at = row / SIDE * tile + group_at * TILE + row % SIDE * SIDE;
                    weights[at..][..SIDE].copy_from_slice(&near_line(group));
                }
            }
            factors[row] = 1.0 / total;
        }

        // The sum of values.
        let mut sums = [[0; WIDTH]; ROWS];
        let of_panel = self.len.div_ceil(GROUP) * SIDE * WIDTH;
        for channel in (0..width).step_by(WIDTH) {
            let panel = &values.dwords()[channel / WIDTH * of_panel..][..of_panel];
            let operands = TileRows {
                left: weights,
                tile,
                rows,
                right: &panel[start / GROUP * 2 * TILE..],
                half: of_panel / 2,
                groups,
                columns: WIDTH.min(width - channel),
                adds: false,
                ahead: (std::ptr::null(), 0),
            };
            multiply(operands, &mut sums);
            for (row, sums) in sums[..rows].iter().enumerate() {
                let out = &mut out[row * stride + head * width..][..width][channel..];
                let used = out.len().min(WIDTH);
                let factor = s.splat(factors[row]);
                for at in (0..used).step_by(S::LANES) {
                    let sums = s.as_float(s.load_i(&sums[at..]));
                    s.store_part(&mut out[at..used.min(at + S::LANES)], s.mul(sums, factor));
                }
            }
        }
    }
}

/// Sixteen lines become the columns of a tile.
#[inline(always)]
fn transpose<S: Simd>(s: S, block: &[[i32; SIDE]; SIDE], to: &mut [i32]) {
    for row in (0..SIDE).step_by(S::LANES) {
        for column in (0..SIDE).step_by(S::LANES) {
            let mut part = [s.splat(0.0); MOST_LANES];
            for i in 0..S::LANES {
                part[i] = s.as_float(s.load_i(&block[row + i][column..]));
            }
            s.transpose(&mut part);
            for i in 0..S::LANES {
                s.store_i(&mut to[(column + i) * SIDE + row..], s.as_int(part[i]));
            }
        }
    }
}

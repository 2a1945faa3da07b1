//! Goes over the panels of a matrix and the rows of an operand, and finishes the sums of their tiles.

use std::mem::MaybeUninit;

use super::amx::{ROWS, SIDE, SumRow, TILE, TileProduct, TileRows, Tiles, WIDTH};
use super::linear::{Call, PackedColumns, ProductFinish, Scaled};
use super::lines::dwords_mut;
use super::simd::Simd;
use super::tile::{Dot, Floats, LINE, Pairs, Quads, TileEnd, put};
use super::tile_layout::BYTE_STEPS;
use embedctl_common::Arithmetic;

/// Bytes of a panel that are multiplied by all rows before the next ones: they stay in a core's second level of cache.
const PANEL_BYTES: usize = 128 << 10;

/// Parts of sums at most.
const PARTS: usize = 3;

/// Rows whose sums wait where a panel is multiplied in parts; more than a block of rows has with all parts and the whole.
const WAITING: usize = 5 * ROWS;
const _: () = assert!(WAITING > PARTS * ROWS);

/// Vectors of a row of sums at most.
const VECTORS: usize = 8;

/// Sums of rows, of which no more are cleared than are used.
#[repr(align(64))]
struct SumRoom([MaybeUninit<SumRow>; WAITING]);

impl SumRoom {
    /// The first `rows` rows, cleared.
    #[inline(always)]
    fn first(&mut self, rows: usize) -> &mut [SumRow] {
        let rows = &mut self.0[..rows];
        for row in &mut *rows {
            row.write([0; WIDTH]);
        }
        // SAFETY: each of these rows was written.
        unsafe { &mut *(&raw mut *rows as *mut [SumRow]) }
    }
}

/// The next panel, asked for meanwhile: the next line, and how many at a time ([`TileRows::ahead`]).
struct Ahead {
    next: *const i32,
    lines: usize,
}

impl Ahead {
    /// The lines for `groups` groups of so many rows.
    #[inline(always)]
    fn take(&mut self, rows: usize, groups: usize) -> (*const i32, usize) {
        let halves = if rows > SIDE { 2 } else { 1 };
        let own = self.next;
        self.next = own.wrapping_add(self.lines * groups * halves * LINE);
        (own, self.lines)
    }
}

impl Call<'_> {
    /// Multiplies all rows by all wanted panels, by tiles.
    #[inline(always)]
    pub(super) fn run_tiles<S: Simd, T: Tiles>(
        &self,
        s: S,
        tiles: T,
        out: &mut [f32],
        stride: usize,
    ) {
        let layout = self.matrix.tiles().expect("a matrix in tiles");
        let (products, [left_planes, planes]) = (layout.products(), layout.planes());
        let [left_steps, steps] = layout.dwords();
        let has_parts = products.len() > 1;
        let per_panel = match self.matrix.gated() {
            true => WIDTH / 2,
            false => WIDTH,
        };
        let passes_on = matches!(self.finish, ProductFinish::Store | ProductFinish::Add);
        // The first row's tile may begin before it.
        let start = self.rows.start / SIDE * SIDE;
        let rows = self.rows.end - start;
        let at_once = PANEL_BYTES / (planes * SIDE * WIDTH * 4);
        let height = match layout.groups > at_once && !has_parts {
            true => WAITING,
            false => ROWS,
        };
        let halves = rows / ROWS * 2 + (rows % ROWS).div_ceil(SIDE);
        let lines = (steps * WIDTH / LINE).div_ceil(layout.groups * halves * products.len());
        let mut room = SumRoom([const { MaybeUninit::uninit() }; WAITING]);
        let sums = room.first(match has_parts {
            true => WAITING,
            false => height.min(rows.next_multiple_of(SIDE)),
        });
        let configured = tiles.configure(rows);
        let panels = self.matrix.data().chunks_exact(WIDTH * steps).enumerate();
        for (panel, data) in panels.skip(self.part.start / per_panel) {
            let left = self.part.end.saturating_sub(panel * per_panel);
            if left == 0 {
                break;
            }
            let outputs = left.min(per_panel);
            let first = panel * per_panel - self.part.start;
            let columns = PackedColumns::of(self.matrix, panel * WIDTH, WIDTH);
            let mut ahead = Ahead {
                next: data.as_ptr_range().end,
                lines,
            };
            let direct = passes_on && outputs == WIDTH;
            for from in (0..rows).step_by(height) {
                let count = height.min(rows - from);
                let skipped = self.rows.start.saturating_sub(start + from);
                let row = (start + from + skipped) - self.rows.start;
                let out = &mut out[row * stride + first..];
                let scaled = |columns, add| Scaled {
                    scales: self.scales.get(self.rows.start + row..).unwrap_or(&[]),
                    bases: self.bases.get(self.rows.start + row..).unwrap_or(&[]),
                    columns,
                    add,
                };
                let adds = self.finish == ProductFinish::Add && direct;
                let mut multiply = |product: TileProduct,
                                    rows: (usize, usize),
                                    groups: (usize, usize),
                                    adds,
                                    sums: &mut [SumRow]| {
                    let tile = (start + from + rows.0) / SIDE;
                    let left = tile * SIDE * left_steps + groups.0 * left_planes * TILE;
                    let rows = TileRows {
                        left: &self.left.data[left..],
                        tile: SIDE * left_steps,
                        rows: rows.1,
                        right: &data[groups.0 * planes * 2 * TILE..],
                        half: steps * WIDTH / 2,
                        groups: groups.1,
                        columns: WIDTH,
                        adds,
                        ahead: ahead.take(rows.1, groups.1),
                    };
                    tiles.multiply(&configured, product, rows, sums);
                };
                if has_parts {
                    let (sums, parts) = sums.split_at_mut(ROWS);
                    for group in (0..layout.groups).step_by(layout.block) {
                        let groups = (group, layout.block);
                        for (product, sums) in products.iter().zip(parts.chunks_mut(ROWS)) {
                            multiply(*product, (0, count), groups, false, sums);
                        }
                        let columns = match group {
                            0 => columns,
                            _ => columns.without_bias(),
                        };
                        let end = scaled(columns, group > 0 || adds);
                        let mut own: [&[SumRow]; PARTS] = [&[]; PARTS];
                        for (part, own) in own.iter_mut().enumerate() {
                            *own = &parts[part * ROWS..][skipped..count];
                        }
                        let to = match direct {
                            true => (dwords_mut(&mut *out), stride),
                            false => (sums[skipped..].as_flattened_mut(), WIDTH),
                        };
                        match self.matrix.arithmetic() {
                            Arithmetic::Int16 => end_parts::<S, Pairs>(s, end, own, to),
                            _ => end_parts::<S, Floats>(s, end, own, to),
                        }
                    }
                } else {
                    for group in (0..layout.groups).step_by(at_once) {
                        let groups = (group, at_once.min(layout.groups - group));
                        for rows in (0..count).step_by(ROWS) {
                            let count = ROWS.min(count - rows);
                            multiply(
                                products[0],
                                (rows, count),
                                groups,
                                group > 0,
                                &mut sums[rows..],
                            );
                        }
                    }
                    let end = scaled(columns, adds);
                    let sums = &mut sums[skipped..count];
                    let to = direct.then_some((dwords_mut(&mut *out), stride));
                    match self.matrix.arithmetic() {
                        Arithmetic::Int8 => end_rows::<S, Quads>(s, end, sums, to),
                        _ => end_rows::<S, Floats>(s, end, sums, to),
                    }
                }
                if !direct {
                    let coarse = self.matrix.arithmetic() != Arithmetic::Fp32;
                    let rows = sums[skipped..count].iter().zip(out.chunks_mut(stride));
                    s.enter(
                        #[inline(always)]
                        || self.finish(s, coarse, rows, (WIDTH, outputs)),
                    );
                }
            }
        }
    }
}

/// The values of a panel's columns that rows share.
#[inline(always)]
fn shared<S: Simd>(s: S, end: Scaled<'_>) -> [[S::F; 3]; VECTORS] {
    let mut columns = [[s.splat(0.0); 3]; VECTORS];
    for (vector, column) in columns.iter_mut().enumerate().take(WIDTH / S::LANES) {
        *column = end.column(s, vector);
    }
    columns
}

/// Scales sums, and stores them to rows of dwords a stride apart, or in place.
#[inline(always)]
fn end_rows<S: Simd, D: Dot>(
    s: S,
    end: Scaled<'_>,
    sums: &mut [SumRow],
    to: Option<(&mut [i32], usize)>,
) {
    let columns = shared(s, end);
    let rows = sums.len();
    let from = sums.as_flattened_mut().as_mut_ptr();
    let (out, stride) = match to {
        Some((out, stride)) => {
            assert!(stride >= WIDTH && out.len() >= (rows - 1) * stride + WIDTH);
            (out.as_mut_ptr(), stride)
        }
        None => (from, WIDTH),
    };
    for row in 0..rows {
        for vector in 0..WIDTH / S::LANES {
            let at = vector * S::LANES;
            // SAFETY: a vector of row `row` of the sums, and of the result, which was asserted to be as long.
            unsafe {
                let sums = s.load_at(from.wrapping_add(row * WIDTH + at));
                let value = end.end::<S, D>(s, columns[vector % VECTORS], row, sums);
                put(s, end, value, out.wrapping_add(row * stride + at));
            }
        }
    }
}

/// The same for sums in parts. Of 16-bit integers: of upper bytes, of upper by lower ones, and of lower bytes. Of numbers in
/// single precision: of the greatest products of bytes, of those less by [`BYTE_STEPS`], and of those less by it again.
#[inline(always)]
fn end_parts<S: Simd, D: Dot>(
    s: S,
    end: Scaled<'_>,
    parts: [&[SumRow]; PARTS],
    (to, stride): (&mut [i32], usize),
) {
    let columns = shared(s, end);
    for row in 0..parts[0].len() {
        let to = &mut to[row * stride..][..WIDTH];
        for vector in 0..WIDTH / S::LANES {
            let at = vector * S::LANES;
            let [upper, cross, lower] = parts.map(
                #[inline(always)]
                |part| s.load_i(&part[row][at..]),
            );
            let columns = columns[vector % VECTORS];
            let value = if D::ARITHMETIC == Arithmetic::Int16 {
                let sums = s.join_bytes(upper, cross, lower);
                end.end::<S, Pairs>(s, columns, row, sums)
            } else {
                let part = s.splat(1.0 / BYTE_STEPS);
                let sums = s.fma(s.to_float(lower), part, s.to_float(cross));
                let sums = s.fma(sums, part, s.to_float(upper));
                end.of_steps(s, columns, row, sums)
            };
            // SAFETY: a vector of the row.
            unsafe { put(s, end, value, to[at..].as_mut_ptr()) };
        }
    }
}

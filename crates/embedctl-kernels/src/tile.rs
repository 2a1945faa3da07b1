//! The one inner loop of all products: a tile of rows by vectors, one dword of the left side at a time.

use super::simd::Simd;
use super::tile_pairs::tile_pairs;
pub(super) use super::tile_parts::{
    Block, Dot, Floats, LINE, MOST_ROWS, MOST_WIDTH, Next, Pairs, Quads, RUN, Raw, TileEnd,
    TileSums, WidenedHalves, put,
};
use embedctl_common::Arithmetic;

#[cfg(kernels = "avx512")]
pub(super) use super::tile_parts::Halves;

/// Whether tiles are multiplied by blocks of two rows, two columns and two dwords ([`tile_pairs`]).
pub(super) const fn multiplies_blocks<S: Simd, D: Dot>() -> bool {
    S::MULTIPLIES_BLOCKS && matches!(D::ARITHMETIC, Arithmetic::Int8)
}

/// Ends with `sums[i] = sum over k < steps of a[i][k] * b[k]`, for `rows` rows of `a` (at most `S::NARROW_ROWS`, or
/// `S::ROWS` if wide) and, of each row of `b`, `S::PANEL` vectors if `E::WIDE`, else two; row `i` goes to `out[i *
/// stride]`. Each sum is accumulated in the order of `k` for every shape of tile.
#[expect(
    clippy::too_many_arguments,
    reason = "two sides, their end and its place"
)]
#[inline(always)]
pub(super) fn multiply<S: Simd, D: Dot, E: TileEnd>(
    s: S,
    dot: D,
    size: (usize, usize),
    a: Block<'_>,
    b: Block<'_>,
    next: Next,
    end: E,
    out: &mut [i32],
    stride: usize,
) {
    match const { multiplies_blocks::<S, D>() } {
        true => multiply_by::<S, D, E, true>(s, dot, size, a, b, next, end, out, stride),
        false => multiply_by::<S, D, E, false>(s, dot, size, a, b, next, end, out, stride),
    }
}

/// [`multiply`] by blocks or dword by dword, which gives the same integers.
#[expect(clippy::too_many_arguments, reason = "as `multiply`")]
#[inline(always)]
pub(super) fn multiply_by<S: Simd, D: Dot, E: TileEnd, const BLOCKS: bool>(
    s: S,
    _: D,
    (rows, steps): (usize, usize),
    a: Block<'_>,
    b: Block<'_>,
    next: Next,
    end: E,
    out: &mut [i32],
    stride: usize,
) {
    let vectors = if E::WIDE { S::PANEL } else { 2 };
    assert!(rows > 0 && steps > 0 && rows <= if E::WIDE { S::ROWS } else { S::NARROW_ROWS });
    // Strides and steps whose products don't overflow.
    assert!((steps | stride | a.stride | b.stride) < 1 << (usize::BITS / 2 - 1));
    assert!(out.len() >= (rows - 1) * stride + vectors * S::LANES);
    assert!(a.data.len() >= (rows - 1) * a.stride + steps);
    assert!(b.data.len() >= (steps - 1) * b.stride + vectors * S::LANES);
    macro_rules! tiles {
        ($vectors:literal: $($rows:literal)*) => {
            match rows {
                $($rows => {
                    // SAFETY: asserted above: `a` and `out` hold `rows` rows and `b` holds `steps` rows, as far as they
                    // are used.
                    unsafe {
                        if BLOCKS {
                            tile_pairs::<S, D, E, $rows, $vectors>(s, steps, a, b, next, end, out, stride)
                        } else {
                            tile::<S, D, E, $rows, $vectors>(s, steps, a, b, next, end, out, stride)
                        }
                    }
                })*
                _ => unreachable!("no more rows than asserted"),
            }
        };
    }
    // A function of its own, so that it is compiled once for all its callers.
    s.enter(
        #[inline(always)]
        || match (E::WIDE && S::PANEL == 4, S::NARROW_ROWS) {
            (true, _) => tiles!(4: 1 2 3 4 5 6),
            (false, 4) => tiles!(2: 1 2 3 4),
            (false, 6) => tiles!(2: 1 2 3 4 5 6),
            (false, _) => tiles!(2: 1 2 3 4 5 6 7 8 9 10 11 12),
        },
    );
}

/// # Safety
/// `a` must hold `ROWS` rows of `steps` dwords, `b` `steps` and `out` `ROWS` rows of `VECTORS` vectors, each by its
/// stride, and `steps` must not be 0.
// Indices, not iterators: a closure that is not inlined would lack the vectors' instructions.
#[expect(clippy::too_many_arguments, reason = "as `multiply`")]
#[inline(always)]
unsafe fn tile<S: Simd, D: Dot, E: TileEnd, const ROWS: usize, const VECTORS: usize>(
    s: S,
    steps: usize,
    a: Block<'_>,
    b: Block<'_>,
    next: Next,
    end: E,
    out: &mut [i32],
    stride: usize,
) {
    let mut acc = [[s.splat_i(0); VECTORS]; ROWS];
    // Three rows share a pointer: a processor adds the stride once or twice for nothing, and twelve pointers
    // would not fit its registers.
    let (left, mut right) = (a.data.as_ptr(), b.data.as_ptr());
    let third = |third: usize| left.wrapping_add(third * 3 * a.stride);
    let mut thirds = [third(0), third(1), third(2), third(3)];
    // Written out: sums that a loop indexes would lie in memory.
    macro_rules! dots {
        ($columns:ident, $ahead:literal, $i:literal: $($j:literal)*) => {
            if $i < ROWS {
                // SAFETY: a dword of row `i` of `a`: the caller vouches for it.
                let value = s.splat_i(unsafe {
                    *thirds[$i / 3].wrapping_add($i % 3 * a.stride).wrapping_add($ahead)
                });
                $(if $j < VECTORS {
                    acc[$i % ROWS][$j % VECTORS] =
                        D::dot(s, acc[$i % ROWS][$j % VECTORS], value, $columns[$j % VECTORS]);
                })*
            }
        };
    }
    macro_rules! step {
        ($ahead:literal: $($i:literal)*) => {
            let mut columns = [s.splat_i(0); VECTORS];
            for j in 0..VECTORS {
                // SAFETY: a row of `b`, vector `j` of it: the caller vouches for both.
                columns[j] = unsafe {
                    s.load_at(right.wrapping_add($ahead * b.stride + j * S::LANES))
                };
            }
            $(dots!(columns, $ahead, $i: 0 1 2 3);)*
        };
    }
    let mut ahead = right.wrapping_add(next.at);
    let mut left_over = steps;
    while left_over > 0 {
        for _ in 0..next.lines {
            s.prefetch_far(ahead);
            ahead = ahead.wrapping_add(LINE);
        }
        let run = left_over.min(RUN);
        left_over -= run;
        // Two steps at a time where sums and both steps' columns fit the registers.
        let pairs = if ROWS * VECTORS <= 12 { run / 2 } else { 0 };
        for _ in 0..pairs {
            step!(0: 0 1 2 3 4 5 6 7 8 9 10 11);
            step!(1: 0 1 2 3 4 5 6 7 8 9 10 11);
            right = right.wrapping_add(2 * b.stride);
            for third in &mut thirds[..ROWS.div_ceil(3)] {
                *third = third.wrapping_add(2);
            }
        }
        for _ in 2 * pairs..run {
            step!(0: 0 1 2 3 4 5 6 7 8 9 10 11);
            right = right.wrapping_add(b.stride);
            for third in &mut thirds[..ROWS.div_ceil(3)] {
                *third = third.wrapping_add(1);
            }
        }
    }
    // Vector by vector: the values that its rows share are loaded once.
    let (end, out) = (end.of::<S, D>(ROWS), out.as_mut_ptr());
    macro_rules! ends {
        ($j:literal: $($i:literal)*) => {
            if $j < VECTORS {
                let column = end.column(s, $j);
                $(if $i < ROWS {
                    let to = out.wrapping_add($i * stride + $j * S::LANES);
                    let value = end.end::<S, D>(s, column, $i, acc[$i % ROWS][$j % VECTORS]);
                    // SAFETY: a vector of row `i` of `out`: the caller vouches for it.
                    unsafe { put(s, end, value, to) };
                })*
            }
        };
    }
    ends!(0: 0 1 2 3 4 5 6 7 8 9 10 11);
    ends!(1: 0 1 2 3 4 5 6 7 8 9 10 11);
    ends!(2: 0 1 2 3 4 5 6 7 8 9 10 11);
    ends!(3: 0 1 2 3 4 5 6 7 8 9 10 11);
}

/// Splits `rows` rows into tiles of nearly equal height, none above `most`: a tile of one row would wait for
/// its own sums at every step.
#[inline(always)]
pub(super) fn split(rows: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let tiles = rows.div_ceil(most).max(1);
    let (each, longer) = (rows / tiles, rows % tiles);
    (0..tiles).map(move |i| (i * each + i.min(longer), each + usize::from(i < longer)))
}

/// The first row of tile `tile` of these; with the number of tiles, the end of the last one.
pub(super) fn tile_start(rows: usize, most: usize, tile: usize) -> usize {
    let tiles = rows.div_ceil(most).max(1);
    tile * (rows / tiles) + tile.min(rows % tiles)
}

/// `with_bf16!(isa, simd, halves => work)`: evaluates `work` compiled for the instructions that multiply bfloat16, as
/// `Some`; `None` where `isa` has none ([`Isa::multiplies_bf16`](super::isa::Isa::multiplies_bf16)).
macro_rules! with_bf16 {
    ($isa:expr, $simd:ident, $halves:ident => $work:expr) => {{
        #[cfg(kernels = "avx512")]
        {
            use $crate::simd::Simd;
            $isa.multiplies_bf16().then(|| {
                // SAFETY: only AVX-512 has them, and the processor was asked.
                let ($simd, $halves) = unsafe {
                    (
                        $crate::simd::avx512::Avx512::new(),
                        $crate::tile::Halves::new(),
                    )
                };
                $simd.enter(
                    #[inline(always)]
                    || $work,
                )
            })
        }
        #[cfg(not(kernels = "avx512"))]
        {
            let _ = $isa;
            None
        }
    }};
}
pub(crate) use with_bf16;

//! The inner loop of 8-bit products by blocks: one instruction multiplies two rows by two columns over two steps.
//!
//! Rows and panels lie as for [`tile`](super::tile). A vector of a panel's row has a quad of each of four columns (and of
//! each further four, where it has more lanes). Interleaved with the vector of the next step it gives the blocks of columns
//! 0 and 1 and of columns 2 and 3:
//!
//! ```text
//!  step k      c0 c1 c2 c3 ─┐   c0 c0' c1 c1'  ─► sums of rows 0 and 1:  r0c0 r0c1 r1c0 r1c1
//!  step k + 1  c0'c1'c2'c3'─┴─► c2 c2' c3 c3'  ─►                        r0c2 r0c3 r1c2 r1c3
//! ```
//!
//! A last row without another is paired with itself, and a last step without another with zeros.

use super::simd::Simd;
use super::tile_parts::{Block, Dot, LINE, MOST_ROWS, Next, RUN, TileEnd, put};

/// Steps are paired within a run.
const _: () = assert!(RUN.is_multiple_of(2));

/// As [`tile`](super::tile::multiply) with 8-bit quads, whose sums are the same integers.
///
/// # Safety
/// `a` must hold `ROWS` rows of `steps` dwords, `b` `steps` and `out` `ROWS` rows of `VECTORS` vectors, each by its
/// stride, and `steps` must not be 0.
#[expect(clippy::too_many_arguments, reason = "as `multiply`")]
#[inline(always)]
pub(super) unsafe fn tile_pairs<
    S: Simd,
    D: Dot,
    E: TileEnd,
    const ROWS: usize,
    const VECTORS: usize,
>(
    s: S,
    steps: usize,
    a: Block<'_>,
    b: Block<'_>,
    next: Next,
    end: E,
    out: &mut [i32],
    stride: usize,
) {
    // Of each pair of rows and each vector, the sums of its columns 0 and 1, and those of its columns 2 and 3.
    let mut acc = [[[s.splat_i(0); 2]; VECTORS]; MOST_ROWS / 2];
    // Three rows share a pointer, as in `tile`.
    let (left, mut right) = (a.data.as_ptr(), b.data.as_ptr());
    let third = |third: usize| left.wrapping_add(third * 3 * a.stride);
    let mut thirds = [third(0), third(1), third(2), third(3)];
    macro_rules! row {
        ($i:expr) => {
            thirds[$i / 3].wrapping_add($i % 3 * a.stride)
        };
    }
    // The other row of a pair.
    macro_rules! other {
        ($pair:literal) => {
            if 2 * $pair + 1 < ROWS {
                2 * $pair + 1
            } else {
                2 * $pair
            }
        };
    }
    // Written out, as in `tile`: sums that a loop indexes would lie in memory.
    macro_rules! dots {
        ($blocks:ident, $paired:literal, $j:literal, $($pair:literal)*) => {
            if $j < VECTORS {
                // SAFETY: vector `j` of a row of `b`, which the caller vouches for.
                let this = unsafe { s.load_at(right.wrapping_add($j * S::LANES)) };
                let then = if $paired {
                    // SAFETY: vector `j` of the next row of `b`, which there is where rows are paired.
                    unsafe { s.load_at(right.wrapping_add(b.stride + $j * S::LANES)) }
                } else {
                    s.splat_i(0)
                };
                let [low, high] = s.interleave(this, then);
                $(if 2 * $pair < ROWS {
                    let sums = &mut acc[$pair][$j % VECTORS];
                    sums[0] = s.dot_blocks(sums[0], $blocks[$pair], low);
                    sums[1] = s.dot_blocks(sums[1], $blocks[$pair], high);
                })*
            }
        };
    }
    macro_rules! steps {
        ($paired:literal: $($pair:literal)*) => {
            let mut blocks = [s.splat_i(0); MOST_ROWS / 2];
            $(if 2 * $pair < ROWS {
                let (first, second) = (row!(2 * $pair), row!(other!($pair)));
                // SAFETY: a dword of each of two rows of `a`, and the next of each if there is one: the caller vouches
                // for them.
                blocks[$pair] = unsafe {
                    match $paired {
                        true => s.load_pairs(first, second),
                        false => s.load_pairs([*first, 0].as_ptr(), [*second, 0].as_ptr()),
                    }
                };
            })*
            dots!(blocks, $paired, 0, $($pair)*);
            dots!(blocks, $paired, 1, $($pair)*);
            dots!(blocks, $paired, 2, $($pair)*);
            dots!(blocks, $paired, 3, $($pair)*);
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
        for _ in 0..run / 2 {
            steps!(true: 0 1 2 3 4 5);
            right = right.wrapping_add(2 * b.stride);
            for third in &mut thirds[..ROWS.div_ceil(3)] {
                *third = third.wrapping_add(2);
            }
        }
        if run % 2 == 1 {
            steps!(false: 0 1 2 3 4 5);
        }
    }
    let (end, out) = (end.of::<S, D>(ROWS), out.as_mut_ptr());
    macro_rules! ends {
        ($j:literal: $($pair:literal)*) => {
            if $j < VECTORS {
                let column = end.column(s, $j);
                $(if 2 * $pair < ROWS {
                    let [low, high] = acc[$pair][$j % VECTORS];
                    let sums = s.interleave_pairs(low, high);
                    for (half, sums) in sums.into_iter().enumerate() {
                        let row = 2 * $pair + half;
                        if row < ROWS {
                            let to = out.wrapping_add(row * stride + $j * S::LANES);
                            let value = end.end::<S, D>(s, column, row, sums);
                            // SAFETY: a vector of this row of `out`: the caller vouches for it.
                            unsafe { put(s, end, value, to) };
                        }
                    }
                })*
            }
        };
    }
    ends!(0: 0 1 2 3 4 5);
    ends!(1: 0 1 2 3 4 5);
    ends!(2: 0 1 2 3 4 5);
    ends!(3: 0 1 2 3 4 5);
}

#[cfg(test)]
mod tests {
    use super::super::isa::{Isa, with};
    use super::super::tile::{MOST_WIDTH, Quads, multiply_by};
    use super::*;

    /// Sums as they are, of panels.
    #[derive(Clone, Copy)]
    struct Sums<const WIDE: bool>;

    impl<const W: bool> TileEnd for Sums<W> {
        const WIDE: bool = W;
        type Column<S: Simd> = ();
        fn of<S: Simd, D: Dot>(self, _: usize) -> Self {
            self
        }
        fn column<S: Simd>(self, _: S, _: usize) {}
        fn end<S: Simd, D: Dot>(self, _: S, (): (), _: usize, sums: S::I) -> S::I {
            sums
        }
        fn adds(self) -> bool {
            false
        }
    }

    #[test]
    fn blocks_give_the_sums_of_plain_code_at_every_height_and_length() {
        for isa in Isa::all_and_emulated() {
            with!(isa, s => {
                check(s, Sums::<true>);
                check(s, Sums::<false>);
            });
        }
    }

    fn check<S: Simd, E: TileEnd>(s: S, end: E) {
        const STEPS: usize = 2 * RUN + 3;
        let mut state = 1_u64;
        let mut dwords = |count: usize| -> Vec<i32> {
            let mut next = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 32) as i32
            };
            (0..count).map(|_| next()).collect()
        };
        let a = dwords(MOST_ROWS * STEPS);
        let b = dwords(MOST_WIDTH * STEPS);
        let (a, b) = (
            Block {
                data: &a,
                stride: STEPS,
            },
            Block {
                data: &b,
                stride: 4 * S::LANES,
            },
        );
        let vectors = if E::WIDE { S::PANEL } else { 2 };
        let sum = |row: usize, column: usize, steps: usize| {
            let left = a.data[row * a.stride..][..steps].iter();
            let right = b.data[column..].iter().step_by(b.stride);
            left.zip(right).fold(0, |sum: i32, (&left, &right)| {
                let left = left.to_le_bytes().map(|it| match S::BYTE_OFFSET {
                    0 => i32::from(it),
                    _ => i32::from(it.cast_signed()),
                });
                let right = right.to_le_bytes().map(|it| i32::from(it.cast_signed()));
                sum + (0..4).map(|it| left[it] * right[it]).sum::<i32>()
            })
        };
        for rows in 1..=if E::WIDE { S::ROWS } else { S::NARROW_ROWS } {
            for steps in 1..=STEPS {
                let mut out = vec![7; MOST_ROWS * MOST_WIDTH];
                let mut want = out.clone();
                for row in 0..rows {
                    for column in 0..vectors * S::LANES {
                        want[row * MOST_WIDTH + column] = sum(row, column, steps);
                    }
                }
                let (size, next) = ((rows, steps), Next::default());
                multiply_by::<S, Quads, E, true>(
                    s, Quads, size, a, b, next, end, &mut out, MOST_WIDTH,
                );
                assert!(out == want, "{rows} rows, {steps} steps");
            }
        }
    }
}

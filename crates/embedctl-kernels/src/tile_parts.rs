//! The parts of a tile of a product: its two sides, how their dwords are multiplied, its sums, and how they are stored.

use super::simd::{MOST_LANES, Simd};
use embedctl_common::Arithmetic;

/// How the dwords of one step are multiplied.
pub(super) trait Dot: Copy {
    const ARITHMETIC: Arithmetic;
    fn dot<S: Simd>(s: S, acc: S::I, a: S::I, b: S::I) -> S::I;
    /// Sums as floats.
    #[inline(always)]
    fn value<S: Simd>(s: S, sums: S::I) -> S::F {
        match Self::ARITHMETIC.sums_floats() {
            true => s.as_float(sums),
            false => s.to_float(sums),
        }
    }
}

/// Dwords are floats.
#[derive(Clone, Copy)]
pub(super) struct Floats;
/// Dwords are pairs of 16 bits.
#[derive(Clone, Copy)]
pub(super) struct Pairs;
/// Dwords are pairs of bfloat16, widened to single precision: for processors without an instruction for them.
#[derive(Clone, Copy)]
pub(super) struct WidenedHalves;
/// Dwords are pairs of bfloat16, multiplied by the processor's instruction.
#[derive(Clone, Copy)]
#[cfg_attr(not(kernels = "avx512"), allow(dead_code))] // other processors' instructions are not used
pub(super) struct Halves(());
/// Dwords are quads of 8 bits.
#[derive(Clone, Copy)]
pub(super) struct Quads;

impl Dot for Floats {
    const ARITHMETIC: Arithmetic = Arithmetic::Fp32;
    #[inline(always)]
    fn dot<S: Simd>(s: S, acc: S::I, a: S::I, b: S::I) -> S::I {
        s.as_int(s.fma(s.as_float(a), s.as_float(b), s.as_float(acc)))
    }
}
impl Dot for Pairs {
    const ARITHMETIC: Arithmetic = Arithmetic::Int16;
    #[inline(always)]
    fn dot<S: Simd>(s: S, acc: S::I, a: S::I, b: S::I) -> S::I {
        s.dot_pairs(acc, a, b)
    }
}
impl Dot for WidenedHalves {
    const ARITHMETIC: Arithmetic = Arithmetic::Bf16;
    #[inline(always)]
    fn dot<S: Simd>(s: S, acc: S::I, a: S::I, b: S::I) -> S::I {
        s.dot_widened(acc, a, b)
    }
}
#[cfg_attr(not(kernels = "avx512"), allow(dead_code))]
impl Halves {
    /// # Safety
    /// The instruction set must [multiply bfloat16](super::isa::Isa::multiplies_bf16).
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}
impl Dot for Halves {
    const ARITHMETIC: Arithmetic = Arithmetic::Bf16;
    #[inline(always)]
    fn dot<S: Simd>(s: S, acc: S::I, a: S::I, b: S::I) -> S::I {
        // SAFETY: `Halves` is made only where the processor has the instruction, and this runs only with a `Halves`.
        unsafe { s.dot_halves(acc, a, b) }
    }
}
impl Dot for Quads {
    const ARITHMETIC: Arithmetic = Arithmetic::Int8;
    #[inline(always)]
    fn dot<S: Simd>(s: S, acc: S::I, a: S::I, b: S::I) -> S::I {
        s.dot_quads(acc, a, b)
    }
}

/// Most rows and most dwords of a row of any tile.
pub(super) const MOST_ROWS: usize = 12;
pub(super) const MOST_WIDTH: usize = 4 * MOST_LANES;

/// The last step of a tile: how its sums are stored.
pub(super) trait TileEnd: Copy {
    /// Whether tiles are `S::PANEL` vectors wide, else two.
    const WIDE: bool;
    /// Values of a vector's columns, shared by all its rows.
    type Column<S: Simd>: Copy;
    /// Checks that it holds enough for a tile of `rows` rows.
    fn of<S: Simd, D: Dot>(self, rows: usize) -> Self;
    fn column<S: Simd>(self, s: S, vector: usize) -> Self::Column<S>;
    /// The values to store for the sums of a row.
    fn end<S: Simd, D: Dot>(self, s: S, column: Self::Column<S>, row: usize, sums: S::I) -> S::I;
    /// Whether they are added, as floats, to the values in place.
    fn adds(self) -> bool;
}

/// Sums are stored as they are.
#[derive(Clone, Copy)]
pub(super) struct Raw;

impl TileEnd for Raw {
    const WIDE: bool = false;
    type Column<S: Simd> = ();
    #[inline(always)]
    fn of<S: Simd, D: Dot>(self, _: usize) -> Self {
        self
    }
    #[inline(always)]
    fn column<S: Simd>(self, _: S, _: usize) {}
    #[inline(always)]
    fn end<S: Simd, D: Dot>(self, _: S, (): (), _: usize, sums: S::I) -> S::I {
        sums
    }
    #[inline(always)]
    fn adds(self) -> bool {
        false
    }
}

/// A finished tile: sums as floats or integers, by row.
#[repr(C, align(64))]
pub(super) struct TileSums(pub(super) [[i32; MOST_WIDTH]; MOST_ROWS]);

impl TileSums {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self([[0; MOST_WIDTH]; MOST_ROWS])
    }

    /// Its rows, [`MOST_WIDTH`] apart.
    #[inline(always)]
    pub(super) fn dwords_mut(&mut self) -> &mut [i32] {
        self.0.as_flattened_mut()
    }
}

/// Rows of dwords, `stride` apart; a part of their columns is used.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) data: &'a [i32],
    pub(super) stride: usize,
}

/// The next operand, prefetched meanwhile: processors foresee a panel's rows but not the next panel, and would wait for
/// weights outside the core's own caches.
#[derive(Clone, Copy, Default)]
pub(super) struct Next {
    /// Dwords from the first of `b`.
    pub(super) at: usize,
    /// Cache lines that are asked for before every [`RUN`] steps.
    pub(super) lines: usize,
}

/// Steps between two looks ahead.
pub(super) const RUN: usize = 16;
/// Dwords of a cache line.
pub(super) const LINE: usize = 16;

/// Stores a finished vector at `to`, or adds it to the floats there.
///
/// # Safety
/// `S::LANES` dwords must be readable and writable at `to`.
#[inline(always)]
pub(super) unsafe fn put<S: Simd, E: TileEnd>(s: S, end: E, mut value: S::I, to: *mut i32) {
    // SAFETY: the caller vouches for the memory.
    unsafe {
        if end.adds() {
            value = s.as_int(s.add(s.as_float(s.load_at(to)), s.as_float(value)));
        }
        s.store_at(to, value);
    }
}

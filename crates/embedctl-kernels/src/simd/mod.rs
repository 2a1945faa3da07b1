//! Vectors of 32-bit lanes, one type for each instruction set, behind one trait: every kernel is written once
//! over [`Simd`] and compiled once for each implementation.
//!
//! An implementation is a token. Its field is private to its module and only [`Isa`](super::Isa) makes one,
//! after it has asked the processor, so that holding a token proves that its instructions may run. Methods
//! on a token are therefore safe unless they take a pointer. All are `inline(always)`: they become single
//! instructions once [`Simd::enter`] has compiled the kernel around them with the token's features.

/// Calls intrinsics that touch no memory.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! op {
    ($e:expr) => {
        // SAFETY: the token proves the processor's features, and the operation touches no memory.
        unsafe { $e }
    };
}

/// Methods of one expression each.
macro_rules! inline {
    ($($(#[$doc:meta])* fn $name:ident($this:ident $(, $a:ident: $t:ty)*) $(-> $r:ty)? = $e:expr;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            fn $name($this $(, $a: $t)*) $(-> $r)? {
                $e
            }
        )*
    };
}

/// Loads and stores of whole vectors, by the intrinsics for floats and for integers.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! memory {
    ($load:ident, $store:ident, $load_i:ident, $store_i:ident) => {
        #[inline(always)]
        fn load(self, from: &[f32]) -> F {
            let from = &from[..Self::LANES];
            // SAFETY: the token proves the instruction, which asks for no alignment, and a vector is borrowed.
            unsafe { $load(from.as_ptr()) }
        }
        #[inline(always)]
        fn store(self, to: &mut [f32], v: F) {
            let to = &mut to[..Self::LANES];
            // SAFETY: as above.
            unsafe { $store(to.as_mut_ptr(), v) }
        }
        #[inline(always)]
        fn load_i(self, from: &[i32]) -> I {
            let from = &from[..Self::LANES];
            // SAFETY: as above.
            unsafe { $load_i(from.as_ptr().cast()) }
        }
        #[inline(always)]
        fn store_i(self, to: &mut [i32], v: I) {
            let to = &mut to[..Self::LANES];
            // SAFETY: as above.
            unsafe { $store_i(to.as_mut_ptr().cast(), v) }
        }
        #[inline(always)]
        unsafe fn load_at(self, from: *const i32) -> I {
            // SAFETY: as above, but that the caller vouches for the memory.
            unsafe { $load_i(from.cast()) }
        }
        #[inline(always)]
        unsafe fn store_at(self, to: *mut i32, v: I) {
            // SAFETY: likewise.
            unsafe { $store_i(to.cast(), v) }
        }
    };
}

#[cfg(any(kernels = "avx2", kernels = "avx2-vnni"))]
pub(super) mod avx2;
#[cfg(kernels = "avx512")]
pub(super) mod avx512;
#[cfg(any(kernels = "neon", kernels = "neon-dot", kernels = "neon-i8mm"))]
pub(super) mod neon;
pub(super) mod portable;

/// The most lanes of any implementation.
pub(super) const MOST_LANES: usize = 16;

/// Floats that one piecewise polynomial has for each degree: sixteen pieces, or eight and eight unused.
pub(super) type Coefficients = [f32; MOST_LANES];

/// Vectors of `LANES` floats or 32-bit integers.
///
/// `max(a, b)` and `min(a, b)` give `b` where either is NaN, as x86 does; NEON gives NaN. Kernels put the
/// value whose NaN must survive second.
pub(super) trait Simd: Copy {
    /// Lanes of a vector: a power of two from 4 to [`MOST_LANES`].
    const LANES: usize;
    /// Vectors of a panel of packed weights.
    const PANEL: usize;
    /// Rows of a full tile beside [`Self::PANEL`] vectors: their product of accumulators fills the registers.
    const ROWS: usize;
    /// Rows of a full tile beside two vectors.
    const NARROW_ROWS: usize;
    /// Pieces that [`Self::look_up`] tells apart: 8 or 16.
    const PIECES: usize;
    /// Subtracted from an unsigned 8-bit value before it is stored: 128 where the product wants signed bytes.
    const BYTE_OFFSET: i32;
    /// Whether the processor has an instruction for [`Self::dot_blocks`].
    const MULTIPLIES_BLOCKS: bool = false;
    /// Whether this build has tiles beside these vectors: code for them is compiled with no others.
    const HAS_TILES: bool = false;
    /// A vector of floats.
    type F: Copy;
    /// A vector of 32-bit integers, or of the pairs and quads that products take.
    type I: Copy;
    /// The entries of a table that [`Self::look_up`] tells apart, in registers.
    type Table: Copy;

    /// Runs `work` compiled for this instruction set.
    fn enter<R>(self, work: impl FnOnce() -> R) -> R;

    fn splat(self, x: f32) -> Self::F;
    fn splat_i(self, x: i32) -> Self::I;
    /// The first `LANES` values.
    fn load(self, from: &[f32]) -> Self::F;
    fn store(self, to: &mut [f32], v: Self::F);
    fn load_i(self, from: &[i32]) -> Self::I;
    fn store_i(self, to: &mut [i32], v: Self::I);
    /// # Safety
    /// `LANES` dwords must be readable at `from`.
    unsafe fn load_at(self, from: *const i32) -> Self::I;
    /// # Safety
    /// `LANES` dwords must be writable at `to`.
    unsafe fn store_at(self, to: *mut i32, v: Self::I);

    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, with one rounding where the processor has it.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    fn abs(self, a: Self::F) -> Self::F;
    /// `magnitude` with the sign of `sign`.
    fn copysign(self, magnitude: Self::F, sign: Self::F) -> Self::F;
    /// To the nearest whole number, ties to even.
    fn round(self, a: Self::F) -> Self::F;
    /// `yes` where `a < b`, else `no`.
    fn select_less(self, a: Self::F, b: Self::F, yes: Self::F, no: Self::F) -> Self::F;
    /// `p * 2^n` for whole `n` from -126 to 127.
    fn scale2(self, p: Self::F, n: Self::F) -> Self::F;
    /// To the nearest integer, ties to even; anything for values that an `i32` cannot hold.
    fn to_int(self, a: Self::F) -> Self::I;
    /// Toward zero.
    fn truncate(self, a: Self::F) -> Self::I;
    fn to_float(self, a: Self::I) -> Self::F;
    fn as_float(self, a: Self::I) -> Self::F;
    fn as_int(self, a: Self::F) -> Self::I;
    /// Low halves of `low`, and low halves of `high` above them.
    fn pair(self, low: Self::I, high: Self::I) -> Self::I;
    /// The lanes of `a`, then those of `b`, as 16-bit integers, saturated.
    fn pack16(self, a: Self::I, b: Self::I) -> Self::I;
    /// The lanes of four vectors, one after another, as bytes: unsigned where [`Self::BYTE_OFFSET`] is 0, else signed;
    /// saturated.
    fn pack8(self, lanes: [Self::I; 4]) -> Self::I;
    fn max_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// The first [`Self::PIECES`] entries.
    fn table(self, entries: &Coefficients) -> Self::Table;
    /// Entry `index` modulo [`Self::PIECES`].
    fn look_up(self, table: Self::Table, index: Self::I) -> Self::F;

    /// Accumulates a product of 16-bit pairs: `acc + a0 * b0 + a1 * b1`.
    fn dot_pairs(self, acc: Self::I, a: Self::I, b: Self::I) -> Self::I;
    /// Both bfloat16 of each dword in single precision: the lower ones, and the upper ones.
    fn widen(self, pairs: Self::I) -> [Self::F; 2];
    /// Accumulates a product of pairs of bfloat16 in single precision: of the upper ones, then of the lower ones.
    #[inline(always)]
    fn dot_widened(self, acc: Self::I, a: Self::I, b: Self::I) -> Self::I {
        let ([a0, a1], [b0, b1]) = (self.widen(a), self.widen(b));
        self.as_int(self.fma(a0, b0, self.fma(a1, b1, self.as_float(acc))))
    }
    /// The same by the processor's instruction, which takes subnormal numbers for zero.
    ///
    /// # Safety
    /// The processor must have it, if [`Isa::multiplies_bf16`](super::Isa::multiplies_bf16) says so.
    #[inline(always)]
    unsafe fn dot_halves(self, acc: Self::I, a: Self::I, b: Self::I) -> Self::I {
        self.dot_widened(acc, a, b)
    }
    /// Accumulates a product of quads: unsigned (less [`Self::BYTE_OFFSET`]) bytes of `a` by signed bytes of `b`.
    fn dot_quads(self, acc: Self::I, a: Self::I, b: Self::I) -> Self::I;

    /// Accumulates products of blocks, in each group of four lanes: `a` has two quads of one row and two of another, `b` two
    /// quads of one column and two of another, and lane `2 i + j` of `acc` gets row `i` by column `j`. Bytes are those of
    /// [`Self::dot_quads`].
    #[inline(always)]
    fn dot_blocks(self, acc: Self::I, a: Self::I, b: Self::I) -> Self::I {
        dot_blocks_by_lane(self, acc, a, b)
    }
    /// Lanes of `a` and `b` in turn, in each group of four lanes: those of the lower halves, and those of the upper.
    #[inline(always)]
    fn interleave(self, a: Self::I, b: Self::I) -> [Self::I; 2] {
        shuffle(self, a, b, [[0, 4, 1, 5], [2, 6, 3, 7]])
    }
    /// The same with pairs of lanes in place of lanes.
    #[inline(always)]
    fn interleave_pairs(self, a: Self::I, b: Self::I) -> [Self::I; 2] {
        shuffle(self, a, b, [[0, 1, 4, 5], [2, 3, 6, 7]])
    }
    /// Two dwords at `a` and two at `b`, in each group of four lanes.
    ///
    /// # Safety
    /// Two dwords must be readable at each.
    #[inline(always)]
    unsafe fn load_pairs(self, a: *const i32, b: *const i32) -> Self::I {
        // SAFETY: the caller vouches for the memory.
        let [a, b] = unsafe { [a.cast(), b.cast()].map(|at: *const [i32; 2]| at.read_unaligned()) };
        let mut lanes = [0; MOST_LANES];
        for (lane, value) in lanes.iter_mut().enumerate() {
            *value = if lane % 4 < 2 {
                a[lane % 2]
            } else {
                b[lane % 2]
            };
        }
        self.load_i(&lanes)
    }

    #[cfg_attr(not(kernels = "amx"), allow(dead_code))]
    /// Sums of products of 16-bit integers, from those of their upper bytes, of upper by lower ones, and of lower bytes.
    #[inline(always)]
    fn join_bytes(self, upper: Self::I, cross: Self::I, lower: Self::I) -> Self::I {
        let [mut sums, cross, lower] = [upper, cross, lower].map(
            #[inline(always)]
            |part| {
                let mut lanes = [0; MOST_LANES];
                self.store_i(&mut lanes, part);
                lanes
            },
        );
        for (sum, (cross, lower)) in sums.iter_mut().zip(cross.into_iter().zip(lower)) {
            *sum = (*sum << 16).wrapping_add(cross << 8).wrapping_add(lower);
        }
        self.load_i(&sums)
    }

    #[cfg_attr(not(kernels = "amx"), allow(dead_code))]
    /// The lanes of four vectors, one after another, as signed bytes, which they fit.
    #[inline(always)]
    fn pack_signed(self, lanes: [Self::I; 4]) -> Self::I {
        let mut bytes = [0_u8; 4 * MOST_LANES];
        for (vector, bytes) in lanes.into_iter().zip(bytes.chunks_exact_mut(Self::LANES)) {
            let mut lanes = [0; MOST_LANES];
            self.store_i(&mut lanes, vector);
            for (byte, lane) in bytes.iter_mut().zip(lanes) {
                *byte = lane as u8;
            }
        }
        let mut dwords = [0; MOST_LANES];
        for (dword, bytes) in dwords.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *dword = i32::from_le_bytes(*bytes);
        }
        self.load_i(&dwords)
    }

    /// Asks for the cache lines of some floats that will soon be read.
    #[inline(always)]
    fn prefetch(self, _: &[f32]) {}
    /// Asks for a cache line that will be read later, into the second level. Any address will do.
    #[inline(always)]
    fn prefetch_far(self, _: *const i32) {}

    /// Lanes added in a fixed order.
    #[inline(always)]
    fn sum(self, v: Self::F) -> f32 {
        self.fold(v, |a, b| a + b)
    }
    /// The greatest lane; a NaN may be lost.
    #[inline(always)]
    fn greatest(self, v: Self::F) -> f32 {
        self.fold(v, |a, b| if a > b { a } else { b })
    }
    /// The least lane; a NaN may be lost.
    #[inline(always)]
    fn least(self, v: Self::F) -> f32 {
        self.fold(v, |a, b| if a < b { a } else { b })
    }
    /// Combines lanes pairwise, the upper half onto the lower until one is left.
    #[inline(always)]
    fn fold(self, v: Self::F, combine: impl Fn(f32, f32) -> f32) -> f32 {
        let mut lanes = [0.0; MOST_LANES];
        self.store(&mut lanes, v);
        let mut half = Self::LANES / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] = combine(lanes[i], lanes[i + half]);
            }
            half /= 2;
        }
        lanes[0]
    }
    /// The first values of `from`, at most `LANES`, and `rest` in the lanes beyond it.
    #[inline(always)]
    fn load_part(self, from: &[f32], rest: f32) -> Self::F {
        if from.len() >= Self::LANES {
            return self.load(from);
        }
        let mut lanes = [rest; MOST_LANES];
        lanes[..from.len()].copy_from_slice(from);
        self.load(&lanes)
    }
    /// As many lanes as `to` holds.
    #[inline(always)]
    fn store_part_i(self, to: &mut [i32], v: Self::I) {
        if to.len() >= Self::LANES {
            return self.store_i(to, v);
        }
        let mut lanes = [0; MOST_LANES];
        self.store_i(&mut lanes, v);
        to.copy_from_slice(&lanes[..to.len()]);
    }
    /// As many lanes as `to` holds.
    #[inline(always)]
    fn store_part(self, to: &mut [f32], v: Self::F) {
        if to.len() >= Self::LANES {
            return self.store(to, v);
        }
        let mut lanes = [0.0; MOST_LANES];
        self.store(&mut lanes, v);
        to.copy_from_slice(&lanes[..to.len()]);
    }
    /// `0, 1, 2, ...`
    #[inline(always)]
    fn iota(self) -> Self::F {
        const LANES: [f32; MOST_LANES] = [
            0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0,
        ];
        self.load(&LANES)
    }
    /// Lane `j` of row `i` of a square block becomes lane `i` of row `j`.
    #[inline(always)]
    fn transpose(self, block: &mut [Self::F; MOST_LANES]) {
        let mut lanes = [[0.0_f32; MOST_LANES]; MOST_LANES];
        for (row, v) in lanes.iter_mut().zip(&*block).take(Self::LANES) {
            self.store(row, *v);
        }
        for (j, v) in block.iter_mut().enumerate().take(Self::LANES) {
            let mut column = [0.0; MOST_LANES];
            for i in 0..Self::LANES {
                column[i] = lanes[i][j];
            }
            *v = self.load(&column);
        }
    }
}

/// [`Simd::dot_blocks`] without an instruction for it: for tests, so one function is enough.
#[inline(never)]
fn dot_blocks_by_lane<S: Simd>(s: S, acc: S::I, a: S::I, b: S::I) -> S::I {
    let [mut sums, a, b] = [acc, a, b].map(
        #[inline(always)]
        |vector| {
            let mut lanes = [0; MOST_LANES];
            s.store_i(&mut lanes, vector);
            lanes
        },
    );
    for (lane, sum) in sums.iter_mut().enumerate() {
        let (row, column) = (lane / 2 * 2, lane / 4 * 4 + lane % 2 * 2);
        for quad in 0..2 {
            let (left, right) = (a[row + quad].to_ne_bytes(), b[column + quad].to_ne_bytes());
            for (left, right) in left.into_iter().zip(right) {
                let left = match S::BYTE_OFFSET {
                    0 => i32::from(left),
                    _ => i32::from(left.cast_signed()),
                };
                *sum = sum.wrapping_add(left * i32::from(right.cast_signed()));
            }
        }
    }
    s.load_i(&sums)
}

/// Lanes of `a` (from 0 on) and of `b` (from 4 on), in each group of four lanes; for tests, too.
#[inline(never)]
fn shuffle<S: Simd>(s: S, a: S::I, b: S::I, order: [[usize; 4]; 2]) -> [S::I; 2] {
    let (mut first, mut second) = ([0; MOST_LANES], [0; MOST_LANES]);
    s.store_i(&mut first, a);
    s.store_i(&mut second, b);
    let pick = |group: usize, from: usize| match from {
        0..4 => first[group + from],
        _ => second[group + from - 4],
    };
    let [mut low, mut high] = [[0; MOST_LANES]; 2];
    for lane in 0..S::LANES {
        let (group, within) = (lane / 4 * 4, lane % 4);
        low[lane] = pick(group, order[0][within]);
        high[lane] = pick(group, order[1][within]);
    }
    [s.load_i(&low), s.load_i(&high)]
}

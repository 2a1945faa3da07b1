//! NEON: four lanes, thirty-two registers; with the 8-bit dot product or without, and with it the product of 8-bit blocks or
//! not.

use std::arch::aarch64::*;
use std::arch::asm;

use super::{Coefficients, Simd, dot_blocks_by_lane};

/// The processor has NEON, the dot product (`sdot`) if `DOT`, and the product of blocks (`smmla`) if `BLOCKS`, which takes
/// `DOT` as well.
#[derive(Clone, Copy)]
pub(in super::super) struct Neon<const DOT: bool, const BLOCKS: bool>(());

impl<const DOT: bool, const BLOCKS: bool> Neon<DOT, BLOCKS> {
    /// # Safety
    /// The processor must have the features listed above.
    #[inline(always)]
    pub(in super::super) unsafe fn new() -> Self {
        Self(())
    }
}

const N: usize = 4;
type F = float32x4_t;
type I = int32x4_t;

impl<const DOT: bool, const BLOCKS: bool> Simd for Neon<DOT, BLOCKS> {
    const LANES: usize = N;
    const PANEL: usize = 4;
    const ROWS: usize = 6;
    const NARROW_ROWS: usize = 12;
    const PIECES: usize = 8;
    const BYTE_OFFSET: i32 = 128;
    const MULTIPLIES_BLOCKS: bool = BLOCKS;
    type F = F;
    type I = I;
    type Table = uint8x16x2_t;

    #[inline(always)]
    fn enter<R>(self, work: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "neon")]
        fn plain<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        #[target_feature(enable = "neon,dotprod")]
        fn dot<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        #[target_feature(enable = "neon,dotprod,i8mm")]
        fn blocks<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        // SAFETY: the token proves these features.
        unsafe {
            match (DOT, BLOCKS) {
                (_, true) => blocks(work),
                (true, false) => dot(work),
                (false, false) => plain(work),
            }
        }
    }
    memory!(vld1q_f32, vst1q_f32, vld1q_s32, vst1q_s32);
    inline! {
        fn splat(self, x: f32) -> F = op!(vdupq_n_f32(x));
        fn splat_i(self, x: i32) -> I = op!(vdupq_n_s32(x));
        fn add(self, a: F, b: F) -> F = op!(vaddq_f32(a, b));
        fn sub(self, a: F, b: F) -> F = op!(vsubq_f32(a, b));
        fn mul(self, a: F, b: F) -> F = op!(vmulq_f32(a, b));
        fn div(self, a: F, b: F) -> F = op!(vdivq_f32(a, b));
        fn fma(self, a: F, b: F, c: F) -> F = op!(vfmaq_f32(c, a, b));
        fn max(self, a: F, b: F) -> F = op!(vmaxq_f32(a, b));
        fn min(self, a: F, b: F) -> F = op!(vminq_f32(a, b));
        fn abs(self, a: F) -> F = op!(vabsq_f32(a));
        fn copysign(self, magnitude: F, sign: F) -> F = op!(vbslq_f32(vdupq_n_u32(1 << 31), sign, magnitude));
        fn round(self, a: F) -> F = op!(vrndnq_f32(a));
        fn select_less(self, a: F, b: F, yes: F, no: F) -> F = op!(vbslq_f32(vcltq_f32(a, b), yes, no));
        fn to_int(self, a: F) -> I = op!(vcvtnq_s32_f32(a));
        fn truncate(self, a: F) -> I = op!(vcvtq_s32_f32(a));
        fn to_float(self, a: I) -> F = op!(vcvtq_f32_s32(a));
        fn as_float(self, a: I) -> F = op!(vreinterpretq_f32_s32(a));
        fn as_int(self, a: F) -> I = op!(vreinterpretq_s32_f32(a));
        fn max_i(self, a: I, b: I) -> I = op!(vmaxq_s32(a, b));
        fn pair(self, low: I, high: I) -> I = op!(vsliq_n_s32::<16>(low, high));
    }
    #[inline(always)]
    fn widen(self, pairs: I) -> [F; 2] {
        op!([
            vreinterpretq_f32_s32(vshlq_n_s32::<16>(pairs)),
            vreinterpretq_f32_s32(vandq_s32(pairs, vdupq_n_s32(!0xffff))),
        ])
    }
    #[inline(always)]
    fn pack16(self, a: I, b: I) -> I {
        op!(vreinterpretq_s32_s16(vqmovn_high_s32(vqmovn_s32(a), b)))
    }
    #[inline(always)]
    fn pack8(self, [a, b, c, d]: [I; 4]) -> I {
        op!({
            let low = vqmovn_high_s32(vqmovn_s32(a), b);
            let high = vqmovn_high_s32(vqmovn_s32(c), d);
            vreinterpretq_s32_s8(vqmovn_high_s16(vqmovn_s16(low), high))
        })
    }
    #[inline(always)]
    fn scale2(self, p: F, n: F) -> F {
        op!({
            let power = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
            vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32::<23>(power)))
        })
    }
    #[inline(always)]
    fn table(self, entries: &Coefficients) -> uint8x16x2_t {
        let (low, high) = (self.load(entries), self.load(&entries[N..]));
        op!(uint8x16x2_t(
            vreinterpretq_u8_f32(low),
            vreinterpretq_u8_f32(high)
        ))
    }
    #[inline(always)]
    fn look_up(self, table: uint8x16x2_t, index: I) -> F {
        // Entry i takes bytes 4 i to 4 i + 3 of the table.
        op!({
            let first = vmulq_n_s32(vandq_s32(index, vdupq_n_s32(7)), 0x0404_0404);
            let bytes = vaddq_s32(first, vdupq_n_s32(0x0302_0100));
            vreinterpretq_f32_u8(vqtbl2q_u8(table, vreinterpretq_u8_s32(bytes)))
        })
    }
    #[inline(always)]
    fn dot_pairs(self, acc: I, a: I, b: I) -> I {
        op!({
            let low = |v| vshrq_n_s32::<16>(vshlq_n_s32::<16>(v));
            let acc = vmlaq_s32(acc, low(a), low(b));
            vmlaq_s32(acc, vshrq_n_s32::<16>(a), vshrq_n_s32::<16>(b))
        })
    }
    #[inline(always)]
    fn dot_quads(self, mut acc: I, a: I, b: I) -> I {
        if DOT {
            // SAFETY: the token proves the dot product; registers alone are touched. (Its intrinsic is not
            // stable yet.)
            unsafe {
                asm!(
                    "sdot {acc:v}.4s, {a:v}.16b, {b:v}.16b",
                    acc = inout(vreg) acc, a = in(vreg) a, b = in(vreg) b,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            return acc;
        }
        op!({
            let (a, b) = (vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
            let low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
            let high = vpaddlq_s16(vmull_high_s8(a, b));
            vaddq_s32(acc, vpaddq_s32(low, high))
        })
    }
    #[inline(always)]
    fn dot_blocks(self, mut acc: I, a: I, b: I) -> I {
        if BLOCKS {
            // SAFETY: the token proves the product of blocks; registers alone are touched. (As above.)
            unsafe {
                asm!(
                    "smmla {acc:v}.4s, {a:v}.16b, {b:v}.16b",
                    acc = inout(vreg) acc, a = in(vreg) a, b = in(vreg) b,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            return acc;
        }
        dot_blocks_by_lane(self, acc, a, b)
    }
    #[inline(always)]
    fn interleave(self, a: I, b: I) -> [I; 2] {
        op!([vzip1q_s32(a, b), vzip2q_s32(a, b)])
    }
    #[inline(always)]
    fn interleave_pairs(self, a: I, b: I) -> [I; 2] {
        op!({
            let (a, b) = (vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b));
            [
                vreinterpretq_s32_s64(vzip1q_s64(a, b)),
                vreinterpretq_s32_s64(vzip2q_s64(a, b)),
            ]
        })
    }
    #[inline(always)]
    unsafe fn load_pairs(self, a: *const i32, b: *const i32) -> I {
        // SAFETY: the token proves the processor's features, and the caller vouches for the memory.
        unsafe { vcombine_s32(vld1_s32(a), vld1_s32(b)) }
    }
}

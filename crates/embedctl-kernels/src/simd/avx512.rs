//! AVX-512 with VNNI: sixteen lanes, thirty-two registers.

use std::arch::asm;
use std::arch::x86_64::*;
use std::hint::black_box;
use std::time::{Duration, Instant};

use super::{Coefficients, MOST_LANES, Simd};

/// The processor has AVX-512 F, BW, DQ, VL and VNNI, AVX2 and FMA.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The processor must have the features listed above.
    #[inline(always)]
    pub(in super::super) unsafe fn new() -> Self {
        Self(())
    }
}

type F = __m512;
type I = __m512i;

/// `vpdpwssd`, by name: LLVM turns its intrinsic into a multiplication and an addition, at half the speed.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dpwssd(mut acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the caller has the instruction, which touches three registers alone.
    unsafe {
        asm!(
            "vpdpwssd {acc}, {a}, {b}",
            acc = inout(zmm_reg) acc, a = in(zmm_reg) a, b = in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    acc
}

/// `vdpbf16ps`, by name: its feature is not among those that kernels are compiled with, and a function that names it
/// would not be inlined into them.
///
/// # Safety
/// The processor must have AVX512-BF16.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn dpbf16ps(mut acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the caller vouches for the instruction, which touches three registers alone.
    unsafe {
        asm!(
            "vdpbf16ps {acc}, {a}, {b}",
            acc = inout(zmm_reg) acc, a = in(zmm_reg) a, b = in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    acc
}

/// The quads of four vectors that were packed together, which takes quarters of each in turn.
#[inline]
#[target_feature(enable = "avx512f")]
fn packed_order() -> __m512i {
    _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
}

/// Whether this processor multiplies pairs of bfloat16 faster than single precision. Both run in turn for some hundred
/// microseconds, and the best times count: the speeds are a factor of two apart on either side.
///
/// # Safety
/// The processor must have AVX-512 F and AVX512-BF16.
#[target_feature(enable = "avx512f")]
pub(in super::super) unsafe fn bf16_is_faster() -> bool {
    const TURNS: usize = 500;
    // Enough sums to keep two units busy.
    const CHAINS: usize = 12;
    let ones = black_box(_mm512_set1_ps(1.0));
    let halves = black_box(_mm512_set1_epi32(0x3f80_3f80));
    let mut least = [Duration::MAX; 2];
    for _ in 0..8 {
        let start = Instant::now();
        let mut sums = [_mm512_setzero_ps(); CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(ones, ones, *sum);
            }
        }
        black_box(sums);
        let middle = Instant::now();
        let mut sums = [_mm512_setzero_si512(); CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                // SAFETY: the caller vouches for the instruction.
                *sum = unsafe { dpbf16ps(*sum, halves, halves) };
            }
        }
        black_box(sums);
        let times = [middle - start, middle.elapsed()];
        for (least, time) in least.iter_mut().zip(times) {
            *least = (*least).min(time);
        }
    }
    // As many instructions, each for twice as many numbers.
    least[1] < 2 * least[0] * 9 / 10
}

impl Simd for Avx512 {
    const LANES: usize = 16;
    const HAS_TILES: bool = cfg!(kernels = "amx");
    const PANEL: usize = 4;
    const ROWS: usize = 6;
    const NARROW_ROWS: usize = 12;
    const PIECES: usize = 16;
    const BYTE_OFFSET: i32 = 0;
    type F = F;
    type I = I;
    type Table = F;

    #[inline(always)]
    fn enter<R>(self, work: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
        fn compiled<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        // SAFETY: the token proves these features.
        unsafe { compiled(work) }
    }
    memory!(
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_loadu_si512,
        _mm512_storeu_si512
    );
    inline! {
        fn splat(self, x: f32) -> F = op!(_mm512_set1_ps(x));
        fn splat_i(self, x: i32) -> I = op!(_mm512_set1_epi32(x));
        fn add(self, a: F, b: F) -> F = op!(_mm512_add_ps(a, b));
        fn sub(self, a: F, b: F) -> F = op!(_mm512_sub_ps(a, b));
        fn mul(self, a: F, b: F) -> F = op!(_mm512_mul_ps(a, b));
        fn div(self, a: F, b: F) -> F = op!(_mm512_div_ps(a, b));
        fn fma(self, a: F, b: F, c: F) -> F = op!(_mm512_fmadd_ps(a, b, c));
        fn max(self, a: F, b: F) -> F = op!(_mm512_max_ps(a, b));
        fn min(self, a: F, b: F) -> F = op!(_mm512_min_ps(a, b));
        fn abs(self, a: F) -> F = op!(_mm512_abs_ps(a));
        fn round(self, a: F) -> F = op!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a));
        fn scale2(self, p: F, n: F) -> F = op!(_mm512_scalef_ps(p, n));
        fn to_int(self, a: F) -> I = op!(_mm512_cvtps_epi32(a));
        fn truncate(self, a: F) -> I = op!(_mm512_cvttps_epi32(a));
        fn to_float(self, a: I) -> F = op!(_mm512_cvtepi32_ps(a));
        fn as_float(self, a: I) -> F = op!(_mm512_castsi512_ps(a));
        fn as_int(self, a: F) -> I = op!(_mm512_castps_si512(a));
        fn table(self, entries: &Coefficients) -> F = self.load(entries);
        fn look_up(self, table: F, index: I) -> F = op!(_mm512_permutexvar_ps(index, table));
        fn dot_pairs(self, acc: I, a: I, b: I) -> I = op!(dpwssd(acc, a, b));
        fn dot_quads(self, acc: I, a: I, b: I) -> I = op!(_mm512_dpbusd_epi32(acc, a, b));
        fn max_i(self, a: I, b: I) -> I = op!(_mm512_max_epi32(a, b));
        fn sum(self, v: F) -> f32 = op!(_mm512_reduce_add_ps(v));
        fn greatest(self, v: F) -> f32 = op!(_mm512_reduce_max_ps(v));
        fn least(self, v: F) -> f32 = op!(_mm512_reduce_min_ps(v));
        fn prefetch_far(self, at: *const i32) = op!(_mm_prefetch::<_MM_HINT_T1>(at.cast()));
    }
    #[inline(always)]
    fn widen(self, pairs: I) -> [F; 2] {
        op!([
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)),
            _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(!0xffff))),
        ])
    }
    #[inline(always)]
    unsafe fn dot_halves(self, acc: I, a: I, b: I) -> I {
        // SAFETY: the caller vouches for the instruction.
        unsafe { dpbf16ps(acc, a, b) }
    }
    #[inline(always)]
    fn join_bytes(self, upper: I, cross: I, lower: I) -> I {
        op!(_mm512_add_epi32(
            _mm512_slli_epi32::<16>(upper),
            _mm512_add_epi32(_mm512_slli_epi32::<8>(cross), lower)
        ))
    }
    #[inline(always)]
    fn pack16(self, a: I, b: I) -> I {
        // The pack takes quarters of both in turn.
        op!({
            let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
            _mm512_permutexvar_epi64(order, _mm512_packs_epi32(a, b))
        })
    }
    #[inline(always)]
    fn pack8(self, [a, b, c, d]: [I; 4]) -> I {
        op!({
            let bytes = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
            _mm512_permutexvar_epi32(packed_order(), bytes)
        })
    }
    #[inline(always)]
    fn pack_signed(self, [a, b, c, d]: [I; 4]) -> I {
        op!({
            let bytes = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
            _mm512_permutexvar_epi32(packed_order(), bytes)
        })
    }
    #[inline(always)]
    fn copysign(self, magnitude: F, sign: F) -> F {
        // One bit-by-bit choice: the sign bit of `sign`, else `magnitude`.
        op!(_mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xd8>(
            _mm512_castps_si512(magnitude),
            _mm512_castps_si512(sign),
            _mm512_set1_epi32(i32::MIN),
        )))
    }
    #[inline(always)]
    fn select_less(self, a: F, b: F, yes: F, no: F) -> F {
        op!(_mm512_mask_mov_ps(
            no,
            _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b),
            yes
        ))
    }
    #[inline(always)]
    fn pair(self, low: I, high: I) -> I {
        op!(_mm512_mask_mov_epi16(
            low,
            0xaaaa_aaaa,
            _mm512_slli_epi32::<16>(high)
        ))
    }
    #[inline(always)]
    fn prefetch(self, of: &[f32]) {
        for line in of.chunks(16) {
            op!(_mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()));
        }
    }
    #[inline(always)]
    fn transpose(self, r: &mut [F; MOST_LANES]) {
        op!({
            // Pairs of rows, then pairs of pairs, then 128-bit quarters twice.
            let mut t = *r;
            for i in 0..8 {
                t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
                t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
            }
            let double = |v| _mm512_castps_pd(v);
            for i in (0..16).step_by(4) {
                for h in 0..2 {
                    let (a, b) = (double(t[i + h]), double(t[i + 2 + h]));
                    r[i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
                    r[i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
                }
            }
            // Row 4 i + j of r now holds, in quarter q, rows 4 i .. 4 i + 4 of column 4 q + j.
            for j in 0..4 {
                let (a, b, c, d) = (r[j], r[4 + j], r[8 + j], r[12 + j]);
                let ab = [
                    _mm512_shuffle_f32x4::<0x88>(a, b),
                    _mm512_shuffle_f32x4::<0xdd>(a, b),
                ];
                let cd = [
                    _mm512_shuffle_f32x4::<0x88>(c, d),
                    _mm512_shuffle_f32x4::<0xdd>(c, d),
                ];
                for odd in 0..2 {
                    t[4 * odd + j] = _mm512_shuffle_f32x4::<0x88>(ab[odd], cd[odd]);
                    t[8 + 4 * odd + j] = _mm512_shuffle_f32x4::<0xdd>(ab[odd], cd[odd]);
                }
            }
            *r = t;
        });
    }
}

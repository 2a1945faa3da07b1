//! AVX2 with FMA: eight lanes, sixteen registers; with AVX-VNNI or without.

use std::arch::asm;
use std::arch::x86_64::*;

use super::{Coefficients, MOST_LANES, Simd};

/// The processor has AVX2 and FMA, and AVX-VNNI if `VNNI`.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx2<const VNNI: bool>(());

impl<const VNNI: bool> Avx2<VNNI> {
    /// # Safety
    /// The processor must have the features listed above.
    #[inline(always)]
    pub(in super::super) unsafe fn new() -> Self {
        Self(())
    }
}

const N: usize = 8;
type F = __m256;
type I = __m256i;

/// `vpdpwssd`, by name: LLVM turns its intrinsic into a multiplication and an addition, which is slower.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
fn dpwssd(mut acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller has the instruction, which touches three registers alone.
    unsafe {
        asm!(
            "{{vex}} vpdpwssd {acc}, {a}, {b}",
            acc = inout(ymm_reg) acc, a = in(ymm_reg) a, b = in(ymm_reg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    acc
}

/// `vpmaddwd` and `vpaddd`, by name: LLVM moves the products of several sums together, and some of the sums out into
/// memory, since twelve, their operands and one product take all sixteen registers.
#[inline]
#[target_feature(enable = "avx2")]
fn madd(mut acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller has the instructions, which touch four registers alone.
    unsafe {
        asm!(
            "vpmaddwd {product}, {a}, {b}",
            "vpaddd {acc}, {acc}, {product}",
            acc = inout(ymm_reg) acc, a = in(ymm_reg) a, b = in(ymm_reg) b, product = out(ymm_reg) _,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    acc
}

impl<const VNNI: bool> Simd for Avx2<VNNI> {
    const LANES: usize = N;
    const PANEL: usize = 2;
    const ROWS: usize = 6;
    const NARROW_ROWS: usize = 6;
    const PIECES: usize = 8;
    const BYTE_OFFSET: i32 = 0;
    type F = F;
    type I = I;
    type Table = F;

    #[inline(always)]
    fn enter<R>(self, work: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx2,fma")]
        fn plain<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        #[target_feature(enable = "avx2,fma,avxvnni")]
        fn vnni<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        // SAFETY: the token proves these features.
        unsafe { if VNNI { vnni(work) } else { plain(work) } }
    }
    memory!(
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_loadu_si256,
        _mm256_storeu_si256
    );
    inline! {
        fn splat(self, x: f32) -> F = op!(_mm256_set1_ps(x));
        fn splat_i(self, x: i32) -> I = op!(_mm256_set1_epi32(x));
        fn add(self, a: F, b: F) -> F = op!(_mm256_add_ps(a, b));
        fn sub(self, a: F, b: F) -> F = op!(_mm256_sub_ps(a, b));
        fn mul(self, a: F, b: F) -> F = op!(_mm256_mul_ps(a, b));
        fn div(self, a: F, b: F) -> F = op!(_mm256_div_ps(a, b));
        fn fma(self, a: F, b: F, c: F) -> F = op!(_mm256_fmadd_ps(a, b, c));
        fn max(self, a: F, b: F) -> F = op!(_mm256_max_ps(a, b));
        fn min(self, a: F, b: F) -> F = op!(_mm256_min_ps(a, b));
        fn abs(self, a: F) -> F = op!(_mm256_andnot_ps(_mm256_set1_ps(-0.0), a));
        fn round(self, a: F) -> F = op!(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a));
        fn to_int(self, a: F) -> I = op!(_mm256_cvtps_epi32(a));
        fn truncate(self, a: F) -> I = op!(_mm256_cvttps_epi32(a));
        fn to_float(self, a: I) -> F = op!(_mm256_cvtepi32_ps(a));
        fn as_float(self, a: I) -> F = op!(_mm256_castsi256_ps(a));
        fn as_int(self, a: F) -> I = op!(_mm256_castps_si256(a));
        fn pair(self, low: I, high: I) -> I = op!(_mm256_blend_epi16::<0xaa>(low, _mm256_slli_epi32::<16>(high)));
        fn table(self, entries: &Coefficients) -> F = self.load(entries);
        fn look_up(self, table: F, index: I) -> F = op!(_mm256_permutevar8x32_ps(table, index));
        fn max_i(self, a: I, b: I) -> I = op!(_mm256_max_epi32(a, b));
        fn prefetch_far(self, at: *const i32) = op!(_mm_prefetch::<_MM_HINT_T1>(at.cast()));
    }
    #[inline(always)]
    fn widen(self, pairs: I) -> [F; 2] {
        op!([
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs)),
            _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(!0xffff))),
        ])
    }
    #[inline(always)]
    fn pack16(self, a: I, b: I) -> I {
        // The pack takes halves of both in turn.
        op!(_mm256_permute4x64_epi64::<0xd8>(_mm256_packs_epi32(a, b)))
    }
    #[inline(always)]
    fn pack8(self, [a, b, c, d]: [I; 4]) -> I {
        op!({
            let bytes = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            _mm256_permutevar8x32_epi32(bytes, order)
        })
    }
    #[inline(always)]
    fn copysign(self, magnitude: F, sign: F) -> F {
        let bit = self.splat(-0.0);
        op!(_mm256_or_ps(
            _mm256_andnot_ps(bit, magnitude),
            _mm256_and_ps(bit, sign)
        ))
    }
    #[inline(always)]
    fn select_less(self, a: F, b: F, yes: F, no: F) -> F {
        op!(_mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b)))
    }
    #[inline(always)]
    fn scale2(self, p: F, n: F) -> F {
        op!({
            let power = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(power)))
        })
    }
    #[inline(always)]
    fn dot_pairs(self, acc: I, a: I, b: I) -> I {
        if VNNI {
            op!(dpwssd(acc, a, b))
        } else {
            op!(madd(acc, a, b))
        }
    }
    #[inline(always)]
    fn dot_quads(self, acc: I, a: I, b: I) -> I {
        if VNNI {
            return op!(_mm256_dpbusd_avx_epi32(acc, a, b));
        }
        // Bytes widened to 16 bits, even and odd ones apart: exact, where `vpmaddubsw` would saturate.
        op!({
            let low = _mm256_set1_epi16(0xff);
            let even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(b));
            let acc = _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_and_si256(a, low), even));
            let odd = _mm256_madd_epi16(_mm256_srli_epi16::<8>(a), _mm256_srai_epi16::<8>(b));
            _mm256_add_epi32(acc, odd)
        })
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
            let mut t = [_mm256_setzero_ps(); N];
            for i in 0..4 {
                t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
                t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
            }
            let double = |v| _mm256_castps_pd(v);
            let mut u = t;
            for i in [0, 4] {
                for h in 0..2 {
                    let (a, b) = (double(t[i + h]), double(t[i + 2 + h]));
                    u[i + 2 * h] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
                    u[i + 2 * h + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
                }
            }
            for j in 0..4 {
                r[j] = _mm256_permute2f128_ps::<0x20>(u[j], u[4 + j]);
                r[4 + j] = _mm256_permute2f128_ps::<0x31>(u[j], u[4 + j]);
            }
        });
    }
}

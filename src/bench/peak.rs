//! How many operations a second this processor can do: a loop of fused multiply-adds, or of the products of
//! integers that the native engine uses, on every usable core, in registers, with the widest vectors that
//! the processor has.
//!
//! It is a bound to compare with, measured rather than read off a data sheet: clock speeds under load,
//! and the cores a container may use are all in it. Processor time is
//! counted, so that a busy machine does not seem a slow one. Matrix units (AMX, SME) are not.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::stats::rate;
use crate::stage::thread_time;

/// Independent chains of additions: enough to cover the latency of two units, few enough for sixteen
/// registers to hold them beside two constants.
const CHAINS: usize = 12;

/// Turns of the loop between looks at the clock.
const TURNS: usize = 20_000;

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// 10⁹ floating-point operations a second, all cores together; a fused multiply-add counts as two.
    pub gflops: f64,
    /// Vectors that were used.
    pub vectors: &'static str,
}

/// What is multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// Single precision.
    Float,
    /// 16-bit integers.
    Int16,
    /// 8-bit integers.
    Int8,
}

/// Runs the loop on `threads` threads for about `time`, several times, and takes the best. `None` where the
/// processor has no instruction of its own for that product.
#[must_use]
pub fn measure(product: Product, threads: usize, time: Duration) -> Option<Peak> {
    const PARTS: u32 = 5;
    let (vectors, kernel) = match product {
        Product::Float => kernel(),
        integers => integer_kernel(integers)?,
    };
    let gflops = (0..PARTS)
        .map(|_| run(kernel, threads.max(1), time / PARTS))
        .fold(0.0, f64::max);
    Some(Peak { gflops, vectors })
}

/// A kernel does `TURNS` turns and returns the operations of a turn, and a value that depends on all.
type Kernel = fn(f32) -> (usize, f32);

fn run(kernel: Kernel, threads: usize, time: Duration) -> f64 {
    let rates = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(move || {
                    let (start, processor) = (Instant::now(), thread_time());
                    let mut operations = 0_usize;
                    loop {
                        let (each, value) = kernel(black_box(0.999));
                        black_box(value);
                        operations += each * TURNS;
                        let mut passed = start.elapsed();
                        if passed < time {
                            continue;
                        }
                        // What others took of this core in the meantime is not its limit.
                        if let (Some(start), Some(end)) = (processor, thread_time()) {
                            passed = end.saturating_sub(start);
                        }
                        return rate(operations as f64, passed.as_secs_f64());
                    }
                })
            })
            .collect();
        // A thread that panicked (none does) would count as no operations.
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(0.0))
            .sum::<f64>()
    });
    rates / 1e9
}

/// The widest kernel that runs here.
fn kernel() -> (&'static str, Kernel) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F, which is all that the function asks for.
            return ("AVX-512", |by| unsafe { x86::avx512(by) });
        }
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA, which is all that the function asks for.
            return ("AVX2", |by| unsafe { x86::avx2(by) });
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        if std::arch::is_aarch64_feature_detected!("neon") {
            // SAFETY: the processor has NEON, which is all that the function asks for.
            return ("NEON", |by| unsafe { arm::neon(by) });
        }
    }
    ("whatever the compiler uses", portable)
}

/// The widest kernel for products of integers.
fn integer_kernel(product: Product) -> Option<(&'static str, Kernel)> {
    #[cfg(target_arch = "x86_64")]
    {
        let vnni =
            std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512vnni");
        match product {
            // SAFETY: the processor has AVX-512F and its VNNI, which is all that the function asks for.
            Product::Int8 if vnni => Some(("AVX-512 VNNI", |by| unsafe { x86::dpbusd(by) })),
            // SAFETY: as above.
            Product::Int16 if vnni => Some(("AVX-512 VNNI", |by| unsafe { x86::dpwssd(by) })),
            Product::Int16 if std::is_x86_feature_detected!("avx2") => {
                // SAFETY: the processor has AVX2, which is all that the function asks for.
                Some(("AVX2", |by| unsafe { x86::madd(by) }))
            }
            _ => None,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = product;
        None
    }
}

/// Multiplication and addition apart: a fused one is a library call where the processor has none.
fn portable(by: f32) -> (usize, f32) {
    const LANES: usize = 4;
    let mut sums = [[1.0_f32; LANES]; CHAINS];
    for _ in 0..TURNS {
        for sum in &mut sums {
            for runner in sum {
                *runner = *runner * by + 1.0;
            }
        }
    }
    (2 * CHAINS * LANES, sums.iter().flatten().sum())
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_add_epi32, _mm256_add_ps, _mm256_cvtsi256_si32, _mm256_cvtss_f32,
        _mm256_fmadd_ps, _mm256_madd_epi16, _mm256_set1_epi16, _mm256_set1_ps,
        _mm256_setzero_si256, _mm512_add_epi32, _mm512_add_ps, _mm512_cvtsi512_si32,
        _mm512_cvtss_f32, _mm512_dpbusd_epi32, _mm512_dpwssd_epi32, _mm512_fmadd_ps,
        _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_ps, _mm512_setzero_si512,
    };

    use super::{CHAINS, TURNS};

    #[target_feature(enable = "avx512f")]
    pub fn avx512(by: f32) -> (usize, f32) {
        let (by, one) = (_mm512_set1_ps(by), _mm512_set1_ps(1.0));
        let mut sums = [one; CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, by, one);
            }
        }
        let all = sums
            .into_iter()
            .fold(one, |all, sum| _mm512_add_ps(all, sum));
        (2 * CHAINS * 16, _mm512_cvtss_f32(all))
    }

    /// Four products of 8 bits in each of 16 lanes, added.
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn dpbusd(by: f32) -> (usize, f32) {
        let one = _mm512_set1_epi8(if by > 0.0 { 1 } else { 2 });
        let mut sums = [_mm512_setzero_si512(); CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, one, one);
            }
        }
        (2 * CHAINS * 64, lane(sums))
    }

    /// Two products of 16 bits in each of 16 lanes, added.
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn dpwssd(by: f32) -> (usize, f32) {
        let one = _mm512_set1_epi16(if by > 0.0 { 1 } else { 2 });
        let mut sums = [_mm512_setzero_si512(); CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = _mm512_dpwssd_epi32(*sum, one, one);
            }
        }
        (2 * CHAINS * 32, lane(sums))
    }

    #[target_feature(enable = "avx512f")]
    fn lane(sums: [__m512i; CHAINS]) -> f32 {
        let zero = _mm512_setzero_si512();
        let all = sums
            .into_iter()
            .fold(zero, |all, sum| _mm512_add_epi32(all, sum));
        _mm512_cvtsi512_si32(all) as f32
    }

    /// Two products of 16 bits in each of 8 lanes, added by an instruction of its own.
    #[target_feature(enable = "avx2")]
    pub fn madd(by: f32) -> (usize, f32) {
        let one = _mm256_set1_epi16(if by > 0.0 { 1 } else { 2 });
        let mut sums: [__m256i; CHAINS] = [_mm256_setzero_si256(); CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                // Of the sum itself, so that no product is computed once and for all.
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(*sum, one));
            }
        }
        let all = sums
            .into_iter()
            .fold(one, |all, sum| _mm256_add_epi32(all, sum));
        (2 * CHAINS * 16, _mm256_cvtsi256_si32(all) as f32)
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn avx2(by: f32) -> (usize, f32) {
        let (by, one) = (_mm256_set1_ps(by), _mm256_set1_ps(1.0));
        let mut sums = [one; CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, by, one);
            }
        }
        let all = sums
            .into_iter()
            .fold(one, |all, sum| _mm256_add_ps(all, sum));
        (2 * CHAINS * 8, _mm256_cvtss_f32(all))
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::{vaddq_f32, vdupq_n_f32, vfmaq_f32, vgetq_lane_f32};

    use super::{CHAINS, TURNS};

    #[target_feature(enable = "neon")]
    pub fn neon(by: f32) -> (usize, f32) {
        let (by, one) = (vdupq_n_f32(by), vdupq_n_f32(1.0));
        let mut sums = [one; CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = vfmaq_f32(one, *sum, by);
            }
        }
        let all = sums.into_iter().fold(one, |all, sum| vaddq_f32(all, sum));
        (2 * CHAINS * 4, vgetq_lane_f32::<0>(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_computes_the_same() {
        // x -> 0.5 x + 1 tends to 2, whatever it starts from.
        let lanes_of = |(operations, sum): (usize, f32)| (operations / 2, sum);
        let (runners, sum) = lanes_of(portable(0.5));
        assert!((sum / runners as f32 - 2.0).abs() < 1e-3);
        let (_, kernel) = kernel();
        let (operations, value) = kernel(0.5);
        assert!(operations >= 2 * 12, "{operations}");
        assert!(value.is_finite() && value > 2.0, "{value}");
    }

    #[test]
    fn something_is_measured() {
        let time = Duration::from_millis(5);
        let peak = measure(Product::Float, 1, time).unwrap();
        assert!(peak.gflops > 0.0 && !peak.vectors.is_empty(), "{peak:?}");
        for product in [Product::Int16, Product::Int8] {
            let peak = measure(product, 1, time);
            assert!(peak.is_none_or(|peak| peak.gflops > 0.0), "{peak:?}");
        }
    }

    #[test]
    fn products_of_integers_add_up() {
        // Each of TURNS turns adds what a lane sums up.
        for (product, products) in [(Product::Int8, 4.0), (Product::Int16, 2.0)] {
            if let Some(("AVX-512 VNNI", kernel)) = integer_kernel(product) {
                let (operations, value) = kernel(1.0);
                assert_eq!(value, (CHAINS * TURNS) as f32 * products);
                assert_eq!(operations as f32, 2.0 * CHAINS as f32 * 16.0 * products);
            }
        }
    }
}

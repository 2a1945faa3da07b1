//! Plain Rust on arrays of eight, for every processor; the compiler may vectorize it.

use super::{Coefficients, Simd};

/// Needs nothing of the processor.
#[derive(Clone, Copy)]
pub(in super::super) struct Portable;

const N: usize = 8;
type F = [f32; N];
type I = [i32; N];

/// A vector of the values of an expression for each index, written out: `std::array::from_fn` stays a call, and loops take
/// longer to compile.
macro_rules! each {
    ($i:ident => $value:expr) => {
        each!(@ $i => $value; 0 1 2 3 4 5 6 7)
    };
    (@ $i:ident => $value:expr; $($index:literal)*) => {
        [$({
            let $i: usize = $index;
            $value
        }),*]
    };
}

#[inline(always)]
fn map<A: Copy, B: Copy + Default>(a: [A; N], f: impl Fn(A) -> B) -> [B; N] {
    each!(i => f(a[i]))
}
#[inline(always)]
fn zip<A: Copy, B: Copy, C: Copy + Default>(a: [A; N], b: [B; N], f: impl Fn(A, B) -> C) -> [C; N] {
    each!(i => f(a[i], b[i]))
}
#[inline(always)]
fn first<T: Copy + Default>(from: &[T]) -> [T; N] {
    let from = &from[..N];
    each!(i => from[i])
}

/// `round_ties_even`, which is a library's function on x86 without SSE4.1.
#[inline(always)]
fn rounded(x: f32) -> f32 {
    if cfg!(not(target_arch = "x86_64")) {
        return x.round_ties_even();
    }
    // From here on all numbers are whole, and the addition rounds to them.
    const WHOLE: f32 = 8_388_608.0;
    match x.abs() < WHOLE {
        true => ((x.abs() + WHOLE) - WHOLE).copysign(x),
        false => x,
    }
}

impl Simd for Portable {
    const LANES: usize = N;
    const HAS_TILES: bool = cfg!(kernels = "plain-tiles");
    const PANEL: usize = 2;
    const ROWS: usize = 4;
    const NARROW_ROWS: usize = 4;
    const PIECES: usize = 16;
    const BYTE_OFFSET: i32 = 0;
    type F = F;
    type I = I;
    type Table = Coefficients;

    /// As of other implementations, `work` is a function of its own: inlined into each caller, tiles were compiled a dozen
    /// times.
    #[inline(always)]
    fn enter<R>(self, work: impl FnOnce() -> R) -> R {
        #[inline(never)]
        fn compiled<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        compiled(work)
    }
    inline! {
        fn splat(self, x: f32) -> F = [x; N];
        fn splat_i(self, x: i32) -> I = [x; N];
        fn load(self, from: &[f32]) -> F = first(from);
        fn store(self, to: &mut [f32], v: F) = to[..N].copy_from_slice(&v);
        fn load_i(self, from: &[i32]) -> I = first(from);
        fn store_i(self, to: &mut [i32], v: I) = to[..N].copy_from_slice(&v);
        fn add(self, a: F, b: F) -> F = zip(a, b, |a, b| a + b);
        fn sub(self, a: F, b: F) -> F = zip(a, b, |a, b| a - b);
        fn mul(self, a: F, b: F) -> F = zip(a, b, |a, b| a * b);
        fn div(self, a: F, b: F) -> F = zip(a, b, |a, b| a / b);
        /// Two roundings: a fused operation is a library call where the processor has none.
        fn fma(self, a: F, b: F, c: F) -> F = each!(i => a[i] * b[i] + c[i]);
        fn max(self, a: F, b: F) -> F = zip(a, b, |a, b| if a > b { a } else { b });
        fn min(self, a: F, b: F) -> F = zip(a, b, |a, b| if a < b { a } else { b });
        fn abs(self, a: F) -> F = map(a, f32::abs);
        fn copysign(self, magnitude: F, sign: F) -> F = zip(magnitude, sign, f32::copysign);
        fn round(self, a: F) -> F = map(a, rounded);
        fn scale2(self, p: F, n: F) -> F = zip(p, n, |p, n| p * f32::from_bits(((n as i32 + 127) << 23) as u32));
        fn to_int(self, a: F) -> I = map(a, |x| rounded(x) as i32);
        fn truncate(self, a: F) -> I = map(a, |x| x as i32);
        fn to_float(self, a: I) -> F = map(a, |x| x as f32);
        fn as_float(self, a: I) -> F = map(a, |x| f32::from_bits(x as u32));
        fn as_int(self, a: F) -> I = map(a, |x| x.to_bits() as i32);
        fn max_i(self, a: I, b: I) -> I = zip(a, b, i32::max);
        fn table(self, entries: &Coefficients) -> Coefficients = *entries;
        fn look_up(self, table: Coefficients, index: I) -> F = map(index, |i| table[i as usize & 15]);
    }
    #[inline(always)]
    unsafe fn load_at(self, from: *const i32) -> I {
        // SAFETY: the caller vouches for N readable dwords; nothing is asked of their alignment.
        unsafe { from.cast::<I>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_at(self, to: *mut i32, v: I) {
        // SAFETY: the caller vouches for N writable dwords; nothing is asked of their alignment.
        unsafe { to.cast::<I>().write_unaligned(v) }
    }
    #[inline(always)]
    fn select_less(self, a: F, b: F, yes: F, no: F) -> F {
        each!(i => if a[i] < b[i] { yes[i] } else { no[i] })
    }
    #[inline(always)]
    fn pair(self, low: I, high: I) -> I {
        zip(low, high, |low, high| {
            let ([a, b], [c, d]) = ((low as i16).to_ne_bytes(), (high as i16).to_ne_bytes());
            i32::from_ne_bytes([a, b, c, d])
        })
    }
    #[inline(always)]
    fn widen(self, pairs: I) -> [F; 2] {
        [
            map(pairs, |pair| f32::from_bits((pair as u32) << 16)),
            map(pairs, |pair| f32::from_bits(pair as u32 & !0xffff)),
        ]
    }
    #[inline(always)]
    fn pack16(self, a: I, b: I) -> I {
        let half = |i: usize| if i < N { a[i] } else { b[i - N] };
        let narrow = |x: i32| x.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
        each!(i => {
            let ([a, b], [c, d]) = (
                narrow(half(2 * i)).to_ne_bytes(),
                narrow(half(2 * i + 1)).to_ne_bytes(),
            );
            i32::from_ne_bytes([a, b, c, d])
        })
    }
    #[inline(always)]
    fn pack8(self, lanes: [I; 4]) -> I {
        let byte = |i: usize| lanes[i / N][i % N].clamp(0, 255) as u8;
        let bytes = |i: usize| [byte(i), byte(i + 1), byte(i + 2), byte(i + 3)];
        each!(i => i32::from_ne_bytes(bytes(4 * i)))
    }
    /// By a loop, which is vectorized: twice as fast as written out.
    #[inline(always)]
    fn dot_pairs(self, acc: I, a: I, b: I) -> I {
        let half = |x: i32, high: bool| i32::from(if high { (x >> 16) as i16 } else { x as i16 });
        let mut out = [0; N];
        for (i, out) in out.iter_mut().enumerate() {
            *out = acc[i]
                .wrapping_add(half(a[i], false) * half(b[i], false))
                .wrapping_add(half(a[i], true) * half(b[i], true));
        }
        out
    }
    #[inline(always)]
    fn dot_quads(self, acc: I, a: I, b: I) -> I {
        each!(i => {
            let (a, b) = (a[i].to_ne_bytes(), b[i].to_ne_bytes());
            (0..4).fold(acc[i], |acc, j| acc + i32::from(a[j]) * i32::from(b[j] as i8))
        })
    }
}

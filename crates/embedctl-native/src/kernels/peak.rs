//! The peak speed of the products' instructions, as a bound for the engine's speed.

use std::hint::black_box;

use super::isa::{Isa, ProductPrecision, with, with_floats};
use super::simd::Simd;
use super::tile::{Dot, Floats, Pairs, Quads, WidenedHalves, multiplies_blocks, with_bf16};

/// Sums that grow independently: enough to keep two units busy, and few enough for sixteen registers.
const CHAINS: usize = 12;

/// Multiplies and adds in registers, `turns` times a dozen vectors, and returns how many operations that were:
/// a product and its addition are two. The caller takes the time.
#[must_use]
pub fn operations(isa: Isa, arithmetic: ProductPrecision, turns: usize) -> usize {
    match arithmetic {
        ProductPrecision::F32 => with_floats!(isa, s => run(s, Floats, turns)),
        ProductPrecision::Bf16 => with_bf16!(isa, s, halves => run(s, halves, turns))
            .unwrap_or_else(|| with_floats!(isa, s => run(s, WidenedHalves, turns))),
        ProductPrecision::I16 => with!(isa, s => run(s, Pairs, turns)),
        ProductPrecision::I8 => with!(isa, s => run(s, Quads, turns)),
    }
}

#[inline(always)]
fn run<S: Simd, D: Dot>(s: S, _: D, turns: usize) -> usize {
    let mut sums = [s.splat_i(0); CHAINS];
    // Ones of that arithmetic: neither sums that overflow nor numbers so small that processors slow down.
    let one = match D::ARITHMETIC {
        ProductPrecision::F32 => 1.0_f32.to_bits() as i32,
        ProductPrecision::Bf16 => 0x3f80_3f80,
        ProductPrecision::I16 => 0x0001_0001,
        ProductPrecision::I8 => 0x0101_0101,
    };
    let right = s.splat_i(black_box(one));
    for turn in 0..turns {
        // Another value every turn, so that no product can be computed ahead of the loop.
        let left = s.splat_i(one ^ (turn as i32 & 2));
        for sum in &mut sums {
            *sum = match multiplies_blocks::<S, D>() {
                true => s.dot_blocks(*sum, left, right),
                false => D::dot(s, *sum, left, right),
            };
        }
    }
    let mut all = [0; super::simd::MOST_LANES];
    for sum in sums {
        s.store_i(&mut all, sum);
        black_box(&all);
    }
    // A lane of a product of blocks takes two quads.
    let dwords = 1 + usize::from(multiplies_blocks::<S, D>());
    2 * turns * CHAINS * S::LANES * dwords * D::ARITHMETIC.per_lane()
}

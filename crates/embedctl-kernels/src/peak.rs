//! The peak speed of the products' instructions, as a bound for the engine's speed.

use std::hint::black_box;

use super::amx::{ROWS, SIDE, TILE, TileRows, Tiles, WIDTH};
use super::isa::{Isa, with, with_floats, with_tiles};
use super::simd::Simd;
use super::tile::{Dot, Floats, Pairs, Quads, WidenedHalves, multiplies_blocks, with_bf16};
use super::tile_layout::{TileLayout, TileNumbers};
use embedctl_common::Arithmetic;

/// Sums that grow independently: enough to keep two units busy, and few enough for sixteen registers.
const CHAINS: usize = 12;

/// Multiplies and adds in registers, `turns` times a dozen vectors, and returns how many operations that were:
/// a product and its addition are two. Tiles are loaded, too, from the nearest cache. The caller takes the time.
#[must_use]
pub fn operations(isa: Isa, arithmetic: Arithmetic, turns: usize) -> usize {
    let by_tiles = with_tiles!(isa, _s, tiles => run_tiles(tiles, arithmetic, turns));
    if let Some(operations) = by_tiles {
        return operations;
    }
    match arithmetic {
        Arithmetic::Fp32 => with_floats!(isa, s => run(s, Floats, turns)),
        Arithmetic::Bf16 => with_bf16!(isa, s, halves => run(s, halves, turns))
            .unwrap_or_else(|| with_floats!(isa, s => run(s, WidenedHalves, turns))),
        Arithmetic::Int16 => with!(isa, s => run(s, Pairs, turns)),
        Arithmetic::Int8 => with!(isa, s => run(s, Quads, turns)),
    }
}

#[cfg_attr(not(kernels = "amx"), allow(dead_code))]
/// Tiles of few inputs, about as many products as vectors would make.
fn run_tiles<T: Tiles>(tiles: T, arithmetic: Arithmetic, turns: usize) -> usize {
    const INPUTS: usize = 256;
    let numbers = TileNumbers::of(arithmetic, INPUTS).expect("tiles for all numbers of few inputs");
    let layout = TileLayout::of(numbers, INPUTS);
    let [left_planes, planes] = layout.planes().map(|planes| layout.groups * planes);
    // Ones, or numbers near to them.
    let ones = match arithmetic {
        Arithmetic::Bf16 => 0x3f80_3f80,
        _ => 0x0101_0101,
    };
    let (left, right) = (
        vec![ones; 2 * left_planes * TILE],
        vec![ones; planes * SIDE * WIDTH],
    );
    let mut sums = [[0; WIDTH]; ROWS];
    let each = 2 * ROWS * WIDTH * INPUTS;
    let vectors = 2 * turns * CHAINS * super::simd::MOST_LANES * arithmetic.per_lane();
    let times = vectors.div_ceil(each);
    let configured = tiles.configure(ROWS);
    for _ in 0..times {
        for product in layout.products() {
            let rows = TileRows {
                left: &left,
                tile: left_planes * TILE,
                rows: ROWS,
                right: &right,
                half: right.len() / 2,
                groups: layout.groups,
                columns: WIDTH,
                adds: false,
                ahead: (right.as_ptr(), 0),
            };
            tiles.multiply(&configured, *product, rows, &mut sums);
            black_box(&sums);
        }
    }
    times * each
}

#[inline(always)]
fn run<S: Simd, D: Dot>(s: S, _: D, turns: usize) -> usize {
    let mut sums = [s.splat_i(0); CHAINS];
    // Ones of that arithmetic: neither sums that overflow nor numbers so small that processors slow down.
    let one = match D::ARITHMETIC {
        Arithmetic::Fp32 => 1.0_f32.to_bits() as i32,
        Arithmetic::Bf16 => 0x3f80_3f80,
        Arithmetic::Int16 => 0x0001_0001,
        Arithmetic::Int8 => 0x0101_0101,
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

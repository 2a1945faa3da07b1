//! The processor's unit beside plain code.

use super::*;
use crate::isa::{Isa, with_tiles};

/// One product of tiles, by the unit of `isa`.
fn multiply(isa: Isa, product: TileProduct, rows: TileRows<'_>, sums: &mut [SumRow]) {
    let done = with_tiles!(isa, _s, tiles => {
        tiles.multiply(&tiles.configure(rows.rows), product, rows, sums);
    });
    assert!(done.is_some());
}

#[test]
fn the_processors_tiles_give_the_bits_of_plain_ones() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32
    };
    for product in [
        TileProduct::Bytes,
        TileProduct::Halves,
        TileProduct::UpperBytes,
        TileProduct::CrossBytes,
        TileProduct::LowerBytes,
        TileProduct::FloatsByHalves,
        TileProduct::FirstBytes,
        TileProduct::SecondBytes,
        TileProduct::ThirdBytes,
    ] {
        let floats = matches!(product, TileProduct::Halves | TileProduct::FloatsByHalves);
        let groups = 3;
        let tiles = groups * product.left_planes();
        let right_tiles = groups * product.right_planes();
        // Exponents of floats: near one, far apart, and so small that products or even numbers are subnormal.
        for (least, span) in [(120, 12), (80, 90), (0, 140), (50, 20)] {
            let mut half = || {
                let bits = next();
                (bits >> 16 & 0x807f) | (least + bits % span) << 7
            };
            let mut dwords = |count: usize| -> Vec<i32> {
                let one = |_| (half() | half() << 16).cast_signed();
                (0..count).map(one).collect()
            };
            let (left, right) = (dwords(2 * tiles * TILE), dwords(right_tiles * SIDE * WIDTH));
            let before: Vec<SumRow> = (0..2 * SIDE)
                .map(|_| match floats {
                    true => std::array::from_fn(|_| (half_sum(next())).cast_signed()),
                    false => std::array::from_fn(|_| next().cast_signed()),
                })
                .collect();
            for rows in [1, 8, 9, 16, 17, 32] {
                for adds in [false, true] {
                    let operands = TileRows {
                        left: &left,
                        tile: tiles * TILE,
                        rows,
                        right: &right,
                        half: right.len() / 2,
                        groups,
                        columns: WIDTH,
                        adds,
                        ahead: (right.as_ptr(), 3),
                    };
                    let mut want = before.clone();
                    PlainTiles.multiply(&rows, product, operands, &mut want);
                    for isa in Isa::all_and_emulated()
                        .into_iter()
                        .filter(|isa| isa.has_tiles())
                    {
                        let mut got = before.clone();
                        multiply(isa, product, operands, &mut got);
                        let pairs = got[..rows]
                            .as_flattened()
                            .iter()
                            .zip(want[..rows].as_flattened());
                        for (place, (got, want)) in pairs.enumerate() {
                            let is_nan = |bits: &i32| f32::from_bits(bits.cast_unsigned()).is_nan();
                            let same = got == want || floats && is_nan(got) && is_nan(want);
                            assert!(same, "{isa} {product:?}, {rows} rows, {place}");
                        }
                    }
                }
            }
        }
    }
}

/// A sum of moderate size.
fn half_sum(bits: u32) -> u32 {
    (bits & 0x807f_ffff) | (100 + bits % 40) << 23
}

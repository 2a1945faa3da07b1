//! Tiles in plain code, with the exact meaning of the processor's instructions.

use super::{SIDE, SumRow, TILE, TileProduct, TileRows, Tiles, WIDTH};

/// Needs nothing of the processor.
#[derive(Clone, Copy)]
pub(in super::super) struct PlainTiles;

#[derive(Clone, Copy)]
struct Tile([[i32; SIDE]; SIDE]);

impl Tiles for PlainTiles {
    type Configured = usize;

    fn configure(self, rows: usize) -> usize {
        rows
    }

    fn multiply(
        self,
        most: &Self::Configured,
        product: TileProduct,
        rows: TileRows<'_>,
        sums: &mut [SumRow],
    ) {
        rows.check(product, sums);
        assert!(
            rows.rows <= *most,
            "more rows than tiles were configured for"
        );
        // Halves of a panel.
        let columns = if rows.columns > WIDTH / 2 { 4 } else { 2 };
        let (left_planes, right_planes) = (product.left_planes(), product.right_planes());
        for (from, column) in (0..rows.rows.div_ceil(SIDE))
            .flat_map(|row| (0..columns).map(move |column| (row, column)))
        {
            let mut acc = match rows.adds {
                true => Tile(std::array::from_fn(|row| {
                    std::array::from_fn(|at| sums[from * SIDE + row][column * SIDE + at])
                })),
                false => Tile([[0; SIDE]; SIDE]),
            };
            // Rows beyond the last one are left out.
            let own = SIDE.min(rows.rows - from * SIDE);
            for group in 0..rows.groups {
                let left = |plane: usize| {
                    let at = from * rows.tile + (group * left_planes + plane) * TILE;
                    &rows.left[at..][..own * SIDE]
                };
                let right = |plane: usize| {
                    let at = (group * right_planes + plane) * 2 * TILE + column % 2 * TILE;
                    Tile::of(&rows.right[column / 2 * rows.half + at..], SIDE)
                };
                match product {
                    TileProduct::Bytes => acc.add_bytes(left(0), right(0), [false, true]),
                    TileProduct::Halves => acc.add_halves(left(0), right(0)),
                    TileProduct::UpperBytes => acc.add_bytes(left(0), right(0), [true, true]),
                    TileProduct::CrossBytes => {
                        acc.add_bytes(left(1), right(0), [false, true]);
                        acc.add_bytes(left(0), right(1), [true, false]);
                    }
                    TileProduct::LowerBytes => acc.add_bytes(left(1), right(1), [false, false]),
                    TileProduct::FirstBytes => acc.add_bytes(left(0), right(0), [true, true]),
                    TileProduct::SecondBytes => {
                        acc.add_bytes(left(0), right(1), [true, true]);
                        acc.add_bytes(left(1), right(0), [true, true]);
                    }
                    TileProduct::ThirdBytes => {
                        acc.add_bytes(left(0), right(2), [true, true]);
                        acc.add_bytes(left(1), right(1), [true, true]);
                        acc.add_bytes(left(2), right(0), [true, true]);
                    }
                    TileProduct::FloatsByHalves => {
                        for plane in [2, 1, 0] {
                            acc.add_halves(left(plane), right(0));
                        }
                    }
                }
            }
            for (sums, acc) in sums[from * SIDE..].iter_mut().zip(&acc.0).take(own) {
                sums[column * SIDE..][..SIDE].copy_from_slice(acc);
            }
        }
    }
}

impl Tile {
    /// Rows of dwords, `stride` apart.
    fn of(dwords: &[i32], stride: usize) -> Self {
        Self(std::array::from_fn(|row| {
            std::array::from_fn(|column| dwords[row * stride + column])
        }))
    }

    /// `tdpbssd`, `tdpbsud`, `tdpbusd` and `tdpbuud`.
    fn add_bytes(&mut self, a: &[i32], b: Self, [a_signed, b_signed]: [bool; 2]) {
        let bytes = |dword: i32, signed: bool| {
            dword.to_le_bytes().map(|byte| match signed {
                true => i32::from(byte.cast_signed()),
                false => i32::from(byte),
            })
        };
        for (acc, a) in self.0.iter_mut().zip(a.chunks(SIDE)) {
            for (a, b) in a.iter().zip(&b.0) {
                let a = bytes(*a, a_signed);
                for (acc, b) in acc.iter_mut().zip(b) {
                    let products = a.into_iter().zip(bytes(*b, b_signed));
                    *acc = products.fold(*acc, |acc, (a, b)| acc.wrapping_add(a * b));
                }
            }
        }
    }

    /// `tdpbf16ps`. The product of two bfloat16 is exact in single precision unless it is subnormal, so a multiplication and
    /// an addition round once, as the fused one does.
    fn add_halves(&mut self, a: &[i32], b: Self) {
        for (acc, a) in self.0.iter_mut().zip(a.chunks(SIDE)) {
            let mut chains = [[0.0_f32; SIDE]; 2];
            for (a, b) in a.iter().zip(&b.0) {
                for (odd, chain) in chains.iter_mut().enumerate() {
                    let a = half(*a, odd);
                    let b = b.map(|pair| half(pair, odd));
                    let is_exact =
                        |b: f32| (a * b).abs() >= f32::MIN_POSITIVE || a == 0.0 || b == 0.0;
                    // Not a loop that stops early: this one is vectorized.
                    if b.iter().fold(true, |all, b| all & is_exact(*b)) {
                        for (sum, b) in chain.iter_mut().zip(b) {
                            *sum = flushed(a * b + *sum);
                        }
                    } else {
                        for (sum, b) in chain.iter_mut().zip(b) {
                            *sum = flushed(a.mul_add(b, *sum));
                        }
                    }
                }
            }
            let [even, odd] = chains;
            for (acc, (even, odd)) in acc.iter_mut().zip(even.into_iter().zip(odd)) {
                let before = flushed(f32::from_bits(acc.cast_unsigned()));
                *acc = flushed(before + flushed(even + odd))
                    .to_bits()
                    .cast_signed();
            }
        }
    }
}

/// A bfloat16 of a pair.
fn half(pair: i32, odd: usize) -> f32 {
    let bits = pair.cast_unsigned();
    flushed(f32::from_bits(match odd {
        0 => bits << 16,
        _ => bits & 0xffff_0000,
    }))
}

/// Subnormal numbers are taken for zero.
fn flushed(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE {
        0.0_f32.copysign(x)
    } else {
        x
    }
}

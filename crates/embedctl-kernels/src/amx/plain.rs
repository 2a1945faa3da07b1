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
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has what the function needs.
            return unsafe { multiply_wide(product, rows, sums) };
        }
        multiply(product, rows, sums);
    }
}

/// The same in wider registers: tests take much of their time here.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_wide(product: TileProduct, rows: TileRows<'_>, sums: &mut [SumRow]) {
    multiply(product, rows, sums);
}

/// The planes of each side that are multiplied, in this order; of bytes, the sides that have signs, and `None` of bfloat16.
const fn parts(product: TileProduct) -> &'static [([usize; 2], Option<[bool; 2]>)] {
    match product {
        TileProduct::Bytes => &[([0, 0], Some([false, true]))],
        TileProduct::Halves => &[([0, 0], None)],
        TileProduct::UpperBytes | TileProduct::FirstBytes => &[([0, 0], Some([true, true]))],
        TileProduct::CrossBytes => &[([1, 0], Some([false, true])), ([0, 1], Some([true, false]))],
        TileProduct::LowerBytes => &[([1, 1], Some([false, false]))],
        TileProduct::SecondBytes => &[([0, 1], Some([true, true])), ([1, 0], Some([true, true]))],
        TileProduct::ThirdBytes => &[
            ([0, 2], Some([true, true])),
            ([1, 1], Some([true, true])),
            ([2, 0], Some([true, true])),
        ],
        TileProduct::FloatsByHalves => &[([2, 0], None), ([1, 0], None), ([0, 0], None)],
    }
}

#[inline(always)]
fn multiply(product: TileProduct, rows: TileRows<'_>, sums: &mut [SumRow]) {
    // Halves of a panel.
    let columns = if rows.columns > WIDTH / 2 { 4 } else { 2 };
    let (left_planes, right_planes) = (product.left_planes(), product.right_planes());
    let parts = parts(product);
    for (from, column) in
        (0..rows.rows.div_ceil(SIDE)).flat_map(|row| (0..columns).map(move |column| (row, column)))
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
            for ([of_left, of_right], signs) in parts {
                match signs {
                    Some(signs) => acc.add_bytes(left(*of_left), right(*of_right), *signs),
                    None => acc.add_halves(left(*of_left), right(*of_right)),
                }
            }
        }
        for (sums, acc) in sums[from * SIDE..].iter_mut().zip(&acc.0).take(own) {
            sums[column * SIDE..][..SIDE].copy_from_slice(acc);
        }
    }
}

impl Tile {
    /// Rows of dwords, `stride` apart.
    #[inline(always)]
    fn of(dwords: &[i32], stride: usize) -> Self {
        Self(std::array::from_fn(|row| {
            std::array::from_fn(|column| dwords[row * stride + column])
        }))
    }

    /// `tdpbssd`, `tdpbsud`, `tdpbusd` and `tdpbuud`.
    #[inline(always)]
    fn add_bytes(&mut self, a: &[i32], b: Self, signs: [bool; 2]) {
        // A byte's sign is moved to where it is worth -128.
        let [a_sign, b_sign] = signs.map(|signed| if signed { 0x80 } else { 0 });
        let byte = |dword: i32, place: u32, sign: i32| {
            let byte = (dword >> (8 * place)) & 0xff;
            (byte ^ sign) - sign
        };
        for (from, b) in b.0.iter().enumerate() {
            for place in 0..4 {
                let mut of_place = [0; SIDE];
                for (to, b) in of_place.iter_mut().zip(b) {
                    *to = byte(*b, place, b_sign);
                }
                for (acc, a) in self.0.iter_mut().zip(a.chunks(SIDE)) {
                    let a = byte(a[from], place, a_sign);
                    for (acc, b) in acc.iter_mut().zip(&of_place) {
                        *acc = acc.wrapping_add(a * b);
                    }
                }
            }
        }
    }

    /// `tdpbf16ps`. The product of two bfloat16 is exact in single precision unless it is subnormal, so a multiplication and
    /// an addition round once, as the fused one does.
    #[inline(always)]
    fn add_halves(&mut self, a: &[i32], b: Self) {
        let mut chains = [[[0.0_f32; SIDE]; SIDE]; 2];
        for (from, b) in b.0.iter().enumerate() {
            for (odd, chains) in chains.iter_mut().enumerate() {
                let mut of_pair = [0.0; SIDE];
                let mut least = f32::INFINITY;
                for (to, b) in of_pair.iter_mut().zip(b) {
                    *to = half(*b, odd);
                    if *to != 0.0 {
                        least = least.min(to.abs());
                    }
                }
                for (chain, a) in chains.iter_mut().zip(a.chunks(SIDE)) {
                    let a = half(a[from], odd);
                    // That of the number nearest to zero is the smallest product.
                    if a == 0.0 || a.abs() * least >= f32::MIN_POSITIVE {
                        for (sum, b) in chain.iter_mut().zip(&of_pair) {
                            *sum = flushed(a * b + *sum);
                        }
                    } else {
                        for (sum, b) in chain.iter_mut().zip(&of_pair) {
                            *sum = flushed(a.mul_add(*b, *sum));
                        }
                    }
                }
            }
        }
        let own = a.len() / SIDE;
        let [even, odd] = chains;
        for ((acc, even), odd) in self.0.iter_mut().zip(even).zip(odd).take(own) {
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
#[inline(always)]
fn half(pair: i32, odd: usize) -> f32 {
    let bits = pair.cast_unsigned();
    flushed(f32::from_bits(match odd {
        0 => bits << 16,
        _ => bits & 0xffff_0000,
    }))
}

/// Subnormal numbers are taken for zero.
#[inline(always)]
fn flushed(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE {
        0.0_f32.copysign(x)
    } else {
        x
    }
}

//! How rows of numbers lie in tiles.
//!
//! A row of a matrix or of an operand is cut into *groups*: the inputs that a tile takes, 32 of 16 bits or 64 of 8. Of each
//! group, a row has a line of sixteen dwords for each *plane*. Rounded numbers of 8 bits and bfloat16 are one plane as they
//! are. 16-bit integers have a plane of upper bytes and one of lower bytes, and numbers in single precision one of the
//! nearest bfloat16 and one of the bfloat16 nearest to the rest.

use super::super::isa::ProductPrecision;
use super::super::lines::dwords;
use super::super::rounding::{bfloat16, i16_block};
use super::{SIDE, TILE, TileProduct};

/// One row's dwords of a tile.
pub(in super::super) type Line = [i32; SIDE];

/// The tiles of a row of so many inputs.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct TileLayout {
    arithmetic: ProductPrecision,
    /// Of each plane.
    pub(in super::super) groups: usize,
    /// Groups of a block of 16-bit integers, whose sums fit 32 bits; a block's last group is filled up with zeros.
    pub(in super::super) block: usize,
    /// Dwords of a block before they are spread over planes.
    block_dwords: usize,
}

impl TileLayout {
    pub(in super::super) fn of(arithmetic: ProductPrecision, inputs: usize) -> Self {
        let (groups, block, block_dwords) = match arithmetic {
            ProductPrecision::F32 | ProductPrecision::Bf16 => {
                let groups = inputs.div_ceil(2 * SIDE);
                (groups, groups, inputs.div_ceil(arithmetic.per_lane()))
            }
            ProductPrecision::I8 => {
                let groups = inputs.div_ceil(4 * SIDE);
                (groups, groups, inputs.div_ceil(4))
            }
            ProductPrecision::I16 => {
                let inputs_of_block = i16_block(inputs);
                let block = inputs_of_block.div_ceil(4 * SIDE);
                let groups = inputs.div_ceil(inputs_of_block) * block;
                (groups, block, inputs_of_block / 2)
            }
        };
        Self {
            arithmetic,
            groups,
            block,
            block_dwords,
        }
    }

    /// The product of all groups, or in 16-bit integers the first of them.
    pub(in super::super) fn product(self) -> TileProduct {
        match self.arithmetic {
            ProductPrecision::F32 => TileProduct::SplitHalves,
            ProductPrecision::Bf16 => TileProduct::Halves,
            ProductPrecision::I16 => TileProduct::UpperBytes,
            ProductPrecision::I8 => TileProduct::Bytes,
        }
    }

    /// Dwords of a row.
    pub(in super::super) fn dwords(self) -> usize {
        self.groups * self.product().planes() * SIDE
    }

    /// Spreads a row of rounded numbers, as vectors would multiply them, over its lines; `put` takes each line's number and
    /// dwords.
    #[inline(always)]
    pub(in super::super) fn spread(self, row: &[i32], mut put: impl FnMut(usize, &Line)) {
        match self.product() {
            TileProduct::Bytes | TileProduct::Halves => {
                for (number, line) in row.chunks(SIDE).enumerate() {
                    put(number, &filled(line));
                }
            }
            TileProduct::SplitHalves => {
                for (group, floats) in row.chunks(2 * SIDE).enumerate() {
                    let [upper, lower] = split_floats(&filled(floats));
                    put(2 * group, &upper);
                    put(2 * group + 1, &lower);
                }
            }
            _ => {
                for (block, dwords) in row.chunks(self.block_dwords).enumerate() {
                    for group in 0..self.block {
                        let from = dwords.len().min(group * 2 * SIDE);
                        let to = dwords.len().min(from + 2 * SIDE);
                        let [upper, lower] = split_pairs(&filled(&dwords[from..to]));
                        let group = block * self.block + group;
                        put(2 * group, &upper);
                        put(2 * group + 1, &lower);
                    }
                }
            }
        }
    }
}

/// Writes the lines of row `row` to an operand's tiles, `tile` dwords for each sixteen rows.
#[inline(always)]
pub(in super::super) fn put_row(
    layout: TileLayout,
    row: usize,
    dwords: &[i32],
    tiles: &mut [i32],
    tile: usize,
) {
    let own = &mut tiles[row / SIDE * tile..][..tile];
    let own = &mut own[row % SIDE * SIDE..];
    layout.spread(
        dwords,
        #[inline(always)]
        |number, line| own[number * TILE..][..SIDE].copy_from_slice(line),
    );
}

/// Dwords, and zeros behind them.
#[inline(always)]
fn filled<const N: usize>(dwords: &[i32]) -> [i32; N] {
    match dwords.first_chunk() {
        Some(all) => *all,
        None => {
            let mut all = [0; N];
            all[..dwords.len()].copy_from_slice(dwords);
            all
        }
    }
}

/// The lines of up to 32 floats in each plane: of one where they become bfloat16, of two where they stay in single
/// precision.
#[inline(always)]
pub(in super::super) fn float_lines(arithmetic: ProductPrecision, floats: &[f32]) -> [Line; 2] {
    let floats = filled(dwords(&floats[..floats.len().min(2 * SIDE)]));
    match arithmetic {
        ProductPrecision::F32 => split_floats(&floats),
        _ => [near_floats(&floats), [0; SIDE]],
    }
}

/// The nearest bfloat16, and the nearest of the rest: together they have 16 to 17 bits of a float's 24. The rest of an
/// infinity is NaN, and a finite number that would be rounded to infinity is cut off instead.
#[inline(always)]
pub(in super::super) fn split_float(float: f32) -> [u16; 2] {
    let bits = float.to_bits();
    let near = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    let is_finite = near & 0x7f80_0000 != 0x7f80_0000 && bits & 0x7f80_0000 != 0x7f80_0000;
    let kept = if is_finite { near } else { bits } & 0xffff_0000;
    let rest = float - f32::from_bits(kept);
    [(kept >> 16) as u16, bfloat16(rest).cast_unsigned()]
}

#[inline(always)]
fn split_floats(floats: &[i32; 2 * SIDE]) -> [Line; 2] {
    let (mut upper, mut lower) = ([0_u16; 2 * SIDE], [0_u16; 2 * SIDE]);
    for i in 0..2 * SIDE {
        [upper[i], lower[i]] = split_float(f32::from_bits(floats[i].cast_unsigned()));
    }
    [pairs(&upper), pairs(&lower)]
}

#[inline(always)]
fn near_floats(floats: &[i32; 2 * SIDE]) -> Line {
    let mut near = [0_u16; 2 * SIDE];
    for i in 0..2 * SIDE {
        near[i] = bfloat16(f32::from_bits(floats[i].cast_unsigned())).cast_unsigned();
    }
    pairs(&near)
}

/// Upper and lower bytes of 16-bit integers.
#[inline(always)]
fn split_pairs(dwords: &[i32; 2 * SIDE]) -> [Line; 2] {
    let (mut upper, mut lower) = ([0_u8; 4 * SIDE], [0_u8; 4 * SIDE]);
    for i in 0..4 * SIDE {
        let half = dwords[i / 2].cast_unsigned() >> (16 * (i % 2));
        upper[i] = (half >> 8) as u8;
        lower[i] = half as u8;
    }
    [quads(&upper), quads(&lower)]
}

#[inline(always)]
fn pairs(halves: &[u16; 2 * SIDE]) -> Line {
    std::array::from_fn(
        #[inline(always)]
        |i| (u32::from(halves[2 * i]) | u32::from(halves[2 * i + 1]) << 16).cast_signed(),
    )
}

#[inline(always)]
fn quads(bytes: &[u8; 4 * SIDE]) -> Line {
    std::array::from_fn(
        #[inline(always)]
        |i| {
            i32::from_le_bytes([
                bytes[4 * i],
                bytes[4 * i + 1],
                bytes[4 * i + 2],
                bytes[4 * i + 3],
            ])
        },
    )
}

//! How rows of numbers lie in tiles.
//!
//! A row of a matrix or of an operand is cut into *groups*: the inputs that a tile takes, 32 of 16 bits or 64 of 8. Of each
//! group, a row has a line of sixteen dwords for each *plane*. Rounded numbers of 8 bits and bfloat16 are one plane as they
//! are. 16-bit integers have a plane of upper bytes and one of lower bytes. Numbers of an operand in single precision have
//! three planes: the nearest bfloat16, the nearest one of what is left, and what is left then. A matrix that such an operand
//! is multiplied with has bfloat16.

use super::amx::{SIDE, TILE, TileProduct};
use super::lines::dwords;
use super::rounding::{bfloat16, i16_block};
use embedctl_common::Arithmetic;

/// One row's dwords of a tile.
pub(super) type Line = [i32; SIDE];

/// The tiles of a row of so many inputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct TileLayout {
    arithmetic: Arithmetic,
    /// Of each plane.
    pub(super) groups: usize,
    /// Groups of a block of 16-bit integers, whose sums fit 32 bits; a block's last group is filled up with zeros.
    pub(super) block: usize,
    /// Dwords of a block before they are spread over planes.
    block_dwords: usize,
}

impl TileLayout {
    pub(super) fn of(arithmetic: Arithmetic, inputs: usize) -> Self {
        let (groups, block, block_dwords) = match arithmetic {
            Arithmetic::Fp32 | Arithmetic::Bf16 => {
                let groups = inputs.div_ceil(2 * SIDE);
                (groups, groups, inputs.div_ceil(arithmetic.per_lane()))
            }
            Arithmetic::Int8 => {
                let groups = inputs.div_ceil(4 * SIDE);
                (groups, groups, inputs.div_ceil(4))
            }
            Arithmetic::Int16 => {
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

    /// The products of a group, whose sums are kept apart.
    pub(super) fn products(self) -> &'static [TileProduct] {
        match self.arithmetic {
            Arithmetic::Fp32 => &[TileProduct::FloatsByHalves],
            Arithmetic::Bf16 => &[TileProduct::Halves],
            Arithmetic::Int16 => &[
                TileProduct::UpperBytes,
                TileProduct::CrossBytes,
                TileProduct::LowerBytes,
            ],
            Arithmetic::Int8 => &[TileProduct::Bytes],
        }
    }

    /// Planes of an operand's numbers, and of a matrix's.
    pub(super) fn planes(self) -> [usize; 2] {
        let product = self.products()[0];
        [product.left_planes(), product.right_planes()]
    }

    /// Dwords of an operand's row, and of a matrix's.
    pub(super) fn dwords(self) -> [usize; 2] {
        self.planes().map(|planes| self.groups * planes * SIDE)
    }

    /// Spreads a row of rounded numbers, as vectors would multiply them, over its lines; `put` takes each line's number and
    /// dwords. Numbers in single precision are an operand's.
    #[inline(always)]
    pub(super) fn spread(self, row: &[i32], mut put: impl FnMut(usize, &Line)) {
        match self.arithmetic {
            Arithmetic::Int8 | Arithmetic::Bf16 => {
                for (number, line) in row.chunks(SIDE).enumerate() {
                    put(number, &filled(line));
                }
            }
            Arithmetic::Fp32 => {
                for (group, floats) in row.chunks(2 * SIDE).enumerate() {
                    for (plane, line) in split_floats(&filled(floats)).iter().enumerate() {
                        put(3 * group + plane, line);
                    }
                }
            }
            Arithmetic::Int16 => {
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
pub(super) fn put_row(
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

/// The nearest bfloat16 of up to 32 floats.
#[inline(always)]
pub(super) fn near_line(floats: &[f32]) -> Line {
    near_floats(&filled(dwords(&floats[..floats.len().min(2 * SIDE)])))
}

#[inline(always)]
fn near_floats(floats: &[i32; 2 * SIDE]) -> Line {
    let mut near = [0_u16; 2 * SIDE];
    for i in 0..2 * SIDE {
        near[i] = bfloat16(f32::from_bits(floats[i].cast_unsigned())).cast_unsigned();
    }
    pairs(&near)
}

/// Three bfloat16 of each float, whose sum it is. The second takes an infinity in, and the last one a NaN.
#[inline(always)]
fn split_floats(floats: &[i32; 2 * SIDE]) -> [Line; 3] {
    const MOST: f32 = f32::from_bits(0x7f7f_0000);
    let mut planes = [[0_u16; 2 * SIDE]; 3];
    for i in 0..2 * SIDE {
        let x = f32::from_bits(floats[i].cast_unsigned());
        // Beyond it, the nearest would be infinite. A NaN passes.
        let held = if x > MOST { MOST } else { x };
        let first = near(if held < -MOST { -MOST } else { held });
        let left = x - f32::from_bits(first);
        let second = near(left);
        let last = bfloat16(left - f32::from_bits(second));
        planes[0][i] = (first >> 16) as u16;
        planes[1][i] = (second >> 16) as u16;
        planes[2][i] = last.cast_unsigned();
    }
    [pairs(&planes[0]), pairs(&planes[1]), pairs(&planes[2])]
}

/// The bits of the nearest bfloat16 of a number, as a float.
#[inline(always)]
fn near(x: f32) -> u32 {
    let bits = x.to_bits();
    bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000
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

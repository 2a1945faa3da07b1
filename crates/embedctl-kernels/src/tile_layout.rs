//! How rows of numbers lie in tiles.
//!
//! A row of a matrix or of an operand is cut into *groups*: the inputs that a tile takes, 32 of 16 bits or 64 of 8. Of each
//! group, a row has a line of sixteen dwords for each *plane*. Rounded numbers of 8 bits and bfloat16 are one plane as they
//! are. 16-bit integers have a plane of upper bytes and one of lower bytes. Numbers of an operand in single precision have
//! three planes. Beside a matrix of bfloat16 these are the nearest bfloat16, the nearest one of what is left, and what is left
//! then. Beside other weights they are signed bytes, and so are the weights': multiples of the row's step, of the 254th part of
//! that, and of the 254th part again, each the nearest to what is left.

use super::amx::{SIDE, TILE, TileProduct};
use super::lines::dwords;
use super::preparation::Preparation;
use super::rounding::{IntegerStep, bfloat16, i16_block, part};
use super::simd::Simd;
use embedctl_common::Arithmetic;

/// One row's dwords of a tile.
pub(super) type Line = [i32; SIDE];

/// What tiles make of the numbers of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TileNumbers {
    /// [`Arithmetic::Int8`].
    Bytes,
    /// [`Arithmetic::Int16`].
    Integers,
    /// [`Arithmetic::Bf16`].
    Halves,
    /// [`Arithmetic::Fp32`], by weights that are bfloat16.
    FloatsByHalves,
    /// [`Arithmetic::Fp32`].
    ByteTriples,
}

/// Inputs of a row of [`TileNumbers::ByteTriples`] at most: sums of three products of bytes for each fit 32 bits.
const MOST_TRIPLES: usize = 40_000;

impl TileNumbers {
    /// Those of an arithmetic, whatever the weights are. `None` if vectors must multiply rows of so many inputs in single
    /// precision: bytes are as exact only where a rotation takes the greatest number of a row down to the others.
    pub(super) fn of(arithmetic: Arithmetic, inputs: usize) -> Option<Self> {
        match arithmetic {
            Arithmetic::Int8 => Some(Self::Bytes),
            Arithmetic::Int16 => Some(Self::Integers),
            Arithmetic::Bf16 => Some(Self::Halves),
            Arithmetic::Fp32 => (inputs <= MOST_TRIPLES && Preparation::spreads(inputs))
                .then_some(Self::ByteTriples),
        }
    }
}

/// The tiles of a row of so many inputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct TileLayout {
    pub(super) numbers: TileNumbers,
    /// Of each plane.
    pub(super) groups: usize,
    /// Groups of a block of 16-bit integers, whose sums fit 32 bits; a block's last group is filled up with zeros.
    pub(super) block: usize,
    /// Dwords of a block before they are spread over planes.
    block_dwords: usize,
}

impl TileLayout {
    pub(super) fn of(numbers: TileNumbers, inputs: usize) -> Self {
        let (groups, block, block_dwords) = match numbers {
            TileNumbers::FloatsByHalves | TileNumbers::Halves => {
                let groups = inputs.div_ceil(2 * SIDE);
                (groups, groups, inputs.div_ceil(2))
            }
            TileNumbers::Bytes | TileNumbers::ByteTriples => {
                let groups = inputs.div_ceil(4 * SIDE);
                (groups, groups, inputs.div_ceil(4))
            }
            TileNumbers::Integers => {
                let inputs_of_block = i16_block(inputs);
                let block = inputs_of_block.div_ceil(4 * SIDE);
                let groups = inputs.div_ceil(inputs_of_block) * block;
                (groups, block, inputs_of_block / 2)
            }
        };
        Self {
            numbers,
            groups,
            block,
            block_dwords,
        }
    }

    /// The products of a group, whose sums are kept apart.
    pub(super) fn products(self) -> &'static [TileProduct] {
        match self.numbers {
            TileNumbers::Bytes => &[TileProduct::Bytes],
            TileNumbers::Halves => &[TileProduct::Halves],
            TileNumbers::FloatsByHalves => &[TileProduct::FloatsByHalves],
            TileNumbers::Integers => &[
                TileProduct::UpperBytes,
                TileProduct::CrossBytes,
                TileProduct::LowerBytes,
            ],
            TileNumbers::ByteTriples => &[
                TileProduct::FirstBytes,
                TileProduct::SecondBytes,
                TileProduct::ThirdBytes,
            ],
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
    /// dwords. Numbers in single precision are an operand's, and not those of [`TileNumbers::ByteTriples`].
    #[inline(always)]
    pub(super) fn spread(self, row: &[i32], mut put: impl FnMut(usize, &Line)) {
        match self.numbers {
            TileNumbers::Bytes | TileNumbers::Halves => {
                for (number, line) in row.chunks(SIDE).enumerate() {
                    put(number, &filled(line));
                }
            }
            TileNumbers::ByteTriples => {
                unreachable!("rows of bytes are spread as they are rounded")
            }
            TileNumbers::FloatsByHalves => {
                for (group, floats) in row.chunks(2 * SIDE).enumerate() {
                    for (plane, line) in split_floats(&filled(floats)).iter().enumerate() {
                        put(3 * group + plane, line);
                    }
                }
            }
            TileNumbers::Integers => {
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

/// Where the dword of a panel's row `step` and column `column` stands in a panel of `steps` rows that is cut into tiles: first
/// those of the columns of its first half, two side by side for each sixteen rows, then those of the others.
#[inline(always)]
pub(super) fn place_in_panel(steps: usize, step: usize, column: usize) -> usize {
    let (half, tile) = (column / (2 * SIDE), column / SIDE % 2);
    half * steps * 2 * SIDE + (step / SIDE * 2 + tile) * TILE + step % SIDE * SIDE + column % SIDE
}

/// Rounds a row to bfloat16, and spreads it over its lines; `put` takes each line's number and dwords.
#[inline(always)]
pub(super) fn spread_halves(row: &[f32], mut put: impl FnMut(usize, &Line)) {
    for (number, floats) in row.chunks(2 * SIDE).enumerate() {
        put(number, &near_line(floats));
    }
}

/// Rounds a row to three bytes a number, by a step that makes the greatest magnitude 127, and spreads it over its lines; `put`
/// takes each line's number and dwords.
#[inline(always)]
pub(super) fn spread_triples<S: Simd>(
    s: S,
    row: &[f32],
    step: IntegerStep,
    mut put: impl FnMut(usize, &Line),
) {
    let factor = s.splat(step.factor);
    let parts = s.splat(BYTE_STEPS);
    for (group, from) in (0..row.len()).step_by(4 * SIDE).enumerate() {
        let mut planes = [[0; SIDE]; 3];
        // A vector of dwords has the bytes of four vectors.
        for (number, at) in (0..SIDE).step_by(S::LANES).enumerate() {
            let mut bytes = [[s.splat_i(0); 4]; 3];
            for i in 0..4 {
                let from = from + (4 * number + i) * S::LANES;
                let mut left = s.mul(part(s, row, from, 0.0), factor);
                for plane in &mut bytes {
                    plane[i] = s.to_int(left);
                    left = s.mul(s.sub(left, s.to_float(plane[i])), parts);
                }
            }
            for (plane, bytes) in planes.iter_mut().zip(bytes) {
                s.store_i(&mut plane[at..], s.pack_signed(bytes));
            }
        }
        for (plane, line) in planes.iter().enumerate() {
            put(3 * group + plane, line);
        }
    }
}

/// Steps of a byte in one of the byte before: what is left over is at most half a step, so that a byte holds it.
pub(super) const BYTE_STEPS: f32 = 254.0;

/// The greatest magnitude of a byte.
pub(super) const MOST_BYTE: f32 = 127.0;

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
    let mut line = Line::default();
    for (i, dword) in line.iter_mut().enumerate() {
        *dword = (u32::from(halves[2 * i]) | u32::from(halves[2 * i + 1]) << 16).cast_signed();
    }
    line
}

#[inline(always)]
fn quads(bytes: &[u8; 4 * SIDE]) -> Line {
    let mut line = Line::default();
    for (dword, bytes) in line.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *dword = i32::from_le_bytes(*bytes);
    }
    line
}

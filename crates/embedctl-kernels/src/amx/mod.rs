//! Products by tiles: sixteen rows of sixteen dwords each, which AMX multiplies in sixteen cycles.
//!
//! A matrix and its operands lie in tiles ([`TileLayout`](super::tile_layout::TileLayout)). [`Tiles`] multiplies up to two tiles of rows by a panel of four
//! tiles of columns, and [`Call::run_tiles`](super::linear::Call) goes over panels and rows and finishes the sums. The
//! instructions know bytes and bfloat16; other numbers are put together from several of their products
//! ([`TileProduct`]). Sums of integers are exact, so that 8 and 16 bits give the same results as vectors do. A number in
//! single precision is the sum of three bfloat16, so weights in bfloat16 are multiplied by it with no other loss than the
//! rounding of sums. Other weights in single precision, and the rows that they are multiplied with, are three bytes of one
//! step for each row.
//!
//! Nothing but these instructions is written for the processor: tests run everything around them with `PlainTiles`, too,
//! on any processor, and compare both where there are both.

#[cfg(kernels = "amx")]
mod permission;
#[cfg(kernels = "plain-tiles")]
mod plain;
#[cfg(kernels = "amx")]
mod unit;

#[cfg(kernels = "amx")]
pub(super) use self::permission::permission;
#[cfg(kernels = "plain-tiles")]
pub(super) use self::plain::PlainTiles;
#[cfg(kernels = "amx")]
pub(super) use self::unit::Amx;

/// Rows of a tile, and dwords of each row.
pub(super) const SIDE: usize = 16;

/// Dwords of a tile.
pub(super) const TILE: usize = SIDE * SIDE;

/// Rows of a lower tile, whose product takes three fifths of the time.
pub(super) const FEW: usize = SIDE / 2;

/// Rows that are multiplied at a time.
pub(super) const ROWS: usize = 2 * SIDE;

/// Columns of a panel.
pub(super) const WIDTH: usize = 4 * SIDE;

/// The sums of a row of a panel.
pub(super) type SumRow = [i32; WIDTH];

/// The numbers that are multiplied. A number of several planes has one of its parts in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TileProduct {
    /// Unsigned by signed bytes.
    Bytes,
    /// Pairs of bfloat16: sums of two chains of fused multiply-adds, the even inputs and the odd ones.
    Halves,
    /// Upper bytes of 16-bit integers, signed.
    UpperBytes,
    /// Upper by lower bytes, and lower by upper.
    CrossBytes,
    /// Lower bytes, unsigned.
    LowerBytes,
    /// Pairs of floats of three bfloat16 each, the greatest first, by pairs of bfloat16: the least by them, then the others,
    /// all in one sum.
    FloatsByHalves,
    /// Numbers of three signed bytes each: first by first.
    FirstBytes,
    /// First by second, and second by first.
    SecondBytes,
    /// First by third, second by second, and third by first.
    ThirdBytes,
}

impl TileProduct {
    /// Planes of an operand's numbers.
    pub(super) const fn left_planes(self) -> usize {
        match self {
            Self::Bytes | Self::Halves => 1,
            Self::UpperBytes | Self::CrossBytes | Self::LowerBytes => 2,
            Self::FloatsByHalves | Self::FirstBytes | Self::SecondBytes | Self::ThirdBytes => 3,
        }
    }

    /// Planes of a matrix's numbers.
    pub(super) const fn right_planes(self) -> usize {
        match self {
            Self::Bytes | Self::Halves | Self::FloatsByHalves => 1,
            Self::UpperBytes | Self::CrossBytes | Self::LowerBytes => 2,
            Self::FirstBytes | Self::SecondBytes | Self::ThirdBytes => 3,
        }
    }
}

/// Rows of an operand that are multiplied by a panel.
#[derive(Clone, Copy)]
pub(super) struct TileRows<'a> {
    /// Tiles of sixteen rows, `tile` dwords apart.
    pub(super) left: &'a [i32],
    pub(super) tile: usize,
    /// At most [`ROWS`].
    pub(super) rows: usize,
    /// A panel's tiles: for each plane of each group two that lie one behind the other, and `half` dwords on the other two
    /// columns of tiles in the same way.
    pub(super) right: &'a [i32],
    pub(super) half: usize,
    /// Tiles of each plane.
    pub(super) groups: usize,
    /// Columns that are wanted, at most [`WIDTH`]; others may be left out.
    pub(super) columns: usize,
    /// Whether sums are added to those in place.
    pub(super) adds: bool,
    /// Cache lines that are asked for meanwhile: the first, and how many for each group and half of a panel.
    pub(super) ahead: (*const i32, usize),
}

impl TileRows<'_> {
    /// Checks that tiles are as long as they are read and written.
    #[inline(always)]
    fn check(&self, product: TileProduct, sums: &[SumRow]) {
        let tiles = self.groups * product.left_planes();
        let second = if self.rows > SIDE { self.tile } else { 0 };
        assert!(self.rows > 0 && self.rows <= ROWS && self.groups > 0);
        assert!(self.left.len() >= second + tiles * TILE);
        let right = self.groups * product.right_planes() * 2 * TILE;
        // Few rows are multiplied by all columns.
        let both = self.columns > WIDTH / 2 || self.rows <= SIDE;
        assert!(self.right.len() >= right + if both { self.half } else { 0 });
        assert!(sums.len() >= self.rows.next_multiple_of(SIDE));
    }
}

/// A unit that multiplies tiles.
pub(super) trait Tiles: Copy {
    /// Tiles of the calling thread, until it is dropped.
    type Configured;

    /// Configures the calling thread's tiles, for products of at most `rows` rows at a time. They must be given back before
    /// anything that may take long: the system saves them whenever it takes the thread from its core.
    fn configure(self, rows: usize) -> Self::Configured;

    /// The sums of `rows` to the first rows of `sums`; others, up to a multiple of [`SIDE`], are overwritten.
    ///
    /// # Panics
    /// If there are too few tiles or sums, or more rows than tiles were configured for.
    fn multiply(
        self,
        configured: &Self::Configured,
        product: TileProduct,
        rows: TileRows<'_>,
        sums: &mut [SumRow],
    );
}

#[cfg(all(test, kernels = "plain-tiles"))]
#[path = "amx_tests.rs"]
mod tests;

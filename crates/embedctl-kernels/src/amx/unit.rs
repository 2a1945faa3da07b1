//! AMX's instructions.
//!
//! A product of all groups is one block of assembly: the compiler knows of no registers that keep their content from one
//! block to the next. Two tiles of rows take two tiles of columns at a time, which needs as many loads as products; one
//! tile of rows takes four. Sums are made in the same order in both. The tiles of a half of a panel lie one behind the other,
//! so that the processor foresees them.

use std::arch::asm;

use super::{FEW, ROWS, SIDE, SumRow, TileProduct, TileRows, Tiles, WIDTH};

/// The processor has AMX with bytes and bfloat16, and the system lets this process use it.
#[derive(Clone, Copy)]
pub(in super::super) struct Amx(());

/// The calling thread's tiles, for so many rows; other threads have none of them.
pub(in super::super) struct ConfiguredTiles(usize, std::marker::PhantomData<*const ()>);

/// What `ldtilecfg` reads.
#[repr(C, align(64))]
struct TileConfiguration {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl TileConfiguration {
    /// Eight tiles, of which those of sums and operands that [`one_by_four`] takes have so many rows.
    const fn of(rows: usize) -> Self {
        let low = rows as u8;
        Self {
            palette: 1,
            start: 0,
            reserved: [0; 14],
            row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
            rows: [low, low, low, low, low, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
        }
    }
}

static FULL: TileConfiguration = TileConfiguration::of(SIDE);
static LOWER: TileConfiguration = TileConfiguration::of(FEW);

impl Drop for ConfiguredTiles {
    fn drop(&mut self) {
        // SAFETY: a value of this type is made only where the instruction may run; it touches the tiles alone.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) }
    }
}

impl Amx {
    /// # Safety
    /// The processor must have the instructions, and the system's permission must be there.
    #[inline(always)]
    pub(in super::super) unsafe fn new() -> Self {
        Self(())
    }
}

impl Tiles for Amx {
    type Configured = ConfiguredTiles;

    #[inline(always)]
    fn configure(self, rows: usize) -> ConfiguredTiles {
        let (configuration, most) = match rows <= FEW {
            true => (&raw const LOWER, FEW),
            false => (&raw const FULL, ROWS),
        };
        // SAFETY: the token proves the instruction, which reads the configuration alone.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) configuration, options(nostack, readonly, preserves_flags));
        }
        ConfiguredTiles(most, std::marker::PhantomData)
    }

    #[inline(never)]
    fn multiply(
        self,
        configured: &ConfiguredTiles,
        product: TileProduct,
        rows: TileRows<'_>,
        sums: &mut [SumRow],
    ) {
        rows.check(product, sums);
        assert!(
            rows.rows <= configured.0,
            "more rows than tiles were configured for"
        );
        let sums = sums.as_mut_ptr();
        // SAFETY: checked above: tiles and sums are as long as these products read and write them. The token proves the
        // instructions, and the calling thread's tiles are configured.
        unsafe {
            if rows.rows <= SIDE {
                return one_by_four(product, rows, sums);
            }
            two_by_two(product, rows, sums);
            if rows.columns <= WIDTH / 2 {
                return;
            }
            let (ahead, lines) = rows.ahead;
            let second = TileRows {
                right: &rows.right[rows.half..],
                ahead: (ahead.wrapping_add(lines * rows.groups * SIDE), lines),
                ..rows
            };
            two_by_two(product, second, sums.cast::<i32>().add(WIDTH / 2).cast());
        }
    }
}

/// A product of all groups: `load` reads sums, `group` multiplies a group's tiles and `store` writes sums. `second` is another
/// row of tiles of either side. `left`, `right` and `other` bytes lead to the next group of the operand, the panel and `second`.
macro_rules! product {
    ($rows:ident, $second:expr, $sums:ident, [$($load:expr),*], [$($store:expr),*], $left:literal, $right:literal, $other:literal, $($group:expr),*) => {
        asm!(
            "test {count}, {count}", "jnz 3f",
            "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
            "jmp 2f",
            "3:",
            $($load,)*
            "2:",
            $($group,)*
            "mov {count}, {lines}", "test {count}, {count}", "jz 5f",
            "4:",
            "prefetcht1 [{ahead}]", "add {ahead}, 64", "dec {count}", "jnz 4b",
            "5:",
            concat!("add {a}, ", $left), concat!("add {second}, ", $other), concat!("add {b}, ", $right),
            "dec {groups}", "jnz 2b",
            $($store,)*
            a = inout(reg) $rows.left.as_ptr() => _,
            second = inout(reg) $second => _,
            b = inout(reg) $rows.right.as_ptr() => _,
            // Bytes from row to row, of tiles and of sums.
            l = in(reg) 64_usize,
            p = in(reg) 256_usize,
            groups = inout(reg) $rows.groups => _,
            ahead = inout(reg) $rows.ahead.0 => _,
            lines = in(reg) $rows.ahead.1,
            count = inout(reg) usize::from($rows.adds) => _,
            c = in(reg) $sums,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

/// The block of a product: the bytes from group to group of the operand and of the panel, and for each product of tiles its
/// instruction and the places of its planes, that of the panel in two tiles. `floats` are those of
/// [`TileProduct::FloatsByHalves`].
macro_rules! of_product {
    ($product:ident, $block:ident, $loaded:ident, [$($floats:expr),*]) => {
        match $product {
            TileProduct::Bytes => $block!("1024", "2048", $loaded!("tdpbusd", "", "", " + 1024")),
            TileProduct::Halves => $block!("1024", "2048", $loaded!("tdpbf16ps", "", "", " + 1024")),
            TileProduct::FloatsByHalves => $block!("3072", "2048", $($floats),*),
            TileProduct::UpperBytes => $block!("2048", "4096", $loaded!("tdpbssd", "", "", " + 1024")),
            TileProduct::CrossBytes => $block!(
                "2048", "4096",
                $loaded!("tdpbusd", " + 1024", "", " + 1024"),
                $loaded!("tdpbsud", "", " + 2048", " + 3072")
            ),
            TileProduct::LowerBytes => $block!(
                "2048", "4096",
                $loaded!("tdpbuud", " + 1024", " + 2048", " + 3072")
            ),
            TileProduct::FirstBytes => $block!("3072", "6144", $loaded!("tdpbssd", "", "", " + 1024")),
            TileProduct::SecondBytes => $block!(
                "3072", "6144",
                $loaded!("tdpbssd", "", " + 2048", " + 3072"),
                $loaded!("tdpbssd", " + 1024", "", " + 1024")
            ),
            TileProduct::ThirdBytes => $block!(
                "3072", "6144",
                $loaded!("tdpbssd", "", " + 4096", " + 5120"),
                $loaded!("tdpbssd", " + 1024", " + 2048", " + 3072"),
                $loaded!("tdpbssd", " + 2048", "", " + 1024")
            ),
        }
    };
}

/// Two by two tiles of [`TileProduct::FloatsByHalves`]: those of the matrix are loaded once.
macro_rules! floats_by_halves {
    () => {
        concat!(
            "tileloadd tmm4, [{a} + {l} + 2048]\n",
            "tileloadd tmm6, [{b} + {l}]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tileloadd tmm7, [{b} + {l} + 1024]\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tileloadd tmm5, [{second} + {l} + 2048]\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            "tileloadd tmm4, [{a} + {l} + 1024]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tileloadd tmm5, [{second} + {l} + 1024]\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            "tileloadd tmm4, [{a} + {l}]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tileloadd tmm5, [{second} + {l}]\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7",
        )
    };
}

/// # Safety
/// As [`TileRows::check`] checks it, for 32 rows and two tiles of columns from the first of `rows.right` and `sums` on;
/// the instructions must be there, and tiles configured.
#[inline(always)]
unsafe fn two_by_two(product: TileProduct, rows: TileRows<'_>, sums: *mut SumRow) {
    /// Four products of tiles that are loaded here; `a` and `b` are the places of their planes.
    macro_rules! loaded {
        ($op:literal, $a:literal, $b:literal, $b_next:literal) => {
            concat!(
                "tileloadd tmm4, [{a} + {l}",
                $a,
                "]\n",
                "tileloadd tmm6, [{b} + {l}",
                $b,
                "]\n",
                $op,
                " tmm0, tmm4, tmm6\n",
                "tileloadd tmm7, [{b} + {l}",
                $b_next,
                "]\n",
                $op,
                " tmm1, tmm4, tmm7\n",
                "tileloadd tmm5, [{second} + {l}",
                $a,
                "]\n",
                $op,
                " tmm2, tmm5, tmm6\n",
                $op,
                " tmm3, tmm5, tmm7",
            )
        };
    }
    macro_rules! block {
        ($left:literal, $right:literal, $($group:expr),*) => {
            product!(
                rows,
                rows.left.as_ptr().wrapping_add(rows.tile),
                sums,
                [
                    "lea {count}, [{c} + 4096]",
                    "tileloadd tmm0, [{c} + {p}]", "tileloadd tmm1, [{c} + {p} + 64]",
                    "tileloadd tmm2, [{count} + {p}]", "tileloadd tmm3, [{count} + {p} + 64]"
                ],
                [
                    "lea {a}, [{c} + 4096]",
                    "tilestored [{c} + {p}], tmm0", "tilestored [{c} + {p} + 64], tmm1",
                    "tilestored [{a} + {p}], tmm2", "tilestored [{a} + {p} + 64], tmm3"
                ],
                $left,
                $right,
                $left,
                $($group),*
            )
        };
    }
    // SAFETY: the caller vouches for the memory and the instructions; the assembly changes the sums, the tiles and the
    // registers that it names.
    unsafe {
        of_product!(product, block, loaded, [floats_by_halves!()]);
    }
}

/// # Safety
/// As [`TileRows::check`] checks it, for 16 rows; the instructions must be there, and tiles configured.
#[inline(always)]
unsafe fn one_by_four(product: TileProduct, rows: TileRows<'_>, sums: *mut SumRow) {
    /// Four products of tiles that are loaded here, as above.
    macro_rules! loaded {
        ($op:literal, $a:literal, $b0:literal, $b1:literal) => {
            concat!(
                "tileloadd tmm4, [{a} + {l}",
                $a,
                "]\n",
                "tileloadd tmm5, [{b} + {l}",
                $b0,
                "]\n",
                $op,
                " tmm0, tmm4, tmm5\n",
                "tileloadd tmm6, [{b} + {l}",
                $b1,
                "]\n",
                $op,
                " tmm1, tmm4, tmm6\n",
                "tileloadd tmm7, [{second} + {l}",
                $b0,
                "]\n",
                $op,
                " tmm2, tmm4, tmm7\n",
                "tileloadd tmm5, [{second} + {l}",
                $b1,
                "]\n",
                $op,
                " tmm3, tmm4, tmm5",
            )
        };
    }
    macro_rules! block {
        ($left:literal, $right:literal, $($group:expr),*) => {
            product!(
                rows,
                rows.right.as_ptr().wrapping_add(rows.half),
                sums,
                [
                    "tileloadd tmm0, [{c} + {p}]", "tileloadd tmm1, [{c} + {p} + 64]",
                    "tileloadd tmm2, [{c} + {p} + 128]", "tileloadd tmm3, [{c} + {p} + 192]"
                ],
                [
                    "tilestored [{c} + {p}], tmm0", "tilestored [{c} + {p} + 64], tmm1",
                    "tilestored [{c} + {p} + 128], tmm2", "tilestored [{c} + {p} + 192], tmm3"
                ],
                $left,
                $right,
                $right,
                $($group),*
            )
        };
    }
    // SAFETY: as in `two_by_two`.
    unsafe {
        of_product!(
            product,
            block,
            loaded,
            [
                loaded!("tdpbf16ps", " + 2048", "", " + 1024"),
                loaded!("tdpbf16ps", " + 1024", "", " + 1024"),
                loaded!("tdpbf16ps", "", "", " + 1024")
            ]
        );
    }
}

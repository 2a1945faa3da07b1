//! The right side of products: weights, packed once and shared by all workers.

use std::sync::atomic::{AtomicU64, Ordering};

use super::amx;
use super::isa::{Isa, with_floats};
use super::lines::{CacheLines, bytes, bytes_mut};
use super::preparation::{Preparation, Range};
use super::rounding::quantize;
use super::simd::Simd;
use super::tile::LINE;
use super::tile_layout::{
    Line, MOST_BYTE, TileLayout, TileNumbers, place_in_panel, spread_triples,
};
use embedctl_common::Arithmetic;

/// The weights of a linear layer, with its bias.
///
/// They lie in panels of as many columns (outputs) as a tile is wide. A panel has a row of dwords for each
/// *step*: one input in single precision, a pair in 16 bits, a quad in 8. Outputs that fill up the last panel
/// and inputs that fill up the last step are zero. Where products are multiplied by AMX's tiles, a panel's rows of dwords
/// are those of its tiles, sixteen each ([`TileLayout`]); tiles of each half of a panel lie one behind the other.
#[derive(Debug)]
pub struct Matrix {
    form: OperandForm,
    outputs: usize,
    gated: bool,
    data: CacheLines,
    /// For each packed column: the value of one step of its integers, the sum of its weights, its bias.
    pub(super) scale: CacheLines,
    pub(super) sum: CacheLines,
    pub(super) bias: CacheLines,
    preparation: Option<Preparation>,
}

/// The matrix properties that an operand is converted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OperandForm {
    isa: Isa,
    arithmetic: Arithmetic,
    inputs: usize,
    /// The numbers of its tiles, where it has any.
    numbers: Option<TileNumbers>,
    /// Tells matrices with preparations of their own apart; 0 without.
    preparation: u64,
}

/// How a matrix is to be packed.
#[derive(Debug, Clone, Copy)]
pub struct PackedLayout {
    /// Values of a result row. If `gated`, the matrix has twice as many rows: first the gates, then what
    /// they are multiplied with.
    pub outputs: usize,
    /// Values of an operand's row.
    pub inputs: usize,
    /// Whether the product ends in [`ProductFinish::Gate`](super::ProductFinish::Gate).
    pub gated: bool,
}

impl PackedLayout {
    /// The arithmetic of a product that is wanted in `arithmetic`: 8-bit sums over very many inputs could overflow.
    #[must_use]
    pub fn fitting(self, arithmetic: Arithmetic) -> Arithmetic {
        match self.inputs > MOST_INPUTS {
            true => Arithmetic::Fp32,
            false => arithmetic,
        }
    }

    /// Bytes of a matrix's [parts](Matrix::parts).
    #[must_use]
    pub fn bytes(self, isa: Isa, arithmetic: Arithmetic) -> u64 {
        let numbers = tile_numbers(isa, arithmetic, self.inputs);
        let columns = columns(panel_columns(isa, numbers), self.outputs, self.gated);
        let steps = steps(numbers, arithmetic, self.inputs);
        let factors = match arithmetic {
            Arithmetic::Int8 => self.inputs,
            Arithmetic::Fp32 | Arithmetic::Bf16 | Arithmetic::Int16 => 0,
        };
        let parts = [columns * steps, columns, columns, columns, factors];
        let dwords: usize = parts
            .map(|dwords| dwords.next_multiple_of(LINE))
            .iter()
            .sum();
        4 * dwords as u64
    }

    /// Rows of the matrix: twice its outputs if it is gated.
    ///
    /// # Panics
    /// As [`Matrix::pack`].
    fn checked_rows(self, arithmetic: Arithmetic) -> usize {
        let Self {
            outputs,
            inputs,
            gated,
        } = self;
        assert!(outputs > 0 && inputs > 0, "a matrix without elements");
        assert!(
            arithmetic != Arithmetic::Int8 || inputs <= MOST_INPUTS,
            "8-bit sums could overflow"
        );
        outputs * (1 + usize::from(gated))
    }
}

/// Inputs of a matrix at most, but in single precision.
const MOST_INPUTS: usize = 65_000;

/// Columns that are packed at a time.
const STRIP: usize = 8;

impl Matrix {
    /// Packs weights for `isa` in `arithmetic`. `weights` is asked for each row of the matrix (as PyTorch keeps
    /// them, `[outputs, inputs]`), in any order, and twice where rows are balanced or not all are what the first ones are;
    /// `bias` has a value for each row or is empty. Tiles multiply [`Arithmetic::Fp32`] by three bfloat16 of each number where
    /// all weights are bfloat16, else by three bytes of each, unless the width keeps a rotation from spreading a row's greatest
    /// number. In [`Arithmetic::Int8`], `ranges` are the greatest magnitudes of each input channel over
    /// some typical activations, by which channels are balanced.
    ///
    /// # Panics
    /// Nothing is multiplied, `bias` or `ranges` have another length, or 8-bit sums over so many inputs
    /// (above 65,000) could overflow.
    pub fn pack(
        isa: Isa,
        arithmetic: Arithmetic,
        layout: PackedLayout,
        mut weights: impl FnMut(usize, &mut [f32]),
        bias: &[f32],
        ranges: Option<&[f32]>,
    ) -> Self {
        Self::pack_rows(isa, arithmetic, layout, &mut weights, bias, ranges)
    }

    /// [`Self::pack`], compiled once for all that give weights.
    fn pack_rows(
        isa: Isa,
        arithmetic: Arithmetic,
        layout: PackedLayout,
        weights: &mut dyn FnMut(usize, &mut [f32]),
        bias: &[f32],
        ranges: Option<&[f32]>,
    ) -> Self {
        let takes_halves = arithmetic == Arithmetic::Fp32 && layout.inputs <= MOST_INPUTS;
        let halves = (takes_halves && isa.has_tiles()).then(|| {
            let numbers = Some(TileNumbers::FloatsByHalves);
            Self::pack_as(isa, numbers, arithmetic, layout, weights, bias, ranges)
        });
        halves.flatten().unwrap_or_else(|| {
            let numbers = tile_numbers(isa, arithmetic, layout.inputs);
            Self::pack_as(isa, numbers, arithmetic, layout, weights, bias, ranges)
                .expect("weights of any value")
        })
    }

    /// [`Self::pack`] as these numbers of tiles, or by vectors: `None` if they are to be bfloat16, and a weight is not.
    fn pack_as(
        isa: Isa,
        numbers: Option<TileNumbers>,
        arithmetic: Arithmetic,
        layout: PackedLayout,
        weights: &mut dyn FnMut(usize, &mut [f32]),
        bias: &[f32],
        ranges: Option<&[f32]>,
    ) -> Option<Self> {
        let PackedLayout {
            outputs,
            inputs,
            gated,
        } = layout;
        let rows = layout.checked_rows(arithmetic);
        assert!(bias.is_empty() || bias.len() == rows, "a bias for each row");
        let preparation = is_prepared(numbers, arithmetic).then(|| {
            let mut tops = vec![0.0_f32; inputs];
            if let Some(ranges) = ranges {
                assert!(ranges.len() == inputs, "a range for each input");
                let mut row = vec![0.0; inputs];
                for i in 0..rows {
                    weights(i, &mut row);
                    for (top, w) in tops.iter_mut().zip(&row) {
                        *top = top.max(w.abs());
                    }
                }
            }
            Preparation::new(inputs, ranges, &tops)
        });
        let mut matrix = Self::blank(isa, numbers, arithmetic, layout, preparation);
        let width = panel_columns(isa, numbers);
        let columns = columns(width, outputs, gated);
        let steps = matrix.steps();
        let (stored, tiles) = match numbers {
            Some(TileNumbers::FloatsByHalves) => (Arithmetic::Bf16, Some(TileNumbers::Halves)),
            other => (arithmetic, other),
        };
        let halves = numbers == Some(TileNumbers::FloatsByHalves);
        let tiles = tiles.map(|numbers| TileLayout::of(numbers, inputs));
        let mut rounded = vec![0_i32; inputs.div_ceil(stored.per_lane())];
        // A strip of columns is quantized, then written step by step, a run of columns at a time.
        let mut row = vec![0.0; inputs];
        let mut strip = vec![0_i32; STRIP * steps];
        for first in (0..columns).step_by(STRIP) {
            strip.fill(0);
            for (column, quantized) in (first..).zip(strip.chunks_exact_mut(steps)) {
                let Some(source) = source_row(column, width, outputs, gated) else {
                    continue;
                };
                weights(source, &mut row);
                if halves && !are_halves(&row) {
                    return None;
                }
                if let Some(bias) = bias.get(source) {
                    matrix.bias.floats_mut()[column] = *bias;
                }
                let (scale, sum) = with_floats!(isa, s => {
                    if let Some(preparation) = &matrix.preparation {
                        preparation.apply_to_weights(s, &mut row);
                    }
                    let mut put = |number: usize, line: &Line| {
                        quantized[number * LINE..][..LINE].copy_from_slice(line);
                    };
                    match tiles {
                        Some(layout) if layout.numbers == TileNumbers::ByteTriples => {
                            let step = Range::of(s, &row).step(s, MOST_BYTE);
                            spread_triples(s, &row, step, put);
                            (step.worth, 0.0)
                        }
                        None => quantize(arithmetic, &row, quantized),
                        Some(layout) => {
                            let parts = quantize(stored, &row, &mut rounded);
                            layout.spread(&rounded, &mut put);
                            parts
                        }
                    }
                });
                matrix.scale.floats_mut()[column] = scale;
                matrix.sum.floats_mut()[column] = sum;
            }
            let panel = &mut matrix.data.dwords_mut()[first / width * width * steps..];
            for step in 0..steps {
                // A strip's columns are those of one tile.
                let at = match numbers {
                    Some(_) => place_in_panel(steps, step, first % width),
                    None => step * width + first % width,
                };
                for (to, quantized) in panel[at..].iter_mut().zip(strip.chunks_exact(steps)) {
                    *to = quantized[step];
                }
            }
        }
        Some(matrix)
    }

    /// Room for a matrix of this layout, all zero.
    fn blank(
        isa: Isa,
        numbers: Option<TileNumbers>,
        arithmetic: Arithmetic,
        layout: PackedLayout,
        preparation: Option<Preparation>,
    ) -> Self {
        let isa = match numbers {
            Some(_) => isa,
            None => isa.without_tiles(),
        };
        static PREPARATIONS: AtomicU64 = AtomicU64::new(1);
        let PackedLayout {
            outputs,
            inputs,
            gated,
        } = layout;
        let form = OperandForm {
            isa,
            arithmetic,
            inputs,
            numbers,
            // Without factors for channels, a rotation is the same for all matrices of a width.
            preparation: match arithmetic {
                Arithmetic::Int8 => PREPARATIONS.fetch_add(1, Ordering::Relaxed),
                Arithmetic::Fp32 | Arithmetic::Bf16 | Arithmetic::Int16 => 0,
            },
        };
        let columns = columns(panel_columns(isa, numbers), outputs, gated);
        let steps = steps(numbers, arithmetic, inputs);
        Self {
            form,
            outputs,
            gated,
            data: CacheLines::zeroed(columns * steps),
            scale: CacheLines::zeroed(columns),
            sum: CacheLines::zeroed(columns),
            bias: CacheLines::zeroed(columns),
            preparation,
        }
    }

    /// A matrix of this layout whose parts, in the order of [`Matrix::parts`], are `read` as they were packed for the
    /// same instruction set.
    ///
    /// # Errors
    /// The errors of `read`.
    ///
    /// # Panics
    /// As [`Matrix::pack`].
    pub fn read<E>(
        isa: Isa,
        arithmetic: Arithmetic,
        layout: PackedLayout,
        mut read: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        layout.checked_rows(arithmetic);
        let numbers = tile_numbers(isa, arithmetic, layout.inputs);
        let preparation =
            is_prepared(numbers, arithmetic).then(|| Preparation::new(layout.inputs, None, &[]));
        let mut matrix = Self::blank(isa, numbers, arithmetic, layout, preparation);
        for part in [
            &mut matrix.data,
            &mut matrix.scale,
            &mut matrix.sum,
            &mut matrix.bias,
        ] {
            read(bytes_mut(part.dwords_mut()))?;
        }
        if let Some(preparation) = &mut matrix.preparation {
            read(bytes_mut(preparation.factors_mut().dwords_mut()))?;
        }
        Ok(matrix)
    }

    /// The bytes that a matrix consists of beside its layout: all that packing decides.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let factors = self.preparation.iter().map(Preparation::factors);
        let own = [&self.data, &self.scale, &self.sum, &self.bias];
        own.into_iter()
            .chain(factors)
            .map(|part| bytes(part.dwords()))
    }

    /// Whether it holds the numbers that it was packed from as floats: in single precision, and not in tiles.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.form.arithmetic == Arithmetic::Fp32 && self.form.numbers.is_none()
    }

    /// Writes row `row` to `out` as it was packed.
    ///
    /// # Panics
    /// If the matrix is not [exact](Self::is_exact), or gated, has no such row, or `out` has another length.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let inputs = self.form.inputs;
        assert!(
            self.is_exact() && !self.gated,
            "rows that are packed as they were"
        );
        assert!(
            row < self.outputs && out.len() == inputs,
            "row {row} of {}",
            self.outputs
        );
        let width = self.panel_outputs();
        let panel = &self.data.floats()[row / width * width * inputs..];
        let column = panel[row % width..].iter().step_by(width);
        out.iter_mut()
            .zip(column)
            .for_each(|(to, value)| *to = *value);
    }

    /// Values of a result row.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Rows of the matrix: twice its outputs if it is gated.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.outputs * (1 + usize::from(self.gated))
    }

    /// Values of an operand's row.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.form.inputs
    }

    /// The form that operands must have.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.form.isa
    }

    /// Its number format.
    #[must_use]
    pub fn arithmetic(&self) -> Arithmetic {
        self.form.arithmetic
    }

    /// Whether products must end in [`ProductFinish::Gate`](super::ProductFinish::Gate).
    #[must_use]
    pub fn gated(&self) -> bool {
        self.gated
    }

    /// Outputs of a panel: parts of a product begin at its multiples.
    #[must_use]
    pub fn panel_outputs(&self) -> usize {
        panel_columns(self.form.isa, self.form.numbers) / (1 + usize::from(self.gated))
    }

    /// Memory that it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        4 * (self.data.dwords().len() + 3 * self.bias.dwords().len())
    }

    pub(super) fn form(&self) -> OperandForm {
        self.form
    }

    pub(super) fn preparation(&self) -> Option<&Preparation> {
        self.preparation.as_ref()
    }

    /// Rows of a panel, and dwords of an operand's row where there are no tiles.
    pub(super) fn steps(&self) -> usize {
        steps(self.form.numbers, self.form.arithmetic, self.form.inputs)
    }

    /// Dwords of an operand's row.
    pub(super) fn operand_steps(&self) -> usize {
        self.tiles()
            .map_or(self.steps(), |layout| layout.dwords()[0])
    }

    /// How its rows lie in tiles, where they do.
    pub(super) fn tiles(&self) -> Option<TileLayout> {
        let OperandForm {
            inputs, numbers, ..
        } = self.form;
        numbers.map(|numbers| TileLayout::of(numbers, inputs))
    }

    pub(super) fn data(&self) -> &[i32] {
        self.data.dwords()
    }
}

/// The numbers by which tiles multiply weights of any value, where `isa` has tiles and they do.
fn tile_numbers(isa: Isa, arithmetic: Arithmetic, inputs: usize) -> Option<TileNumbers> {
    match isa.has_tiles() {
        true => TileNumbers::of(arithmetic, inputs),
        false => None,
    }
}

/// Whether rows are changed before they are rounded.
fn is_prepared(numbers: Option<TileNumbers>, arithmetic: Arithmetic) -> bool {
    arithmetic == Arithmetic::Int8 || numbers == Some(TileNumbers::ByteTriples)
}

/// Rows of a panel of so many inputs.
fn steps(numbers: Option<TileNumbers>, arithmetic: Arithmetic, inputs: usize) -> usize {
    match numbers {
        Some(numbers) => TileLayout::of(numbers, inputs).dwords()[1],
        None => inputs.div_ceil(arithmetic.per_lane()),
    }
}

/// Whether each of these floats is a bfloat16.
fn are_halves(row: &[f32]) -> bool {
    row.iter().fold(0, |bits, value| bits | value.to_bits()) & 0xffff == 0
}

/// Columns of a panel.
fn panel_columns(isa: Isa, numbers: Option<TileNumbers>) -> usize {
    match numbers {
        Some(_) => amx::WIDTH,
        None => with_floats!(isa, s => panel_width(s)),
    }
}

/// Columns of a panel that vectors multiply.
#[inline(always)]
pub(super) fn panel_width<S: Simd>(_: S) -> usize {
    S::PANEL * S::LANES
}

/// Packed columns, of panels that are `width` wide.
fn columns(width: usize, outputs: usize, gated: bool) -> usize {
    outputs.div_ceil(if gated { width / 2 } else { width }) * width
}

/// The matrix's row that stands in a packed column: in a gated panel, gates in the first half, what they
/// multiply in the second.
fn source_row(column: usize, width: usize, outputs: usize, gated: bool) -> Option<usize> {
    if !gated {
        return (column < outputs).then_some(column);
    }
    let (panel, within, half) = (column / width, column % width, width / 2);
    let output = panel * half + within % half;
    (output < outputs).then_some(output + if within < half { 0 } else { outputs })
}

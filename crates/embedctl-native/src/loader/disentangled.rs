//! Loads keys and queries of relative positions.

use super::Loader;
use crate::disentangled::RelativePositions;
use embedctl_checkpoint::architecture::Architecture;
use embedctl_checkpoint::names::Sources;
use embedctl_common::error::Result;
use embedctl_kernels::{Arithmetic, Isa, Matrix, Operand, PackedLayout, ProductFinish, linear};

impl Loader<'_> {
    /// Keys and queries of relative positions of a layer; `layer` is its part of a name in the checkpoint and in
    /// transformers' class.
    ///
    /// # Errors
    /// If a tensor is missing or has a wrong shape, type or content.
    pub(crate) fn relative_positions(&self, layer: [&str; 2]) -> Result<RelativePositions> {
        let attention = &self.architecture.attention;
        let hidden = self.architecture.hidden;
        let size = attention.head_size;
        let [keys, queries] = self.relative_tables(layer)?.map(|made| {
            let layout = PackedLayout {
                outputs: made.len() / hidden,
                inputs: size,
                gated: false,
            };
            let heads = if made.is_empty() { 0 } else { attention.heads };
            let head = |head: usize| {
                let row = |row: usize, out: &mut [f32]| {
                    out.copy_from_slice(&made[row * hidden + head * size..][..size]);
                };
                pack_exactly(self.isa, layout, row)
            };
            (0..heads).map(head).collect()
        });
        Ok(RelativePositions { keys, queries })
    }

    /// The same as tables of `[positions, hidden]`, heads side by side; empty where the model has none.
    ///
    /// # Errors
    /// As [`Loader::relative_positions`].
    pub(crate) fn relative_tables(&self, layer: [&str; 2]) -> Result<[Vec<f32>; 2]> {
        let Architecture {
            hidden,
            attention,
            norm,
            ..
        } = self.architecture;
        let Some(kind) = attention.disentangled else {
            return Ok(Default::default());
        };
        let (hidden, rows) = (*hidden, kind.rows());
        let mut table = self
            .tensor(&format!("{}.weight", kind.table), &[rows, hidden])?
            .floats()?;
        if let Some(names) = kind.norm {
            self.norm(["", ""], names, *norm, hidden)?
                .apply(self.isa, &mut table);
        }
        let of = |sources: Option<Sources>, biased: bool| -> Result<Vec<f32>> {
            let Some(sources) = sources else {
                return Ok(Vec::new());
            };
            let projected = self.rows(layer, sources, &[hidden], hidden, biased)?;
            let layout = PackedLayout {
                outputs: hidden,
                inputs: hidden,
                gated: false,
            };
            let projection = self.pack_exactly(layout, projected)?;
            let mut operand = Operand::default();
            let mut made = vec![0.0; rows * hidden];
            linear(
                operand.convert(&projection, &table, hidden, rows),
                0..rows,
                &projection,
                &mut made,
                hidden,
                ProductFinish::Store,
            );
            Ok(made)
        };
        Ok([of(kind.keys, kind.keys_biased)?, of(kind.queries, true)?])
    }
}

fn pack_exactly(isa: Isa, layout: PackedLayout, row: impl FnMut(usize, &mut [f32])) -> Matrix {
    let (isa, precision) = (isa.without_tiles(), Arithmetic::Fp32);
    Matrix::pack(isa, precision, layout, row, &[], None)
}

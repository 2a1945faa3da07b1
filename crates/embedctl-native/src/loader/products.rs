//! The weights of products: their rows under any of their names and in any of their orders, packed for the kernels.

use super::Loader;
use crate::packed::Product;
use crate::rows::StoredRows;
use embedctl_checkpoint::adapter::{WeightChange, class_parts};
use embedctl_checkpoint::architecture::Architecture;
use embedctl_checkpoint::names::{self, Sources};
use embedctl_checkpoint::safetensors::{Tensor, missing};
use embedctl_checkpoint::tasks::ChangedModule;
use embedctl_common::error::{Error, Result};
use embedctl_kernels::{Arithmetic, Matrix, PackedLayout};

/// A product's weight as a checkpoint stores it.
pub(crate) struct StoredProduct<'a> {
    /// Its shape, and whether it is gated: then the activated half's rows come before those of its factor.
    pub layout: PackedLayout,
    /// Its rows, in the checkpoint's order ([`Loader::row_order`]).
    pub rows: StoredRows<'a>,
    /// Its bias, in the product's order; empty where it has none.
    pub bias: Vec<f32>,
}

impl<'a> Loader<'a> {
    /// Where the checkpoint keeps row `row` of a product of a set.
    pub(crate) fn row_order(&self, set: usize, which: Product, row: usize) -> usize {
        match which {
            Product::Input if self.architecture.delta_rule_of(set).is_none() => {
                self.stored_row(row)
            }
            _ => row,
        }
    }

    /// Packs a product's rows as they are stored.
    pub(crate) fn pack(
        &self,
        arithmetic: Arithmetic,
        layout: PackedLayout,
        rows: (StoredRows<'_>, Vec<f32>),
        ranges: Option<&[f32]>,
    ) -> Result<Matrix> {
        self.pack_by(arithmetic, layout, rows, ranges, |row| row)
    }

    /// Packs a product of single precision whose every bit counts: by vectors, also where tiles multiply others.
    pub(crate) fn pack_exactly(
        &self,
        layout: PackedLayout,
        (mut weight, bias): (StoredRows<'_>, Vec<f32>),
    ) -> Result<Matrix> {
        let row = |row: usize, out: &mut [f32]| weight.row(row, out);
        let (isa, precision) = (self.isa.without_tiles(), Arithmetic::Fp32);
        let matrix = Matrix::pack(isa, precision, layout, row, &bias, None);
        weight.check()?;
        Ok(matrix)
    }

    /// Packs a product whose row `row` is stored as row `order(row)`; the bias is in order.
    pub(crate) fn pack_by(
        &self,
        arithmetic: Arithmetic,
        layout: PackedLayout,
        (mut weight, bias): (StoredRows<'_>, Vec<f32>),
        ranges: Option<&[f32]>,
        order: impl Fn(usize) -> usize,
    ) -> Result<Matrix> {
        let arithmetic = layout.fitting(arithmetic);
        let row = |row: usize, out: &mut [f32]| weight.row(order(row), out);
        let matrix = Matrix::pack(self.isa, arithmetic, layout, row, &bias, ranges);
        weight.check()?;
        Ok(matrix)
    }

    /// Where the checkpoint keeps row `row` of queries, keys and values: rotary positions turn channels of both halves
    /// of a head here, and query, key and value of all heads follow one another.
    fn stored_row(&self, row: usize) -> usize {
        let Architecture {
            attention, rotary, ..
        } = self.architecture;
        let size = attention.head_size;
        let [query, key] = attention.query_key_widths();
        let (part, first) = if row < query {
            (0, 0)
        } else if row < query + key {
            (1, query)
        } else if row < query + 2 * key || !attention.gated {
            (2, query + key)
        } else {
            (3, query + 2 * key)
        };
        let (head, mut channel) = ((row - first) / size, (row - first) % size);
        if attention.rows.adjacent_pairs && part < 2 {
            let pairs = rotary.first().map_or(0, |rotary| rotary.frequencies.len());
            if channel < pairs {
                channel *= 2;
            } else if channel < 2 * pairs {
                channel = 2 * (channel - pairs) + 1;
            }
        }
        if attention.rows.fused_by_head {
            (3 * head + part) * size + channel
        } else if attention.gated {
            // A head's gate follows its query; keys and values follow all heads of both.
            match part {
                0 => 2 * head * size + channel,
                3 => (2 * head + 1) * size + channel,
                _ => query + row,
            }
        } else {
            first + head * size + channel
        }
    }

    /// The bias of queries, keys (zeros) and values, whose names are full below `layer`.
    pub(crate) fn query_value_bias(
        &self,
        layer: &str,
        [query, value]: [&str; 2],
        outputs: &[usize],
    ) -> Result<Vec<f32>> {
        let read = |name: &str, size: usize| {
            let tensor = self.tensor(&format!("{layer}{name}"), &[size])?;
            tensor.floats()
        };
        let &[queries, keys, values] = outputs else {
            return Ok(Vec::new());
        };
        let mut bias = read(query, queries)?;
        bias.resize(queries + keys, 0.0);
        bias.extend(read(value, values)?);
        Ok(bias)
    }

    /// The tensor of this name behind the prefix.
    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor<'a>> {
        let name = format!("{}{name}", self.prefix);
        let tensor = self.checkpoint.get(&name);
        let tensor = tensor.ok_or_else(|| missing(self.checkpoint, &name))?;
        tensor.expect_shape(shape)?;
        Ok(tensor)
    }

    /// The rows of a product's weight, and its bias (empty where it has none); `layer` as in [`Loader::norm`].
    pub(crate) fn rows(
        &self,
        [layer, own]: [&str; 2],
        sources: Sources,
        outputs: &[usize],
        inputs: usize,
        biased: bool,
    ) -> Result<(StoredRows<'a>, Vec<f32>)> {
        let full = |part: &str, ending: &str| {
            format!("{}{layer}{}.{ending}", self.prefix, names::module(part))
        };
        let fitting = || {
            sources
                .iter()
                .filter(|parts| [1, outputs.len()].contains(&parts.len()))
        };
        let parts = fitting()
            .find(|parts| {
                parts
                    .iter()
                    .all(|part| self.checkpoint.get(&full(part, "weight")).is_some())
            })
            .or(fitting().next())
            .copied()
            .unwrap_or_default();
        let total: usize = outputs.iter().sum();
        let (mut weight, mut bias) = (StoredRows::new(inputs), Vec::new());
        let mut first_row = 0;
        for (index, part) in parts.iter().enumerate() {
            let rows = if parts.len() == 1 {
                total
            } else {
                outputs[index]
            };
            let half = part
                .split_once('#')
                .map(|(_, half)| usize::from(half == "1"));
            let stored = if half.is_some() { 2 * rows } else { rows };
            let first = half.unwrap_or(0) * rows;
            let tensor = |ending: &str, shape: &[usize]| {
                let name = full(part, ending);
                let tensor = self
                    .checkpoint
                    .get(&name)
                    .ok_or_else(|| missing(self.checkpoint, &name))?;
                tensor.expect_shape(shape)?;
                Ok::<_, Error>(tensor)
            };
            if let Some(task) = self.task {
                let module = format!("{}{layer}{}", self.prefix, names::module(part));
                let shape = [rows, inputs];
                let kind = ChangedModule::Product;
                let change = task.change(self.checkpoint, &module, shape, kind)?;
                weight.change(first_row, WeightChange::low_rank(shape, change));
                first_row += rows;
            }
            if part.starts_with('^') {
                weight.append_columns(tensor("weight", &[inputs, stored])?, 0, stored);
            } else {
                weight.append(tensor("weight", &[stored, inputs])?, first, rows);
            }
            if biased {
                let start = bias.len();
                bias.resize(start + rows, 0.0);
                tensor("bias", &[stored])?.read(first, &mut bias[start..])?;
            }
        }
        if let Some(adapter) = self.adapter {
            let parts = class_parts(sources, outputs.len());
            let mut start = 0;
            for (index, part) in parts.iter().enumerate() {
                let end = if parts.len() == 1 {
                    total
                } else {
                    start + outputs[index]
                };
                let bias = if biased {
                    &mut bias[start..end]
                } else {
                    &mut []
                };
                let module = format!("{own}{}", names::module(part));
                weight.change(start, adapter.change(&module, end - start, inputs, bias)?);
                start = end;
            }
        }
        Ok((weight, bias))
    }
}

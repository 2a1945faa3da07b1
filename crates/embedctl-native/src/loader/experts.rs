//! Loads experts: their router and their products.

use super::Loader;
use crate::experts::{self, ExpertWeights};
use crate::packed::{InputRanges, Product};
use crate::rows::StoredRows;
use embedctl_checkpoint::architecture::ExpertsDescription;
use embedctl_common::error::Result;
use embedctl_kernels::{Arithmetic, Matrix, PackedLayout};

impl Loader<'_> {
    /// Appends the experts' products of the layer that the checkpoint calls `layer` to `products`.
    ///
    /// # Errors
    /// If a tensor is missing or has a wrong shape, type or content.
    pub(crate) fn expert_products(
        &self,
        layer: &str,
        described: &ExpertsDescription,
        arithmetic: Arithmetic,
        ranges: Option<&InputRanges>,
        products: &mut Vec<Matrix>,
    ) -> Result<()> {
        let layouts = experts::layouts(described, self.architecture.hidden);
        for expert in 0..described.count {
            let rows = self.expert_rows(layer, described, expert)?;
            let both = [Product::Up, Product::Down].into_iter().zip(layouts);
            for ((product, layout), rows) in both.zip(rows) {
                let ranges = ranges.map(|ranges| ranges[product as usize].as_slice());
                products.push(self.pack(arithmetic, layout, (rows, Vec::new()), ranges)?);
            }
        }
        Ok(())
    }

    /// The weights of that layer's experts beside their products.
    ///
    /// # Errors
    /// As [`Loader::expert_products`].
    pub(crate) fn expert_weights(
        &self,
        layer: &str,
        described: &ExpertsDescription,
    ) -> Result<ExpertWeights> {
        let hidden = self.architecture.hidden;
        let layout = PackedLayout {
            outputs: described.count,
            inputs: hidden,
            gated: false,
        };
        let router = (self.router_rows(layer, described)?, Vec::new());
        Ok(ExpertWeights {
            // A small difference may give a token to another expert.
            router: self.pack_exactly(layout, router)?,
            bias: self.experts_bias(layer, described)?,
        })
    }

    /// The rows of an expert's two products, of the layer that the checkpoint calls `layer`.
    pub(crate) fn expert_rows(
        &self,
        layer: &str,
        described: &ExpertsDescription,
        expert: usize,
    ) -> Result<[StoredRows<'_>; 2]> {
        let hidden = self.architecture.hidden;
        let names = &self.architecture.names.experts;
        let (count, width) = (described.count, described.width);
        let number = expert.to_string();
        let mut up = StoredRows::new(hidden);
        for part in names.up {
            if part.contains("{}") {
                let name = format!("{layer}{}.weight", part.replace("{}", &number));
                up.append(self.tensor(&name, &[width, hidden])?, 0, width);
            } else {
                let whole = self.tensor(&format!("{layer}{part}"), &[count * width, hidden])?;
                up.append(whole, expert * width, width);
            }
        }
        let mut down = StoredRows::new(width);
        match names.down.strip_prefix('^') {
            None => {
                let name = format!("{layer}{}.weight", names.down.replace("{}", &number));
                down.append(self.tensor(&name, &[hidden, width])?, 0, hidden);
            }
            Some(name) => {
                let whole = self.tensor(&format!("{layer}{name}"), &[count * width, hidden])?;
                down.append_columns(whole, expert * width, hidden);
            }
        }
        Ok([up, down])
    }

    /// The rows of the product that makes the experts' shares.
    pub(crate) fn router_rows(
        &self,
        layer: &str,
        described: &ExpertsDescription,
    ) -> Result<StoredRows<'_>> {
        let (hidden, count) = (self.architecture.hidden, described.count);
        let name = format!("{layer}{}.weight", self.architecture.names.experts.router);
        let mut router = StoredRows::new(hidden);
        router.append(self.tensor(&name, &[count, hidden])?, 0, count);
        Ok(router)
    }

    /// The bias of the experts' sum; empty where there is none.
    pub(crate) fn experts_bias(
        &self,
        layer: &str,
        described: &ExpertsDescription,
    ) -> Result<Vec<f32>> {
        if !described.bias {
            return Ok(Vec::new());
        }
        let name = format!("{layer}{}", self.architecture.names.experts.bias);
        self.tensor(&name, &[self.architecture.hidden])?.floats()
    }
}

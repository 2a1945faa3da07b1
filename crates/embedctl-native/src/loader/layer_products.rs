//! The products of a layer: their layouts, and how they are packed from the checkpoint.

use rayon::prelude::*;

use super::Loader;
use super::products::StoredProduct;
use crate::experts;
use crate::packed::{InputRanges, Product};
use embedctl_checkpoint::architecture::{Architecture, ExpertsDescription};
use embedctl_checkpoint::names::Sources;
use embedctl_common::error::Result;
use embedctl_kernels::{Arithmetic, Matrix, PackedLayout};

/// A product of a layer, and where its weights are.
struct LayerProduct {
    product: Product,
    sources: Sources,
    /// Rows of its parts, which follow one another.
    outputs: Vec<usize>,
    biased: bool,
    layout: PackedLayout,
}

impl<'a> Loader<'a> {
    /// The experts of a set's layers, which agree on whether they have any.
    pub(crate) fn experts_of(&self, set: usize) -> Option<ExpertsDescription> {
        let experts = self.architecture.feed_forward.experts;
        experts.filter(|_| self.own_layers(set).any(|layer| layer.experts))
    }

    /// The layouts of a set's products, in the order of [`LayerWeights::products`](crate::packed::LayerWeights).
    pub(crate) fn layouts(&self, set: usize) -> Vec<PackedLayout> {
        let own = self.own_products(set, &Product::ALL);
        let mut layouts: Vec<PackedLayout> = own.iter().map(|one| one.layout).collect();
        if let Some(experts) = self.experts_of(set) {
            let both = experts::layouts(&experts, self.architecture.hidden);
            layouts.extend((0..experts.count).flat_map(|_| both));
        }
        layouts
    }

    /// The products `which` of a set in `arithmetic`, with those of all experts in the place of a feed-forward's; `ranges`
    /// as in [`Loader::layer`].
    ///
    /// # Errors
    /// If a tensor is missing or has a wrong shape, type or content.
    pub(crate) fn products(
        &self,
        set: usize,
        which: &[Product],
        arithmetic: Arithmetic,
        ranges: Option<&InputRanges>,
    ) -> Result<Vec<Matrix>> {
        let names_of_layer = self.layer_names(set)?;
        let layer = [names_of_layer[0].as_str(), names_of_layer[1].as_str()];
        let pack = |one: &LayerProduct| {
            let StoredProduct { layout, rows, bias } = self.stored_product(set, layer, one)?;
            let ranges = ranges.map(|ranges| ranges[one.product as usize].as_slice());
            let order = |row| self.row_order(set, one.product, row);
            self.pack_by(arithmetic, layout, (rows, bias), ranges, order)
        };
        // In parallel: packing takes most of the time of an exact result of a few rows.
        let own = self.own_products(set, which);
        let packed: Vec<_> = own.par_iter().map(pack).collect();
        // The first error in their order, the same each time.
        let mut products = packed.into_iter().collect::<Result<Vec<_>>>()?;
        let experts = self.experts_of(set);
        if let Some(experts) = experts.filter(|_| which.contains(&Product::Up)) {
            self.expert_products(layer[0], &experts, arithmetic, ranges, &mut products)?;
        }
        Ok(products)
    }

    /// The products of a set, of those in `which`, that are not experts'.
    fn own_products(&self, set: usize, which: &[Product]) -> Vec<LayerProduct> {
        let has_experts = self.experts_of(set).is_some();
        let is_experts = |which: &Product| has_experts && Product::FEED_FORWARD.contains(which);
        let own = which.iter().filter(|which| !is_experts(which));
        own.map(|&which| self.described(set, which)).collect()
    }

    /// A product of a set's layers, which have no experts.
    ///
    /// # Errors
    /// If a tensor is missing or has a wrong shape, type or content.
    pub(crate) fn product(&self, set: usize, which: Product) -> Result<StoredProduct<'a>> {
        let [stored, own] = self.layer_names(set)?;
        self.stored_product(set, [&stored, &own], &self.described(set, which))
    }

    fn stored_product(
        &self,
        set: usize,
        layer: [&str; 2],
        one: &LayerProduct,
    ) -> Result<StoredProduct<'a>> {
        let inputs = one.layout.inputs;
        let (mut rows, mut bias) =
            self.rows(layer, one.sources, &one.outputs, inputs, one.biased)?;
        match one.product {
            Product::Input => {
                let all = 0..bias.len();
                bias = all
                    .map(|row| bias[self.row_order(set, one.product, row)])
                    .collect();
                if let Some(names) = self.architecture.names.query_value_bias {
                    bias = self.query_value_bias(layer[0], names, &one.outputs)?;
                }
            }
            Product::Output | Product::Down => {
                let scale = self.architecture.branch_scale;
                bias.iter_mut().for_each(|value| *value *= scale);
                rows.scale(scale);
            }
            Product::Up => {}
        }
        let layout = one.layout;
        Ok(StoredProduct { layout, rows, bias })
    }

    /// Where a product's weights are, and its layout.
    fn described(&self, set: usize, product: Product) -> LayerProduct {
        let Architecture {
            hidden,
            attention,
            feed_forward,
            names,
            ..
        } = self.architecture;
        let [query, key] = attention.query_key_widths();
        let inner = feed_forward.width;
        let is_gated = product == Product::Up && feed_forward.gated;
        let convolution = self.architecture.convolution_of(set);
        let delta_rule = self.architecture.delta_rule_of(set);
        let (sources, outputs, inputs, biased) = match product {
            Product::Input if let Some(convolution) = convolution => {
                let parts = vec![*hidden; 3];
                (names.convolution.input, parts, *hidden, convolution.biased)
            }
            Product::Output if let Some(convolution) = convolution => {
                let parts = vec![*hidden];
                (names.convolution.output, parts, *hidden, convolution.biased)
            }
            Product::Input if let Some(rule) = delta_rule => (
                names.delta_rule.input,
                rule.inputs().to_vec(),
                *hidden,
                false,
            ),
            Product::Output if let Some(rule) = delta_rule => {
                (names.delta_rule.output, vec![*hidden], rule.values(), false)
            }
            Product::Input => {
                let gated = if attention.gated { 2 * query } else { query };
                let parts = vec![gated, key, key];
                (names.query_key_value, parts, *hidden, attention.input_bias)
            }
            Product::Output => {
                let parts = vec![*hidden];
                (names.attention_output, parts, query, attention.output_bias)
            }
            Product::Up => {
                let halves = vec![inner; if is_gated { 2 } else { 1 }];
                (names.up, halves, *hidden, feed_forward.up_bias)
            }
            Product::Down => (names.down, vec![*hidden], inner, feed_forward.down_bias),
        };
        LayerProduct {
            product,
            sources,
            biased,
            layout: PackedLayout {
                outputs: if is_gated {
                    inner
                } else {
                    outputs.iter().sum()
                },
                inputs,
                gated: is_gated,
            },
            outputs,
        }
    }
}

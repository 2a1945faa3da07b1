//! The products of a layer: their layouts, and how they are packed from the checkpoint.

use rayon::prelude::*;

use super::architecture::{Architecture, ExpertsDescription};
use super::kernels::{Matrix, PackedLayout, ProductPrecision};
use super::loader::Loader;
use super::names::Sources;
use super::packed::{InputRanges, Product};
use embedctl_common::error::Result;

/// A product of a layer, and where its weights are.
struct LayerProduct {
    product: Product,
    sources: Sources,
    /// Rows of its parts, which follow one another.
    outputs: Vec<usize>,
    biased: bool,
    layout: PackedLayout,
}

impl Loader<'_> {
    /// The experts of a set's layers, which agree on whether they have any.
    pub(super) fn experts_of(&self, set: usize) -> Option<ExpertsDescription> {
        let layers = self.architecture.layers.iter();
        let mut own = layers.filter(|layer| layer.weights == set);
        let experts = self.architecture.feed_forward.experts;
        experts.filter(|_| own.any(|layer| layer.experts))
    }

    /// The layouts of a set's products, in the order of [`LayerWeights::products`](super::packed::LayerWeights).
    pub(super) fn layouts(&self, set: usize) -> Vec<PackedLayout> {
        let own = self.own_products(set);
        let mut layouts: Vec<PackedLayout> = own.iter().map(|one| one.layout).collect();
        if let Some(experts) = self.experts_of(set) {
            let both = experts.layouts(self.architecture.hidden);
            layouts.extend((0..experts.count).flat_map(|_| both));
        }
        layouts
    }

    /// A set's products in `arithmetic`; `ranges` as in [`Loader::layer`].
    ///
    /// # Errors
    /// If a tensor is missing or has a wrong shape, type or content.
    pub(super) fn products(
        &self,
        set: usize,
        arithmetic: ProductPrecision,
        ranges: Option<&InputRanges>,
    ) -> Result<Vec<Matrix>> {
        let stored = self.layer_name(set)?;
        let layer = self.layer_names(set, &stored);
        let pack = |one: &LayerProduct| {
            let inputs = one.layout.inputs;
            let mut rows = self.rows(layer, one.sources, &one.outputs, inputs, one.biased)?;
            match one.product {
                Product::Input => {
                    let bias = &rows.1;
                    let all = 0..bias.len();
                    rows.1 = all.map(|row| bias[self.stored_row(row)]).collect();
                }
                Product::Output | Product::Down => {
                    let scale = self.architecture.branch_scale;
                    rows.1.iter_mut().for_each(|value| *value *= scale);
                    rows.0.scale(scale);
                }
                Product::Up => {}
            }
            let ranges = ranges.map(|ranges| ranges[one.product as usize].as_slice());
            match one.product {
                Product::Input => self.pack_by(arithmetic, one.layout, rows, ranges, |row| {
                    self.stored_row(row)
                }),
                _ => self.pack(arithmetic, one.layout, rows, ranges),
            }
        };
        // In parallel: packing takes most of the time of an exact result of a few rows.
        let own = self.own_products(set);
        let packed: Vec<_> = own.par_iter().map(pack).collect();
        // The first error in their order, the same each time.
        let mut products = packed.into_iter().collect::<Result<Vec<_>>>()?;
        if let Some(experts) = self.experts_of(set) {
            self.expert_products(layer[0], &experts, arithmetic, ranges, &mut products)?;
        }
        Ok(products)
    }

    /// The products of a set that are not experts'.
    fn own_products(&self, set: usize) -> Vec<LayerProduct> {
        let Architecture {
            hidden,
            attention,
            feed_forward,
            names,
            ..
        } = self.architecture;
        let query = attention.heads * attention.head_size;
        let key = attention.key_value_heads * attention.head_size;
        let inner = feed_forward.width;
        let one = |product, sources, outputs: &[usize], inputs, biased| {
            let is_gated = product == Product::Up && feed_forward.gated;
            let rows: usize = outputs.iter().sum();
            LayerProduct {
                product,
                sources,
                outputs: outputs.to_vec(),
                biased,
                layout: PackedLayout {
                    outputs: if is_gated { inner } else { rows },
                    inputs,
                    gated: is_gated,
                },
            }
        };
        let halves: &[usize] = match feed_forward.gated {
            true => &[inner, inner],
            false => &[inner],
        };
        let (into, output) = (names.query_key_value, names.attention_output);
        let mut products = vec![
            one(
                Product::Input,
                into,
                &[query, key, key],
                *hidden,
                attention.input_bias,
            ),
            one(
                Product::Output,
                output,
                &[*hidden],
                query,
                attention.output_bias,
            ),
        ];
        if self.experts_of(set).is_none() {
            let (up, down) = (feed_forward.up_bias, feed_forward.down_bias);
            products.push(one(Product::Up, names.up, halves, *hidden, up));
            products.push(one(Product::Down, names.down, &[*hidden], inner, down));
        }
        products
    }
}

//! A network with its weights, as workers run it.

mod layerwise;

use std::path::Path;

use rayon::prelude::*;

use super::executor::Executor;
use super::kernels::{Arithmetic, Isa, Matrix};
use super::loader::Loader;
use super::masked_head::{MaskedHead, StoredHead};
use super::network_weights::NetworkWeights;
use super::packed::{LayerWeights, OuterWeights, Product};
use super::scratch::{Rows, Scratch, ThreadCrew};
use embedctl_checkpoint::architecture::{Architecture, Layer};
use embedctl_common::error::Result;
use layerwise::calibrate;

/// A network with its weights.
pub(super) struct Network {
    pub(super) architecture: Architecture,
    isa: Isa,
    outer: OuterWeights,
    sets: Vec<LayerWeights>,
    is_from_cache: bool,
}

impl Network {
    /// The masked-LM head of this network's checkpoint, its vocabulary's product in `arithmetic`.
    pub(super) fn masked_head(
        &self,
        config_file: &Path,
        weights: &NetworkWeights,
        arithmetic: Arithmetic,
    ) -> Result<MaskedHead> {
        let loader = Loader::new(&self.architecture, weights, self.isa)?;
        let word = &self.outer.word;
        let (hidden, shape) = (self.architecture.hidden, (word.rows(), word.width()));
        let stored = StoredHead::read(config_file, &weights.checkpoint, hidden, shape)?;
        let head = MaskedHead::pack(stored, &loader, word, arithmetic)?;
        weights.check_unchanged()?;
        Ok(head)
    }

    /// Takes the table of tokens from `head`, where it holds the same numbers. Gives the bytes that are freed.
    pub(super) fn share_tokens(&mut self, head: &MaskedHead) -> usize {
        let rows = head.token_rows();
        rows.map_or(0, |rows| self.outer.word.share(rows))
    }

    /// Rows of the table of tokens.
    pub(crate) fn token_rows(&self) -> usize {
        self.outer.word.rows()
    }

    /// Whether the products were taken from the cache.
    pub(crate) fn is_from_cache(&self) -> bool {
        self.is_from_cache
    }

    pub(super) fn open(
        architecture: Architecture,
        weights: &NetworkWeights,
        isa: Isa,
        arithmetic: Arithmetic,
    ) -> Result<Self> {
        let is_kept;
        let (outer, sets): (_, Vec<LayerWeights>) = {
            let loader = Loader::new(&architecture, weights, isa)?;
            let outer = loader.outer_weights()?;
            let prepared = weights.prepared.as_ref();
            let kept = prepared.and_then(|prepared| {
                let sets = 0..architecture.weight_sets.len();
                let layouts: Vec<_> = sets.map(|set| loader.layouts(set)).collect();
                prepared.read(isa, arithmetic, &layouts)
            });
            is_kept = kept.is_some();
            let sets = match kept {
                Some(sets) => {
                    let sets = sets.into_par_iter().enumerate();
                    sets.map(|(set, products)| loader.layer_around(set, products))
                        .collect::<Result<_>>()?
                }
                None => pack(&loader, &outer, arithmetic)?,
            };
            (outer, sets)
        };
        weights.check_unchanged()?;
        if let Some(prepared) = weights.prepared.as_ref().filter(|_| !is_kept) {
            prepared.write(sets.iter().map(|set| &set.products[..]));
        }
        Ok(Self {
            architecture,
            isa,
            outer,
            sets,
            is_from_cache: is_kept,
        })
    }

    /// Multiplications and additions for a row of `tokens` tokens, of the layers' products and of attention.
    pub(super) fn operations(&self, tokens: usize) -> u64 {
        let attention = &self.architecture.attention;
        let architecture_experts = self.architecture.feed_forward.experts;
        let layer = |layer: &Layer| -> u64 {
            let weights = &self.sets[layer.weights];
            let of = |matrix: &Matrix| matrix.inputs() * matrix.rows();
            // A token takes some of the experts.
            let feed_forwards = match (architecture_experts, &weights.small.experts) {
                (Some(experts), Some(_)) => 2 * experts.chosen,
                _ => 2,
            };
            let count = Product::ATTENTION.len() + feed_forwards;
            let taken = weights.products.iter().take(count);
            let products: usize = taken.map(of).sum();
            let seen = layer
                .reach
                .map_or(tokens, |reach| tokens.min(2 * reach + 1));
            let beside = &weights.small.beside;
            let pairs = match (&beside.convolution, &beside.delta_rule) {
                (Some(convolution), _) => convolution.operations(),
                (None, Some(rule)) => rule.operations(),
                (None, None) => 2 * seen * attention.heads * attention.head_size,
            };
            2 * tokens as u64 * (products + pairs) as u64
        };
        self.architecture.layers.iter().map(layer).sum()
    }

    pub(super) fn executor(&self) -> Executor<'_> {
        Executor {
            architecture: &self.architecture,
            isa: self.isa,
        }
    }

    /// Token states of these rows. Threads of `crew` help with many tokens.
    pub(super) fn run<'a>(
        &self,
        rows: Rows<'_>,
        scratch: &'a mut Scratch,
        crew: &ThreadCrew,
    ) -> Result<&'a [f32]> {
        let executor = self.executor();
        executor.embed(&self.outer, rows, scratch)?;
        for layer in &self.architecture.layers {
            let weights = &self.sets[layer.weights];
            executor.layer(layer, weights, rows, scratch, crew, None);
        }
        Ok(executor.finish(&self.outer, rows.ids.len(), scratch))
    }
}

/// All sets of weights, packed from the checkpoint.
fn pack(
    loader: &Loader<'_>,
    outer: &OuterWeights,
    arithmetic: Arithmetic,
) -> Result<Vec<LayerWeights>> {
    let ranges = match arithmetic {
        // By vectors: tiles give the same integers only for the same ranges.
        Arithmetic::Int8 => Some(calibrate(&loader.without_tiles(), outer)?),
        Arithmetic::Fp32 | Arithmetic::Bf16 | Arithmetic::Int16 => None,
    };
    // A set that no layer takes has none.
    let ranges = |set: usize| {
        let own = ranges.as_ref().map(|ranges| &ranges[set]);
        own.filter(|ranges| !ranges[0].is_empty())
    };
    (0..loader.architecture.weight_sets.len())
        .into_par_iter()
        .map(|set| loader.layer(set, arithmetic, ranges(set)))
        .collect()
}

//! Opens a network: its weights from the checkpoint or the cache, and its masked-LM head.

use std::path::Path;

use rayon::prelude::*;

use super::Network;
use super::layerwise::calibrate;
use crate::loader::Loader;
use crate::masked_head::{MaskedHead, StoredHead};
use crate::network_weights::NetworkWeights;
use crate::packed::{LayerWeights, OuterWeights};
use embedctl_checkpoint::architecture::Architecture;
use embedctl_common::error::Result;
use embedctl_kernels::{Arithmetic, Isa};

impl Network {
    pub(crate) fn open(
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

    /// The masked-LM head of this network's checkpoint, its vocabulary's product in `arithmetic`.
    pub(crate) fn masked_head(
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
    pub(crate) fn share_tokens(&mut self, head: &MaskedHead) -> usize {
        let rows = head.token_rows();
        rows.map_or(0, |rows| self.outer.word.share(rows))
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

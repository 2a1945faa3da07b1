//! Finds a model's tensors in a checkpoint under any of their names, and packs them for the kernels.

mod convolution;
mod delta_rule;
mod disentangled;
mod experts;
mod latent;
mod layer_products;
mod products;

use std::sync::Arc;

use super::network_weights::NetworkWeights;
use super::packed::{
    BesideProducts, InputRanges, LayerWeights, Norms, OuterWeights, Product, SmallWeights,
    TokenTable,
};
use super::rotary::RotaryTable;
use embedctl_checkpoint::Rotary;
use embedctl_checkpoint::adapter::CheckedAdapter;
use embedctl_checkpoint::architecture::{
    Architecture, Layer, NormDescription, NormKind, PositionBias, QueryKeyNorm,
};
use embedctl_checkpoint::names::{self, Alternatives, NormNames, TASK_TYPE};
use embedctl_checkpoint::prefix::{self, Prefix};
use embedctl_checkpoint::safetensors::{Checkpoint, Tensor, missing};
use embedctl_checkpoint::tasks::{ChangedModule, TaskWeights};
use embedctl_kernels::{Arithmetic, Isa, Matrix, Norm, PackedLayout};
use embedctl_vectors::low_rank::LowRank;
pub(crate) use products::StoredProduct;

use embedctl_common::error::{Error, Result};

/// Finds a model's tensors in a checkpoint.
pub(crate) struct Loader<'a> {
    pub(super) architecture: &'a Architecture,
    pub(super) checkpoint: &'a Arc<Checkpoint>,
    pub(super) adapter: Option<&'a CheckedAdapter>,
    pub(super) task: Option<&'a TaskWeights>,
    pub(super) prefix: String,
    pub(super) isa: Isa,
}

impl<'a> Loader<'a> {
    /// A loader for a checkpoint whose prefix of the network's names is found first.
    ///
    /// # Errors
    /// If the checkpoint has no token embeddings, or those of several networks.
    pub(crate) fn new(
        architecture: &'a Architecture,
        weights: &'a NetworkWeights,
        isa: Isa,
    ) -> Result<Self> {
        let Prefix { prefix, .. } = prefix::find(
            architecture,
            weights.checkpoint.path(),
            weights.checkpoint.names(),
        )?;
        Ok(Self {
            architecture,
            checkpoint: &weights.checkpoint,
            adapter: weights.adapter.as_ref(),
            task: weights.task.as_ref(),
            prefix,
            isa,
        })
    }

    /// The same for products that are multiplied by vectors alone.
    pub(crate) fn without_tiles(&self) -> Self {
        Self {
            isa: self.isa.without_tiles(),
            prefix: self.prefix.clone(),
            ..*self
        }
    }

    /// Bytes of the tables of tokens and positions, which stay as they are stored.
    pub(crate) fn table_bytes(&self) -> usize {
        let positions = self.architecture.embeddings.positions;
        [Some(self.word()), positions.map(|_| self.positions())]
            .into_iter()
            .flatten()
            .filter_map(|(source, name)| Some(source.get(&name)?.stored_bytes()))
            .sum()
    }

    /// Everything but the layers.
    ///
    /// # Errors
    /// If a tensor is missing or has a wrong shape, type or content.
    pub(crate) fn outer_weights(&self) -> Result<OuterWeights> {
        let embeddings = &self.architecture.embeddings;
        let width = embeddings.width;
        let (word_source, word) = self.word();
        let positions = embeddings.positions.map(|positions| {
            let (source, name) = self.positions();
            source.table(&name, Some(positions.count), Some(width))
        });
        let projection = if embeddings.projected {
            let StoredProduct { layout, rows, bias } = self.projection()?;
            Some(self.pack_exactly(layout, (rows, bias))?)
        } else {
            None
        };
        let word = word_source.table(&word, embeddings.vocabulary, Some(width))?;
        Ok(OuterWeights {
            word_change: self.word_change(word.rows())?,
            word: TokenTable::Stored(word),
            positions: positions.transpose()?,
            types: self.types()?,
            angles: self.angles()?,
            norm: self.embedding_norm()?,
            projection,
            final_norm: self.final_norm()?,
            latent: self.latent()?,
            relative_bias: self.shared_relative_bias()?,
        })
    }

    /// The tensor of a module outside the layers, `own` in transformers' class.
    fn outer_tensor(&self, own: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let name = format!("{}{own}.weight", self.prefix);
        let tensor = self
            .replaced(&format!("{own}.weight"))
            .or_else(|| self.checkpoint.get(&name))
            .ok_or_else(|| missing(self.checkpoint, &name))?;
        tensor.expect_shape(shape)?;
        tensor.floats()
    }

    /// The table of token types, row-major; empty where there is none.
    pub(super) fn types(&self) -> Result<Vec<f32>> {
        let embeddings = &self.architecture.embeddings;
        let width = embeddings.width;
        let mut types = match embeddings.types {
            0 => Vec::new(),
            types => {
                let own = self.architecture.names.token_type;
                let mut table = self.outer_tensor(own, &[types, width])?;
                if let Some(change) = self.table_change(&format!("{}{own}", self.prefix), types)? {
                    change.apply(0, width, &mut table);
                }
                table
            }
        };
        if embeddings.tasks > 0 {
            // A text's task is the first, so that its row may come with a token's type.
            let tasks = self.outer_tensor(TASK_TYPE, &[embeddings.tasks, width])?;
            for row in types.chunks_exact_mut(width) {
                (row.iter_mut().zip(&tasks)).for_each(|(value, task)| *value += task);
            }
        }
        Ok(types)
    }

    /// The norm of the embeddings.
    pub(super) fn embedding_norm(&self) -> Result<Option<Norm>> {
        let embeddings = &self.architecture.embeddings;
        let names = self.architecture.names.embedding_norm;
        let norm = embeddings.norm;
        norm.map(|norm| self.norm(["", ""], names, norm, embeddings.width))
            .transpose()
    }

    /// The projection from the embeddings' width to the model's.
    pub(super) fn projection(&self) -> Result<StoredProduct<'a>> {
        let Architecture {
            hidden,
            embeddings,
            names,
            ..
        } = self.architecture;
        let width = embeddings.width;
        let (rows, bias) = self.rows(["", ""], names.projection, &[*hidden], width, true)?;
        let layout = PackedLayout {
            outputs: *hidden,
            inputs: width,
            gated: false,
        };
        Ok(StoredProduct { layout, rows, bias })
    }

    /// The norm after the last layer.
    pub(super) fn final_norm(&self) -> Result<Option<Norm>> {
        let Architecture {
            hidden,
            names,
            norm,
            ..
        } = self.architecture;
        let has = self.architecture.final_norm;
        has.then(|| self.norm(["", ""], names.final_norm, *norm, *hidden))
            .transpose()
    }

    /// Bias of attention scores by relative position, `[buckets, heads]`, where all layers share it; else empty.
    pub(super) fn shared_relative_bias(&self) -> Result<Vec<f32>> {
        let attention = &self.architecture.attention;
        match attention.position_bias {
            Some(PositionBias::Buckets {
                rows,
                of_each_layer: false,
                ..
            }) => self.outer_tensor(
                self.architecture.names.relative_bias,
                &[rows, attention.heads],
            ),
            _ => Ok(Vec::new()),
        }
    }

    /// Sines and cosines that the checkpoint has, of each set of frequencies.
    pub(super) fn angles(&self) -> Result<Vec<Option<RotaryTable>>> {
        let stored = |rotary: &Rotary| {
            let name = format!("{}{}.weight", self.prefix, rotary.stored?);
            self.checkpoint.get(&name)
        };
        let table = |rotary: &Rotary| {
            let Some(tensor) = stored(rotary) else {
                return Ok(None);
            };
            let pairs = rotary.frequencies.len();
            let rows = tensor.shape().first().copied().unwrap_or_default();
            let rows = self.architecture.longest.unwrap_or(rows);
            tensor.expect_shape(&[rows, 2 * pairs])?;
            Ok(Some(RotaryTable::of_stored(&tensor.floats()?, pairs)))
        };
        self.architecture.rotary.iter().map(table).collect()
    }

    /// A set of weights in `arithmetic`; `ranges` are the greatest magnitudes of each product's inputs, by
    /// which 8-bit products are balanced.
    ///
    /// # Errors
    /// As [`Loader::outer_weights`].
    pub(crate) fn layer(
        &self,
        set: usize,
        arithmetic: Arithmetic,
        ranges: Option<&InputRanges>,
    ) -> Result<LayerWeights> {
        let products = self.products(set, &Product::ALL, arithmetic, ranges)?;
        self.layer_around(set, products)
    }

    /// A set of weights whose products are there.
    ///
    /// # Errors
    /// As [`Loader::outer_weights`].
    pub(crate) fn layer_around(&self, set: usize, products: Vec<Matrix>) -> Result<LayerWeights> {
        let small = self.small_weights(set)?;
        Ok(LayerWeights { products, small })
    }

    /// A set's weights but its products.
    ///
    /// # Errors
    /// As [`Loader::outer_weights`].
    pub(crate) fn small_weights(&self, set: usize) -> Result<SmallWeights> {
        let names_of_layer = self.layer_names(set)?;
        let layer = [names_of_layer[0].as_str(), names_of_layer[1].as_str()];
        let experts = self.experts_of(set);
        let experts = experts
            .map(|experts| self.expert_weights(layer[0], &experts))
            .transpose()?;
        Ok(SmallWeights {
            experts,
            relative_positions: self.relative_positions(layer)?,
            beside: self.beside_products(set)?,
        })
    }

    /// The layers that take a set of weights.
    pub(super) fn own_layers(&self, set: usize) -> impl Iterator<Item = &'a Layer> + use<'a> {
        let layers = self.architecture.layers.iter();
        layers.filter(move |layer| layer.weights == set)
    }

    /// A set's weights beside products, experts and relative positions.
    ///
    /// # Errors
    /// As [`Loader::outer_weights`].
    pub(super) fn beside_products(&self, set: usize) -> Result<BesideProducts> {
        let Architecture {
            hidden,
            attention,
            names,
            norm,
            ..
        } = self.architecture;
        let names_of_layer = self.layer_names(set)?;
        let layer = [names_of_layer[0].as_str(), names_of_layer[1].as_str()];
        let query = attention.heads * attention.head_size;
        let key = attention.key_value_heads * attention.head_size;
        let relative_bias = match attention.position_bias {
            Some(PositionBias::Buckets {
                rows,
                of_each_layer: true,
                ..
            }) => {
                let name = format!("{}{}.weight", layer[0], names.relative_bias);
                self.tensor(&name, &[rows, attention.heads])?.floats()?
            }
            _ => Vec::new(),
        };
        let first_norm = self.own_layers(set).any(|layer| layer.first_norm);
        let around = |names: &NormNames, before: bool| {
            let one = |names: Alternatives| {
                (!names.is_empty())
                    .then(|| self.norm(layer, names, *norm, *hidden))
                    .transpose()
            };
            Ok::<_, Error>(Norms {
                before: if before { one(names.before)? } else { None },
                after: one(names.after)?,
                with_input: one(names.with_input)?,
                sum: one(names.sum)?,
            })
        };
        let convolution = self.architecture.convolution_of(set);
        let delta_rule = self.architecture.delta_rule_of(set);
        let attends = convolution.is_none() && delta_rule.is_none();
        let norm_of_heads = attention.query_key_norm.filter(|_| attends);
        let query_key_norms = match norm_of_heads {
            None => None,
            Some(QueryKeyNorm { norm, all_heads }) => {
                let [query_name, key_name] = names.query_key_norm;
                let size = attention.head_size;
                let [query, key] = if all_heads { [query, key] } else { [size; 2] };
                Some([
                    self.norm(layer, query_name, norm, query)?,
                    self.norm(layer, key_name, norm, key)?,
                ])
            }
        };
        Ok(BesideProducts {
            relative_bias,
            attention_norms: around(&names.attention_norms, first_norm)?,
            feed_forward_norms: around(&names.feed_forward_norms, true)?,
            query_key_norms,
            convolution: convolution
                .map(|convolution| self.convolution(layer[0], convolution))
                .transpose()?,
            delta_rule: delta_rule
                .map(|rule| self.delta_rule(layer, rule))
                .transpose()?,
        })
    }

    /// The layer's part of a name, of a set of weights: in the checkpoint, and in transformers' class.
    pub(super) fn layer_names(&self, set: usize) -> Result<[String; 2]> {
        let own = self.architecture.weight_sets[set].first();
        Ok([self.layer_name(set)?, own.cloned().unwrap_or_default()])
    }

    /// How the checkpoint spells the layer of a set.
    pub(super) fn layer_name(&self, set: usize) -> Result<String> {
        let spellings = &self.architecture.weight_sets[set];
        let is_there = |spelling: &&String| {
            let parts = self.architecture.names.query_key_value.iter();
            parts.filter_map(|parts| parts.first()).any(|part| {
                self.checkpoint
                    .get(&format!(
                        "{}{spelling}{}.weight",
                        self.prefix,
                        names::module(part)
                    ))
                    .is_some()
            })
        };
        spellings
            .iter()
            .find(is_there)
            .or(spellings.first())
            .cloned()
            .ok_or_else(|| Error::internal(format!("layer {set} has no name")))
    }

    /// The full name of the first alternative that is there, else of the first.
    fn full(&self, names: Alternatives, ending: &str) -> Option<String> {
        let full = |name: &&str| format!("{}{name}{ending}", self.prefix);
        let found = names
            .iter()
            .find(|name| self.checkpoint.get(&full(name)).is_some());
        found.or(names.first()).map(full)
    }

    /// The tensor that the adapter puts in the place of the network's `own`, by its name in transformers' class.
    fn replaced(&self, own: &str) -> Option<Tensor<'a>> {
        let adapter = self.adapter?;
        adapter.checkpoint().get(adapter.replaced(own)?)
    }

    /// Where the table of tokens is.
    pub(super) fn word(&self) -> (&'a Arc<Checkpoint>, String) {
        let names = self.architecture.names.word;
        let stored = self.full(names, ".weight").unwrap_or_default();
        self.table(names.first().copied().unwrap_or_default(), stored)
    }

    /// The chosen task's change to the table of tokens, which has `rows` rows.
    pub(super) fn word_change(&self, rows: usize) -> Result<Option<LowRank>> {
        let name = self.full(self.architecture.names.word, "");
        self.table_change(&name.unwrap_or_default(), rows)
    }

    /// The chosen task's change to a table of embeddings, whose module's name is full.
    fn table_change(&self, module: &str, rows: usize) -> Result<Option<LowRank>> {
        let shape = [rows, self.architecture.embeddings.width];
        let change =
            |task: &TaskWeights| task.change(self.checkpoint, module, shape, ChangedModule::Table);
        self.task.map(change).transpose()
    }

    /// Where the table of positions is.
    pub(super) fn positions(&self) -> (&'a Arc<Checkpoint>, String) {
        let own = self.architecture.names.position;
        self.table(own, format!("{}{own}.weight", self.prefix))
    }

    /// Where the table of the module `own` is: in the checkpoint under the name `stored`, or in the adapter.
    fn table(&self, own: &str, stored: String) -> (&'a Arc<Checkpoint>, String) {
        let replaced = self.adapter.and_then(|adapter| {
            let name = adapter.replaced(&format!("{own}.weight"))?;
            Some((adapter.checkpoint(), name.to_owned()))
        });
        replaced.unwrap_or((self.checkpoint, stored))
    }

    /// `layer` is the layer's part of a name: in the checkpoint, and in transformers' class.
    pub(super) fn norm(
        &self,
        [layer, own]: [&str; 2],
        names: Alternatives,
        norm: NormDescription,
        width: usize,
    ) -> Result<Norm> {
        if norm.kind == NormKind::Plain {
            return Ok(Norm::layer(vec![1.0; width], Vec::new(), norm.epsilon));
        }
        // Old checkpoints call a norm's scale and shift gamma and beta.
        let vector = |endings: [&str; 2]| {
            let all = || {
                names.iter().flat_map(|name| {
                    endings.map(|ending| format!("{}{layer}{name}.{ending}", self.prefix))
                })
            };
            let class_name = names.first().copied().unwrap_or_default();
            let tensor = self
                .replaced(&format!("{own}{class_name}.{}", endings[0]))
                .or_else(|| all().find_map(|name| self.checkpoint.get(&name)))
                .ok_or_else(|| missing(self.checkpoint, &all().next().unwrap_or_default()))?;
            tensor.expect_shape(&[width])?;
            tensor.floats()
        };
        let mut weight = vector(["weight", "gamma"])?;
        Ok(match norm.kind {
            NormKind::Layer { bias: true } => {
                Norm::layer(weight, vector(["bias", "beta"])?, norm.epsilon)
            }
            NormKind::Layer { bias: false } | NormKind::Plain => {
                Norm::layer(weight, Vec::new(), norm.epsilon)
            }
            NormKind::Rms { offset } => {
                weight.iter_mut().for_each(|weight| *weight += offset);
                Norm::rms(weight, norm.epsilon)
            }
        })
    }
}

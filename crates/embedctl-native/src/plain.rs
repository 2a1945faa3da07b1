//! A network's weights as plain matrices, for engines that have kernels of their own: under one name each, with an
//! adapter's changes, in the order of rows that this crate computes in.

mod head;
mod narrow;

use std::ops::Range;
use std::path::{Path, PathBuf};

pub use self::head::PlainHead;
use crate::latent::LatentMatrices;
use crate::loader::Loader;
use crate::loader::StoredProduct;
use crate::network_weights::NetworkWeights;
use crate::packed::{BesideProducts, Product};
use crate::relative_bias;
use crate::rotary::RotaryTable;
use crate::rows::StoredRows;
use embedctl_checkpoint::architecture::{Architecture, ExpertsDescription, PositionBias};
use embedctl_checkpoint::safetensors::{Checkpoint, Tensor, missing};
use embedctl_checkpoint::{Adapter, Rotary};
use embedctl_common::error::{Error, Result};
use embedctl_kernels::{Isa, Norm};
use embedctl_vectors::elements::{Element, ElementTable};

/// A described network and its checkpoint. Headers are read when it is opened, weights when they are asked for.
#[derive(Debug)]
pub struct PlainNetwork {
    config_file: PathBuf,
    architecture: Architecture,
    weights: NetworkWeights,
}

/// A table of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainTable {
    /// Of tokens.
    Tokens,
    /// Of learned positions.
    Positions,
}

/// A matrix by which states are multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainProduct {
    /// From the embeddings' width to the model's.
    Projection,
    /// One of a set's products.
    Layer(usize, Product),
    /// The shares of a set's experts.
    Router(usize),
    /// The first product of an expert of a set.
    ExpertUp(usize, usize),
    /// Its second product.
    ExpertDown(usize, usize),
    /// One of latent attention.
    Latent(LatentProduct),
    /// The transformation of states in front of the vocabulary ([`PlainHead`]).
    TermTransform,
    /// Terms of the vocabulary: so many from the first on.
    Terms {
        /// The first term.
        first: usize,
        /// How many.
        count: usize,
    },
}

/// A matrix of latent attention ([`LatentMatrices`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatentProduct {
    /// Scores of the latents.
    Scores,
    /// From their shares to the attention's output.
    Mix,
    /// The feed-forward's first product, gated.
    Up,
    /// Its second product.
    Down,
}

/// The weights outside the layers, beside tables and products.
#[derive(Debug)]
pub struct OutsideLayers {
    /// The table of token types, row-major; empty where there is none.
    pub types: Vec<f32>,
    /// The norm of the embeddings.
    pub norm: Option<Norm>,
    /// The norm after the last layer.
    pub final_norm: Option<Norm>,
    /// Bias of attention scores by bucket, `[buckets, heads]`, where all layers share it; else empty.
    pub relative_bias: Vec<f32>,
}

/// Relative positions' keys and queries of a layer, each `[positions, hidden]` or empty.
pub type RelativeTables = [Vec<f32>; 2];

impl PlainNetwork {
    /// Opens the `config.json` and the safetensors checkpoint in `folder`, changed by `adapter` where there is one.
    ///
    /// # Errors
    /// If config.json has a setting that this crate does not support, or there is no checkpoint.
    pub fn open(folder: &Path, adapter: Option<&Adapter>) -> Result<Self> {
        let architecture = Architecture::read(folder)
            .map_err(|unsupported| Error::model(unsupported.file.display(), unsupported.reason))?;
        let weights = NetworkWeights::open(folder, adapter, &architecture)?.ok_or_else(|| {
            Error::model(
                folder.display(),
                "has no model.safetensors and no model.safetensors.index.json",
            )
        })?;
        Ok(Self {
            config_file: folder.join("config.json"),
            architecture,
            weights,
        })
    }

    /// The description.
    #[must_use]
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The file of the description.
    #[must_use]
    pub fn config_file(&self) -> &Path {
        &self.config_file
    }

    /// Checks that everything read so far came from the files as they were when they were opened.
    ///
    /// # Errors
    /// If one of them was written to or cut since then.
    pub fn check_unchanged(&self) -> Result<()> {
        self.weights.check_unchanged()
    }

    fn loader(&self) -> Result<Loader<'_>> {
        // The instructions change no weight that is read here, and only the last bits of those computed.
        Loader::new(&self.architecture, &self.weights, Isa::best())
    }

    /// Rows, width and stored element type of a table.
    ///
    /// # Errors
    /// If it is missing or has a wrong shape.
    pub fn table_shape(&self, table: PlainTable) -> Result<(usize, usize, Element)> {
        let tensor = self.table_tensor(table)?;
        let &[rows, width] = tensor.shape() else {
            return Err(tensor.wrong("is not a table"));
        };
        let embeddings = &self.architecture.embeddings;
        let stated = match table {
            PlainTable::Tokens => embeddings.vocabulary,
            PlainTable::Positions => embeddings.positions.map(|positions| positions.count),
        };
        tensor.expect_shape(&[stated.unwrap_or(rows), embeddings.width])?;
        let element = tensor.element();
        let element = element.ok_or_else(|| tensor.wrong("has elements that are not read"))?;
        let changed = table == PlainTable::Tokens && self.weights.task.is_some();
        Ok((rows, width, if changed { Element::F32 } else { element }))
    }

    fn table_tensor(&self, table: PlainTable) -> Result<Tensor<'_>> {
        let (checkpoint, name) = self.table_source(table)?;
        let tensor = checkpoint.get(&name);
        tensor.ok_or_else(|| missing(checkpoint, &name))
    }

    fn table_source(&self, table: PlainTable) -> Result<(&Checkpoint, String)> {
        let loader = self.loader()?;
        let (checkpoint, name) = match table {
            PlainTable::Tokens => loader.word(),
            PlainTable::Positions => loader.positions(),
        };
        Ok((checkpoint, name))
    }

    /// A table in its stored element type, or in single precision where a task changes it.
    ///
    /// # Errors
    /// If a tensor is missing or has a wrong shape, type or content.
    pub fn table(&self, table: PlainTable) -> Result<ElementTable> {
        let (rows, width, _) = self.table_shape(table)?;
        let (checkpoint, name) = self.table_source(table)?;
        let stored = checkpoint.table(&name, Some(rows), Some(width))?;
        let change = match table {
            PlainTable::Tokens => self.loader()?.word_change(rows)?,
            PlainTable::Positions => None,
        };
        Ok(match change {
            None => stored,
            Some(change) => stored.changed(&|row, values| change.apply(row, width, values)),
        })
    }

    /// Everything outside the layers but tables and products.
    ///
    /// # Errors
    /// As [`PlainNetwork::table`].
    pub fn outside(&self) -> Result<OutsideLayers> {
        let loader = self.loader()?;
        Ok(OutsideLayers {
            types: loader.types()?,
            norm: loader.embedding_norm()?,
            final_norm: loader.final_norm()?,
            relative_bias: loader.shared_relative_bias()?,
        })
    }

    /// Cosines and sines of each set of frequencies, for `positions` positions.
    ///
    /// # Errors
    /// As [`PlainNetwork::table`].
    pub fn turns(&self, positions: usize) -> Result<Vec<RotaryTable>> {
        let stored = self.loader()?.angles()?;
        let sets = self.architecture.rotary.iter().zip(stored);
        let table = |(rotary, stored): (&Rotary, Option<RotaryTable>)| {
            stored.unwrap_or_else(|| {
                let mut made = RotaryTable::default();
                made.extend(rotary, positions);
                made
            })
        };
        Ok(sets.map(table).collect())
    }

    /// A set's weights beside its products.
    ///
    /// # Errors
    /// As [`PlainNetwork::table`].
    pub fn beside_products(&self, set: usize) -> Result<BesideProducts> {
        self.loader()?.beside_products(set)
    }

    /// Keys and queries of a set's relative positions.
    ///
    /// # Errors
    /// As [`PlainNetwork::table`].
    pub fn relative_tables(&self, set: usize) -> Result<RelativeTables> {
        let loader = self.loader()?;
        let [stored, own] = loader.layer_names(set)?;
        loader.relative_tables([&stored, &own])
    }

    /// The bias of scores by `attention.position_bias`, `[heads, 2 * reach + 1]` by the distance from query to key up to
    /// `reach` to either side, and that reach; `table` is the learned one.
    #[must_use]
    pub fn bias_by_distance(
        &self,
        kind: PositionBias,
        table: &[f32],
        longest: usize,
    ) -> (Vec<f32>, usize) {
        let heads = self.architecture.attention.heads;
        let mut bias = Vec::new();
        relative_bias::extend(&mut bias, kind, table, heads, longest);
        let reach = relative_bias::reach(&bias, heads);
        (bias, reach)
    }

    /// The experts that a set has in place of a feed-forward.
    ///
    /// # Errors
    /// If the checkpoint has no network.
    pub fn experts(&self, set: usize) -> Result<Option<ExpertsDescription>> {
        Ok(self.loader()?.experts_of(set))
    }

    /// The bias of the sum of a set's experts; empty where there is none.
    ///
    /// # Errors
    /// As [`PlainNetwork::table`].
    pub fn experts_bias(&self, set: usize) -> Result<Vec<f32>> {
        let loader = self.loader()?;
        let [stored, _] = loader.layer_names(set)?;
        let experts = loader.experts_of(set);
        experts.map_or(Ok(Vec::new()), |experts| {
            loader.experts_bias(&stored, &experts)
        })
    }

    /// The weights of latent attention.
    ///
    /// # Errors
    /// As [`PlainNetwork::table`], or if there is none.
    pub fn latent_matrices(&self) -> Result<LatentMatrices> {
        let matrices = self.loader()?.latent_matrices()?;
        matrices.ok_or_else(|| Error::internal("the network has no latent attention"))
    }

    /// The bias of a product; empty where it has none.
    ///
    /// # Errors
    /// As [`PlainNetwork::table`].
    pub fn bias(&self, product: PlainProduct) -> Result<Vec<f32>> {
        let loader = self.loader()?;
        let stored = match product {
            PlainProduct::Projection => loader.projection()?,
            PlainProduct::Layer(set, which) => loader.product(set, which)?,
            PlainProduct::Latent(which) => {
                let LatentMatrices { up, down, .. } = self.latent_matrices()?;
                let [_, bias] = match which {
                    LatentProduct::Up => up,
                    LatentProduct::Down => down,
                    LatentProduct::Scores | LatentProduct::Mix => return Ok(Vec::new()),
                };
                return Ok(bias);
            }
            PlainProduct::TermTransform | PlainProduct::Terms { .. } => {
                return self.head_bias(product);
            }
            _ => return Ok(Vec::new()),
        };
        Ok(stored.bias)
    }

    /// Calls `take` with the values of some of a product's rows, one for each output, in order. They are numbered from 0.
    ///
    /// # Errors
    /// As [`PlainNetwork::table`].
    pub fn rows(
        &self,
        product: PlainProduct,
        outputs: Range<usize>,
        mut take: impl FnMut(usize, &[f32]),
    ) -> Result<()> {
        let loader = self.loader()?;
        let mut each = |mut rows: StoredRows<'_>, inputs: usize, order: &dyn Fn(usize) -> usize| {
            let mut values = vec![0.0; inputs];
            for (number, row) in outputs.clone().enumerate() {
                rows.row(order(row), &mut values);
                take(number, &values);
            }
            rows.check()
        };
        let same = |row| row;
        let described = |set| {
            let experts = loader.experts_of(set);
            experts.ok_or_else(|| Error::internal(format!("layer {set} has no experts")))
        };
        let hidden = self.architecture.hidden;
        match product {
            PlainProduct::Projection => {
                let StoredProduct { layout, rows, .. } = loader.projection()?;
                each(rows, layout.inputs, &same)
            }
            PlainProduct::Layer(set, which) => {
                let StoredProduct { layout, rows, .. } = loader.product(set, which)?;
                let order = |row| loader.row_order(set, which, row);
                each(rows, layout.inputs, &order)
            }
            PlainProduct::Latent(which) => {
                let LatentMatrices {
                    scores,
                    mix,
                    up: [up, _],
                    down: [down, _],
                    ..
                } = self.latent_matrices()?;
                let (weight, inputs) = match which {
                    LatentProduct::Scores => (scores, hidden),
                    LatentProduct::Mix => {
                        let inputs = mix.len() / hidden;
                        (mix, inputs)
                    }
                    LatentProduct::Up => (up, hidden),
                    LatentProduct::Down => {
                        let inputs = down.len() / hidden;
                        (down, inputs)
                    }
                };
                let rows =
                    weight[outputs.start * inputs..outputs.end * inputs].chunks_exact(inputs);
                (rows.enumerate()).for_each(|(row, values)| take(row, values));
                Ok(())
            }
            PlainProduct::TermTransform | PlainProduct::Terms { .. } => {
                self.head_rows(product, outputs, take)
            }
            PlainProduct::Router(set) => {
                let [stored, _] = loader.layer_names(set)?;
                let described = described(set)?;
                each(loader.router_rows(&stored, &described)?, hidden, &same)
            }
            PlainProduct::ExpertUp(set, expert) | PlainProduct::ExpertDown(set, expert) => {
                let [stored, _] = loader.layer_names(set)?;
                let described = described(set)?;
                let [up, down] = loader.expert_rows(&stored, &described, expert)?;
                if matches!(product, PlainProduct::ExpertUp(..)) {
                    each(up, hidden, &same)
                } else {
                    each(down, described.width, &same)
                }
            }
        }
    }
}

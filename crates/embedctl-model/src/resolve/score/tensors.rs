//! The tensors of a head in a checkpoint.

use crate::CheckpointFiles;
use embedctl_checkpoint::safetensors::{Checkpoint, Tensor, missing};
use embedctl_checkpoint::{Adapter, HeadAdapter};
use embedctl_common::error::Result;
use embedctl_common::remedies::MERGE_ADAPTER;
use embedctl_rows::{Dense, DenseActivation, LayerNorm, Residual};

/// A checkpoint whose head is read, with the changes of an adapter where there is one.
pub(super) struct HeadTensors {
    checkpoint: Checkpoint,
    adapter: Option<HeadAdapter>,
}

impl HeadTensors {
    /// Opens both; reads headers alone.
    pub fn open(files: &CheckpointFiles) -> Result<Self> {
        let adapter = files.adapter.as_ref().and_then(Adapter::low_rank);
        Ok(Self {
            checkpoint: Checkpoint::open_files(&files.files)?,
            adapter: adapter.map(HeadAdapter::open).transpose()?,
        })
    }

    /// Whether there is an adapter, and it brings a classification head of its own.
    pub fn has_saved_classifier(&self) -> bool {
        let adapter = self.adapter.as_ref();
        adapter.is_some_and(|adapter| ["score", "classifier"].iter().any(|it| adapter.saves(it)))
    }

    /// The tensor of the first of these names that is there; a name may stand behind that of the whole network (`bert.`).
    fn tensor(&self, names: &[&str]) -> Result<Tensor<'_>> {
        for name in names {
            let adapter = self.adapter.as_ref();
            if let Some(tensor) = adapter.map(|it| it.replaced(name)).transpose()?.flatten() {
                return Ok(tensor);
            }
        }
        let checkpoint = &self.checkpoint;
        let found = names.iter().find_map(|name| {
            let own = checkpoint.get(name);
            own.or_else(|| {
                let inner = format!(".{name}");
                let mut all = checkpoint.names().filter(|all| all.ends_with(&inner));
                let one = all.next().filter(|_| all.next().is_none())?.to_owned();
                checkpoint.get(&one)
            })
        });
        found.ok_or_else(|| {
            missing(checkpoint, names[0]).with_remedy(
                "this is no checkpoint of a model that scores: use one that was trained as a classifier or a reranker",
            )
        })
    }

    /// Whether there is a tensor of that name.
    pub fn has(&self, name: &str) -> Result<bool> {
        Ok(self.checkpoint.get(name).is_some() || self.is_replaced(name)?)
    }

    /// Whether an adapter brings the tensor of that name.
    fn is_replaced(&self, name: &str) -> Result<bool> {
        let adapter = self.adapter.as_ref();
        Ok(adapter
            .map(|it| it.replaced(name))
            .transpose()?
            .flatten()
            .is_some())
    }

    /// A linear layer of `input` components, and of so many outputs as its weight has rows.
    pub fn dense(
        &self,
        names: &[&str],
        input: usize,
        has_bias: bool,
        activation: DenseActivation,
    ) -> Result<Dense> {
        let named = |part: &str| -> Vec<String> {
            names.iter().map(|name| format!("{name}.{part}")).collect()
        };
        let weights = named("weight");
        let weight = self.tensor(&weights.iter().map(String::as_str).collect::<Vec<_>>())?;
        let output = match weight.shape() {
            &[output, width] if width == input => output,
            other => {
                return Err(weight.wrong(format!(
                    "has the shape {other:?} where the network gives {input} components"
                )));
            }
        };
        let bias = match has_bias {
            true => {
                let biases = named("bias");
                let bias = self.tensor(&biases.iter().map(String::as_str).collect::<Vec<_>>())?;
                bias.expect_shape(&[output])?;
                bias.floats()?
            }
            false => Vec::new(),
        };
        let mut weight = weight.floats()?;
        for name in names {
            self.change(name, [output, input], 0, &mut weight)?;
        }
        Ok(Dense {
            weight: weight.into(),
            bias,
            input,
            output,
            activation,
            residual: Residual::None,
        })
    }

    /// A layer norm of `width` components.
    pub fn norm(
        &self,
        name: &str,
        width: usize,
        has_bias: bool,
        epsilon: f32,
    ) -> Result<LayerNorm> {
        let part = |part: &str| {
            let tensor = self.tensor(&[&format!("{name}.{part}")])?;
            tensor.expect_shape(&[width])?;
            tensor.floats()
        };
        Ok(LayerNorm {
            weight: part("weight")?,
            bias: match has_bias {
                true => part("bias")?,
                false => vec![0.0; width],
            },
            epsilon,
        })
    }

    /// Row `row` of the weight of `module`, of `width` components. It is stored as `name`, which may be another module's.
    ///
    /// # Errors
    /// If an adapter replaces the tensor of the other module: whether this one follows depends on the version of peft.
    pub fn row(&self, name: &str, module: &str, row: u32, width: usize) -> Result<Vec<f32>> {
        let tensor = self.tensor(&[name])?;
        if name != format!("{module}.weight") && self.is_replaced(name)? {
            return Err(tensor
                .wrong(format!(
                    "is replaced by the adapter, but '{module}' shares it"
                ))
                .with_remedy(MERGE_ADAPTER));
        }
        let rows = match tensor.shape() {
            &[rows, own] if own == width => rows,
            other => {
                return Err(tensor.wrong(format!(
                    "has the shape {other:?} where the network gives {width} components"
                )));
            }
        };
        let row = row as usize;
        if row >= rows {
            return Err(tensor.wrong(format!("has {rows} rows, but the token {row} is asked for")));
        }
        let mut values = vec![0.0; width];
        tensor.read(row * width, &mut values)?;
        self.change(module, [rows, width], row, &mut values)?;
        Ok(values)
    }

    /// Changes the rows of a module's matrix of `shape` from `first` on as the adapter does, if there is one.
    fn change(
        &self,
        module: &str,
        shape: [usize; 2],
        first: usize,
        values: &mut [f32],
    ) -> Result<()> {
        let adapter = self.adapter.as_ref();
        adapter.map_or(Ok(()), |adapter| {
            adapter.change(module, shape, first, values)
        })
    }

    /// One value of the vector of that name.
    pub fn value(&self, name: &str, index: u32) -> Result<f32> {
        let tensor = self.tensor(&[name])?;
        let values = tensor.floats()?;
        let value = values.get(index as usize).copied();
        value.ok_or_else(|| tensor.wrong(format!("has no value {index}")))
    }
}

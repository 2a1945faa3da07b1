//! Adapters for tasks that a checkpoint holds itself, as torch's parametrizations name them: a module's weight is stored
//! as `parametrizations.weight.original`, and the low-rank weights of all tasks are two tensors beside it.
//!
//! A matrix is changed as `W + scale · B · A`, and a table of embeddings as `W + scale · A · B`.

use crate::architecture::Architecture;
use crate::safetensors::{Checkpoint, missing};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::TASK;
use embedctl_vectors::low_rank::LowRank;

/// The end of the name of a weight that is parametrized.
const ORIGINAL: &str = ".parametrizations.weight.original";

/// The names of low-rank weights, behind their module's.
const PARTS: [&str; 2] = [
    ".parametrizations.weight.0.lora_A",
    ".parametrizations.weight.0.lora_B",
];

/// The name that a tensor of such a checkpoint has where nothing is parametrized.
#[must_use]
pub fn plain_name(stored: &str) -> String {
    match stored.strip_suffix(ORIGINAL) {
        Some(module) => format!("{module}.weight"),
        None => stored.to_owned(),
    }
}

/// The chosen task's low-rank weights.
#[derive(Debug)]
pub struct TaskWeights {
    /// Its name.
    pub name: String,
    /// Its place among the tasks.
    index: usize,
    /// How many tasks there are.
    count: usize,
    rank: usize,
    scale: f32,
}

/// What low-rank weights change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedModule {
    /// The matrix of a product.
    Product,
    /// A table of embeddings.
    Table,
}

impl TaskWeights {
    /// The weights of the task `name`.
    ///
    /// # Errors
    /// If the network has no such task.
    pub fn of(architecture: &Architecture, name: &str) -> Result<Self> {
        let tasks = architecture.tasks.as_ref();
        let found = tasks.and_then(|tasks| {
            let index = tasks.names.iter().position(|own| own == name)?;
            Some(Self {
                name: name.to_owned(),
                index,
                count: tasks.names.len(),
                rank: tasks.rank,
                scale: tasks.scale,
            })
        });
        let names = tasks.map_or_else(String::new, |tasks| tasks.names.join(", "));
        found.ok_or_else(|| {
            Error::usage(format!("{TASK} {name}: the model has no such task"))
                .with_remedy(format!("choose one of {names}"))
        })
    }

    /// The change to the weight of `module`, whose name is full, of `[rows, inputs]`.
    ///
    /// # Errors
    /// If a tensor is missing or has a wrong shape, type or content.
    pub fn change(
        &self,
        checkpoint: &Checkpoint,
        module: &str,
        [rows, inputs]: [usize; 2],
        kind: ChangedModule,
    ) -> Result<LowRank> {
        let read = |part: &str, shape: [usize; 2]| {
            let name = format!("{module}{part}");
            let tensor = checkpoint.get(&name);
            let tensor = tensor.ok_or_else(|| missing(checkpoint, &name))?;
            tensor.expect_shape(&[self.count, shape[0], shape[1]])?;
            let mut values = vec![0.0; shape[0] * shape[1]];
            tensor.read(self.index * values.len(), &mut values)?;
            Ok::<_, Error>(values)
        };
        let (down, up) = match kind {
            ChangedModule::Product => (PARTS[0], PARTS[1]),
            ChangedModule::Table => (PARTS[1], PARTS[0]),
        };
        Ok(LowRank {
            rank: self.rank,
            scale: self.scale,
            down: read(down, [self.rank, inputs])?,
            up: read(up, [rows, self.rank])?,
        })
    }

    /// Bytes of its low-rank weights, as they are applied.
    #[must_use]
    pub fn bytes(&self, checkpoint: &Checkpoint) -> usize {
        let parts = checkpoint
            .names()
            .filter(|name| PARTS.iter().any(|part| name.ends_with(part)));
        let floats = parts
            .filter_map(|name| checkpoint.get(name))
            .map(|tensor| tensor.shape().iter().product::<usize>() / self.count);
        size_of::<f32>() * floats.sum::<usize>()
    }
}

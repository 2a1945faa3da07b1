//! A network's weights on the disk: the checkpoint, and what changes it.

use std::path::Path;
use std::sync::Arc;

use crate::prepared::PreparedWeights;
use embedctl_checkpoint::Adapter;
use embedctl_checkpoint::adapter::CheckedAdapter;
use embedctl_checkpoint::architecture::Architecture;
use embedctl_checkpoint::safetensors::Checkpoint;
use embedctl_checkpoint::tasks::{self, TaskWeights};
use embedctl_common::error::Result;
use embedctl_common::hash;
use embedctl_vectors::elements::Element;

/// A network's weights on the disk.
#[derive(Debug)]
pub(crate) struct NetworkWeights {
    /// The checkpoint.
    pub checkpoint: Arc<Checkpoint>,
    /// The adapter that changes it.
    pub adapter: Option<CheckedAdapter>,
    /// The task whose weights in the checkpoint change it.
    pub task: Option<TaskWeights>,
    /// Where its packed products are kept.
    pub prepared: Option<PreparedWeights>,
}

impl NetworkWeights {
    /// The checkpoint in `folder`, changed by `adapter` where there is one; `None` where there is no checkpoint.
    ///
    /// # Errors
    /// If a file cannot be read, or the adapter does not fit the network.
    pub(crate) fn open(
        folder: &Path,
        adapter: Option<&Adapter>,
        architecture: &Architecture,
    ) -> Result<Option<Self>> {
        let Some(mut checkpoint) = Checkpoint::open(folder)? else {
            return Ok(None);
        };
        if architecture.tasks.is_some() {
            checkpoint.rename(tasks::plain_name);
        }
        let mut weights = Self {
            checkpoint: Arc::new(checkpoint),
            adapter: None,
            task: None,
            prepared: None,
        };
        match adapter {
            None => {}
            Some(Adapter::LowRank(adapter)) => {
                weights.adapter = Some(CheckedAdapter::open(adapter, architecture)?);
            }
            Some(Adapter::Task(name)) => {
                weights.task = Some(TaskWeights::of(architecture, name)?);
            }
        }
        Ok(Some(weights))
    }

    /// The SHA-256 of each file that decides the products, and of `config`, the text of config.json.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(crate) fn hashes(&self, config: &[u8]) -> Result<Vec<String>> {
        let mut hashes = vec![hash::of(config)];
        hashes.extend(self.checkpoint.hashes()?);
        if let Some(adapter) = &self.adapter {
            hashes.push(format!("adapter {:?}", adapter.settings()));
            hashes.extend(adapter.checkpoint().hashes()?);
        }
        hashes.extend(self.task.as_ref().map(|task| format!("task {}", task.name)));
        Ok(hashes)
    }

    /// Bytes of all low-rank weights, as they are applied.
    pub(crate) fn low_rank_bytes(&self) -> usize {
        let adapter = self.adapter.as_ref().map(CheckedAdapter::low_rank_bytes);
        let task = self.task.as_ref().map(|task| task.bytes(&self.checkpoint));
        adapter.or(task).unwrap_or(0)
    }

    /// Whether all matrices are bfloat16, and stay so.
    pub(crate) fn are_bf16(&self) -> bool {
        let mut tensors = self
            .checkpoint
            .names()
            .filter_map(|name| self.checkpoint.get(name));
        let is_changed = self.adapter.is_some() || self.task.is_some();
        !is_changed && tensors.all(|it| it.shape().len() < 2 || it.element() == Some(Element::Bf16))
    }

    /// Checks that everything read so far came from the files as they were when they were opened.
    ///
    /// # Errors
    /// If one of them was written to or cut since then.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        self.checkpoint.check_unchanged()?;
        let adapter = self.adapter.as_ref();
        adapter.map_or(Ok(()), |adapter| adapter.checkpoint().check_unchanged())
    }
}

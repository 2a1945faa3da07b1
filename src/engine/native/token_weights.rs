//! Sparse vectors without a network: each token of a text has a weight of its own.

use std::path::PathBuf;
use std::sync::Arc;

use embedctl_checkpoint::safetensors::{Checkpoint, missing};
use embedctl_vectors::Numbers;

use super::statics::LIMITS;

use crate::batch::Batch;
use crate::engine::{BatchLimits, Engine, EngineInfo, Output, Worker};
use crate::error::{Error, Result};

/// An opened table of weights.
pub(super) struct TokenWeightsEngine {
    info: EngineInfo,
    weights: Arc<[f32]>,
}

impl TokenWeightsEngine {
    /// Reads the weights, one for each token.
    ///
    /// # Errors
    /// If the files have none.
    pub(super) fn open(info: EngineInfo, files: &[PathBuf]) -> Result<Self> {
        let checkpoint = Checkpoint::open_files(files)?;
        let weights = checkpoint
            .get("weight")
            .ok_or_else(|| missing(&checkpoint, "weight"))?;
        Ok(Self {
            info,
            weights: weights.floats()?.into(),
        })
    }
}

impl Engine for TokenWeightsEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        LIMITS
    }

    fn is_ragged(&self) -> bool {
        true
    }

    fn memory(&self) -> Option<u64> {
        Some((self.weights.len() * size_of::<f32>()) as u64)
    }

    fn token_rows(&self) -> Option<usize> {
        Some(self.weights.len())
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        Ok(Box::new(TokenWeightsWorker {
            weights: Arc::clone(&self.weights),
            rows: Numbers::of_entries(),
        }))
    }
}

struct TokenWeightsWorker {
    weights: Arc<[f32]>,
    rows: Numbers,
}

impl Worker for TokenWeightsWorker {
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        self.rows.clear();
        for row in 0..batch.rows() {
            // However often a token stands in a text.
            let mut ids = batch.row(row).to_vec();
            ids.sort_unstable();
            ids.dedup();
            let weight = |&id: &u32| self.weights.get(id as usize).copied();
            if ids.last().is_some_and(|last| weight(last).is_none()) {
                return Err(Error::internal("a token without a weight was not refused"));
            }
            let entries = ids.iter().map(|id| (*id, weight(id).unwrap_or_default()));
            self.rows.push_entries(entries);
        }
        Ok(Output::Entries {
            rows: &self.rows,
            width: self.weights.len(),
        })
    }
}

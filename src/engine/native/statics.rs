//! Static embeddings: a text's vector is the mean of its tokens' vectors, and there is no network.
//!
//! sentence-transformers' StaticEmbedding keeps one table, `embedding.weight`. model2vec's layout has
//! `embeddings`, of which `mapping` says which row each token takes, and `weights`, by which it is
//! multiplied. What tokens a text has is the tokenizer's side of the two.

use std::path::PathBuf;
use std::sync::Arc;

use crate::batch::Batch;
use crate::device;
use crate::engine::{BatchLimits, Engine, EngineInfo, Output, Worker};
use crate::error::{Error, ErrorKind, Result};
use crate::remedies::MORE_MEMORY;
use crate::safetensors::{Checkpoint, Table};
use crate::size;

/// A batch costs next to nothing, so that handing it over is what counts.
const LIMITS: BatchLimits = BatchLimits {
    tokens: 32_768,
    rows: 2048,
    equal_lengths: false,
};

/// sentence-transformers' table.
const ONE_A_TOKEN: &str = "embedding.weight";

/// The token vectors of a static model.
#[derive(Debug)]
pub struct StaticTable {
    vectors: Table,
    /// Which row each token takes; empty: its own.
    mapping: Vec<u32>,
    /// What it is multiplied by; empty: nothing.
    weights: Vec<f32>,
}

impl StaticTable {
    /// Reads the tables in these safetensors files.
    ///
    /// # Errors
    /// If they hold no static model, or tables that don't fit each other.
    pub fn open(files: &[PathBuf]) -> Result<Self> {
        let checkpoint = Checkpoint::open_files(files)?;
        let one_a_token = checkpoint.get(ONE_A_TOKEN).is_some();
        let name = if one_a_token {
            ONE_A_TOKEN
        } else {
            "embeddings"
        };
        let stored = checkpoint.get(name).map_or(0, |table| table.stored_bytes());
        room_for(stored)?;
        let vectors = Table::open(&checkpoint, name, None, None)?;
        // Beside the former name nothing else of the file is read.
        let extra = |name: &str| {
            if one_a_token {
                None
            } else {
                checkpoint.get(name)
            }
        };
        let mapping = match extra("mapping") {
            None => Vec::new(),
            Some(mapping) => mapping
                .integers()?
                .into_iter()
                .map(|row| {
                    u32::try_from(row)
                        .ok()
                        .filter(|&row| (row as usize) < vectors.rows())
                        .ok_or_else(|| {
                            mapping.wrong(format!("names the row {row} of {}", vectors.rows()))
                        })
                })
                .collect::<Result<_>>()?,
        };
        let weights = match extra("weights") {
            None => Vec::new(),
            Some(tensor) => {
                let tokens = if mapping.is_empty() {
                    vectors.rows()
                } else {
                    mapping.len()
                };
                tensor.expect_shape(&[tokens])?;
                tensor.floats()?
            }
        };
        checkpoint.check_unchanged()?;
        Ok(Self {
            vectors,
            mapping,
            weights,
        })
    }

    /// Width of a vector.
    #[must_use]
    pub fn width(&self) -> usize {
        self.vectors.width()
    }

    /// Appends the mean of these tokens' vectors to `out`. One f32 is added after another, as PyTorch's `EmbeddingBag`
    /// and NumPy's mean over rows do: exacter sums would differ from the reference by 1e-4 at some ten thousand tokens.
    fn mean(&self, ids: &[i64], row: &mut [f32], out: &mut Vec<f32>) -> Result<()> {
        let start = out.len();
        out.resize(start + self.width(), 0.0);
        let sum = &mut out[start..];
        let tokens = if self.mapping.is_empty() {
            self.vectors.rows()
        } else {
            self.mapping.len()
        };
        for &id in ids {
            let id = usize::try_from(id)
                .ok()
                .filter(|&id| id < tokens)
                .ok_or_else(|| {
                    Error::internal(format!(
                        "the tokenizer made the id {id}, and the model has {tokens} vectors"
                    ))
                })?;
            self.vectors
                .row(self.mapping.get(id).map_or(id, |&row| row as usize), row);
            match self.weights.get(id) {
                None => sum
                    .iter_mut()
                    .zip(&*row)
                    .for_each(|(sum, value)| *sum += value),
                Some(weight) => sum
                    .iter_mut()
                    .zip(&*row)
                    .for_each(|(sum, value)| *sum += value * weight),
            }
        }
        #[allow(clippy::cast_precision_loss)]
        let count = ids.len().max(1) as f32;
        sum.iter_mut().for_each(|sum| *sum /= count);
        Ok(())
    }
}

/// Makes sure that there is memory for a table of so many bytes.
fn room_for(bytes: usize) -> Result<()> {
    match device::room().filter(|room| room.bytes < bytes as u64) {
        None => Ok(()),
        Some(room) => {
            let reason = format!(
                "the table of token vectors needs {} of memory, and {} {}",
                size::words(bytes as u64),
                room.bound.words(),
                size::words(room.bytes)
            );
            Err(Error::new(ErrorKind::OutOfMemory, "native", reason).with_remedy(MORE_MEMORY))
        }
    }
}

/// An opened static model.
pub(super) struct StaticEngine {
    info: EngineInfo,
    table: Arc<StaticTable>,
}

impl StaticEngine {
    pub(super) fn new(info: EngineInfo, table: StaticTable) -> Self {
        Self {
            info,
            table: Arc::new(table),
        }
    }
}

impl Engine for StaticEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        LIMITS
    }

    fn memory(&self) -> Option<u64> {
        Some(self.table.vectors.bytes() as u64)
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        Ok(Box::new(StaticWorker {
            row: vec![0.0; self.table.width()],
            table: Arc::clone(&self.table),
            rows: Vec::new(),
        }))
    }
}

struct StaticWorker {
    table: Arc<StaticTable>,
    row: Vec<f32>,
    rows: Vec<f32>,
}

impl Worker for StaticWorker {
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        self.rows.clear();
        for row in 0..batch.rows {
            let (real, start) = (batch.real(row), row * batch.length);
            let ids = &batch.input_ids[start + real.start..start + real.end];
            self.table.mean(ids, &mut self.row, &mut self.rows)?;
        }
        Ok(Output::Pooled {
            rows: &self.rows,
            width: self.table.width(),
        })
    }
}

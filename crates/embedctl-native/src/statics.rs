//! Static embeddings: a text's vector is the mean of its tokens' vectors, and there is no network.
//!
//! sentence-transformers' StaticEmbedding keeps one table, `embedding.weight`. model2vec keeps a table `embeddings`,
//! each token's row in it (`mapping`) and each token's factor (`weights`). The tokenizer of either decides a text's
//! tokens.

use std::path::PathBuf;

use crate::embedding::unknown_id;
use embedctl_checkpoint::safetensors::Checkpoint;
use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::machine;
use embedctl_common::remedies;
use embedctl_common::size;
use embedctl_vectors::elements::ElementTable;

/// sentence-transformers' table.
const ONE_A_TOKEN: &str = "embedding.weight";

/// The token vectors of a static model.
#[derive(Debug)]
pub struct StaticTable {
    vectors: ElementTable,
    /// Each token's row of the table; empty: the row of its own id.
    mapping: Vec<u32>,
    /// Each token's factor; empty: 1.
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
        let vectors = checkpoint.table(name, None, None)?;
        // In sentence-transformers' layout the file's other tensors are not read.
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

    /// Bytes of the table.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.vectors.bytes()
    }

    /// How many token ids there are vectors for.
    #[must_use]
    pub fn token_rows(&self) -> usize {
        match self.mapping.as_slice() {
            [] => self.vectors.rows(),
            mapping => mapping.len(),
        }
    }

    /// Width of a vector.
    #[must_use]
    pub fn width(&self) -> usize {
        self.vectors.width()
    }

    /// Appends the mean of these tokens' vectors to `out`. One f32 is added after another, as PyTorch's `EmbeddingBag`
    /// and NumPy's mean over rows do: more exact sums would differ from the reference by 1e-4 at some ten thousand
    /// tokens; `row` is memory for one vector.
    ///
    /// # Errors
    /// If an id has no vector.
    pub fn mean(&self, ids: &[u32], row: &mut [f32], out: &mut Vec<f32>) -> Result<()> {
        let start = out.len();
        out.resize(start + self.width(), 0.0);
        let sum = &mut out[start..];
        let tokens = self.token_rows();
        for &id in ids {
            let known = Some(id as usize).filter(|&id| id < tokens);
            let id = known.ok_or_else(|| unknown_id(id, tokens))?;
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

/// Checks that there is memory for a table of so many bytes.
fn room_for(bytes: usize) -> Result<()> {
    match machine::room().filter(|room| room.bytes < bytes as u64) {
        None => Ok(()),
        Some(room) => {
            let reason = format!(
                "the table of token vectors needs {} of memory, but {} {}",
                size::words(bytes as u64),
                room.bound.words(),
                size::words(room.bytes)
            );
            Err(Error::new(ErrorKind::OutOfMemory, "native", reason)
                .with_remedy(remedies::more_memory()))
        }
    }
}

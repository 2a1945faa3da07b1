//! The engines that run a model: one trait, which every engine implements.
//!
//! An [`Engine`] is an opened model. Each pipeline thread asks it for a [`Worker`] of its own, so that
//! `run` needs no lock. A worker returns token-level hidden states, or pooled rows where the graph or the
//! device pools; [`embedctl_rows::pool`] finishes both.

use embedctl_common::error::Result;
use embedctl_rows::batch::{Batch, BatchLimits, TokenRows};
use embedctl_vectors::Numbers;

use crate::{Cosine, EngineInfo, FinishRow};

/// A worker's result for a batch.
#[derive(Debug)]
pub enum Output<'a> {
    /// Hidden states of the batch's tokens, f32 `[tokens, width]`, row after row.
    Tokens {
        /// The states.
        states: &'a [f32],
        /// Width of a token's state.
        width: usize,
    },
    /// Hidden states of rows that the engine has padded on the right, f32 `[rows, length, width]`.
    Padded {
        /// The states.
        states: &'a [f32],
        /// Tokens of a row, padding included.
        length: usize,
        /// Width of a token's state.
        width: usize,
    },
    /// Finished rows, row-major `[rows, width]`.
    Pooled {
        /// The rows in the batch's order, f32.
        rows: &'a [f32],
        /// Width of a row.
        width: usize,
    },
    /// The entries of sparse rows.
    Entries {
        /// The rows in the batch's order.
        rows: &'a Numbers,
        /// Width of a row in full.
        width: usize,
    },
}

impl<'a> Output<'a> {
    /// Width of a token's state, or of a finished row.
    #[must_use]
    pub fn width(&self) -> usize {
        match *self {
            Self::Tokens { width, .. }
            | Self::Padded { width, .. }
            | Self::Pooled { width, .. }
            | Self::Entries { width, .. } => width,
        }
    }

    /// How many values there are.
    #[must_use]
    pub fn values(&self) -> usize {
        match *self {
            Self::Tokens { states, .. } | Self::Padded { states, .. } => states.len(),
            Self::Pooled { rows, .. } => rows.len(),
            Self::Entries { rows, .. } => rows.values().len(),
        }
    }

    /// Whether there are as many values as `batch` makes of this width.
    #[must_use]
    pub fn fits(&self, batch: &Batch) -> bool {
        let vectors = match *self {
            Self::Tokens { .. } => batch.ids.len(),
            Self::Padded { length, .. } if length < batch.longest() => return false,
            Self::Padded { length, .. } => batch.rows() * length,
            Self::Pooled { .. } => batch.rows(),
            Self::Entries { rows, .. } => return rows.len() == batch.rows(),
        };
        self.values() == vectors * self.width()
    }

    /// The values of row `index` of `batch`: the states of its tokens `[tokens, width]`, or the finished row, or those of
    /// its entries.
    ///
    /// # Panics
    /// If the output does not fit the batch, see [`Output::fits`].
    #[must_use]
    pub fn row(&self, batch: &Batch, index: usize) -> &'a [f32] {
        let span = batch.span(index);
        match *self {
            Self::Tokens { states, width } => &states[span.start * width..span.end * width],
            Self::Padded {
                states,
                length,
                width,
            } => {
                let start = index * length * width;
                &states[start..start + span.len() * width]
            }
            Self::Pooled { rows, width } => &rows[index * width..(index + 1) * width],
            Self::Entries { rows, .. } => rows.get(index).values(),
        }
    }
}

/// An opened model.
pub trait Engine: Send + Sync {
    /// The description of the opened engine.
    fn info(&self) -> &EngineInfo;

    /// The best batch shapes for this engine and model.
    fn limits(&self) -> BatchLimits;

    /// Whether it runs rows of different lengths side by side, so that padding costs nothing.
    fn is_ragged(&self) -> bool {
        false
    }

    /// How many workers suit the engine; `None`: as many as there are cores.
    fn workers(&self) -> Option<usize> {
        None
    }

    /// Bytes of memory that the model takes with all its workers, about; `None` where that is not known beforehand.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// How many token ids the model has vectors for, where only the engine knows; an ONNX graph says it itself
    /// ([`embedctl_model::Graph::token_rows`]).
    fn token_rows(&self) -> Option<usize> {
        None
    }

    /// The cosines between this engine's vectors of `rows` and those in single precision, if it computes in reduced
    /// precision. `finish` turns one row's token states into its vector.
    ///
    /// # Errors
    /// If a row cannot be run.
    fn measure(&self, rows: &TokenRows, finish: FinishRow<'_>) -> Result<Option<Cosine>> {
        let _ = (rows, finish);
        Ok(None)
    }

    /// Multiplications and additions that a row of `tokens` tokens takes in single precision, about; 0 where an engine
    /// does not [measure](Self::measure).
    fn operations(&self, tokens: usize) -> u64 {
        let _ = tokens;
        0
    }

    /// A worker for one thread. Called once per thread, before the first batch.
    ///
    /// # Errors
    /// If the engine cannot make another instance (memory, device).
    fn worker(&self) -> Result<Box<dyn Worker>>;
}

/// One thread's way to run batches.
pub trait Worker: Send {
    /// Runs one batch; the result borrows the worker's own buffer.
    ///
    /// # Errors
    /// If the engine fails; the batch may be run again.
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>>;

    /// A worker of the same network in bf16, which holds greater numbers, where this one computes in fp16; `None`: there is
    /// none. Only an engine whose rows do not depend on those beside them has one.
    ///
    /// # Errors
    /// If the device has no memory for it.
    fn in_bf16(&self) -> Result<Option<Box<dyn Worker>>> {
        Ok(None)
    }
}

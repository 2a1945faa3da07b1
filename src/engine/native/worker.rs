//! Runs batches of a network on one thread.

use embedctl_native::{EncoderWorker, Rows};

use crate::batch::Batch;
use crate::engine::{Output, Worker};
use crate::error::{Error, Result};

/// A thread's memory beside the shared weights.
pub(super) struct NativeWorker {
    pub(super) worker: EncoderWorker,
    pub(super) width: usize,
    /// Terms of the vocabulary, where the encoder has a head that gives them.
    pub(super) terms: Option<usize>,
}

impl Worker for NativeWorker {
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        let rows = Rows {
            ids: &batch.ids,
            types: &batch.types,
            ends: &batch.ends,
            seen: &batch.seen,
        };
        let width = self.width;
        if let Some(width) = self.terms {
            let rows = self.worker.run_terms(rows)?;
            let rows = rows.ok_or_else(|| Error::internal("a worker without a head"))?;
            return Ok(Output::Entries { rows, width });
        }
        let states = self.worker.run(rows)?;
        Ok(Output::Tokens { states, width })
    }
}

//! A network with its weights, and the workers that run it.

mod layerwise;
mod opening;
mod operations;

use std::sync::Arc;

use super::executor::Executor;
use super::packed::{LayerWeights, OuterWeights};
use super::scratch::{Rows, Scratch, ThreadCrew};
use super::term_worker::TermWorker;
use embedctl_checkpoint::architecture::Architecture;
use embedctl_common::error::Result;
use embedctl_kernels::Isa;
use embedctl_vectors::Numbers;

/// A network with its weights.
pub(super) struct Network {
    pub(super) architecture: Architecture,
    isa: Isa,
    outer: OuterWeights,
    sets: Vec<LayerWeights>,
    is_from_cache: bool,
}

impl Network {
    /// Rows of the table of tokens.
    pub(crate) fn token_rows(&self) -> usize {
        self.outer.word.rows()
    }

    /// Whether the products were taken from the cache.
    pub(crate) fn is_from_cache(&self) -> bool {
        self.is_from_cache
    }

    pub(super) fn executor(&self) -> Executor<'_> {
        Executor {
            architecture: &self.architecture,
            isa: self.isa,
        }
    }

    /// Token states of these rows. Threads of `crew` help with many tokens.
    pub(super) fn run<'a>(
        &self,
        rows: Rows<'_>,
        scratch: &'a mut Scratch,
        crew: &ThreadCrew,
    ) -> Result<&'a [f32]> {
        let executor = self.executor();
        executor.embed(&self.outer, rows, scratch)?;
        for layer in &self.architecture.layers {
            let weights = &self.sets[layer.weights];
            executor.layer(layer, weights, rows, scratch, crew, None);
        }
        Ok(executor.finish(&self.outer, rows.ids.len(), scratch))
    }
}

/// One thread's memory beside the shared weights.
pub struct EncoderWorker {
    pub(crate) network: Arc<Network>,
    pub(crate) crew: Arc<ThreadCrew>,
    pub(crate) scratch: Scratch,
    pub(crate) terms: Option<TermWorker>,
}

impl EncoderWorker {
    /// The token states `[tokens, width]` of `rows`, one row after another; they live until the next call.
    ///
    /// # Errors
    /// If an id has no vector, a row has no positions, or there is not enough memory.
    pub fn run(&mut self, rows: Rows<'_>) -> Result<&[f32]> {
        let _busy = self.crew.begin();
        self.network.run(rows, &mut self.scratch, &self.crew)
    }

    /// The terms of the vocabulary that have a weight in each of `rows`, by the head that the encoder has
    /// ([`with_terms`](crate::Encoder::with_terms)); `None` where it has none. They live until the next call. A row without
    /// finite logits has an entry that is NaN.
    ///
    /// # Errors
    /// As [`EncoderWorker::run`].
    pub fn run_terms(&mut self, rows: Rows<'_>) -> Result<Option<&Numbers>> {
        let Some(terms) = &mut self.terms else {
            return Ok(None);
        };
        let _busy = self.crew.begin();
        let states = (self.network).run(rows, &mut self.scratch, &self.crew)?;
        Ok(Some(terms.run(states, rows)))
    }
}

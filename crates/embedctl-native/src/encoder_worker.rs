//! What each thread runs of a transformer.

use std::path::PathBuf;
use std::sync::Arc;

use embedctl_common::Result;
use embedctl_vectors::Numbers;

use crate::kernels::TermPooling;
use crate::masked_head::{HeadScratch, MaskedHead};
use crate::network::Network;
use crate::scratch::{Rows, Scratch, ThreadCrew};

/// One thread's memory beside the shared weights.
pub struct EncoderWorker {
    pub(crate) network: Arc<Network>,
    pub(crate) crew: Arc<ThreadCrew>,
    pub(crate) scratch: Scratch,
    pub(crate) terms: Option<Arc<TermHead>>,
    pub(crate) head_scratch: HeadScratch,
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
        let Some(terms) = &self.terms else {
            return Ok(None);
        };
        let _busy = self.crew.begin();
        let states = (self.network).run(rows, &mut self.scratch, &self.crew)?;
        let scratch = &mut self.head_scratch;
        Ok(Some(terms.head.run(states, rows, terms.pooling, scratch)))
    }
}

/// The head that gives terms of the vocabulary, and how they are pooled.
pub(crate) struct TermHead {
    pub(crate) head: MaskedHead,
    pub(crate) pooling: TermPooling,
    /// The file whose settings it follows.
    pub(crate) config_file: PathBuf,
}

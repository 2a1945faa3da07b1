//! What each thread runs behind a transformer whose head gives terms of the vocabulary.

use std::path::PathBuf;
use std::sync::Arc;

use embedctl_vectors::Numbers;

use crate::masked_head::{HeadScratch, MaskedHead};
use crate::scratch::Rows;
use embedctl_kernels::TermPooling;

/// The head that gives terms of the vocabulary, and how they are pooled.
pub(crate) struct TermHead {
    pub(crate) head: MaskedHead,
    pub(crate) pooling: TermPooling,
    /// The file whose settings it follows.
    pub(crate) config_file: PathBuf,
}

/// One thread's memory beside that head.
pub(crate) struct TermWorker {
    head: Arc<TermHead>,
    scratch: HeadScratch,
}

impl TermWorker {
    pub(crate) fn new(head: &Arc<TermHead>) -> Self {
        Self {
            head: Arc::clone(head),
            scratch: HeadScratch::default(),
        }
    }

    /// The terms of each of `rows`, whose token states these are.
    pub(crate) fn run(&mut self, states: &[f32], rows: Rows<'_>) -> &Numbers {
        let TermHead { head, pooling, .. } = &*self.head;
        head.run(states, rows, *pooling, &mut self.scratch)
    }
}

//! A worker on a card: a batch goes there, and states, pooled rows or weights of terms come back.

use std::ops::Range;

use embedctl_cuda::{CardWorker, Encoder, Pooling, PoolingMode as Mode};
use embedctl_native::Rows;
use embedctl_vectors::Numbers;

use crate::batch::Batch;
use crate::engine::{Output, Worker};
use crate::error::Result;
use crate::model::Model;
use crate::pool::PoolingRule;
use crate::rows::PoolingMode;

/// How the card pools rows of a model whose graph may pool, and the rule that says which tokens count.
#[derive(Clone)]
pub(super) struct CardPooling {
    modes: Pooling,
    rule: PoolingRule,
}

impl CardPooling {
    pub(super) fn of(model: &Model) -> Option<Self> {
        let rule = model.config.pooled_in_graph()?;
        let mode = |mode: &PoolingMode| match mode {
            PoolingMode::Cls => Mode::First,
            PoolingMode::LastToken => Mode::Last,
            PoolingMode::Mean => Mode::Mean,
            PoolingMode::MeanSqrtLen => Mode::MeanSqrtLen,
            PoolingMode::WeightedMean => Mode::WeightedMean,
            PoolingMode::Max => Mode::Max,
        };
        let modes = rule.modes().iter().map(mode).collect();
        Some(Self {
            modes: Pooling { modes },
            rule,
        })
    }
}

/// A batch as the card takes it.
pub(super) fn rows_of(batch: &Batch) -> Rows<'_> {
    Rows {
        ids: &batch.ids,
        types: &batch.types,
        ends: &batch.ends,
        seen: &batch.seen,
    }
}

/// Opens a worker.
pub(super) type OpenWorker = Box<dyn Fn() -> Result<Box<dyn Worker>> + Send>;

/// Runs batches on one card.
pub(super) struct CudaWorker {
    /// Opens the one on this card that computes the rows that overflow.
    pub(super) in_bf16: Option<OpenWorker>,
    worker: CardWorker,
    width: usize,
    terms: Option<usize>,
    pooling: Option<CardPooling>,
    spans: Vec<Range<usize>>,
    entries: Numbers,
}

impl CudaWorker {
    pub(super) fn new(encoder: &Encoder, pooling: Option<CardPooling>) -> Result<Self> {
        Ok(Self {
            worker: encoder.worker()?,
            width: encoder.width(),
            terms: encoder.terms(),
            pooling,
            in_bf16: None,
            spans: Vec::new(),
            entries: Numbers::of_entries(),
        })
    }
}

impl Worker for CudaWorker {
    fn in_bf16(&self) -> Result<Option<Box<dyn Worker>>> {
        self.in_bf16.as_ref().map(|open| open()).transpose()
    }

    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        let rows = rows_of(batch);
        if let Some(width) = self.terms {
            let weights = self.worker.run_terms(rows)?;
            self.entries.clear();
            for row in weights.chunks_exact(width) {
                let present = (0_u32..).zip(row.iter().copied());
                let present = present.filter(|(_, weight)| *weight > 0.0 || weight.is_nan());
                self.entries.push_entries(present);
            }
            let rows = &self.entries;
            return Ok(Output::Entries { rows, width });
        }
        if let Some(pooling) = &self.pooling {
            self.spans.clear();
            let counted = (0..batch.rows()).map(|row| pooling.rule.counted(batch.row(row)));
            self.spans.extend(counted);
            let batch = embedctl_cuda::Batch {
                rows,
                pooled: &self.spans,
            };
            let width = self.width * pooling.modes.modes.len();
            let rows = self.worker.run_pooled(batch, &pooling.modes)?;
            return Ok(Output::Pooled { rows, width });
        }
        let states = self.worker.run(rows)?;
        let width = self.width;
        Ok(Output::Tokens { states, width })
    }
}

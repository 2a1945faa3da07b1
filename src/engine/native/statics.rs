//! Static embeddings behind the engines' traits.

use std::sync::Arc;

use embedctl_native::StaticTable;

use crate::batch::Batch;
use crate::engine::{BatchLimits, Engine, EngineInfo, Output, Worker};
use crate::error::Result;

/// A batch costs next to nothing, so the overhead of handing it over dominates.
pub(super) const LIMITS: BatchLimits = BatchLimits {
    tokens: 32_768,
    rows: 2048,
    equal_lengths: false,
};

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
        Some(self.table.bytes() as u64)
    }

    fn token_rows(&self) -> Option<usize> {
        Some(self.table.token_rows())
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
        for row in 0..batch.rows() {
            self.table
                .mean(batch.row(row), &mut self.row, &mut self.rows)?;
        }
        Ok(Output::Pooled {
            rows: &self.rows,
            width: self.table.width(),
        })
    }
}

//! An opened engine for many runs of the pipeline: its workers come back after each run, and the work given to them is
//! counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::batch::{Batch, TokenRows};
use crate::engine::{BatchLimits, Cosine, Engine, EngineInfo, FinishRow, Output, Worker};
use crate::error::Result;
use crate::threads::locked;

/// An engine whose workers are used again. Clones share one state.
#[derive(Clone)]
pub(super) struct ReusedEngine {
    shared: Arc<SharedBatches>,
}

struct SharedBatches {
    engine: Box<dyn Engine>,
    idle: Mutex<Vec<Box<dyn Worker>>>,
    pairs: AtomicU64,
}

impl ReusedEngine {
    pub(super) fn new(engine: Box<dyn Engine>) -> Self {
        let shared = SharedBatches {
            engine,
            idle: Mutex::default(),
            pairs: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Makes workers until `count` are idle, so that none is made while the time is taken.
    pub(super) fn prepare(&self, count: usize) -> Result<()> {
        let workers: Result<Vec<_>> = (0..count).map(|_| self.worker()).collect();
        workers.map(drop)
    }

    /// The squares of all rows' lengths in real tokens, summed up since the last call.
    pub(super) fn take_pairs(&self) -> u64 {
        self.shared.pairs.swap(0, Ordering::Relaxed)
    }
}

impl Engine for ReusedEngine {
    fn info(&self) -> &EngineInfo {
        self.shared.engine.info()
    }

    fn limits(&self) -> BatchLimits {
        self.shared.engine.limits()
    }

    fn workers(&self) -> Option<usize> {
        self.shared.engine.workers()
    }

    fn is_ragged(&self) -> bool {
        self.shared.engine.is_ragged()
    }

    fn token_rows(&self) -> Option<usize> {
        self.shared.engine.token_rows()
    }

    fn operations(&self, tokens: usize) -> u64 {
        self.shared.engine.operations(tokens)
    }

    fn measure(&self, rows: &TokenRows, finish: FinishRow<'_>) -> Result<Option<Cosine>> {
        self.shared.engine.measure(rows, finish)
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        let idle = locked(&self.shared.idle).pop();
        let worker = match idle {
            Some(worker) => worker,
            None => self.shared.engine.worker()?,
        };
        Ok(Box::new(ReusedWorker {
            worker: Some(worker),
            shared: Arc::clone(&self.shared),
        }))
    }
}

/// A worker on loan.
struct ReusedWorker {
    worker: Option<Box<dyn Worker>>,
    shared: Arc<SharedBatches>,
}

impl Worker for ReusedWorker {
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        let pairs = (0..batch.rows()).map(|row| {
            let tokens = batch.row(row).len() as u64;
            tokens * tokens
        });
        self.shared.pairs.fetch_add(pairs.sum(), Ordering::Relaxed);
        self.worker
            .as_mut()
            .expect("a worker is given back only when it is dropped")
            .run(batch)
    }

    fn in_bf16(&self) -> Result<Option<Box<dyn Worker>>> {
        self.worker
            .as_ref()
            .map_or(Ok(None), |worker| worker.in_bf16())
    }
}

impl Drop for ReusedWorker {
    fn drop(&mut self) {
        let Some(worker) = self.worker.take() else {
            return;
        };
        // A worker that panicked is not used again.
        if !std::thread::panicking() {
            locked(&self.shared.idle).push(worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{TokenRows, plan};
    use crate::engine::Provider;

    /// Counts the workers that are made; a worker's vectors are its number.
    struct Fake {
        info: EngineInfo,
        made: Arc<AtomicU64>,
    }

    struct FakeWorker(Vec<f32>);

    impl Engine for Fake {
        fn info(&self) -> &EngineInfo {
            &self.info
        }

        fn limits(&self) -> BatchLimits {
            BatchLimits {
                tokens: 8,
                rows: 4,
                equal_lengths: false,
            }
        }

        fn worker(&self) -> Result<Box<dyn Worker>> {
            let number = self.made.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(FakeWorker(vec![number as f32])))
        }
    }

    impl Worker for FakeWorker {
        fn run(&mut self, _: &Batch) -> Result<Output<'_>> {
            Ok(Output::Pooled {
                rows: &self.0,
                width: 1,
            })
        }
    }

    #[test]
    fn workers_come_back_and_tokens_are_counted() {
        let made = Arc::new(AtomicU64::new(0));
        let engine = ReusedEngine::new(Box::new(Fake {
            info: EngineInfo::new("fake", String::new(), Provider::Cpu),
            made: Arc::clone(&made),
        }));
        engine.prepare(2).unwrap();
        assert_eq!(made.load(Ordering::Relaxed), 2);
        let mut tokens = TokenRows::default();
        tokens.push([1, 2, 3], 0);
        tokens.push([1, 2], 0);
        let plans = plan(&tokens, engine.limits(), false);
        for _ in 0..3 {
            let mut worker = engine.worker().unwrap();
            let mut batch = Batch::default();
            batch.fill(&plans[0], &tokens, &crate::rows::Frame::default());
            worker.run(&batch).unwrap();
        }
        assert_eq!(made.load(Ordering::Relaxed), 2);
        assert_eq!(engine.take_pairs(), 3 * (9 + 4));
        assert_eq!(engine.take_pairs(), 0);
    }
}

//! The threads that run batches.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, select};

use super::in_flight::InFlight;
use crate::batch::{BatchPlan, TokenRows};
use crate::cancel::CancelToken;
use crate::engine::LoadedModel;
use crate::engine::background::ended;
use crate::engine::halving::{Finished, TokenLimit};
use crate::engine::row_worker::{RowWorker, RowsToRun};
use crate::error::{Error, Result};
use crate::progress::{BatchDone, Progress, WindowSize};
use crate::stage::{Clocks, Watch};
use crate::threads::{guarded, spawn};
use crate::tokenize::chunks::SharedRows;

/// A batch to run.
pub(super) struct BatchJob {
    /// Number of its portion.
    pub(super) portion: usize,
    pub(super) plan: BatchPlan,
    pub(super) tokens: Arc<TokenRows>,
    /// See [`InFlight::shared`].
    pub(super) shared: Option<Arc<SharedRows>>,
    pub(super) done: Sender<(usize, Finished)>,
}

/// The threads that run batches. Dropped, they stop at the next batch.
pub(super) struct Workers {
    stop: CancelToken,
    threads: Vec<JoinHandle<()>>,
    ready: Receiver<()>,
    pub(super) failures: Receiver<Error>,
    /// Keeps that channel open: at the end of the input workers leave one by one, which is no failure.
    _failed: Sender<Error>,
}

impl Workers {
    pub(super) fn spawn(
        count: usize,
        loaded: &Arc<LoadedModel>,
        clocks: &Arc<Clocks>,
        jobs: &Receiver<BatchJob>,
    ) -> Result<Self> {
        let (ready_sender, ready) = bounded(count);
        let (failure_sender, failures) = bounded(count);
        let mut workers = Self {
            stop: CancelToken::new(),
            threads: Vec::new(),
            ready,
            failures,
            _failed: failure_sender.clone(),
        };
        let limit: Arc<TokenLimit> = Arc::default();
        for index in 0..count {
            let limit = Arc::clone(&limit);
            let (loaded, clocks) = (Arc::clone(loaded), Arc::clone(clocks));
            let (jobs, stop) = (jobs.clone(), workers.stop.clone());
            let (ready, failed) = (ready_sender.clone(), failure_sender.clone());
            let thread = spawn(&format!("worker-{index}"), move || {
                let made = guarded(|| loaded.worker_of(&limit, &clocks), Error::internal);
                match made {
                    Ok(worker) => {
                        let _ = ready.send(());
                        run_jobs(worker, &jobs, &stop, &failed, &clocks);
                    }
                    Err(error) => {
                        let _ = failed.send(error);
                    }
                }
            })?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// Waits until one worker can run batches.
    pub(super) fn wait_for_first(&self, cancel: &CancelToken) -> Result<()> {
        select! {
            recv(self.ready) -> ready => ready.map_err(|_| self.failure()),
            recv(self.failures) -> failure => Err(failure.unwrap_or_else(|_| ended("worker"))),
            recv(cancel.channel()) -> _ => Err(Error::interrupted()),
        }
    }

    /// Why a channel that workers hold was closed.
    fn failure(&self) -> Error {
        self.failures.try_recv().unwrap_or_else(|_| ended("worker"))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.cancel();
        for thread in self.threads.drain(..) {
            // A panic has been reported through its job; there is nothing to add.
            let _ = thread.join();
        }
    }
}

fn run_jobs(
    mut worker: RowWorker,
    jobs: &Receiver<BatchJob>,
    stop: &CancelToken,
    failed: &Sender<Error>,
    clocks: &Clocks,
) {
    while !stop.is_cancelled() {
        let mut waiting = Watch::start();
        let job = select! {
            recv(jobs) -> job => match job {
                Ok(job) => job,
                Err(_) => return,
            },
            recv(stop.channel()) -> _ => return,
        };
        waiting.lap(&clocks.wait);
        let rows = RowsToRun {
            tokens: &job.tokens,
            shared: job.shared.as_deref(),
        };
        match guarded(|| worker.run(&job.plan, rows), Error::internal) {
            Ok(finished) => {
                let _ = job.done.send((job.portion, finished));
            }
            Err(error) => {
                // The run is over, whichever window is awaited.
                let _ = failed.send(error);
                return;
            }
        }
    }
}

/// The batches of a window in flight, as they come.
pub(super) struct WindowBatches {
    /// Those that were run.
    pub(super) finished: Vec<Finished>,
    /// Rows that overflowed in fp16 and were computed in bf16, copies of equal texts among them.
    pub(super) overflowed: u64,
    /// How many of each portion are awaited.
    left: Vec<usize>,
}

impl WindowBatches {
    /// None yet.
    pub(super) fn new(in_flight: &InFlight, progress: &dyn Progress) -> Self {
        for warning in &in_flight.window.warnings {
            progress.warning(warning);
        }
        let runs = in_flight.portions.iter().flat_map(|portion| &portion.runs);
        let tokens = runs.map(|&number| in_flight.tokens.get(number as usize).len() as u64);
        let records = in_flight.portions.iter().map(|it| it.end() - it.start());
        progress.window(WindowSize {
            consumed: in_flight.window.consumed,
            records: records.sum::<usize>() as u64,
            tokens: tokens.sum(),
        });
        let left: Vec<usize> = in_flight.portions.iter().map(|it| it.batches).collect();
        Self {
            finished: Vec::with_capacity(left.iter().sum()),
            overflowed: 0,
            left,
        }
    }
}

impl WindowBatches {
    /// Drops the batches that no text from number `from` on needs, so that a window of large rows is never held whole.
    pub(super) fn release(&mut self, in_flight: &InFlight, from: usize) {
        let mut needed = vec![false; in_flight.distinct.len()];
        for number in in_flight.distinct.of_rows().skip(from) {
            needed[number] = true;
        }
        let is_needed = |row: &u32| needed[*row as usize];
        self.finished.retain(|batch| {
            let failed = batch.failed.iter().any(|(row, _)| is_needed(row));
            failed || batch.rows.iter().any(is_needed)
        });
    }
}

/// Waits for all batches of the window's portion of that number.
pub(super) fn collect(
    in_flight: &InFlight,
    portion: usize,
    collected: &mut WindowBatches,
    workers: &Workers,
    progress: &dyn Progress,
    cancel: &CancelToken,
) -> Result<()> {
    while collected.left[portion] > 0 {
        let (of_portion, finished) = select! {
            recv(in_flight.done) -> message => message.map_err(|_| workers.failure())?,
            recv(workers.failures) -> failure => return Err(failure.unwrap_or_else(|_| ended("worker"))),
            recv(cancel.channel()) -> _ => return Err(Error::interrupted()),
        };
        if let Some(warning) = &finished.warning {
            progress.warning(warning);
        }
        let mut done = BatchDone::default();
        for number in finished.rows.iter().map(|&number| number as usize) {
            done.rows += in_flight.distinct.copies(number);
            done.run += in_flight.vectors_of(number);
            done.tokens += in_flight.tokens.get(number).len() as u64;
        }
        progress.batch(done);
        let overflowed = finished.overflowed.iter();
        collected.overflowed += overflowed
            .map(|&number| in_flight.distinct.copies(number as usize))
            .sum::<u64>();
        collected.left[of_portion] -= 1;
        collected.finished.push(finished);
    }
    Ok(())
}

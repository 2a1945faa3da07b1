//! Where a run's time goes: how long each stage was busy, and which one held up the others.
//!
//! Two clocks answer two questions. *Processor time of the thread* is the cost of a stage: on a machine with few cores
//! all stages share them, and elapsed time would charge a stage for the time in which another one had its core.
//! *Elapsed time* is how long a stage's thread was busy, waiting for a disk, a pipe or a device included: the stage
//! whose threads rest least limits the run. Inference on a device costs the processor nothing, so there elapsed time
//! counts for both.
//!
//! Clocks are read once a batch or a window (a chunk of 256 texts in the tokenizer), never once a row.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::named::named;
use crate::size::per;

named! {
    /// A part of the pipeline; in the order in which a record passes them.
    #[derive(PartialOrd, Ord)]
    pub enum Stage {
        /// Reading, decompressing and parsing the input.
        Read = "read",
        /// Texts to token ids, and windows to batches.
        Tokenize = "tokenize",
        /// The model.
        Infer = "infer",
        /// Padding batches, and hidden states to vectors.
        Pool = "pool",
        /// Vectors into input order and into the output's format.
        Write = "write",
    }
}

/// Where a run's time went. Times of a stage's threads are added up, so that they may exceed the run's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageTimes {
    /// Processor time of reading, decompressing and parsing.
    pub read: Duration,
    /// Processor time of tokenizing and batching, over all its threads.
    pub tokenize: Duration,
    /// Time that workers waited for batches, over all workers; not busy time.
    pub wait: Duration,
    /// Time in the engine, over all workers: processor time where the worker's own thread computes,
    /// elapsed time otherwise.
    pub infer: Duration,
    /// Processor time of padding and pooling, over all workers.
    pub pool: Duration,
    /// Processor time of putting rows into order and of writing them.
    pub write: Duration,
    /// The stage whose threads had least rest.
    pub limit: Stage,
    /// Tokens that ran through the model, each duplicate text counted once.
    pub real_tokens: u64,
    /// The same with the padding of their batches.
    pub padded_tokens: u64,
    /// Rows whose vector is that of an equal text in the same window.
    pub duplicates: u64,
}

impl StageTimes {
    /// How long `stage` was busy.
    #[must_use]
    pub const fn busy(&self, stage: Stage) -> Duration {
        match stage {
            Stage::Read => self.read,
            Stage::Tokenize => self.tokenize,
            Stage::Infer => self.infer,
            Stage::Pool => self.pool,
            Stage::Write => self.write,
        }
    }

    /// Busy time of all stages together.
    #[must_use]
    pub fn total(&self) -> Duration {
        Stage::ALL.iter().map(|&stage| self.busy(stage)).sum()
    }

    /// The share of `stage` in the busy time of all, 0 to 1.
    #[must_use]
    pub fn share(&self, stage: Stage) -> f64 {
        per(self.busy(stage).as_secs_f64(), self.total().as_secs_f64())
    }

    /// The share of tokens run that were padding, 0 to 1.
    #[must_use]
    pub fn padding(&self) -> f64 {
        padding(self.real_tokens, self.padded_tokens)
    }
}

/// The share of `padded` tokens that are more than the `real` ones, 0 to 1.
#[must_use]
pub fn padding(real: u64, padded: u64) -> f64 {
    per(padded.saturating_sub(real) as f64, padded as f64)
}

/// Both clocks of one stage, added to by any thread.
#[derive(Debug, Default)]
pub struct Clock {
    elapsed: AtomicU64,
    processor: AtomicU64,
}

impl Clock {
    /// Runs `work`, which begins and ends on this thread, and adds the time it takes.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut watch = Watch::start();
        let result = work();
        watch.lap(self);
        result
    }

    /// As [`Clock::time`] for a helper thread's part of work that another call already times: only its processor time
    /// is added.
    pub fn time_part<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = thread_time();
        let result = work();
        if let (Some(start), Some(end)) = (start, thread_time()) {
            add(&self.processor, end.saturating_sub(start));
        }
        result
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed.load(Ordering::Relaxed))
    }

    /// Processor time; elapsed time if the system does not report the former.
    fn processor(&self) -> Duration {
        match self.processor.load(Ordering::Relaxed) {
            0 => self.elapsed(),
            nanos => Duration::from_nanos(nanos),
        }
    }
}

/// Times consecutive laps of one thread.
pub struct Watch {
    elapsed: Instant,
    processor: Option<Duration>,
}

impl Watch {
    /// Starts a watch in this thread.
    #[must_use]
    pub fn start() -> Self {
        Self {
            elapsed: Instant::now(),
            processor: thread_time(),
        }
    }

    /// Adds the time since the start or the last lap to `clock`.
    pub fn lap(&mut self, clock: &Clock) {
        let now = Self::start();
        add(&clock.elapsed, now.elapsed.duration_since(self.elapsed));
        if let (Some(start), Some(end)) = (self.processor, now.processor) {
            add(&clock.processor, end.saturating_sub(start));
        }
        *self = now;
    }
}

fn add(sum: &AtomicU64, time: Duration) {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    sum.fetch_add(nanos, Ordering::Relaxed);
}

/// Processor time of this thread so far, if the system reports it.
#[cfg(unix)]
#[must_use]
pub fn thread_time() -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the one timespec that the call writes.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if status != 0 {
        return None;
    }
    Some(Duration::new(
        u64::try_from(time.tv_sec).ok()?,
        u32::try_from(time.tv_nsec).ok()?,
    ))
}

/// Processor time of this thread: unknown on this system.
#[cfg(not(unix))]
#[must_use]
pub fn thread_time() -> Option<Duration> {
    None
}

/// The clocks of a run.
#[derive(Debug, Default)]
pub struct Clocks {
    /// Reading and parsing records.
    pub read: Clock,
    /// Turning texts into tokens.
    pub tokenize: Clock,
    /// Workers that wait for a batch.
    pub wait: Clock,
    /// Running batches.
    pub infer: Clock,
    /// Pooling and the modules after it.
    pub pool: Clock,
    /// Writing rows; threads that write beside the caller's have it, too.
    pub write: Arc<Clock>,
    real_tokens: AtomicU64,
    padded_tokens: AtomicU64,
    duplicates: AtomicU64,
}

impl Clocks {
    /// New clocks; that of writing rows is known before.
    #[must_use]
    pub fn with_write(write: &Arc<Clock>) -> Self {
        Self {
            write: Arc::clone(write),
            ..Self::default()
        }
    }

    /// Counts a window's batches.
    pub fn planned(&self, real_tokens: u64, padded_tokens: u64, duplicates: u64) {
        self.real_tokens.fetch_add(real_tokens, Ordering::Relaxed);
        self.padded_tokens
            .fetch_add(padded_tokens, Ordering::Relaxed);
        self.duplicates.fetch_add(duplicates, Ordering::Relaxed);
    }

    /// The times of the clocks; `workers` ran the batches, and `on_worker` is whether the engine computes on their own
    /// threads.
    pub fn times(&self, workers: usize, on_worker: bool) -> StageTimes {
        StageTimes {
            read: self.read.processor(),
            tokenize: self.tokenize.processor(),
            wait: self.wait.elapsed(),
            infer: if on_worker {
                self.infer.processor()
            } else {
                self.infer.elapsed()
            },
            pool: self.pool.processor(),
            write: self.write.processor(),
            limit: self.limit(workers),
            real_tokens: self.real_tokens.load(Ordering::Relaxed),
            padded_tokens: self.padded_tokens.load(Ordering::Relaxed),
            duplicates: self.duplicates.load(Ordering::Relaxed),
        }
    }

    /// The stage whose threads had least rest: reader, tokenizer and writer have one each (the
    /// tokenizer's waits for its helpers), the workers share theirs between two stages.
    fn limit(&self, workers: usize) -> Stage {
        let (infer, pool) = (self.infer.elapsed(), self.pool.elapsed());
        let of_workers = if pool > infer {
            Stage::Pool
        } else {
            Stage::Infer
        };
        let workers = u32::try_from(workers.max(1)).unwrap_or(u32::MAX);
        // Of equals the last is taken, and where nothing was done it should be the model.
        let busiest = [
            (Stage::Read, self.read.elapsed()),
            (Stage::Tokenize, self.tokenize.elapsed()),
            (Stage::Write, self.write.elapsed()),
            (of_workers, (infer + pool) / workers),
        ];
        busiest
            .into_iter()
            .max_by_key(|(_, time)| *time)
            .map_or(Stage::Infer, |(stage, _)| stage)
    }
}

/// A run's clocks, to be read while it lasts. Cheap to clone; clones read the same clocks.
#[derive(Debug, Clone)]
pub struct StageWatch {
    clocks: Arc<Clocks>,
    workers: usize,
    on_worker: bool,
}

impl StageWatch {
    /// Reads these clocks of a run with so many workers.
    #[must_use]
    pub fn new(clocks: &Arc<Clocks>, workers: usize, on_worker: bool) -> Self {
        Self {
            clocks: Arc::clone(clocks),
            workers,
            on_worker,
        }
    }

    /// Where the time has gone so far. A batch counts once it is done.
    #[must_use]
    pub fn times(&self) -> StageTimes {
        self.clocks.times(self.workers, self.on_worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend(clock: &Clock, elapsed: u64, processor: u64) {
        add(&clock.elapsed, Duration::from_millis(elapsed));
        add(&clock.processor, Duration::from_millis(processor));
    }

    /// Computes until this thread has spent `time` on it; elapsed time where only that is known.
    #[cfg(unix)]
    fn compute(time: Duration) {
        let start = Watch::start();
        let spent = || match (start.processor, thread_time()) {
            (Some(start), Some(now)) => now.saturating_sub(start),
            _ => start.elapsed.elapsed(),
        };
        while spent() < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    #[cfg(unix)]
    fn work_is_charged_with_processor_time_and_rest_is_not() {
        let (time, busy, resting) = (
            Duration::from_millis(30),
            Clock::default(),
            Clock::default(),
        );
        let (sender, receiver) = crossbeam_channel::bounded(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                busy.time(|| compute(time));
                sender.send(()).unwrap();
            });
            resting.time(|| receiver.recv().unwrap());
        });
        assert!(busy.processor() >= time && busy.elapsed() >= busy.processor());
        assert!(resting.processor() < time / 2, "{resting:?}");
    }

    #[test]
    fn the_stage_with_least_rest_limits() {
        let clocks = Clocks::default();
        assert_eq!(clocks.times(2, true).limit, Stage::Infer);
        spend(&clocks.infer, 180, 100);
        spend(&clocks.pool, 2, 2);
        spend(&clocks.tokenize, 80, 160);
        assert_eq!(clocks.times(2, true).limit, Stage::Infer);
        // Twice the workers have twice the time.
        assert_eq!(clocks.times(4, true).limit, Stage::Tokenize);
        // A slow disk costs nothing and limits all the same.
        spend(&clocks.write, 400, 3);
        let times = clocks.times(2, true);
        assert_eq!(times.limit, Stage::Write);
        assert_eq!(times.write, Duration::from_millis(3));
    }

    #[test]
    fn a_device_is_busy_while_its_worker_rests() {
        let clocks = Clocks::default();
        spend(&clocks.infer, 90, 10);
        spend(&clocks.tokenize, 5, 10);
        assert_eq!(clocks.times(1, true).infer, Duration::from_millis(10));
        let times = clocks.times(1, false);
        assert_eq!(times.infer, Duration::from_millis(90));
        assert!((times.share(Stage::Infer) - 0.9).abs() < 1e-9);
        assert_eq!(times.total(), Duration::from_millis(100));
    }

    #[test]
    fn padding_is_the_share_of_tokens_that_are_none() {
        let clocks = Clocks::default();
        assert!(clocks.times(1, true).padding().abs() < f64::EPSILON);
        clocks.planned(90, 100, 3);
        clocks.planned(90, 100, 0);
        let times = clocks.times(1, true);
        assert!((times.padding() - 0.1).abs() < 1e-9);
        assert_eq!(times.duplicates, 3);
    }
}

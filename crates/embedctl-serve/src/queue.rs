//! The rows of all requests, from which workers take batches.
//!
//! A worker that is idle takes at once what waits: nothing is delayed to fill a batch. A short request that meets an idle
//! worker runs on its own thread, as waking another one takes longer than all else that the server does for it. Under
//! load rows gather while workers run, and each takes its share of them, up to the engine's token budget. Requests take
//! turns, so that a small one waits for a batch of a large one and not for all of it. A request that was given up leaves
//! the queue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::threads::{guarded, locked, spawn};
use embedctl_rows::batch::TokenRows;
use tokio::sync::oneshot;
use tokio::task::block_in_place;

use crate::metrics::Metrics;
use crate::model::{ServedModel, ServedRow, ServedWorker};

/// Tokens that a worker takes at least where so many wait: fewer would not make use of a fetched weight.
const LEAST_TOKENS: usize = 64;

/// The longest that a request may run on its own thread, by the pace of late. Its time limit is not looked at meanwhile.
const BRIEF: f64 = 0.1;

/// Batches that fail in a row until the server calls itself unhealthy.
const UNHEALTHY: u32 = 3;

/// The bounded queue.
pub(crate) struct Queue {
    model: Arc<dyn ServedModel>,
    metrics: Arc<Metrics>,
    /// Inputs in the server at most.
    most: usize,
    /// Inputs of all requests that were let in.
    inputs: AtomicUsize,
    waiting: Mutex<WaitingRequests>,
    filled: Condvar,
    /// Batches that failed since the last one that did not.
    failures: AtomicU32,
}

#[derive(Default)]
struct WaitingRequests {
    requests: VecDeque<Turn>,
    tokens: usize,
    closed: bool,
    /// Workers that run nothing.
    idle: Vec<Box<dyn ServedWorker>>,
    /// Tokens per second of one worker, lately.
    pace: f64,
}

/// A request's turn: its rows from `next` on wait.
struct Turn {
    work: Arc<Work>,
    next: usize,
}

/// A request's rows, and what is known of their numbers.
struct Work {
    rows: TokenRows,
    since: Instant,
    progress: Mutex<WorkProgress>,
}

struct WorkProgress {
    numbers: Vec<ServedRow>,
    left: usize,
    answer: Option<oneshot::Sender<Outcome>>,
}

/// Why a request has no numbers.
#[derive(Debug, Clone)]
pub(crate) enum RowFailure {
    /// An input of this number has none.
    Input(usize, Cause),
    /// The engine failed.
    Engine(String),
}

type Outcome = Result<Vec<ServedRow>, RowFailure>;

/// Room for a request's inputs, until it is dropped.
pub(crate) struct Room {
    queue: Arc<Queue>,
    inputs: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.queue.inputs.fetch_sub(self.inputs, Ordering::Relaxed);
    }
}

/// A request in the queue, which leaves it when this is dropped.
pub(crate) struct QueueTicket {
    queue: Arc<Queue>,
    work: Arc<Work>,
    answer: oneshot::Receiver<Outcome>,
}

impl QueueTicket {
    /// Waits for the numbers of all rows, in their order.
    pub async fn numbers(mut self) -> Outcome {
        let ended = || Err(RowFailure::Engine("the server is stopping".to_owned()));
        (&mut self.answer).await.unwrap_or_else(|_| ended())
    }
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        let mut waiting = locked(&self.queue.waiting);
        let own = |turn: &Turn| Arc::ptr_eq(&turn.work, &self.work);
        if let Some(at) = waiting.requests.iter().position(own)
            && let Some(turn) = waiting.requests.remove(at)
        {
            waiting.tokens -= turn.tokens();
        }
    }
}

impl Turn {
    /// Tokens that wait.
    fn tokens(&self) -> usize {
        let rows = self.next..self.work.rows.len();
        rows.map(|row| self.work.rows.get(row).len()).sum()
    }
}

/// Rows of a request that are in a batch.
struct BatchedRows {
    work: Arc<Work>,
    rows: std::ops::Range<usize>,
}

impl Queue {
    /// A queue for so many inputs, and the threads that run them. Threads end once it is closed.
    ///
    /// # Errors
    /// If a worker or a thread cannot be had.
    pub fn start(
        model: &Arc<dyn ServedModel>,
        most: usize,
        metrics: &Arc<Metrics>,
    ) -> Result<(Arc<Self>, Vec<JoinHandle<()>>)> {
        let workers = (0..model.card().workers.max(1)).map(|_| model.worker());
        let idle: Vec<_> = workers.collect::<Result<_>>()?;
        let threads = 0..idle.len();
        let waiting = WaitingRequests {
            idle,
            ..WaitingRequests::default()
        };
        let queue = Arc::new(Self {
            model: Arc::clone(model),
            metrics: Arc::clone(metrics),
            most,
            inputs: AtomicUsize::new(0),
            waiting: Mutex::new(waiting),
            filled: Condvar::new(),
            failures: AtomicU32::new(0),
        });
        let start = |index| {
            let queue = Arc::clone(&queue);
            spawn(&format!("worker-{index}"), move || queue.work())
        };
        let threads = threads.map(start).collect::<Result<_>>()?;
        Ok((queue, threads))
    }

    /// Room for a request with so many inputs; if there is none, the seconds after which there may be.
    pub fn enter(self: &Arc<Self>, inputs: usize) -> Result<Room, u64> {
        let grown = |now: usize| {
            // A request on its own is always let in: its size has a limit of its own.
            (now == 0 || now + inputs <= self.most).then_some(now + inputs)
        };
        let order = Ordering::Relaxed;
        match self.inputs.fetch_update(order, order, grown) {
            Ok(_) => Ok(Room {
                queue: Arc::clone(self),
                inputs,
            }),
            Err(_) => Err(self.seconds()),
        }
    }

    /// Inputs of all requests in the server.
    pub fn inputs(&self) -> usize {
        self.inputs.load(Ordering::Relaxed)
    }

    /// Tokens that wait for a worker.
    pub fn tokens(&self) -> usize {
        locked(&self.waiting).tokens
    }

    /// Whether the engine works, as far as its last batches tell.
    pub fn is_healthy(&self) -> bool {
        self.failures.load(Ordering::Relaxed) < UNHEALTHY
    }

    /// Seconds until all that waits has run, about; 1 to 60.
    pub fn seconds(&self) -> u64 {
        let waiting = locked(&self.waiting);
        let pace = waiting.pace * self.model.card().workers.max(1) as f64;
        match pace > 0.0 {
            true => (waiting.tokens as f64 / pace).ceil().clamp(1.0, 60.0) as u64,
            false => 1,
        }
    }

    /// Puts a request's rows into the queue, or runs them at once if they are few and nothing is in their way.
    pub fn put(self: &Arc<Self>, rows: TokenRows) -> QueueTicket {
        let (sender, answer) = oneshot::channel();
        let left = rows.len();
        let work = Arc::new(Work {
            since: Instant::now(),
            progress: Mutex::new(WorkProgress {
                numbers: vec![ServedRow::default(); left],
                left,
                answer: Some(sender),
            }),
            rows,
        });
        let turn = Turn {
            work: Arc::clone(&work),
            next: 0,
        };
        let tokens = turn.tokens();
        let ticket = QueueTicket {
            queue: Arc::clone(self),
            work,
            answer,
        };
        let mut waiting = locked(&self.waiting);
        if waiting.closed {
            locked(&ticket.work.progress).answer = None;
            return ticket;
        }
        waiting.tokens += tokens;
        let is_first = waiting.requests.is_empty();
        waiting.requests.push_back(turn);
        let is_brief = tokens as f64 <= BRIEF * waiting.pace;
        let fits = left <= self.model.card().limits.rows && tokens <= LEAST_TOKENS;
        let worker = (is_first && is_brief && fits).then(|| waiting.idle.pop());
        match worker.flatten() {
            Some(worker) => {
                let taken = self.share(&mut waiting);
                drop(waiting);
                block_in_place(|| self.run(worker, taken));
            }
            None => {
                drop(waiting);
                self.filled.notify_one();
            }
        }
        ticket
    }

    /// Ends the workers after their batches; requests that wait get no answer.
    pub fn close(&self) {
        let mut waiting = locked(&self.waiting);
        waiting.closed = true;
        for turn in waiting.requests.drain(..) {
            locked(&turn.work.progress).answer = None;
        }
        waiting.tokens = 0;
        drop(waiting);
        self.filled.notify_all();
    }

    /// A thread's life: batch after batch.
    fn work(&self) {
        while let Some((worker, taken)) = self.take() {
            self.run(worker, taken);
        }
    }

    /// Runs rows together, and lets the worker go.
    fn run(&self, mut worker: Box<dyn ServedWorker>, taken: Vec<BatchedRows>) {
        self.run_on(&mut worker, taken);
        let mut waiting = locked(&self.waiting);
        waiting.idle.push(worker);
        let more = !waiting.requests.is_empty();
        drop(waiting);
        if more {
            self.filled.notify_one();
        }
    }

    /// Runs rows together. If the engine fails on them, those of each request run alone: one request's text must not
    /// fail another.
    fn run_on(&self, worker: &mut Box<dyn ServedWorker>, taken: Vec<BatchedRows>) {
        let mut rows = TokenRows::default();
        for part in &taken {
            for row in part.rows.clone() {
                rows.push_row(&part.work.rows, row);
            }
        }
        let start = Instant::now();
        let result = guarded(|| worker.run(&rows), Error::internal).and_then(|numbers| {
            let (wanted, got) = (rows.len(), numbers.len());
            let strange = || Error::internal(format!("{got} results for {wanted} rows"));
            (wanted == got).then_some(numbers).ok_or_else(strange)
        });
        let took = start.elapsed();
        self.metrics.batch(rows.len(), rows.tokens(), took);
        match result {
            Ok(numbers) => {
                self.failures.store(0, Ordering::Relaxed);
                self.remember_pace(rows.tokens(), took);
                let overflowed = numbers.iter().flatten().filter(|row| row.has_overflowed);
                self.metrics.overflowed.add(overflowed.count() as u64);
                let mut numbers = numbers.into_iter();
                for part in taken {
                    part.settle(&mut numbers);
                }
            }
            Err(error) => {
                // Its buffers may be half changed.
                if let Ok(new) = guarded(|| self.model.worker(), Error::internal) {
                    *worker = new;
                }
                if taken.len() > 1 {
                    for part in taken {
                        self.run_on(worker, vec![part]);
                    }
                    return;
                }
                self.failures.fetch_add(1, Ordering::Relaxed);
                self.metrics.failed_batches.add(1);
                for part in taken {
                    let failure = RowFailure::Engine(error.to_string());
                    locked(&part.work.progress).send(Err(failure));
                }
            }
        }
    }

    fn remember_pace(&self, tokens: usize, took: Duration) {
        let now = tokens as f64 / took.as_secs_f64().max(1e-6);
        let mut waiting = locked(&self.waiting);
        waiting.pace = match waiting.pace > 0.0 {
            true => 0.9 * waiting.pace + 0.1 * now,
            false => now,
        };
    }

    /// Waits for rows and an idle worker, and takes the worker and its share; `None` once the queue is closed.
    fn take(&self) -> Option<(Box<dyn ServedWorker>, Vec<BatchedRows>)> {
        let mut waiting = locked(&self.waiting);
        let worker = loop {
            if waiting.closed {
                return None;
            }
            if !waiting.requests.is_empty()
                && let Some(worker) = waiting.idle.pop()
            {
                break worker;
            }
            let woken = self.filled.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        };
        let taken = self.share(&mut waiting);
        let more = !waiting.requests.is_empty();
        drop(waiting);
        if more {
            self.filled.notify_one();
        }
        Some((worker, taken))
    }

    /// Takes a worker's share of the rows that wait.
    fn share(&self, waiting: &mut WaitingRequests) -> Vec<BatchedRows> {
        let card = self.model.card();
        let budget = card.limits.tokens.max(1);
        let share = waiting.tokens.div_ceil(card.workers.max(1));
        let share = share.clamp(LEAST_TOKENS.min(budget), budget);
        let most_rows = card.limits.rows.max(1);
        let (mut taken, mut rows, mut tokens) = (Vec::new(), 0, 0);
        while let Some(mut turn) = waiting.requests.pop_front() {
            let (all, start) = (&turn.work.rows, turn.next);
            let mut full = false;
            while turn.next < all.len() {
                let length = all.get(turn.next).len();
                full = rows == most_rows || (rows > 0 && tokens + length > share);
                if full {
                    break;
                }
                (rows, tokens) = (rows + 1, tokens + length);
                turn.next += 1;
            }
            if turn.next > start {
                if start == 0 {
                    self.metrics.waited(turn.work.since.elapsed());
                }
                taken.push(BatchedRows {
                    work: Arc::clone(&turn.work),
                    rows: start..turn.next,
                });
            }
            if full {
                // A request that has had its turn waits for all others.
                match turn.next > start {
                    true => waiting.requests.push_back(turn),
                    false => waiting.requests.push_front(turn),
                }
                break;
            }
        }
        waiting.tokens -= tokens;
        taken
    }
}

impl BatchedRows {
    /// Hands the numbers of these rows over to their request.
    fn settle(self, numbers: &mut impl Iterator<Item = Result<ServedRow, Cause>>) {
        let mut progress = locked(&self.work.progress);
        for (row, result) in self.rows.clone().zip(numbers) {
            match result {
                Ok(numbers) => progress.numbers[row] = numbers,
                Err(cause) => progress.send(Err(RowFailure::Input(row, cause))),
            }
        }
        progress.left -= self.rows.len();
        if progress.left == 0 {
            let numbers = std::mem::take(&mut progress.numbers);
            progress.send(Ok(numbers));
        }
    }
}

impl WorkProgress {
    /// Answers, unless that was done.
    fn send(&mut self, outcome: Outcome) {
        if let Some(answer) = self.answer.take() {
            // The client may be gone.
            let _ = answer.send(outcome);
        }
    }
}

//! The state that all requests share: the model, the queue, limits and numbers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::response::Response;
use embedctl_common::threads::{guarded, locked};
use tokio::sync::{Notify as Wakeup, OwnedSemaphorePermit, Semaphore};

use crate::answer::{ApiError, ApiRefusal, json_answer};
use crate::answers::OpenAnswers;
use crate::body::BodyMemory;
use crate::listen::Reach;
use crate::metrics::Metrics;
use crate::model::{ModelCard, ServedModel};
use crate::options::{Notice, Notify, ServerOptions};
use crate::queue::Queue;

/// How often refusals that the operator can do something about are told.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Bytes of long requests that are read at the same time at least: what JSON becomes in memory may be larger by far.
const READING: usize = 16 << 20;

/// Bytes of long texts whose tokens are listed at the same time. Each takes up to 300 times as much meanwhile.
const LISTING: usize = 2 << 20;

/// The state that all requests share.
pub(crate) struct App {
    pub model: Arc<dyn ServedModel>,
    pub queue: Arc<Queue>,
    pub metrics: Arc<Metrics>,
    pub options: ServerOptions,
    pub bodies: BodyMemory,
    pub connections: AtomicUsize,
    pub notify: Notify,
    /// Answers that are being written.
    pub answers: Arc<OpenAnswers>,
    /// Whether the listener is this machine's own, and serves clients without keys.
    pub is_private: bool,
    /// Whether rows of the corpus are shown: to programs of this machine, or to clients with keys.
    pub shows_rows: bool,
    /// A search takes all cores: they take turns.
    pub searching: Arc<Semaphore>,
    /// Long requests that are read.
    pub reading: WorkBudget,
    /// Long texts whose tokens are listed.
    pub listing: WorkBudget,
    requests: AtomicUsize,
    idle: Wakeup,
    stopping: AtomicBool,
    told: Mutex<BTreeMap<&'static str, Instant>>,
}

impl App {
    pub fn new(
        model: Arc<dyn ServedModel>,
        queue: Arc<Queue>,
        metrics: Arc<Metrics>,
        options: ServerOptions,
        (notify, reach): (Notify, Reach),
    ) -> Self {
        let has_keys = options.keys.is_some();
        let shows_rows = options.shows_rows_to(reach);
        Self {
            model,
            queue,
            metrics,
            bodies: BodyMemory::new(options.memory),
            reading: WorkBudget::new(READING.max(2 * options.max_body)),
            listing: WorkBudget::new(LISTING),
            options,
            connections: AtomicUsize::new(0),
            notify,
            answers: Arc::default(),
            is_private: reach == Reach::Loopback && !has_keys,
            shows_rows,
            searching: Arc::new(Semaphore::new(1)),
            requests: AtomicUsize::new(0),
            idle: Wakeup::new(),
            stopping: AtomicBool::new(false),
            told: Mutex::default(),
        }
    }

    pub fn card(&self) -> &ModelCard {
        self.model.card()
    }

    /// The names of the model, the first one for answers.
    pub fn served_names(&self) -> Vec<&str> {
        let names = &self.options.served_names;
        match names.is_empty() {
            true => vec![&self.card().id],
            false => names.iter().map(String::as_str).collect(),
        }
    }

    /// The model's name in answers.
    pub fn served_name(&self) -> String {
        let first = self.options.served_names.first();
        first.unwrap_or(&self.card().id).clone()
    }

    /// Requests without an answer yet.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    /// From now on only requests that were begun are answered.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Waits until no request is without an answer.
    pub async fn idle(&self) {
        loop {
            let woken = self.idle.notified();
            if self.requests() == 0 {
                return;
            }
            woken.await;
        }
    }

    /// Whether it takes requests; if not, why.
    pub fn readiness(&self) -> Result<(), ApiError> {
        let reason = match (self.is_stopping(), self.queue.is_healthy()) {
            (true, _) => "the server is stopping",
            (_, false) => "the engine failed on the last batches",
            _ => return Ok(()),
        };
        Err(ApiError::new(ApiRefusal::Unready, reason).retry_after(1))
    }

    /// Counts a refusal, and tells of it unless the same was told a moment ago.
    pub fn refused(&self, kind: &'static str, message: &str) {
        self.metrics.refused(kind);
        let now = Instant::now();
        let mut told = locked(&self.told);
        let is_new = (told.get(kind)).is_none_or(|last| now - *last >= TOLD_EVERY);
        if is_new {
            told.insert(kind, now);
            drop(told);
            (self.notify)(Notice::Warning(format!(
                "requests are refused: {message} (told once a minute; /metrics counts them)"
            )));
        }
    }
}

/// Room for so many bytes of work, which is given in turns.
#[derive(Debug)]
pub(crate) struct WorkBudget {
    room: Arc<Semaphore>,
    /// Kilobytes.
    most: u32,
}

impl WorkBudget {
    fn new(bytes: usize) -> Self {
        let most = u32::try_from(bytes >> 10).unwrap_or(u32::MAX).max(1);
        // A semaphore has at least as many permits, on every platform.
        let room = Semaphore::new(usize::try_from(most).unwrap_or(Semaphore::MAX_PERMITS));
        Self {
            room: Arc::new(room),
            most,
        }
    }

    /// Waits for room for so many bytes, or for all of it if they are more.
    pub async fn enter(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let wanted = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room);
        // It is never closed.
        room.acquire_many_owned(wanted.min(self.most)).await.ok()
    }
}

/// A request without an answer.
pub(crate) struct CountedRequest(Arc<App>);

impl CountedRequest {
    pub fn new(app: &Arc<App>) -> Self {
        app.requests.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(app))
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

/// Tokenizing so many bytes takes well below a millisecond.
pub(crate) const SHORT: usize = 16 << 10;

/// Runs `work` on this thread if it is short, else on one where it holds nobody up. `size` is of a body, in bytes.
pub(crate) async fn off_thread<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    match size <= SHORT {
        true => guarded(|| Ok(work()), failed),
        false => on_another_thread(work).await,
    }
}

/// Runs `work` on a thread where it holds nobody up.
pub(crate) async fn on_another_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let work = move || guarded(|| Ok(work()), failed);
    let ended = |_| failed("answering the request failed".to_owned());
    tokio::task::spawn_blocking(work).await.map_err(ended)?
}

fn failed(reason: String) -> ApiError {
    ApiError::new(ApiRefusal::Engine, reason)
}

/// An answer that may be long, in JSON.
pub(crate) async fn long_answer<T: serde::Serialize + Send + 'static>(
    size: usize,
    value: T,
) -> Result<Response, ApiError> {
    off_thread(size, move || json_answer(&value)).await
}

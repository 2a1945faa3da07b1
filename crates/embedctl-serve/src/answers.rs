//! Answers that are being written to their clients: a server that stops waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify as Wakeup;

/// How many answers are being written to their clients, and how many were given up.
#[derive(Debug, Default)]
pub(crate) struct OpenAnswers {
    count: AtomicUsize,
    cut: AtomicUsize,
    none: Wakeup,
}

impl OpenAnswers {
    pub fn begin(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    pub fn end(&self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.none.notify_waiters();
        }
    }

    /// One was ended although its client was there.
    pub fn cut(&self) {
        self.cut.fetch_add(1, Ordering::AcqRel);
    }

    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Answers that were cut so far.
    pub fn all_cut(&self) -> usize {
        self.cut.load(Ordering::Acquire)
    }

    /// Waits until all are written.
    pub async fn written(&self) {
        loop {
            let woken = self.none.notified();
            if self.count() == 0 {
                return;
            }
            woken.await;
        }
    }
}

/// An answer that is not yet written to its end; it counts until this is dropped.
pub(crate) struct OpenAnswer {
    answers: Arc<OpenAnswers>,
    handed_over: Arc<AtomicBool>,
}

impl OpenAnswer {
    /// An answer of which hyper has all bytes once `handed_over` is set.
    pub fn new(answers: &Arc<OpenAnswers>, handed_over: Arc<AtomicBool>) -> Self {
        answers.begin();
        Self {
            answers: Arc::clone(answers),
            handed_over,
        }
    }

    pub fn is_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::Relaxed)
    }

    /// It ends here, although its client is there.
    pub fn cut(self) {
        self.answers.cut();
    }
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        self.answers.end();
    }
}

//! The limit of what a model's files may do to one text: of the bytes that they make of it, and of the time they take.
//!
//! A tokenizer's normalizers and regular expressions and a chat template are programs of the repository's. Each of them
//! gets the budget of the text in work.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use embedctl_common::stage::thread_time;
use embedctl_common::threads::locked;

/// How often a text's bytes may be multiplied: NFKC makes 33 bytes of 3, and nothing that is useful makes more.
const GROWTH: usize = 12;

/// Bytes that may be added to any text; the instructions of a chat template have some thousands.
const ADDED: usize = 256 << 10;

/// The bytes of all values that a template makes on the way to its text, each time it makes one: as many steps that take
/// the text over, and bytes for any text.
const PROGRAM_GROWTH: usize = 64;
const PROGRAM_ADDED: usize = 16 << 20;

/// Processor time for any text, and bytes for which there is another second. A tokenizer reads megabytes in a second.
const TIME: Duration = Duration::from_secs(5);
const BYTES_PER_SECOND: usize = 64 << 10;

/// What is left for one text.
#[derive(Debug)]
pub struct TextBudget {
    /// Bytes at most.
    bytes: usize,
    /// Bytes that parts of the text have become.
    made: AtomicUsize,
    time: Duration,
    begun: Instant,
    /// Processor time of the thread at the beginning.
    processor: Option<Duration>,
    /// Why the text was given up, where a caller drops the error.
    failure: Mutex<Option<String>>,
}

impl TextBudget {
    /// For a text of so many bytes.
    #[must_use]
    pub fn of(bytes: usize) -> Self {
        let seconds = bytes / BYTES_PER_SECOND;
        Self {
            bytes: Self::bytes(bytes),
            made: AtomicUsize::new(0),
            time: TIME + Duration::from_secs(seconds as u64),
            begun: Instant::now(),
            processor: thread_time(),
            failure: Mutex::default(),
        }
    }

    /// For a program that makes values of a text of so many bytes.
    #[must_use]
    pub fn of_program(bytes: usize) -> Self {
        Self {
            bytes: bytes
                .saturating_mul(PROGRAM_GROWTH)
                .saturating_add(PROGRAM_ADDED),
            ..Self::of(bytes)
        }
    }

    /// With another time, and bytes enough.
    #[cfg(test)]
    pub(crate) fn of_time(time: Duration) -> Self {
        Self {
            time,
            ..Self::of(1 << 20)
        }
    }

    /// Bytes that a text of so many bytes may become.
    #[must_use]
    pub const fn bytes(text: usize) -> usize {
        text.saturating_mul(GROWTH).saturating_add(ADDED)
    }

    /// Checks that a part of the text may become so many bytes.
    ///
    /// # Errors
    /// If they are too many.
    pub fn check_bytes(&self, part: usize) -> Result<(), String> {
        match self.made.load(Ordering::Relaxed).saturating_add(part) <= self.bytes {
            true => Ok(()),
            false => Err(format!(
                "it makes more than {} bytes of this text, the limit of memory",
                self.bytes
            )),
        }
    }

    /// Counts the bytes that a part of the text has become.
    ///
    /// # Errors
    /// If they are too many.
    pub fn take_bytes(&self, part: usize) -> Result<(), String> {
        self.check_bytes(part)?;
        self.made.fetch_add(part, Ordering::Relaxed);
        Ok(())
    }

    /// All time for the text, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.time.as_secs_f64()
    }

    /// Checks that there is time left.
    ///
    /// # Errors
    /// If there is none.
    pub fn check_time(&self) -> Result<(), String> {
        if self.begun.elapsed() < self.time {
            return Ok(());
        }
        // Elapsed time counts other threads, too, and a process that was stopped.
        match (self.processor, thread_time()) {
            (Some(begun), Some(now)) if now.saturating_sub(begun) < self.time => Ok(()),
            _ => Err(format!(
                "it takes more than {} s for this text, the limit of time",
                self.time.as_secs()
            )),
        }
    }

    /// Keeps the reason for which the text is given up.
    pub fn give_up(&self, reason: String) {
        locked(&self.failure).get_or_insert(reason);
    }

    /// Fails if the text was given up.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), String> {
        locked(&self.failure).take().map_or(Ok(()), Err)
    }
}

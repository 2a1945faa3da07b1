//! Limits on the size and duration of responses. A broken or hostile server may send without end, or so slowly that it
//! makes no difference.

use std::io::{self, Read};
use std::time::{Duration, Instant};

/// The limits of downloads.
#[derive(Debug, Clone)]
pub struct ResponseLimits {
    /// Bytes of a file at most.
    pub file: u64,
    /// Maximum bytes of a file of unknown size; an ONNX file without external data cannot exceed 2 GiB.
    pub unmeasured: u64,
    /// Bytes of a file at most that is read into memory whole: everything but weights.
    pub metadata: u64,
    /// Files of a repository at most.
    pub files: usize,
    /// Bytes that must come in each `window`.
    pub least: u64,
    /// See `least`.
    pub window: Duration,
}

impl Default for ResponseLimits {
    fn default() -> Self {
        Self {
            file: 200 << 30,
            unmeasured: 2 << 30,
            metadata: 256 << 20,
            files: 100_000,
            least: 64 << 10,
            window: Duration::from_secs(60),
        }
    }
}

/// A body with a minimum rate. Only the time spent waiting for it counts: the reader may do other work in between.
pub struct RateCheckedBody<R> {
    inner: R,
    pace: TransferPace,
    now: Instant,
}

impl<R: Read> RateCheckedBody<R> {
    /// Reads `inner` as fast as `limits` ask for, or fails.
    pub fn new(inner: R, limits: &ResponseLimits) -> Self {
        let now = Instant::now();
        Self {
            inner,
            pace: TransferPace::new(limits, now),
            now,
        }
    }
}

impl<R: Read> Read for RateCheckedBody<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        let count = self.inner.read(buffer)?;
        self.now += began.elapsed();
        if count > 0 {
            self.pace.arrived(count as u64, self.now)?;
        }
        Ok(count)
    }
}

/// Bytes received, and the start of the window.
struct TransferPace {
    least: u64,
    window: Duration,
    began: Instant,
    bytes: u64,
}

impl TransferPace {
    fn new(limits: &ResponseLimits, now: Instant) -> Self {
        Self {
            least: limits.least,
            window: limits.window,
            began: now,
            bytes: 0,
        }
    }

    /// Counts received bytes; a transient error ([`io::ErrorKind::TimedOut`]) if they were too few.
    fn arrived(&mut self, bytes: u64, now: Instant) -> io::Result<()> {
        self.bytes += bytes;
        let took = now.duration_since(self.began);
        if took < self.window {
            return Ok(());
        }
        if self.bytes < self.least {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "too slow: {} bytes in {} seconds",
                    self.bytes,
                    took.as_secs()
                ),
            ));
        }
        self.began = now;
        self.bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trickle_ends() {
        let limits = ResponseLimits::default();
        let began = Instant::now();
        let mut pace = TransferPace::new(&limits, began);
        let after = |seconds| began + Duration::from_secs(seconds);
        assert!(pace.arrived(1, after(20)).is_ok());
        assert!(pace.arrived(1, after(40)).is_ok());
        let error = pace.arrived(1, after(60)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "too slow: 3 bytes in 60 seconds");
    }

    #[test]
    fn a_slow_connection_that_gets_on_is_kept() {
        let limits = ResponseLimits::default();
        let began = Instant::now();
        let mut pace = TransferPace::new(&limits, began);
        for minute in 1..100 {
            let now = began + Duration::from_secs(60 * minute);
            assert!(pace.arrived(64 << 10, now).is_ok());
        }
        assert!(
            pace.arrived((64 << 10) - 1, began + Duration::from_secs(60 * 100))
                .is_err()
        );
    }
}

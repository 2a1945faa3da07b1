//! Arithmetic behind a progress display: rates, share and time left, from what the run has told so far.

use std::time::Duration;

use embedctl::progress::Counts;

/// What a run has told so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meter {
    /// Rows embedded; runs ahead of what is written by a window.
    rows: u64,
    /// Tokens embedded.
    tokens: u64,
    /// The state at the last written window.
    written: Counts,
    /// Rows embedded at that time.
    rows_then: u64,
    /// Size of the input, where it is known.
    total_bytes: Option<u64>,
}

/// A moment of a run, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Rows embedded.
    pub rows: u64,
    /// Records rejected.
    pub rejected: u64,
    /// Rows embedded per second.
    pub rows_per_second: f64,
    /// Tokens embedded per second.
    pub tokens_per_second: f64,
    /// How much of the input is done, 0 to 1, where that can be said.
    pub share: Option<f64>,
    /// How much longer it takes, where that can be said.
    pub left: Option<Duration>,
}

impl Meter {
    /// Work begins on inputs of this size.
    pub fn started(&mut self, total_bytes: Option<u64>) {
        self.total_bytes = total_bytes.filter(|&bytes| bytes > 0);
    }

    /// A batch was embedded.
    pub fn batch(&mut self, rows: u64, tokens: u64) {
        self.rows += rows;
        self.tokens += tokens;
    }

    /// A window was written.
    pub fn written(&mut self, counts: &Counts) {
        self.written = *counts;
        // Batches of later windows may already be done; rows never run backwards.
        self.rows = self.rows.max(counts.embedded);
        self.tokens = self.tokens.max(counts.tokens);
        self.rows_then = counts.embedded;
    }

    /// The state after working for `elapsed`.
    pub fn read(&self, elapsed: Duration) -> Reading {
        let seconds = elapsed.as_secs_f64();
        let rate = |amount: u64| {
            if seconds > 0.0 {
                amount as f64 / seconds
            } else {
                0.0
            }
        };
        let share = self.share();
        let left = share
            .filter(|&share| share > 0.0)
            .map(|share| Duration::from_secs_f64(seconds * (1.0 - share) / share));
        Reading {
            rows: self.rows,
            rejected: self.written.rejected,
            rows_per_second: rate(self.rows),
            tokens_per_second: rate(self.tokens),
            share,
            left,
        }
    }

    /// Bytes are known at the ends of windows only; between them, the rows done since then are taken to
    /// be as long as those before.
    fn share(&self) -> Option<f64> {
        let total = self.total_bytes? as f64;
        let at_window = self.written.consumed as f64 / total;
        let ahead = if self.rows_then == 0 {
            1.0
        } else {
            self.rows as f64 / self.rows_then as f64
        };
        (self.written.read > 0).then(|| (at_window * ahead).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(embedded: u64, consumed: u64) -> Counts {
        Counts {
            read: embedded,
            embedded,
            tokens: embedded * 10,
            consumed,
            ..Counts::default()
        }
    }

    #[test]
    fn before_the_first_window_there_is_a_rate_but_no_share() {
        let mut meter = Meter::default();
        meter.started(Some(1000));
        meter.batch(8, 80);
        let reading = meter.read(Duration::from_secs(2));
        assert_eq!(reading.rows, 8);
        assert!((reading.rows_per_second - 4.0).abs() < 1e-9);
        assert!((reading.tokens_per_second - 40.0).abs() < 1e-9);
        assert_eq!((reading.share, reading.left), (None, None));
    }

    #[test]
    fn between_windows_the_share_follows_the_rows() {
        let mut meter = Meter::default();
        meter.started(Some(1000));
        meter.batch(100, 1000);
        meter.written(&counts(100, 200));
        meter.batch(150, 1500);
        let reading = meter.read(Duration::from_secs(10));
        assert_eq!(reading.share, Some(0.5));
        assert_eq!(reading.left, Some(Duration::from_secs(10)));
    }

    #[test]
    fn the_share_never_exceeds_the_whole() {
        let mut meter = Meter::default();
        meter.started(Some(1000));
        meter.written(&counts(100, 900));
        meter.batch(500, 5000);
        let reading = meter.read(Duration::from_secs(1));
        assert_eq!(
            (reading.share, reading.left),
            (Some(1.0), Some(Duration::ZERO))
        );
    }

    #[test]
    fn an_input_of_unknown_size_has_no_share() {
        let mut meter = Meter::default();
        meter.started(None);
        meter.written(&counts(100, 900));
        assert_eq!(meter.read(Duration::from_secs(1)).share, None);
    }

    #[test]
    fn at_the_very_start_nothing_divides_by_zero() {
        let reading = Meter::default().read(Duration::ZERO);
        assert!(reading.rows_per_second.abs() < f64::EPSILON);
        assert_eq!(reading.left, None);
    }
}

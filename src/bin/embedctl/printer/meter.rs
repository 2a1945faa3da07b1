//! Computes the rates, share and remaining time of a progress display.

use std::time::Duration;

use embedctl::progress::{BatchDone, Counts};
use embedctl::size::per;

/// The progress events of a run so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meter {
    /// Sum over batches; up to one window ahead of the written rows.
    done: BatchDone,
    /// The state at the last written window.
    written: Counts,
    /// The window in hand.
    window: Option<RateWindow>,
    /// Size of the input, where it is known.
    total_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct RateWindow {
    /// Bytes of the input consumed at its end.
    consumed: u64,
    /// Tokens that it has to run.
    tokens: u64,
    /// Tokens that had run before it.
    tokens_before: u64,
}

/// A moment of a run, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeterReading {
    /// Rows embedded.
    pub rows: u64,
    /// Rows written.
    pub written: u64,
    /// Records rejected.
    pub rejected: u64,
    /// Computed rows per second, without duplicate texts.
    pub rows_per_second: f64,
    /// Tokens run per second.
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

    /// The next window's batches come.
    pub fn window(&mut self, consumed: u64, tokens: u64) {
        self.window = Some(RateWindow {
            consumed,
            tokens,
            tokens_before: self.done.tokens,
        });
    }

    /// A batch was embedded.
    pub fn batch(&mut self, done: BatchDone) {
        self.done.rows += done.rows;
        self.done.run += done.run;
        self.done.tokens += done.tokens;
    }

    /// A window was written.
    pub fn written(&mut self, counts: &Counts) {
        self.written = *counts;
        self.window = None;
        // Rows without any token are in no batch; and rows never run backwards.
        self.done.rows = self.done.rows.max(counts.embedded);
    }

    /// Tokens that have run.
    pub fn tokens(&self) -> u64 {
        self.done.tokens
    }

    /// The state after working for `elapsed`.
    pub fn read(&self, elapsed: Duration) -> MeterReading {
        let seconds = elapsed.as_secs_f64();
        let rate = |amount: u64| per(amount as f64, seconds);
        let share = self.share();
        let left = share
            .filter(|&share| share > 0.0 && share < 1.0)
            .map(|share| Duration::from_secs_f64(seconds * (1.0 - share) / share));
        MeterReading {
            rows: self.done.rows,
            written: self.written.embedded,
            rejected: self.written.rejected,
            rows_per_second: rate(self.done.run),
            tokens_per_second: rate(self.done.tokens),
            share,
            left,
        }
    }

    /// The bytes of the windows that are written, and of the window in hand as much as its tokens that have
    /// run: a share that moves with every batch, from the first one on.
    fn share(&self) -> Option<f64> {
        let total = self.total_bytes? as f64;
        let written = self.written.consumed as f64;
        let Some(window) = self.window else {
            return (self.written.read > 0).then(|| (written / total).min(1.0));
        };
        let run = self.done.tokens - window.tokens_before;
        let share = (run as f64 / window.tokens.max(1) as f64).min(1.0);
        Some(((written + share * (window.consumed as f64 - written)) / total).min(1.0))
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

    fn rows(rows: u64) -> BatchDone {
        BatchDone {
            rows,
            run: rows,
            tokens: 10 * rows,
        }
    }

    #[test]
    fn the_share_moves_with_the_first_batch() {
        let mut meter = Meter::default();
        meter.started(Some(1000));
        assert_eq!(meter.read(Duration::from_secs(1)).share, None);
        meter.window(500, 160);
        meter.batch(rows(8));
        let reading = meter.read(Duration::from_secs(2));
        assert_eq!((reading.rows, reading.written), (8, 0));
        assert!((reading.rows_per_second - 4.0).abs() < 1e-9);
        assert!((reading.tokens_per_second - 40.0).abs() < 1e-9);
        assert_eq!(reading.share, Some(0.25));
        assert_eq!(reading.left, Some(Duration::from_secs(6)));
    }

    #[test]
    fn in_later_windows_the_share_goes_on_from_what_is_written() {
        let mut meter = Meter::default();
        meter.started(Some(1000));
        meter.window(200, 1000);
        meter.batch(rows(100));
        meter.written(&counts(100, 200));
        assert_eq!(meter.read(Duration::from_secs(4)).share, Some(0.2));
        meter.window(800, 3000);
        meter.batch(rows(150));
        let reading = meter.read(Duration::from_secs(10));
        assert_eq!(reading.share, Some(0.5));
        assert_eq!(reading.left, Some(Duration::from_secs(10)));
        meter.batch(rows(1000));
        assert_eq!(meter.read(Duration::from_secs(11)).share, Some(0.8));
    }

    #[test]
    fn repeated_texts_are_rows_and_no_speed() {
        let mut meter = Meter::default();
        meter.batch(BatchDone {
            rows: 1000,
            run: 1,
            tokens: 10,
        });
        let reading = meter.read(Duration::from_secs(1));
        assert_eq!((reading.rows, reading.rows_per_second), (1000, 1.0));
    }

    #[test]
    fn an_input_of_unknown_size_has_no_share() {
        let mut meter = Meter::default();
        meter.started(None);
        meter.window(900, 10);
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

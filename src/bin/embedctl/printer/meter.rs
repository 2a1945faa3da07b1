//! Computes the rates, share and remaining time of a progress display.

use std::time::Duration;

use embedctl::progress::{BatchDone, Counts, InputSize, WindowSize};
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
    input: InputSize,
}

#[derive(Debug, Clone, Copy)]
struct RateWindow {
    size: WindowSize,
    /// Records that were read before it.
    records_before: u64,
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
    pub fn started(&mut self, input: InputSize) {
        let known = |size: Option<u64>| size.filter(|&size| size > 0);
        self.input = InputSize {
            bytes: known(input.bytes),
            records: known(input.records),
        };
    }

    /// The next window's batches come.
    pub fn window(&mut self, size: WindowSize) {
        self.window = Some(RateWindow {
            size,
            records_before: self.written.read,
            tokens_before: self.done.tokens,
        });
    }

    /// A batch was embedded.
    pub fn batch(&mut self, done: BatchDone) {
        self.done.rows += done.rows;
        self.done.run += done.run;
        self.done.tokens += done.tokens;
    }

    /// A window, or a portion of one, was written.
    pub fn written(&mut self, counts: &Counts) {
        self.written = *counts;
        let is_written = |it: &RateWindow| counts.read >= it.records_before + it.size.records;
        self.window = self.window.filter(|window| !is_written(window));
        // Rows without any token are in no batch; and rows never run backwards.
        self.done.rows = self.done.rows.max(counts.embedded);
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

    /// The windows that are written, and of the window in hand as much as its tokens that have run: a share that moves
    /// with every batch, from the first one on. Of bytes or of records, whichever is nearer to its end: a limit of
    /// records ends the run before the bytes do.
    fn share(&self) -> Option<f64> {
        if self.window.is_none() && self.written.read == 0 {
            return None;
        }
        let run = |window: RateWindow| {
            let run = self.done.tokens - window.tokens_before;
            (run as f64 / window.size.tokens.max(1) as f64).min(1.0)
        };
        let done = |written: u64, before: u64, behind: u64| match self.window {
            None => written as f64,
            Some(window) => before as f64 + run(window) * behind.saturating_sub(before) as f64,
        };
        let written = &self.written;
        let bytes = self.window.map_or(0, |window| window.size.consumed);
        let before = self.window.map_or(0, |window| window.records_before);
        let behind = self.window.map_or(0, |window| before + window.size.records);
        let of_bytes = self
            .input
            .bytes
            .map(|total| done(written.consumed, written.consumed, bytes) / total as f64);
        let of_records = self
            .input
            .records
            .map(|total| done(written.read, before, behind) / total as f64);
        let shares = of_bytes.into_iter().chain(of_records);
        shares.reduce(f64::max).map(|share| share.min(1.0))
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

    fn bytes(bytes: u64) -> InputSize {
        InputSize {
            bytes: Some(bytes),
            records: None,
        }
    }

    fn window(consumed: u64, records: u64, tokens: u64) -> WindowSize {
        WindowSize {
            consumed,
            records,
            tokens,
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
        meter.started(bytes(1000));
        assert_eq!(meter.read(Duration::from_secs(1)).share, None);
        meter.window(window(500, 16, 160));
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
        meter.started(bytes(1000));
        meter.window(window(200, 100, 1000));
        meter.batch(rows(100));
        meter.written(&counts(100, 200));
        assert_eq!(meter.read(Duration::from_secs(4)).share, Some(0.2));
        meter.window(window(800, 300, 3000));
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
    fn a_limit_of_records_is_what_there_is_to_do() {
        let mut meter = Meter::default();
        meter.started(InputSize {
            bytes: Some(100_000),
            records: Some(50),
        });
        meter.window(window(2000, 20, 200));
        meter.batch(rows(10));
        let reading = meter.read(Duration::from_secs(1));
        assert_eq!(reading.share, Some(0.2));
        assert_eq!(reading.left, Some(Duration::from_secs(4)));
        meter.written(&counts(20, 2000));
        assert_eq!(meter.read(Duration::from_secs(2)).share, Some(0.4));
        meter.window(window(9000, 30, 300));
        meter.batch(rows(40));
        meter.written(&counts(50, 9000));
        let reading = meter.read(Duration::from_secs(4));
        assert_eq!((reading.share, reading.left), (Some(1.0), None));
        // Fewer records than the limit: the bytes end first.
        let mut meter = Meter::default();
        meter.started(InputSize {
            bytes: Some(1000),
            records: Some(5000),
        });
        meter.window(window(1000, 10, 100));
        meter.batch(rows(10));
        assert_eq!(meter.read(Duration::from_secs(1)).share, Some(1.0));
    }

    #[test]
    fn a_window_in_portions_goes_on_after_each() {
        let mut meter = Meter::default();
        meter.started(bytes(1000));
        meter.window(window(1000, 10, 100));
        for portion in 1..=5 {
            meter.batch(rows(2));
            // Bytes count when the window is written.
            let consumed = if portion == 5 { 1000 } else { 0 };
            meter.written(&counts(2 * portion, consumed));
            let share = meter.read(Duration::from_secs(1)).share;
            assert!((share.unwrap() - portion as f64 / 5.0).abs() < 1e-9);
        }
    }

    #[test]
    fn an_input_of_unknown_size_has_no_share() {
        let mut meter = Meter::default();
        meter.started(InputSize::default());
        meter.window(window(900, 1, 10));
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

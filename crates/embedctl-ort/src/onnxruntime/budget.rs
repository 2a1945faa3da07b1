//! The best token budget for a device, found by running batches of growing size.
//!
//! Batches double until a step gains less than a twentieth, memory runs out, or the next step would exceed the time
//! limit.

use std::time::Duration;

use embedctl_common::cancel::CancelToken;
use embedctl_common::error::Error;
use embedctl_rows::batch::Batch;

/// Tokens of the first batch and of the largest.
const FIRST: usize = 512;
const MOST: usize = 131_072;

/// A step that gains less than this is the last.
const GAIN: f64 = 1.05;

/// Time for all steps together.
const TIME: Duration = Duration::from_secs(3);

/// Runs of a batch of one size: the first pays for its memory, the best of the others counts.
const RUNS: u32 = 3;

/// The budget for rows of `length` tokens, at most `most_rows` in a batch; `None` if not even the smallest batch runs.
/// `sample` makes a batch of so many rows, `run` runs it and says how long that took.
pub(super) fn measure(
    length: usize,
    most_rows: usize,
    cancel: &CancelToken,
    sample: &dyn Fn(usize) -> Batch,
    run: &mut dyn FnMut(&Batch) -> Result<Duration, Error>,
) -> Option<usize> {
    let mut spent = Duration::ZERO;
    let mut best: Option<(usize, f64)> = None;
    let mut tokens = FIRST;
    while tokens <= MOST && tokens / length <= most_rows && !cancel.is_cancelled() {
        let batch = sample((tokens / length).max(1));
        let Some(took) = fastest(&batch, run, &mut spent) else {
            break;
        };
        let rate = (batch.rows() * length) as f64 / took.as_secs_f64();
        if best.is_some_and(|(_, before)| rate < before * GAIN) {
            break;
        }
        best = Some((tokens, rate));
        tokens *= 2;
        if spent + 2 * took * RUNS > TIME {
            break;
        }
    }
    best.map(|(tokens, _)| tokens)
}

/// The shortest time of a batch, its first run left out; `None` if it fails. All runs count as `spent`.
fn fastest(
    batch: &Batch,
    run: &mut dyn FnMut(&Batch) -> Result<Duration, Error>,
    spent: &mut Duration,
) -> Option<Duration> {
    let mut best = Duration::MAX;
    for index in 0..RUNS {
        let took = run(batch).ok()?;
        *spent += took;
        if index > 0 {
            best = best.min(took);
        } else if took > TIME {
            // Once is enough to know that this device is slow.
            return Some(took);
        }
    }
    Some(best.max(Duration::from_nanos(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(rows: usize) -> Batch {
        Batch {
            ids: vec![5; rows * 64],
            types: Vec::new(),
            ends: (1..=rows).map(|row| row * 64).collect(),
            seen: Vec::new(),
        }
    }

    /// The sizes that are tried on a device that fails above `most` tokens.
    fn tried(most: usize, most_rows: usize) -> (Vec<usize>, Option<usize>) {
        let mut sizes = Vec::new();
        let budget = measure(64, most_rows, &CancelToken::new(), &batch, &mut |batch| {
            let tokens = batch.rows() * 64;
            sizes.push(tokens);
            if tokens > most {
                return Err(Error::internal("no room"));
            }
            Ok(Duration::from_micros(1))
        });
        sizes.dedup();
        (sizes, budget)
    }

    #[test]
    fn memory_that_runs_out_ends_the_search_below_it() {
        let (_, budget) = tried(0, 1 << 20);
        assert_eq!(budget, None);
        let (sizes, budget) = tried(512, 1 << 20);
        assert_eq!(budget, Some(512));
        assert!(sizes.len() <= 2, "{sizes:?}");
    }

    #[test]
    fn rows_and_cancellation_bound_the_search() {
        let (sizes, _) = tried(usize::MAX, 16);
        assert!(sizes.iter().all(|&tokens| tokens <= 1024), "{sizes:?}");
        let cancelled = CancelToken::new();
        cancelled.cancel();
        let budget = measure(64, 1 << 20, &cancelled, &batch, &mut |_| {
            panic!("runs after it was cancelled")
        });
        assert_eq!(budget, None);
    }

    #[test]
    fn a_gain_of_less_than_a_twentieth_is_the_last_step() {
        // Up to 1,024 tokens take the same time; from there on each takes its own.
        let mut sizes = Vec::new();
        let budget = measure(64, 1 << 20, &CancelToken::new(), &batch, &mut |batch| {
            let tokens = batch.rows() * 64;
            sizes.push(tokens);
            Ok(Duration::from_micros(
                1000 + tokens.saturating_sub(1024) as u64,
            ))
        });
        assert_eq!(budget, Some(1024));
        assert_eq!(sizes.last(), Some(&2048));
    }

    #[test]
    fn a_slow_device_is_not_asked_for_long() {
        let mut spent = Duration::ZERO;
        let budget = measure(64, 1 << 20, &CancelToken::new(), &batch, &mut |_| {
            let took = Duration::from_millis(400);
            spent += took;
            Ok(took)
        });
        assert_eq!(budget, Some(512));
        assert_eq!(spent, Duration::from_millis(1200));
    }
}

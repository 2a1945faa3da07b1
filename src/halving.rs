//! Memory that runs out: the batch is halved and run again, and the limit kept for the rest of the run.
//!
//! How much memory a batch needs is known only to the library and its device, which may serve others as
//! well. So nothing is computed ahead: the first failure teaches, and all workers of a run learn from it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::batch::Plan;
use crate::error::{Error, Result};

/// Tokens that a batch may hold; shared by the workers of a run.
#[derive(Debug)]
pub(crate) struct TokenLimit {
    tokens: AtomicUsize,
    told: AtomicBool,
}

impl Default for TokenLimit {
    fn default() -> Self {
        Self {
            tokens: AtomicUsize::new(usize::MAX),
            told: AtomicBool::new(false),
        }
    }
}

impl TokenLimit {
    /// Runs the rows of `plan` with `run`, in parts where they are more than the limit allows or turn out
    /// to be; the parts' vectors are appended in the plan's order.
    ///
    /// # Errors
    /// As `run`, or if a single row is too much already.
    pub(crate) fn run(
        &self,
        plan: &Plan,
        run: &mut dyn FnMut(&Plan) -> Result<Vec<f32>>,
    ) -> Result<Vec<f32>> {
        let tokens = plan.rows.len() * plan.length;
        if tokens <= self.tokens.load(Ordering::Relaxed) || plan.rows.len() == 1 {
            match run(plan) {
                Err(Error::OutOfMemory { engine, reason }) => {
                    if plan.rows.len() == 1 {
                        return Err(alone(engine, &reason, plan.length));
                    }
                    // At least one row of this length, whatever else was learnt meanwhile.
                    let half = (plan.rows.len() / 2) * plan.length;
                    self.tokens.fetch_min(half, Ordering::Relaxed);
                }
                done => return done,
            }
        }
        let rows = (self.tokens.load(Ordering::Relaxed) / plan.length).max(1);
        let mut vectors = Vec::new();
        for rows in plan.rows.chunks(rows) {
            let part = Plan {
                rows: rows.to_vec(),
                length: plan.length,
            };
            vectors.append(&mut self.run(&part, run)?);
        }
        Ok(vectors)
    }

    /// What a user should be told about the limit, once.
    pub(crate) fn warning(&self) -> Option<String> {
        let tokens = self.tokens.load(Ordering::Relaxed);
        (tokens < usize::MAX && !self.told.swap(true, Ordering::Relaxed)).then(|| {
            format!(
                "a batch did not fit into the device's memory; batches are now at most {tokens} tokens \
                 (--batch-tokens {tokens} spares the attempt)"
            )
        })
    }
}

fn alone(engine: &'static str, reason: &str, length: usize) -> Error {
    Error::Engine {
        engine,
        reason: format!(
            "the device's memory does not hold a single record of {length} tokens ({reason}); \
             --max-length cuts records, --provider cpu uses the processor's memory"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rows: u32) -> Plan {
        Plan {
            rows: (0..rows).collect(),
            length: 10,
        }
    }

    /// A device that holds `most` tokens: a row's vector is its number.
    fn device(most: usize, sizes: &mut Vec<usize>) -> impl FnMut(&Plan) -> Result<Vec<f32>> {
        move |plan| {
            let tokens = plan.rows.len() * plan.length;
            sizes.push(plan.rows.len());
            if tokens > most {
                return Err(Error::OutOfMemory {
                    engine: "fake",
                    reason: format!("no room for {tokens} tokens"),
                });
            }
            Ok(plan.rows.iter().map(|&row| row as f32).collect())
        }
    }

    #[test]
    fn halves_come_back_in_order_and_the_limit_stays() {
        let limit = TokenLimit::default();
        let mut sizes = Vec::new();
        let expected: Vec<f32> = (0..37).map(|row| row as f32).collect();
        let vectors = limit.run(&plan(37), &mut device(95, &mut sizes)).unwrap();
        assert_eq!(vectors, expected);
        // 37 and 18 rows fail; nine fit.
        assert_eq!(sizes, [37, 18, 9, 9, 9, 9, 1]);
        let warning = limit.warning().unwrap();
        assert!(warning.contains("at most 90 tokens"), "{warning}");
        assert_eq!(limit.warning(), None);
        // The next batch is cut before it is tried.
        sizes.clear();
        let vectors = limit.run(&plan(20), &mut device(95, &mut sizes)).unwrap();
        assert_eq!(vectors, expected[..20]);
        assert_eq!(sizes, [9, 9, 2]);
    }

    #[test]
    fn what_fits_is_run_once_and_says_nothing() {
        let limit = TokenLimit::default();
        let mut sizes = Vec::new();
        limit.run(&plan(8), &mut device(80, &mut sizes)).unwrap();
        assert_eq!((sizes, limit.warning()), (vec![8], None));
    }

    #[test]
    fn a_single_row_that_is_too_large_is_an_error_with_remedies() {
        let limit = TokenLimit::default();
        let mut sizes = Vec::new();
        let error = limit.run(&plan(4), &mut device(9, &mut sizes)).unwrap_err();
        let text = error.to_string();
        for part in ["10 tokens", "--max-length", "no room"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(sizes, [4, 2, 1]);
    }

    #[test]
    fn other_failures_are_not_retried() {
        let limit = TokenLimit::default();
        let mut runs = 0;
        let result = limit.run(&plan(4), &mut |_| {
            runs += 1;
            Err(Error::Internal("broken".into()))
        });
        assert!(matches!(result, Err(Error::Internal(_))));
        assert_eq!((runs, limit.warning()), (1, None));
    }
}

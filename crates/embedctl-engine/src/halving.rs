//! Memory that runs out: the batch is halved and run again, and the limit kept for the rest of the run.
//!
//! The native engine knows how much memory a batch needs and checks it first. Other libraries and devices do not tell,
//! and may serve other programs as well. So the limit is learnt from the first failure, for all workers of a run.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use embedctl_common::error::{Cause, Error, ErrorKind, Result};
use embedctl_common::setting::{BATCH_TOKENS, MAX_LENGTH};
use embedctl_rows::batch::BatchPlan;
use embedctl_vectors::{RowVectors, is_finite};

/// The results of a plan's rows.
#[derive(Debug, Default)]
pub struct Finished {
    /// Indices into the window, in any order, without the failed ones.
    pub rows: Vec<u32>,
    /// Their vectors.
    pub vectors: RowVectors,
    /// Those of `rows` that overflowed in fp16 and were computed in bf16.
    pub overflowed: Vec<u32>,
    /// Rows without a vector (those that don't fit into memory even alone, for one), and why.
    pub failed: Vec<(u32, Cause)>,
    /// A warning to show once.
    pub warning: Option<String>,
}

impl Finished {
    /// Takes all rows of `other`.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.rows.append(&mut other.rows);
        self.vectors.append(other.vectors);
        self.overflowed.append(&mut other.overflowed);
        self.failed.append(&mut other.failed);
    }

    /// Takes out the rows whose vectors hold NaN or infinity, and returns them.
    pub(crate) fn take_not_finite(&mut self) -> Vec<u32> {
        if self.vectors.values().all(is_finite) {
            return Vec::new();
        }
        let mut odd = Vec::new();
        let none = self.vectors.same();
        let vectors = mem::replace(&mut self.vectors, none);
        for (row, vector) in mem::take(&mut self.rows).into_iter().zip(vectors.iter()) {
            if vector.values().all(is_finite) {
                self.rows.push(row);
                self.vectors.push(vector);
            } else {
                odd.push(row);
            }
        }
        odd
    }
}

/// Tokens that a batch may hold; shared by the workers of a run.
#[derive(Debug)]
pub struct TokenLimit {
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
    /// Runs the rows of `plan` with `run`, in parts if they exceed the known limit or memory runs out. A single row
    /// that does not fit is left out, with the reason.
    ///
    /// # Errors
    /// The errors of `run` except exhausted memory.
    pub fn run(
        &self,
        plan: &BatchPlan,
        run: &mut dyn FnMut(&BatchPlan) -> Result<RowVectors>,
    ) -> Result<Finished> {
        let mut fitted = Finished::default();
        self.run_into(&mut fitted, plan, run)?;
        Ok(fitted)
    }

    fn run_into(
        &self,
        fitted: &mut Finished,
        plan: &BatchPlan,
        run: &mut dyn FnMut(&BatchPlan) -> Result<RowVectors>,
    ) -> Result<()> {
        let tokens = plan.rows.len() * plan.length;
        if tokens <= self.tokens.load(Ordering::Relaxed) || plan.rows.len() == 1 {
            match run(plan) {
                Ok(vectors) => {
                    fitted.rows.extend_from_slice(&plan.rows);
                    fitted.vectors.append(vectors);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                    if let [row] = plan.rows[..] {
                        fitted.failed.push((row, too_long(&error, plan.length)));
                        return Ok(());
                    }
                    // At least one row of this length, whatever other workers have learnt meanwhile.
                    let half = (plan.rows.len() / 2) * plan.length;
                    self.tokens.fetch_min(half, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
        let rows = (self.tokens.load(Ordering::Relaxed) / plan.length).max(1);
        for rows in plan.rows.chunks(rows) {
            let part = BatchPlan {
                rows: rows.to_vec(),
                length: plan.length,
            };
            self.run_into(fitted, &part, run)?;
        }
        Ok(())
    }

    /// A warning about the limit, given once.
    pub fn warning(&self) -> Option<String> {
        let tokens = self.tokens.load(Ordering::Relaxed);
        (tokens < usize::MAX && !self.told.swap(true, Ordering::Relaxed)).then(|| {
            format!(
                "a batch did not fit into memory; batches are now at most {tokens} tokens \
                 ({BATCH_TOKENS} {tokens} spares the attempt)"
            )
        })
    }
}

fn too_long(error: &Error, length: usize) -> Cause {
    let reason = error.reason();
    let cause = Cause::of(format!(
        "a record of {length} tokens does not fit into memory even alone ({reason})"
    ));
    let others = error.remedy().map(|remedy| format!("; or {remedy}"));
    cause.with(format!(
        "{MAX_LENGTH} cuts records{}",
        others.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rows: u32) -> BatchPlan {
        BatchPlan {
            rows: (0..rows).collect(),
            length: 10,
        }
    }

    /// A device that holds `most` tokens: a row's vector is its number.
    fn device(most: usize, sizes: &mut Vec<usize>) -> impl FnMut(&BatchPlan) -> Result<RowVectors> {
        move |plan| {
            let tokens = plan.rows.len() * plan.length;
            sizes.push(plan.rows.len());
            if tokens > most {
                let reason = format!("no room for {tokens} tokens");
                return Err(Error::new(ErrorKind::OutOfMemory, "fake", reason));
            }
            let values = plan.rows.iter().map(|&row| row as f32);
            Ok(RowVectors::in_full(1, values.collect()))
        }
    }

    #[test]
    fn halves_come_back_in_order_and_the_limit_stays() {
        let limit = TokenLimit::default();
        let mut sizes = Vec::new();
        let expected: Vec<f32> = (0..37).map(|row| row as f32).collect();
        let fitted = limit.run(&plan(37), &mut device(95, &mut sizes)).unwrap();
        assert_eq!(fitted.vectors.parts()[0].values(), expected);
        assert_eq!(fitted.failed, vec![]);
        assert_eq!(fitted.rows, plan(37).rows);
        // 37 and 18 rows fail; nine fit.
        assert_eq!(sizes, [37, 18, 9, 9, 9, 9, 1]);
        let warning = limit.warning().unwrap();
        assert!(warning.contains("at most 90 tokens"), "{warning}");
        assert_eq!(limit.warning(), None);
        // The next batch is cut before it is tried.
        sizes.clear();
        let fitted = limit.run(&plan(20), &mut device(95, &mut sizes)).unwrap();
        assert_eq!(fitted.vectors.parts()[0].values(), &expected[..20]);
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
    fn rows_that_are_too_large_alone_fail_by_themselves_with_remedies() {
        let limit = TokenLimit::default();
        let mut sizes = Vec::new();
        let fitted = limit.run(&plan(3), &mut device(9, &mut sizes)).unwrap();
        assert!(fitted.rows.is_empty() && fitted.vectors.is_empty());
        assert_eq!(fitted.failed.len(), 3);
        for (number, (row, cause)) in (0..).zip(&fitted.failed) {
            assert_eq!(*row, number);
            let said = cause.to_string();
            for part in ["10 tokens", "--max-length", "no room"] {
                assert!(said.contains(part), "{part}: {said}");
            }
        }
        assert_eq!(sizes, [3, 1, 1, 1]);
    }

    #[test]
    fn other_failures_are_not_retried() {
        let limit = TokenLimit::default();
        let mut runs = 0;
        let result = limit.run(&plan(4), &mut |_| {
            runs += 1;
            Err(Error::internal("broken"))
        });
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Internal);
        assert_eq!((runs, limit.warning()), (1, None));
    }
}

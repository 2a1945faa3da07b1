//! A model's plans, made as they are needed and shared by all workers.
//!
//! What is fast and what is possible differ. One plan for eight rows of any length serves all short texts at
//! 5 % below the speed of a plan made for their very shape, and takes a tenth of a second to make; rows of
//! any number *and* any length fail on common exports. So a model is tried with eight rows of any length,
//! then with one, and where neither runs with fixed lengths, whose plans come and go.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tract_onnx::prelude::TractResult;
use tract_onnx::tract_hir::internal::anyhow;

use super::shapes::{LONG, ROWS, Shape, bucket, waste};
use super::source::{Kind, Runnable, Source, copy_rows};
use crate::batch::Batch;
use crate::engine::BatchLimits;
use crate::engine::feeds::{Feed, Feeds, Tokens};

/// Tokens wasted on repeated rows after which a plan for a single row is worth the time it takes.
const WORTH_A_PLAN: usize = 1000;

/// Plans for fixed lengths that are kept; each has its own packed copy of the weights.
const KEPT: usize = 3;

/// Lengths that a plan for any length is tried with: some graphs plan well and fail when they run, and two
/// lengths find those that froze one.
const TRIED: [usize; 2] = [2, 3];

/// A model's plans.
pub(super) struct Plans {
    source: Source,
    strategy: Strategy,
    /// Whether the graph sees the mask; without, a row cannot be padded.
    masked: bool,
    max_length: usize,
}

enum Strategy {
    /// Rows as many as a plan has, any length.
    AnyLength {
        /// For [`ROWS`] rows, where the graph takes so many.
        many: Option<Runnable>,
        /// For a single row, made once it pays.
        single: Mutex<Option<Runnable>>,
        wasted: AtomicUsize,
    },
    /// Plans for lengths as they come, the most recently used last.
    Fixed {
        rows: usize,
        plans: Mutex<Vec<(Shape, Runnable)>>,
    },
}

impl Plans {
    /// Reads the graph and finds a way to plan it, by trying. `max_length` is how long the model's files say
    /// a row may be.
    pub fn open(path: &Path, feeds: Feeds, max_length: usize) -> TractResult<Self> {
        let rows = feeds.max_rows.unwrap_or(ROWS).min(ROWS);
        let length = bucket(4, max_length);
        let mut kinds = vec![
            Kind::AnyLength { rows },
            Kind::AnyLength { rows: 1 },
            Kind::Fixed(Shape { rows, length }),
            Kind::Fixed(Shape { rows: 1, length }),
        ];
        kinds.dedup();
        Self::first_of(&kinds, Source::read(path, feeds)?, max_length)
    }

    /// The first of `kinds` that the graph runs with.
    pub(super) fn first_of(kinds: &[Kind], source: Source, max_length: usize) -> TractResult<Self> {
        let mut reason = None;
        for &kind in kinds {
            match tried(&source, kind) {
                Ok(plan) => {
                    let is_mask = |feed: &Feed| matches!(feed, Feed::Tokens(Tokens::Mask, _));
                    let masked = source.feeds.inputs.iter().any(|input| is_mask(&input.feed));
                    return Ok(Self {
                        source,
                        strategy: Strategy::new(kind, plan),
                        masked,
                        max_length,
                    });
                }
                Err(error) => reason = reason.or(Some(error)),
            }
        }
        // The others mostly fail for the same reason, or for one that follows from their shape.
        Err(reason.unwrap_or_else(|| anyhow!("there is no way to plan it")))
    }

    /// Whether one plan serves many rows of any length.
    #[cfg(test)]
    pub(super) fn takes_many_of_any_length(&self) -> bool {
        matches!(self.strategy, Strategy::AnyLength { many: Some(_), .. })
    }

    /// What the graph is fed with.
    pub fn feeds(&self) -> &Feeds {
        &self.source.feeds
    }

    /// Batches that fill plans.
    pub fn limits(&self) -> BatchLimits {
        let rows = match &self.strategy {
            Strategy::AnyLength { many: None, .. } => 1,
            Strategy::AnyLength { .. } => ROWS,
            Strategy::Fixed { rows, .. } => *rows,
        };
        BatchLimits {
            tokens: rows * LONG,
            rows,
        }
    }

    /// The shape in which the next of `rows` rows of `length` tokens should run.
    pub fn shape(&self, rows: usize, length: usize) -> Shape {
        match &self.strategy {
            Strategy::AnyLength { many, wasted, .. } => {
                let alone = many.is_none() || length > LONG || {
                    let waste = waste(rows, length);
                    waste > 0 && wasted.fetch_add(waste, Ordering::Relaxed) > WORTH_A_PLAN
                };
                let rows = if alone { 1 } else { ROWS };
                Shape { rows, length }
            }
            Strategy::Fixed { rows, .. } if self.masked => Shape {
                rows: *rows,
                length: bucket(length, self.max_length),
            },
            Strategy::Fixed { rows, .. } => Shape {
                rows: *rows,
                length,
            },
        }
    }

    /// Runs `part`; appends the states of its first `rows` rows and `length` tokens (or its first finished
    /// rows) to `out` and returns their width.
    pub fn run(
        &self,
        part: &Batch,
        rows: usize,
        length: usize,
        out: &mut Vec<f32>,
    ) -> TractResult<usize> {
        let shape = Shape {
            rows: part.rows,
            length: part.length,
        };
        let (output, width) = self.source.run(&self.plan(shape)?, part)?;
        let (stride, kept) = match output.rank() {
            3 => (part.length * width, length * width),
            _ => (width, width),
        };
        copy_rows(&output, rows, stride, kept, out)?;
        Ok(width)
    }

    /// The plan for a shape, made if it has not been.
    fn plan(&self, shape: Shape) -> TractResult<Runnable> {
        match &self.strategy {
            Strategy::AnyLength {
                many: Some(plan), ..
            } if shape.rows > 1 => Ok(Arc::clone(plan)),
            Strategy::AnyLength { single, .. } => {
                let mut single = single.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(plan) = &*single {
                    return Ok(Arc::clone(plan));
                }
                let plan = self.source.plan(Kind::AnyLength { rows: 1 })?;
                Ok(Arc::clone(single.insert(plan)))
            }
            Strategy::Fixed { plans, .. } => {
                let mut plans = plans.lock().unwrap_or_else(PoisonError::into_inner);
                let entry = match plans.iter().position(|(kept, _)| *kept == shape) {
                    Some(index) => plans.remove(index),
                    None => (shape, self.source.plan(Kind::Fixed(shape))?),
                };
                let plan = Arc::clone(&entry.1);
                plans.push(entry);
                if plans.len() > KEPT {
                    plans.remove(0);
                }
                Ok(plan)
            }
        }
    }
}

impl Strategy {
    fn new(kind: Kind, plan: Runnable) -> Self {
        match kind {
            Kind::AnyLength { rows } => {
                let (many, single) = if rows > 1 {
                    (Some(plan), None)
                } else {
                    (None, Some(plan))
                };
                Self::AnyLength {
                    many,
                    single: Mutex::new(single),
                    wasted: AtomicUsize::new(0),
                }
            }
            Kind::Fixed(shape) => Self::Fixed {
                rows: shape.rows,
                plans: Mutex::new(vec![(shape, plan)]),
            },
        }
    }
}

/// Makes a plan and runs it.
fn tried(source: &Source, kind: Kind) -> TractResult<Runnable> {
    let plan = source.plan(kind)?;
    let shapes = match kind {
        Kind::AnyLength { rows } => TRIED.map(|length| Shape { rows, length }),
        Kind::Fixed(shape) => [shape; 2],
    };
    for shape in shapes {
        let tokens = shape.rows * shape.length;
        let batch = Batch {
            rows: shape.rows,
            length: shape.length,
            input_ids: vec![0; tokens],
            attention_mask: vec![1; tokens],
        };
        source.run(&plan, &batch)?;
    }
    Ok(plan)
}

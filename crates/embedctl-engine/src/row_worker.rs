//! One thread's work from a batch plan to finished rows: the engine's worker, pooling, and rows that have no vector.

use std::ops::Range;
use std::sync::Arc;

use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::setting::{MODEL_FILE, PROVIDER};
use embedctl_common::stage::{Clocks, Watch};
use embedctl_model::Model;
use embedctl_rows::Frame;
use embedctl_rows::batch::{Batch, BatchPlan, TokenRows};
use embedctl_rows::pool::Pooler;
use embedctl_rows::tokenize::chunks::SharedRows;
use embedctl_vectors::{Numbers, RowVectors};

use crate::halving::{Finished, TokenLimit};
use crate::{Engine, Output, Worker};

/// Why a row has no vector; `again` says how it ran the second time.
fn not_finite(again: &str) -> Cause {
    let reason = format!("the model gives NaN or infinity for this text, also {again}");
    Cause::of(reason).with(format!(
        "try another export of the model ({MODEL_FILE}) or another engine ({PROVIDER})"
    ))
}

/// The same, of a text without any token.
#[must_use]
pub fn not_finite_empty() -> Cause {
    Cause::of(
        "this text has no token under the model's tokenizer, and the modules after pooling make NaN or infinity of \
         that",
    )
    .with("get the weights of these modules again: they are damaged")
}

/// Rows to run.
#[derive(Debug, Clone, Copy)]
pub struct RowsToRun<'a> {
    /// Their tokens.
    pub tokens: &'a TokenRows,
    /// The parts of each row that get a vector of their own (late chunking); `None`: each row gets one.
    pub shared: Option<&'a SharedRows>,
}

impl RowsToRun<'_> {
    /// The plan of a batch of these rows.
    fn plan(&self, rows: Vec<u32>) -> BatchPlan {
        let lengths = rows.iter().map(|&row| self.tokens.get(row as usize).len());
        BatchPlan {
            length: lengths.max().unwrap_or_default(),
            rows,
        }
    }
}

impl<'a> From<&'a TokenRows> for RowsToRun<'a> {
    /// Rows with one vector each.
    fn from(tokens: &'a TokenRows) -> Self {
        Self {
            tokens,
            shared: None,
        }
    }
}

/// One thread's work from a batch plan to finished rows.
pub struct RowWorker {
    worker: FittingWorker,
    /// [`Worker::in_bf16`], once a row has overflowed.
    in_bf16: Option<FittingWorker>,
    finisher: RowFinisher,
}

impl RowWorker {
    /// A worker of `engine` for one thread of a run.
    ///
    /// # Errors
    /// If the engine cannot make one.
    pub fn new(
        engine: &dyn Engine,
        model: &Model,
        pooler: &Arc<Pooler>,
        limit: &Arc<TokenLimit>,
        clocks: &Arc<Clocks>,
    ) -> Result<Self> {
        Ok(Self {
            worker: FittingWorker {
                worker: engine.worker()?,
                limit: Arc::clone(limit),
            },
            in_bf16: None,
            finisher: RowFinisher {
                pooler: Arc::clone(pooler),
                model: model
                    .weights_file(engine.info().provider.weights_of(model))
                    .map_or_else(|| model.id.clone(), |file| file.display().to_string()),
                frame: model.config.frame.clone(),
                batch: Batch::default(),
                clocks: Arc::clone(clocks),
            },
        })
    }

    /// Runs one plan. A row without a finite vector is run again before it is given up: in bf16 where it may have
    /// overflowed in fp16 ([`Worker::in_bf16`]), else alone.
    ///
    /// # Errors
    /// If the engine fails, or has no memory for bf16 beside fp16.
    pub fn run<'a>(
        &mut self,
        plan: &BatchPlan,
        rows: impl Into<RowsToRun<'a>>,
    ) -> Result<Finished> {
        let rows = rows.into();
        let mut finished = self.worker.run(plan, rows, &mut self.finisher)?;
        finished.warning = self.worker.limit.warning();
        let mut watch = Watch::start();
        let odd = finished.take_not_finite();
        watch.lap(&self.finisher.clocks.pool);
        if !odd.is_empty() {
            finished.append(self.run_again(odd, plan, rows)?);
        }
        Ok(finished)
    }

    /// Runs these rows of a plan again, whose vectors were not finite.
    fn run_again(
        &mut self,
        odd: Vec<u32>,
        plan: &BatchPlan,
        rows: RowsToRun<'_>,
    ) -> Result<Finished> {
        if self.in_bf16.is_none() {
            let worker = self.worker.worker.in_bf16()?;
            self.in_bf16 = worker.map(FittingWorker::of);
        }
        let finisher = &mut self.finisher;
        // A row that has overflowed in fp16 would do so alone, too.
        if let Some(worker) = &mut self.in_bf16 {
            let mut again = worker.run(&rows.plan(odd), rows, finisher)?;
            again.fail_not_finite("in bf16");
            again.overflowed.clone_from(&again.rows);
            return Ok(again);
        }
        let mut again = Finished::default();
        for row in odd {
            match plan.rows.len() {
                1 => again.failed.push((row, not_finite(ALONE))),
                _ => again.append(self.worker.run(&rows.plan(vec![row]), rows, finisher)?),
            }
        }
        again.fail_not_finite(ALONE);
        Ok(again)
    }
}

/// How a row ran that has no neighbour.
const ALONE: &str = "when it runs alone";

impl Finished {
    /// Gives up the rows whose vectors are not finite; `again` says how they ran the second time.
    fn fail_not_finite(&mut self, again: &str) {
        let odd = self.take_not_finite().into_iter();
        self.failed.extend(odd.map(|row| (row, not_finite(again))));
    }
}

/// A worker of an engine, and the tokens that fit into its memory.
struct FittingWorker {
    worker: Box<dyn Worker>,
    limit: Arc<TokenLimit>,
}

impl FittingWorker {
    /// A worker whose limit is not known yet.
    fn of(worker: Box<dyn Worker>) -> Self {
        let limit = Arc::default();
        Self { worker, limit }
    }

    /// The vectors of a plan's rows, in parts where they don't fit into memory together.
    fn run(
        &mut self,
        plan: &BatchPlan,
        run: RowsToRun<'_>,
        finisher: &mut RowFinisher,
    ) -> Result<Finished> {
        let Self { worker, limit } = self;
        let mut fitted = limit.run(plan, &mut |part| {
            finisher.vectors(worker.as_mut(), part, run)
        })?;
        // A row that did not fit with the padding of its batch may fit alone.
        for (row, cause) in std::mem::take(&mut fitted.failed) {
            let alone = run.plan(vec![row]);
            if alone.length == plan.length {
                fitted.failed.push((row, cause));
                continue;
            }
            fitted.append(self.run(&alone, run, finisher)?);
        }
        Ok(fitted)
    }
}

/// Makes finished rows of a worker's output.
struct RowFinisher {
    pooler: Arc<Pooler>,
    model: String,
    frame: Frame,
    batch: Batch,
    clocks: Arc<Clocks>,
}

impl RowFinisher {
    /// The vectors of a plan's rows by `worker`; of rows that chunks share, those of their chunks.
    fn vectors(
        &mut self,
        worker: &mut dyn Worker,
        plan: &BatchPlan,
        run: RowsToRun<'_>,
    ) -> Result<RowVectors> {
        let mut watch = Watch::start();
        self.batch.fill(plan, run.tokens, &self.frame);
        let rows = self.batch.rows();
        let mut vectors = match run.shared {
            Some(_) => self.pooler.no_rows_of_parts(),
            None => self.pooler.no_rows(),
        };
        vectors.reserve(rows);
        watch.lap(&self.clocks.pool);
        let output = worker.run(&self.batch)?;
        watch.lap(&self.clocks.infer);
        check_output(&output, &self.batch, &self.pooler, &self.model)?;
        if let Some(shared) = run.shared {
            for (row, &number) in plan.rows.iter().enumerate() {
                let parts = shared.parts(number as usize);
                let states = states(&output, &self.batch, row)?;
                (self.pooler).add_parts(states, output.width(), parts, &mut vectors);
            }
        } else {
            finish_rows(&output, &self.batch, 0..rows, &self.pooler, &mut vectors);
        }
        watch.lap(&self.clocks.pool);
        Ok(vectors)
    }
}

/// Checks that `batch` came back with the widths that the modules after the network take. `model` is for the message.
///
/// # Errors
/// If its rows are narrower or wider than the model's files say.
pub(crate) fn check_output(
    output: &Output<'_>,
    batch: &Batch,
    pooler: &Pooler,
    model: &str,
) -> Result<()> {
    let (width, values) = (output.width(), output.values());
    let (states, pooled) = (pooler.accepts(width), pooler.accepts_pooled(width));
    let is_right = match output {
        Output::Pooled { .. } => pooled,
        Output::Entries { width, .. } => *width == pooler.width(),
        Output::Tokens { .. } | Output::Padded { .. } => states,
    };
    if is_right && output.fits(batch) {
        return Ok(());
    }
    let rows = batch.rows();
    Err(match states || pooled {
        true => Error::internal(format!(
            "a batch of {rows} rows came back as {values} values of width {width}"
        )),
        false => Error::model(
            model,
            format!(
                "gives vectors of {width} components, which contradicts config.json, modules.json and the modules' \
                 files"
            ),
        )
        .with_remedy("fetch them again, from one revision"),
    })
}

/// The states of a row's tokens, `[tokens, width]`.
fn states<'o>(output: &'o Output<'_>, batch: &Batch, row: usize) -> Result<&'o [f32]> {
    match output {
        Output::Tokens { .. } | Output::Padded { .. } => Ok(output.row(batch, row)),
        Output::Pooled { .. } | Output::Entries { .. } => Err(Error::internal(
            "an engine has pooled rows whose chunks are to be pooled",
        )),
    }
}

/// Pools one row of a checked output of dense vectors; appends the pooled vector to `out`.
fn pool_row(output: &Output<'_>, batch: &Batch, row: usize, pooler: &Pooler, out: &mut Vec<f32>) {
    let own = output.row(batch, row);
    match output {
        Output::Pooled { .. } | Output::Entries { .. } => out.extend_from_slice(own),
        Output::Tokens { .. } | Output::Padded { .. } => {
            pooler.pool(own, output.width(), batch.row(row), out);
        }
    }
}

/// Pools and finishes these rows of a checked output; appends them to `out`.
pub(crate) fn finish_rows(
    output: &Output<'_>,
    batch: &Batch,
    rows: Range<usize>,
    pooler: &Pooler,
    out: &mut RowVectors,
) {
    for (pooler, out) in pooler.kinds().iter().zip(out.parts_mut()) {
        if out.row_len().is_none() {
            rows.clone()
                .for_each(|row| finish_row(output, batch, row, pooler, out));
            continue;
        }
        let (count, mut pooled) = (rows.len(), Vec::new());
        rows.clone()
            .for_each(|row| pool_row(output, batch, row, pooler, &mut pooled));
        pooler.finish_rows(pooled, count, out.values_mut());
    }
}

/// Pools and finishes one row of a checked output; appends its numbers of the pooler's kind to `out`.
fn finish_row(output: &Output<'_>, batch: &Batch, row: usize, pooler: &Pooler, out: &mut Numbers) {
    let own = output.row(batch, row);
    match output {
        Output::Pooled { .. } => pooler.add_pooled(own, out),
        Output::Entries { rows, .. } => pooler.add_entries(rows.get(row), out),
        Output::Tokens { .. } | Output::Padded { .. } => {
            let ids = (batch.row(row), batch.seen(row));
            pooler.add_states(own, output.width(), ids, out);
        }
    }
}

//! Plans for shapes, and the weights that they share.
//!
//! What is fast and what is possible differ (measured on MiniLM, 16 tokens, one thread): 8 rows fixed
//! with a symbolic length give 6,140 tokens/s from a single plan; a single row 4,420; both symbolic fail
//! on common exports. Decoders run with the length fixed only. So a model is tried with 8 rows and any
//! length first, then with fixed lengths, which are made as they are asked for.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use half::f16;
use tract_onnx::prelude::{
    DatumType, Framework, InferenceFact, InferenceModel, InferenceModelExt, IntoRunnable,
    IntoTValue, TDim, TValue, TVec, Tensor, ToDim, TractResult, TypedRunnableModel, tvec,
};
use tract_onnx::tract_hir::internal::{anyhow, bail};

use crate::batch::Batch;
use crate::engine::BatchLimits;
use crate::engine::feeds::{Feed, Feeds, PastDim, PastElement, Tokens, Width};

type Runnable = Arc<TypedRunnableModel>;

/// Rows that a plan for many rows has.
const ROWS: usize = 8;

/// Rows longer than this run alone: attention over eight of them would not fit any cache.
const LONG: usize = 512;

/// Tokens wasted on repeated rows after which a plan for a single row is worth the time to make it.
const WASTE: usize = 1500;

/// Plans for fixed lengths that are kept; each has its own copy of the weights.
const KEPT: usize = 3;

/// The shape of a plan's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shapes {
    pub rows: usize,
    pub length: usize,
}

/// Which dimension of a plan is symbolic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// So many rows, any length.
    AnyLength { rows: usize },
    /// Both fixed.
    Fixed(Shapes),
}

/// A model's plans, shared by all workers.
pub(super) struct Plans {
    feeds: Feeds,
    model: InferenceModel,
    strategy: Strategy,
    wasted: AtomicUsize,
    max_length: usize,
}

enum Strategy {
    /// One plan for [`ROWS`] rows, one for a single row once it pays.
    AnyLength {
        many: Option<Runnable>,
        single: Mutex<Option<Runnable>>,
    },
    /// Plans for lengths as they come, the most recently used last.
    Fixed {
        rows: usize,
        plans: Mutex<Vec<(Shapes, Runnable)>>,
    },
}

impl Plans {
    /// Parses the graph and finds a way to plan it, by trying. No row will be longer than `max_length`
    /// tokens.
    pub fn open(path: &Path, feeds: Feeds, max_length: usize) -> TractResult<Self> {
        let mut model = tract_onnx::onnx()
            // Shapes stored with symbols of other names clash with the ones given below.
            .with_ignore_output_shapes(true)
            .with_ignore_value_info(true)
            .model_for_path(path)?;
        model.select_outputs_by_name([feeds.output.name()])?;
        let most = feeds.max_rows.unwrap_or(ROWS).min(ROWS);
        let mut plans = Self {
            feeds,
            model,
            strategy: Strategy::Fixed {
                rows: most,
                plans: Mutex::default(),
            },
            wasted: AtomicUsize::new(0),
            max_length,
        };
        let tried = plans.make(Kind::AnyLength { rows: most }).and_then(|plan| {
            // Some graphs plan well and fail when they run; two lengths find those that froze one.
            for length in [3, 5] {
                plans.try_out(&plan, Shapes { rows: most, length })?;
            }
            Ok(plan)
        });
        match tried {
            Ok(plan) => {
                let (many, single) = if most == 1 {
                    (None, Some(plan))
                } else {
                    (Some(plan), None)
                };
                plans.strategy = Strategy::AnyLength {
                    many,
                    single: Mutex::new(single),
                };
            }
            Err(error) => {
                let shapes = Shapes {
                    rows: most,
                    length: bucket(4, max_length),
                };
                let plan = plans
                    .make(Kind::Fixed(shapes))
                    .and_then(|plan| plans.try_out(&plan, shapes).map(|()| plan))
                    .map_err(|fixed| anyhow!("{fixed:#} (with any length: {error:#})"))?;
                plans.strategy = Strategy::Fixed {
                    rows: most,
                    plans: Mutex::new(vec![(shapes, plan)]),
                };
            }
        }
        Ok(plans)
    }

    pub fn feeds(&self) -> &Feeds {
        &self.feeds
    }

    /// A token id for positions that are masked: any valid one will do.
    pub fn padding(&self) -> i64 {
        0
    }

    /// Batches that fill plans: as many rows as they have, longer texts alone.
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
    pub fn shapes(&self, rows: usize, length: usize) -> Shapes {
        match &self.strategy {
            Strategy::AnyLength { many: None, .. } => Shapes { rows: 1, length },
            Strategy::AnyLength { .. } if length > LONG => Shapes { rows: 1, length },
            Strategy::AnyLength { .. } if rows < ROWS => {
                let waste = self
                    .wasted
                    .fetch_add((ROWS - rows) * length, Ordering::Relaxed);
                // A row alone costs half as much again as one of eight.
                if rows * 3 <= ROWS * 2 && waste > WASTE {
                    Shapes { rows: 1, length }
                } else {
                    Shapes { rows: ROWS, length }
                }
            }
            Strategy::AnyLength { .. } => Shapes { rows: ROWS, length },
            Strategy::Fixed { rows, .. } => Shapes {
                rows: *rows,
                length: bucket(length, self.max_length),
            },
        }
    }

    /// Runs `part`, made for `shapes`; appends the states of its first `rows` rows and `length` tokens to
    /// `out` and returns their width.
    pub fn run(
        &self,
        part: &Batch,
        shapes: Shapes,
        rows: usize,
        length: usize,
        out: &mut Vec<f32>,
    ) -> TractResult<usize> {
        let plan = self.plan(shapes)?;
        let outputs = plan.run(self.inputs(part)?)?;
        let output = outputs
            .first()
            .ok_or_else(|| anyhow!("the graph gave no output"))?;
        let width = self
            .feeds
            .width(output.shape(), part)
            .map_err(|reason| anyhow!(reason))?;
        let tokens = output.shape().len() == 3;
        let (stride, kept) = if tokens {
            (part.length * width, length * width)
        } else {
            (width, width)
        };
        match output.datum_type() {
            DatumType::F32 => {
                let values = output.try_as_plain_ram()?;
                let values = values.as_slice::<f32>()?;
                values
                    .chunks_exact(stride)
                    .take(rows)
                    .for_each(|row| out.extend_from_slice(&row[..kept]));
            }
            DatumType::F16 => {
                let values = output.try_as_plain_ram()?;
                let values = values.as_slice::<f16>()?;
                for row in values.chunks_exact(stride).take(rows) {
                    out.extend(row[..kept].iter().map(|value| value.to_f32()));
                }
            }
            other => bail!("the graph's output holds {other:?}"),
        }
        Ok(width)
    }

    /// The plan for a shape, made if it has not been.
    fn plan(&self, shapes: Shapes) -> TractResult<Runnable> {
        match &self.strategy {
            Strategy::AnyLength {
                many: Some(plan), ..
            } if shapes.rows > 1 => Ok(Arc::clone(plan)),
            Strategy::AnyLength { single, .. } => {
                let mut single = single.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(plan) = &*single {
                    return Ok(Arc::clone(plan));
                }
                let plan = self.make(Kind::AnyLength { rows: 1 })?;
                Ok(Arc::clone(single.insert(plan)))
            }
            Strategy::Fixed { plans, .. } => {
                let mut plans = plans.lock().unwrap_or_else(PoisonError::into_inner);
                let found = plans.iter().position(|(kept, _)| *kept == shapes);
                let entry = match found {
                    Some(index) => plans.remove(index),
                    None => (shapes, self.make(Kind::Fixed(shapes))?),
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

    /// Makes a plan.
    fn make(&self, kind: Kind) -> TractResult<Runnable> {
        let mut model = self.model.clone();
        let (rows, length) = match kind {
            Kind::AnyLength { rows } => (rows.to_dim(), TDim::from(model.symbols.sym("length"))),
            Kind::Fixed(shapes) => (shapes.rows.to_dim(), shapes.length.to_dim()),
        };
        for index in 0..model.inputs.len() {
            let name = model.node(model.inputs[index].node).name.clone();
            let fact = match self.feed(&name)? {
                Feed::Tokens(_, Width::I64) => {
                    fact(DatumType::I64, &[rows.clone(), length.clone()])
                }
                Feed::Tokens(_, Width::I32) => {
                    fact(DatumType::I32, &[rows.clone(), length.clone()])
                }
                Feed::NoCache => fact(DatumType::Bool, &[1.to_dim()]),
                Feed::Past(dims, element) => {
                    let dims: Vec<TDim> = dims
                        .iter()
                        .map(|dim| match dim {
                            PastDim::Rows => rows.clone(),
                            other => other.size(0).to_dim(),
                        })
                        .collect();
                    fact(past_type(*element), &dims)
                }
            };
            model.set_input_fact(index, fact)?;
        }
        model.into_optimized()?.into_runnable()
    }

    fn feed(&self, name: &str) -> TractResult<&Feed> {
        let input = self.feeds.inputs.iter().find(|input| input.name == name);
        Ok(&input
            .ok_or_else(|| {
                anyhow!("the graph has an input '{name}' that its header does not list")
            })?
            .feed)
    }

    fn inputs(&self, batch: &Batch) -> TractResult<TVec<TValue>> {
        let mut values = tvec![];
        for outlet in &self.model.inputs {
            let shape = [batch.rows, batch.length];
            let tensor = match self.feed(&self.model.node(outlet.node).name)? {
                Feed::Tokens(tokens, Width::I64) => tensor::<i64>(*tokens, batch, &shape)?,
                Feed::Tokens(tokens, Width::I32) => tensor::<i32>(*tokens, batch, &shape)?,
                Feed::NoCache => Tensor::from_shape(&[1], &[false])?,
                Feed::Past(dims, element) => {
                    let shape: Vec<usize> = dims.iter().map(|dim| dim.size(batch.rows)).collect();
                    Tensor::zero_dt(past_type(*element), &shape)?
                }
            };
            values.push(tensor.into_tvalue());
        }
        Ok(values)
    }

    fn try_out(&self, plan: &Runnable, shapes: Shapes) -> TractResult<()> {
        let batch = Batch {
            rows: shapes.rows,
            length: shapes.length,
            input_ids: vec![0; shapes.rows * shapes.length],
            attention_mask: vec![1; shapes.rows * shapes.length],
        };
        let outputs = plan.run(self.inputs(&batch)?)?;
        let shape = outputs
            .first()
            .map(|output| output.shape().to_vec())
            .unwrap_or_default();
        self.feeds
            .width(&shape, &batch)
            .map(|_| ())
            .map_err(|reason| anyhow!(reason))
    }
}

/// The fixed length under which rows of `length` tokens run; never beyond the model's positions.
fn bucket(length: usize, max_length: usize) -> usize {
    let bucket = match length {
        0..=64 => length.next_multiple_of(16),
        65..=256 => length.next_multiple_of(64),
        _ => length.next_multiple_of(256),
    };
    bucket.min(max_length).max(length)
}

fn fact(datum: DatumType, shape: &[TDim]) -> InferenceFact {
    InferenceFact::dt_shape(datum, shape)
}

fn past_type(element: PastElement) -> DatumType {
    match element {
        PastElement::F32 => DatumType::F32,
        PastElement::F16 => DatumType::F16,
    }
}

fn tensor<T>(tokens: Tokens, batch: &Batch, shape: &[usize]) -> TractResult<Tensor>
where
    T: crate::engine::feeds::TokenInt + tract_onnx::prelude::Datum,
{
    let mut values: Vec<T> = Vec::with_capacity(batch.rows * batch.length);
    tokens.fill(batch, &mut values);
    Tensor::from_shape(shape, &values)
}

//! Sessions: their options, and running a batch in one.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{bounded, select};
use half::f16;
use half::slice::HalfFloatSliceExt as _;
use ort::environment::Environment;
use ort::session::builder::{AutoDevicePolicy, GraphOptimizationLevel, SessionBuilder};
use ort::session::{HasSelectedOutputs, OutputSelector, RunOptions, Session, SessionInputValue};
use ort::value::{DynValue, Tensor, TensorRef};

use super::library::with_causes;
use super::weights::Weights;
use super::{Provider, engine_error};
use crate::batch::Batch;
use crate::cancel::CancelToken;
use crate::engine::feeds::{Feed, Feeds, PastDim, PastElement, TokenInt, Tokens, Width};
use crate::engine::{Output, Worker};
use crate::error::{Error, Result};
use crate::model::ElementType;

/// The options of a session on `provider`.
///
/// Parallelism comes from workers, so a session has one thread; batches differ in shape, so memory is not
/// planned ahead for a shape. Only providers registered here take part: the library's own choice among
/// devices is switched off.
pub(super) fn builder(
    environment: &Environment,
    provider: Provider,
) -> Result<SessionBuilder, ort::Error> {
    let builder = Session::builder(environment)?
        .with_auto_device(AutoDevicePolicy::PreferCPU)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(1)?
        .with_inter_threads(1)?
        .with_intra_op_spinning(false)?
        .with_memory_pattern(false)?;
    register(builder, provider)
}

/// Registers what runs the graph. The CPU needs no registration: it is always there.
fn register(builder: SessionBuilder, provider: Provider) -> Result<SessionBuilder, ort::Error> {
    debug_assert_eq!(provider, Provider::Cpu, "others are refused before");
    Ok(builder)
}

/// Loads the model at `path`, unless asked to stop meanwhile.
pub(super) fn load(
    mut builder: SessionBuilder,
    path: &Path,
    cancel: &CancelToken,
) -> Result<Session, ort::Error> {
    let canceler = builder.canceler();
    let (loaded, finished) = bounded::<()>(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            select! {
                recv(finished) -> _ => {}
                recv(cancel.channel()) -> _ => {
                    // Failing means that there is nothing left to stop.
                    let _ = canceler.cancel();
                }
            }
        });
        let session = builder.commit_from_file(path);
        drop(loaded);
        session
    })
}

/// One thread's session with its buffers.
pub(super) struct OrtWorker {
    // Fields are dropped in this order: the last output and the session go before the weights.
    output: Option<DynValue>,
    session: Session,
    _weights: Option<Arc<Weights>>,
    feeds: Arc<Feeds>,
    options: RunOptions<HasSelectedOutputs>,
    buffers: Vec<Buffer>,
    converted: Vec<f32>,
}

/// Memory for an input, kept from batch to batch.
enum Buffer {
    I64(Vec<i64>),
    I32(Vec<i32>),
    None,
}

impl OrtWorker {
    pub(super) fn new(
        session: Session,
        weights: Option<Arc<Weights>>,
        feeds: Arc<Feeds>,
    ) -> Result<Self, ort::Error> {
        let options =
            RunOptions::new()?.with_outputs(OutputSelector::no_default().with(feeds.output.name()));
        let buffers = feeds
            .inputs
            .iter()
            .map(|input| match input.feed {
                Feed::Tokens(_, Width::I64) => Buffer::I64(Vec::new()),
                Feed::Tokens(_, Width::I32) => Buffer::I32(Vec::new()),
                Feed::Past(..) | Feed::NoCache => Buffer::None,
            })
            .collect();
        Ok(Self {
            output: None,
            session,
            _weights: weights,
            feeds,
            options,
            buffers,
            converted: Vec::new(),
        })
    }

    fn infer(&mut self, batch: &Batch) -> Result<DynValue, ort::Error> {
        // The last output goes first, so that its memory can be used again.
        self.output = None;
        let shape = [batch.rows, batch.length];
        let mut inputs: Vec<(&str, SessionInputValue)> = Vec::with_capacity(self.buffers.len());
        for (input, buffer) in self.feeds.inputs.iter().zip(&mut self.buffers) {
            let value = match (&input.feed, buffer) {
                (Feed::Tokens(tokens, _), Buffer::I64(buffer)) => {
                    TensorRef::from_array_view((shape, filled(*tokens, batch, buffer)))?.into()
                }
                (Feed::Tokens(tokens, _), Buffer::I32(buffer)) => {
                    TensorRef::from_array_view((shape, filled(*tokens, batch, buffer)))?.into()
                }
                (Feed::Past(dims, element), _) => empty(dims, *element, batch.rows)?,
                (Feed::NoCache, _) => Tensor::from_array(([1_usize], vec![false]))?.into(),
                (Feed::Tokens(..), Buffer::None) => unreachable!("tokens have a buffer"),
            };
            inputs.push((&input.name, value));
        }
        let name = self.feeds.output.name();
        let mut outputs = self.session.run_with_options(inputs, &self.options)?;
        outputs
            .remove(name)
            .ok_or_else(|| ort::Error::new(format!("the output '{name}' is missing")))
    }
}

impl Worker for OrtWorker {
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        let output = self.infer(batch).map_err(|error| {
            engine_error(format!(
                "running a batch of {} rows of {} tokens failed: {}",
                batch.rows,
                batch.length,
                with_causes(&error)
            ))
        })?;
        let output = self.output.insert(output);
        let states = if self.feeds.element == ElementType::F16 {
            let (shape, states) = output.try_extract_tensor::<f16>().map_err(unexpected)?;
            self.converted.resize(states.len(), 0.0);
            states.convert_to_f32_slice(&mut self.converted);
            (shape, self.converted.as_slice())
        } else {
            output.try_extract_tensor::<f32>().map_err(unexpected)?
        };
        let (shape, states) = states;
        let shape: Vec<usize> = shape
            .iter()
            .map(|&size| usize::try_from(size).unwrap_or(0))
            .collect();
        let width = self.feeds.width(&shape, batch).map_err(engine_error)?;
        Ok(self.feeds.wrap(states, width))
    }
}

#[allow(clippy::needless_pass_by_value)] // for `map_err`
fn unexpected(error: ort::Error) -> Error {
    engine_error(format!(
        "the output is not of the declared type: {}",
        with_causes(&error)
    ))
}

fn filled<'a, T: TokenInt>(tokens: Tokens, batch: &Batch, buffer: &'a mut Vec<T>) -> &'a [T] {
    tokens.fill(batch, buffer);
    buffer
}

fn empty(
    dims: &[PastDim],
    element: PastElement,
    rows: usize,
) -> Result<SessionInputValue<'static>, ort::Error> {
    let shape: Vec<usize> = dims.iter().map(|dim| dim.size(rows)).collect();
    Ok(match element {
        PastElement::F32 => Tensor::<f32>::from_array((shape, Vec::new()))?.into(),
        PastElement::F16 => Tensor::<f16>::from_array((shape, Vec::new()))?.into(),
    })
}

//! A loaded graph, and running it.
//!
//! rten knows float32, int32 and 8-bit integers: other types are converted when a file is read, and inputs declared as
//! int64 or boolean are fed as int32.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rten::{Model as RtenModel, NodeId, RunOptions, ThreadPool, Value, ValueOrView};

use super::stored;
use embedctl_common::error::{Cause, Error, ErrorKind, Result};
use embedctl_engine::{Provider, ResolvedEngine};
use embedctl_model::{Graph, Model, WeightsKind};
use embedctl_native::PlainNetwork;
use embedctl_ort::built::{BuiltGraph, FloatType, GraphForm};
use embedctl_ort::feeds::{Feeds, InputFeed};
use embedctl_ort::padded::PaddedBatch;
use embedctl_rows::OutputChoice;

/// Where a graph and its weights come from.
pub(super) enum RtenSource {
    /// An ONNX file, and what it declares.
    File { path: PathBuf, declared: Graph },
    /// A checkpoint, the graph that was built from it, and what that declares.
    Built {
        network: Box<PlainNetwork>,
        graph: BuiltGraph,
        declared: Graph,
        folder: PathBuf,
    },
}

impl RtenSource {
    /// The graph that rten runs of `model`.
    pub(super) fn of(model: &Model, options: &ResolvedEngine) -> Result<Self> {
        if Provider::Rten.weights_of(model) == WeightsKind::Onnx {
            let onnx = model.onnx()?;
            return Ok(Self::File {
                path: onnx.path.clone(),
                declared: onnx.graph.clone(),
            });
        }
        let form = GraphForm::of(model, Provider::Rten, options)
            .map_err(|cause| Error::new(ErrorKind::Provider, "rten", cause))?;
        let network = PlainNetwork::open(model.network(), model.adapter())?;
        let graph = BuiltGraph::build(&network, form)?;
        let declared = Graph::of_bytes(&graph.model_in_memory())
            .ok_or_else(|| Error::internal("a graph of our own is damaged"))?;
        Ok(Self::Built {
            network: Box::new(network),
            graph,
            declared,
            folder: model.network().to_path_buf(),
        })
    }

    /// The declarations of the graph.
    pub(super) fn declared(&self) -> &Graph {
        match self {
            Self::File { declared, .. } | Self::Built { declared, .. } => declared,
        }
    }

    /// The output that is read of the graph of `model`.
    pub(super) fn output(&self, model: &Model) -> OutputChoice {
        match self {
            Self::File { .. } => model.config.output.clone(),
            Self::Built { graph, .. } => graph.output(),
        }
    }

    /// The file, or the checkpoint's folder.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File { path, .. } => path,
            Self::Built { folder, .. } => folder,
        }
    }

    /// The numbers that it computes in, if it was built.
    pub(super) fn built_in(&self) -> Option<&'static str> {
        matches!(self, Self::Built { .. }).then_some(FloatType::F32.name())
    }
}

/// A graph, its weights, and its inputs.
pub(super) struct RtenGraph {
    model: RtenModel,
    pub feeds: Feeds,
    /// The graph's inputs, in the order of the feeds.
    inputs: Vec<NodeId>,
    output: NodeId,
}

/// The threads that a run uses: a worker has one.
pub(super) struct RunThreads(RunOptions);

impl RunThreads {
    pub(super) fn one() -> Self {
        let pool = Arc::new(ThreadPool::with_num_threads(1));
        Self(RunOptions::default().with_thread_pool(Some(pool)))
    }
}

impl RtenGraph {
    /// Reads a graph and its weights.
    pub(super) fn read(source: &RtenSource, feeds: Feeds) -> Result<Self, Cause> {
        let model = match source {
            RtenSource::File { path, .. } => stored::load(path)?,
            RtenSource::Built { network, graph, .. } => {
                stored::load_built(network, graph).map_err(Error::into_cause)?
            }
        };
        let node = |name: &str| model.node_id(name).map_err(|error| error.to_string());
        let inputs = feeds.inputs.iter().map(|input| node(&input.name));
        Ok(Self {
            inputs: inputs.collect::<Result<_, _>>()?,
            output: node(feeds.output.name())?,
            model,
            feeds,
        })
    }

    /// Runs a batch; returns the output's elements and the width of a token's or row's vector.
    pub(super) fn run(
        &self,
        threads: &RunThreads,
        batch: &PaddedBatch,
    ) -> Result<(Vec<f32>, usize), String> {
        let fed = self.inputs.iter().zip(&self.feeds.inputs);
        let inputs = fed
            .map(|(&node, input)| Ok((node, value(&input.feed, batch)?)))
            .collect::<Result<_, String>>()?;
        let output = self
            .model
            .run(inputs, &[self.output], Some(threads.0.clone()))
            .map_err(|error| error.to_string())?
            .pop()
            .ok_or("the graph gave no output")?;
        let wrong = |error: rten::TryFromValueError| format!("the graph's output: {error}");
        let (shape, values) = match self.feeds.output {
            OutputChoice::Tokens(_) => {
                let (shape, values) = output.into_shape_vec::<f32, 3>().map_err(wrong)?;
                (shape.to_vec(), values)
            }
            OutputChoice::Sentence(_) => {
                let (shape, values) = output.into_shape_vec::<f32, 2>().map_err(wrong)?;
                (shape.to_vec(), values)
            }
        };
        let width = self.feeds.width(&shape, batch)?;
        Ok((values, width))
    }
}

fn value(feed: &InputFeed, batch: &PaddedBatch) -> Result<ValueOrView<'static>, String> {
    let integers = |shape: &[usize], values: Vec<i32>| {
        let made = Value::from_shape(shape, values);
        made.map(Into::into).map_err(|error| error.to_string())
    };
    match feed {
        InputFeed::Tokens(tokens, _) => {
            let mut values: Vec<i32> = Vec::with_capacity(batch.rows * batch.length);
            tokens.fill(batch, &mut values);
            integers(&[batch.rows, batch.length], values)
        }
        InputFeed::NoCache => integers(&[1], vec![0]),
        InputFeed::Past(dims, _) => {
            let shape: Vec<usize> = dims.iter().map(|dim| dim.size(batch.rows)).collect();
            let values = vec![0.0_f32; shape.iter().product()];
            let made = Value::from_shape(shape, values);
            made.map(Into::into).map_err(|error| error.to_string())
        }
    }
}

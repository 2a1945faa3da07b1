//! The graph of a session, and loading it with cancellation.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use crossbeam_channel::{bounded, select};
use ort::session::Session;
use ort::session::builder::SessionBuilder;

use super::initializers::{LENT, WeightTensors, give_weights, lend_weights, read_weights};
use super::{constants, pooled};
use crate::built::{BuiltGraph, FloatType, GraphForm, PIECE};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result, with_causes};
use embedctl_common::threads::{locked, spawn_scoped};
use embedctl_model::{ElementType, Graph, Model};
use embedctl_native::PlainNetwork;
use embedctl_rows::PoolingMode;

/// The graph of a session.
pub(super) enum GraphSource {
    /// The model's own file.
    File(PathBuf),
    /// A changed copy of the file, beside which its external weights lie.
    Memory { bytes: Vec<u8>, file: PathBuf },
    /// A graph that was built from the checkpoint.
    Built(Box<BuiltSource>),
}

impl From<BuiltSource> for GraphSource {
    fn from(source: BuiltSource) -> Self {
        Self::Built(Box::new(source))
    }
}

/// A graph that was built, and the checkpoint from which its weights are read when it is loaded.
pub(super) struct BuiltSource {
    network: Arc<PlainNetwork>,
    graph: BuiltGraph,
    form: GraphForm,
    bytes: Vec<u8>,
    /// Whether it pools.
    is_pooled: bool,
    /// Bytes of memory that it takes with all workers, about, where they were computed.
    memory: Option<u64>,
    /// The weights of all its sessions, once one was loaded, if products stay narrow.
    kept: Mutex<Option<Arc<WeightTensors>>>,
}

impl BuiltSource {
    pub(super) fn new(model: &Model, form: GraphForm) -> Result<Self> {
        let network = Arc::new(PlainNetwork::open(model.network(), model.adapter())?);
        Self::of_network(network, form)
    }

    pub(super) fn of_network(network: Arc<PlainNetwork>, form: GraphForm) -> Result<Self> {
        let graph = BuiltGraph::build(&network, form)?;
        Ok(Self {
            bytes: match graph.narrow_products() {
                None => graph.model_in_memory(),
                Some(_) => graph.model_beside(LENT),
            },
            network,
            graph,
            form,
            is_pooled: false,
            memory: None,
            kept: Mutex::new(None),
        })
    }

    /// The graph.
    pub(super) fn graph(&self) -> &BuiltGraph {
        &self.graph
    }

    /// The network that it was built from.
    pub(super) fn network(&self) -> &PlainNetwork {
        &self.network
    }

    /// The same with products that stay in the checkpoint's narrow numbers.
    pub(super) fn narrow(&self) -> Result<Self> {
        let form = GraphForm {
            widened_pieces: Some(PIECE),
            ..self.form
        };
        Self::of_network(Arc::clone(&self.network), form)
    }

    /// The same with a note of the bytes of memory that it takes.
    pub(super) fn taking(self, memory: u64) -> Self {
        Self {
            memory: Some(memory),
            ..self
        }
    }

    /// Its weights. Where products stay narrow, no session makes a copy of its own of them, so all share these.
    fn weights(&self, cancel: &CancelToken) -> Result<Arc<WeightTensors>, ort::Error> {
        let read = || read_weights(&self.network, self.graph.weights(), cancel).map(Arc::new);
        if self.graph.narrow_products().is_none() {
            return read();
        }
        let mut kept = locked(&self.kept);
        if let Some(weights) = kept.as_ref() {
            return Ok(Arc::clone(weights));
        }
        let weights = read()?;
        *kept = Some(Arc::clone(&weights));
        Ok(weights)
    }

    pub(super) fn declared(&self) -> Result<Graph> {
        Graph::of_bytes(&self.bytes).ok_or_else(|| Error::internal("a graph of our own is damaged"))
    }

    /// The same in single precision and without pooling.
    fn exact(&self) -> Result<Self> {
        let form = GraphForm {
            float: FloatType::F32,
            ..self.form
        };
        Self::of_network(Arc::clone(&self.network), form)
    }

    fn pooled(self, states: &str, modes: &[PoolingMode]) -> Result<Self> {
        let bytes =
            pooled::graph(&self.bytes, states, ElementType::F32, modes).map_err(Error::internal)?;
        Ok(Self {
            bytes,
            is_pooled: true,
            ..self
        })
    }
}

impl GraphSource {
    /// The same graph, pooled from its output `states`.
    pub(super) fn pooled(
        self,
        model: &Model,
        states: &str,
        element: ElementType,
        modes: &[PoolingMode],
    ) -> Result<Self> {
        let graph = |bytes: &[u8]| {
            pooled::graph(bytes, states, element, modes)
                .map_err(|reason| Error::model(&model.id, reason))
        };
        Ok(match self {
            Self::File(path) => Self::Memory {
                bytes: graph(&fs::read(&path).map_err(|error| Error::io("read", &path, error))?)?,
                file: path,
            },
            Self::Memory { bytes, file } => Self::Memory {
                bytes: graph(&bytes)?,
                file,
            },
            Self::Built(built) => built.pooled(states, modes)?.into(),
        })
    }

    /// The same graph with constants that bfloat16 has numbers for.
    pub(super) fn for_bfloat16(self) -> Result<Self, String> {
        match self {
            Self::File(path) => {
                let mut bytes = fs::read(&path).map_err(|error| error.to_string())?;
                Ok(match constants::clamp(&mut bytes)? {
                    0 => Self::File(path),
                    _ => Self::Memory { bytes, file: path },
                })
            }
            Self::Memory { mut bytes, file } => {
                constants::clamp(&mut bytes)?;
                Ok(Self::Memory { bytes, file })
            }
            // Its constants are such.
            Self::Built(built) => Ok(Self::Built(built)),
        }
    }

    /// The numbers that it computes in, if it was built.
    pub(super) fn built_in(&self) -> Option<FloatType> {
        match self {
            Self::Built(built) => Some(built.form.float),
            _ => None,
        }
    }

    /// The type in which products stay that are widened when they are used.
    pub(super) fn narrow_products(&self) -> Option<FloatType> {
        match self {
            Self::Built(built) => built.graph.narrow_products(),
            _ => None,
        }
    }

    /// Bytes of memory that it takes with all workers, about, where they were computed.
    pub(super) fn memory(&self) -> Option<u64> {
        match self {
            Self::Built(built) => built.memory,
            _ => None,
        }
    }

    /// Loads the graph that tells whether this one's results are right: the model's own file, or one that was built in single
    /// precision, so that half precision does not agree with itself. It does not pool: the processor does that for it.
    pub(super) fn load_exact(
        &self,
        builder: SessionBuilder,
        cancel: &CancelToken,
    ) -> Result<Session, ort::Error> {
        match self {
            Self::Built(built) if built.is_pooled || built.form.float != FloatType::F32 => {
                let exact = built.exact().map_err(failed)?;
                Self::from(exact).load(builder, cancel)
            }
            Self::Memory { file, .. } => load(builder, file, cancel),
            Self::Built(_) | Self::File(_) => self.load(builder, cancel),
        }
    }

    /// Loads it, unless asked to stop meanwhile.
    pub(super) fn load(
        &self,
        builder: SessionBuilder,
        cancel: &CancelToken,
    ) -> Result<Session, ort::Error> {
        match self {
            Self::File(path) => load(builder, path, cancel),
            Self::Memory { bytes, file } => {
                let folder = file.parent().unwrap_or(Path::new(""));
                let builder = builder.with_config_entry(
                    "session.model_external_initializers_file_folder_path",
                    folder.to_string_lossy(),
                )?;
                cancellable(builder, cancel, |builder| builder.commit_from_memory(bytes))
            }
            Self::Built(built) => {
                let weights = built.weights(cancel)?;
                let (builder, _lent) = match built.graph.narrow_products() {
                    None => (give_weights(builder, &weights)?, None),
                    Some(_) => {
                        let (builder, folder) = lend_weights(builder, &weights)?;
                        (builder, Some(folder))
                    }
                };
                drop(weights);
                cancellable(builder, cancel, |builder| {
                    builder.commit_from_memory(&built.bytes)
                })
            }
        }
    }
}

#[allow(clippy::needless_pass_by_value)] // for `map_err`
fn failed(error: Error) -> ort::Error {
    ort::Error::new(with_causes(&error))
}

/// Loads the model at `path`, unless asked to stop meanwhile.
pub(super) fn load(
    builder: SessionBuilder,
    path: &Path,
    cancel: &CancelToken,
) -> Result<Session, ort::Error> {
    cancellable(builder, cancel, |builder| builder.commit_from_file(path))
}

fn cancellable(
    mut builder: SessionBuilder,
    cancel: &CancelToken,
    load: impl FnOnce(&mut SessionBuilder) -> Result<Session, ort::Error>,
) -> Result<Session, ort::Error> {
    let canceler = builder.canceler();
    let (loaded, finished) = bounded::<()>(0);
    thread::scope(|scope| {
        let watch = || {
            select! {
                recv(finished) -> _ => {}
                recv(cancel.channel()) -> _ => {
                    // Failing means that there is nothing left to stop.
                    let _ = canceler.cancel();
                }
            }
        };
        spawn_scoped(scope, "interrupts", watch)
            .map_err(|error| ort::Error::new(error.to_string()))?;
        let session = load(&mut builder);
        drop(loaded);
        session
    })
}

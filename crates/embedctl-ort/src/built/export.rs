//! A built graph as a file, with its weights inside or in a file beside it.

use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use embedctl_model::Model;
use embedctl_native::PlainNetwork;
use embedctl_rows::OutputChoice;
use embedctl_rows::sparse::SparseKind;

use super::{BuiltGraph, FloatType, GraphForm, external, stop_if};
use embedctl_common::atomic::{AtomicFile, AtomicSet, PendingFiles, Sidecars};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{DIMENSIONS, PROMPT};

/// Bytes of weights from which on they lie in a file of their own. A whole file may have 2 GiB, and other readers take
/// less.
const BESIDE: u64 = 1 << 30;

/// Weights begin at multiples of so many bytes, so that a reader can map them.
const ALIGNED: u64 = 4096;

/// The graph that is to be written.
#[derive(Debug, Clone, Copy)]
pub struct ExportForm {
    /// The numbers that the graph computes in.
    pub float: FloatType,
    /// Whether the graph gives finished vectors (`sentence_embedding`), not token states (`last_hidden_state`).
    pub pooled: bool,
    /// Whether files that have the names are replaced.
    pub replace: bool,
    /// Bytes of weights from which on they lie in a file of their own; `None`: 1 GiB.
    pub beside: Option<u64>,
}

/// A graph that was written.
#[derive(Debug, Clone)]
pub struct Exported {
    /// The file of weights, where they lie beside the graph.
    pub beside: Option<PathBuf>,
    /// Bytes of all weights.
    pub bytes: u64,
    /// Nodes of the graph.
    pub nodes: usize,
}

/// Writes the graph of `model`'s checkpoint to `path`. One weight is in memory at a time where they lie beside it.
///
/// # Errors
/// If the model has no checkpoint that is understood, a weight does not fit the numbers, or a file cannot be written:
/// then none has its name.
pub fn export(
    model: &Model,
    form: ExportForm,
    path: &Path,
    cancel: &CancelToken,
) -> Result<Exported> {
    let checkpoint = model.checkpoint.as_ref();
    checkpoint.map_err(|cause| Error::model(&model.id, cause))?;
    if !model.has_network() {
        return Err(Error::model(
            &model.id,
            "is a static model, which has no network to write as a graph",
        ));
    }
    let network = PlainNetwork::open(model.network(), model.adapter())?;
    let graph_form = GraphForm {
        float: form.float,
        narrow_tables: false,
        longest: model.config.max_length.clamp(1, super::MOST_POSITIONS),
        terms: (model.config.any_sparse())
            .and_then(|sparse| sparse.terms)
            .filter(|_| form.pooled),
        typed: model.config.frame.states_types(),
        ..GraphForm::default()
    };
    let graph = if form.pooled && graph_form.terms.is_none() {
        check_pooling(model)?;
        let config = &model.config;
        BuiltGraph::build_pooled(&network, graph_form, &config.pooling, &config.steps)
            .map_err(|cause| Error::model(&model.id, cause))??
    } else {
        BuiltGraph::build(&network, graph_form)?
    };
    let bytes: u64 = graph
        .weights()
        .iter()
        .map(|weight| weight.bytes() as u64)
        .sum();
    let beside = (bytes >= form.beside.unwrap_or(BESIDE)).then(|| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push("_data");
        path.with_file_name(name)
    });
    let nodes = graph.graph.node.len();
    let pending = PendingFiles::default();
    let create = |path: &Path| {
        AtomicFile::create(path, &pending).map_err(|error| Error::io("write to", path, error))
    };
    let main = create(path)?;
    let data = beside.as_deref().map(create).transpose()?;
    let model_bytes = match &data {
        Some(data) => {
            let places = write_weights(&network, &graph, data, cancel)?;
            let name = data
                .name()
                .file_name()
                .unwrap_or_default()
                .to_string_lossy();
            graph.model(|index, weight| {
                let place = usize::try_from(places[index]).unwrap_or(usize::MAX);
                external(&name, place, weight.bytes())
            })
        }
        None => graph.model_with_weights(&network, cancel)?,
    };
    network.check_unchanged()?;
    (&mut main.file())
        .write_all(&model_bytes)
        .map_err(|error| Error::io("write to", path, error))?;
    let files: Vec<&AtomicFile> = data.iter().chain([&main]).collect();
    AtomicSet {
        files,
        replace: form.replace,
        sidecars: Sidecars::default(),
    }
    .publish()?;
    Ok(Exported {
        beside,
        bytes,
        nodes,
    })
}

/// Refuses what a graph cannot do by its inputs alone.
fn check_pooling(model: &Model) -> Result<()> {
    let config = &model.config;
    let refuse = |reason: String| Err(Error::model(&model.id, reason));
    if !matches!(config.output, OutputChoice::Tokens(_)) {
        return refuse("gives finished vectors already".into());
    }
    let by_token = |sparse: &SparseKind| sparse.weighed.is_some();
    if config.any_multi().is_some() || config.any_sparse().is_some_and(by_token) {
        return refuse(
            "gives each token of a text a vector or a weight of its own, not one vector a text: write the token states"
                .into(),
        );
    }
    if !config.include_prompt && !config.prompt.is_empty() {
        return refuse(format!(
            "leaves the tokens of its prompt out of pooling, which a graph cannot know: give {PROMPT} '' to write it for \
             texts without one"
        ));
    }
    if !config.dimensions.is_empty() {
        return refuse(format!(
            "is cut by {DIMENSIONS} (or truncate_dim), which is left to the program that runs the graph"
        ));
    }
    Ok(())
}

/// Writes the weights one after another; returns where each begins.
fn write_weights(
    network: &PlainNetwork,
    graph: &BuiltGraph,
    file: &AtomicFile,
    cancel: &CancelToken,
) -> Result<Vec<u64>> {
    let failed = |error| Error::io("write to", file.name(), error);
    let mut out = BufWriter::with_capacity(1 << 20, file.file());
    let mut places = Vec::new();
    let mut end = 0_u64;
    for weight in graph.weights() {
        stop_if(cancel)?;
        let start = end.next_multiple_of(ALIGNED);
        out.seek(SeekFrom::Start(start)).map_err(failed)?;
        let mut bytes = vec![0; weight.bytes()];
        weight.read(network, &mut bytes)?;
        out.write_all(&bytes).map_err(failed)?;
        end = start + bytes.len() as u64;
        places.push(start);
    }
    out.flush().map_err(failed)?;
    Ok(places)
}

//! A model's graph with what it declares, before a session loads it.

use std::fs;
use std::path::PathBuf;

use super::footprint;
use super::source::{BuiltSource, GraphSource};
use crate::built::GraphForm;
use crate::runtime::provider_error;
use embedctl_common::error::Result;
use embedctl_engine::{Provider, ResolvedEngine};
use embedctl_model::{Graph, Model, WeightsKind};
use embedctl_rows::OutputChoice;

/// A model's graph: of its ONNX file, or built from its checkpoint.
pub(super) struct ModelGraph {
    /// Inputs, outputs and operators, without pooling.
    pub declared: Graph,
    /// The output that is read, without pooling.
    pub output: OutputChoice,
    /// The file of the graph, or the folder of the checkpoint, for messages.
    pub shown: PathBuf,
    /// Bytes of the files of weights.
    pub stored_bytes: u64,
    /// The graph itself.
    pub source: GraphSource,
}

impl ModelGraph {
    /// The graph that `provider` is to run.
    ///
    /// # Errors
    /// If the model has no weights for it, or the provider does not compute in the numbers that were asked for.
    pub(super) fn of(model: &Model, provider: Provider, options: &ResolvedEngine) -> Result<Self> {
        if provider.weights_of(model) == WeightsKind::Onnx {
            let onnx = model.onnx()?;
            return Ok(Self {
                declared: onnx.graph.clone(),
                output: model.config.output.clone(),
                shown: onnx.path.clone(),
                stored_bytes: sizes(&onnx.files().collect::<Vec<_>>()),
                source: GraphSource::File(onnx.path.clone()),
            });
        }
        let form = GraphForm::of(model, provider, options).map_err(provider_error)?;
        let mut source = BuiltSource::new(model, form)?;
        if provider == Provider::Cpu {
            source = footprint::fitted(source, options)?;
        }
        let files = model.checkpoint.as_ref().map(|one| one.files.as_slice());
        Ok(Self {
            declared: source.declared()?,
            output: source.graph().output(),
            shown: model.network().to_path_buf(),
            stored_bytes: sizes(files.unwrap_or_default()),
            source: source.into(),
        })
    }
}

/// Bytes of files.
fn sizes(paths: &[PathBuf]) -> u64 {
    let files = paths.iter().filter_map(|path| fs::metadata(path).ok());
    files.map(|file| file.len()).sum()
}

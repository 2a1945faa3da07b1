//! Weights that were found: an ONNX file, or the checkpoint that it was exported from.

use std::path::PathBuf;

use embedctl_native::Adapter;
use serde_json::Value;

use super::graph::Graph;

/// An ONNX file.
#[derive(Debug)]
pub struct Onnx {
    /// The file.
    pub path: PathBuf,
    /// Its declared graph.
    pub graph: Graph,
}

impl Onnx {
    /// The file and the files of its external weights.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let folder = self.path.parent().unwrap_or(&self.path);
        let external = self.graph.external.iter().map(|file| folder.join(file));
        std::iter::once(self.path.clone()).chain(external)
    }
}

/// Weights as they were trained, in safetensors files.
#[derive(Debug)]
pub struct CheckpointFiles {
    /// `model.safetensors`, or the index of several files followed by these.
    pub files: Vec<PathBuf>,
    /// The folder of these files and of the network's `config.json`: the Transformer's, or that of an adapter's base
    /// model.
    pub folder: PathBuf,
    /// The Transformer's `config.json`.
    pub config: Value,
    /// The adapter that changes these weights.
    pub adapter: Option<Adapter>,
}

//! Where a model's weights may come from: an ONNX file, or the checkpoint that it was exported from.

use std::path::PathBuf;

use serde_json::Value;

use super::adapter::Adapter;
use super::graph::Graph;
use super::onnx_file::OnnxChoice;

/// Whether an engine runs checkpoints with this `config.json`; if not, the reason.
pub type Knows = fn(&Value) -> Result<(), String>;

/// Which weights are looked for. ONNX files serve ONNX Runtime and rten, checkpoints the native engine.
#[derive(Debug, Clone, Copy, Default)]
pub enum Weights {
    /// An ONNX file.
    #[default]
    Onnx,
    /// A checkpoint.
    Checkpoint(Knows),
    /// A checkpoint, or else an ONNX file; both where both are here.
    CheckpointFirst(Knows),
    /// An ONNX file, or else a checkpoint; both where both are here.
    OnnxFirst(Knows),
}

impl Weights {
    /// Whether an ONNX file would do.
    pub(crate) fn or_onnx(self) -> bool {
        !matches!(self, Self::Checkpoint(_))
    }

    /// The other kind alone, where either would do.
    pub(crate) fn instead(self) -> Option<Self> {
        match self {
            Self::Onnx | Self::Checkpoint(_) => None,
            Self::CheckpointFirst(_) => Some(Self::Onnx),
            Self::OnnxFirst(knows) => Some(Self::Checkpoint(knows)),
        }
    }

    /// What judges a checkpoint, where one would do.
    pub(crate) fn knows(self) -> Option<Knows> {
        match self {
            Self::Onnx => None,
            Self::Checkpoint(knows) | Self::CheckpointFirst(knows) | Self::OnnxFirst(knows) => {
                Some(knows)
            }
        }
    }
}

/// Which of a repository's files with weights.
#[derive(Debug, Clone, Default)]
pub struct FileChoice {
    /// Which kinds would do.
    pub weights: Weights,
    /// Which ONNX file.
    pub onnx: OnnxChoice,
}

/// An ONNX file.
#[derive(Debug)]
pub struct Onnx {
    /// The file.
    pub path: PathBuf,
    /// What it declares.
    pub graph: Graph,
}

impl Onnx {
    /// The file and those that it keeps weights in.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let folder = self.path.parent().unwrap_or(&self.path);
        let external = self.graph.external.iter().map(|file| folder.join(file));
        std::iter::once(self.path.clone()).chain(external)
    }
}

/// Weights as they were trained, in safetensors files.
#[derive(Debug)]
pub struct Checkpoint {
    /// `model.safetensors`, or the index of several files followed by these.
    pub files: Vec<PathBuf>,
    /// The folder of these files and of the network's `config.json`: the Transformer's, or that of an adapter's base
    /// model.
    pub folder: PathBuf,
    /// The Transformer's `config.json`.
    pub config: Value,
    /// What changes these weights.
    pub adapter: Option<Adapter>,
}

/// Names of a checkpoint's files in a repository with `paths`, whose Transformer lies in the folder
/// `transformer` (empty: the root).
///
/// # Errors
/// If it has none; the reason says what is looked for.
pub(super) fn checkpoint(paths: &[&str], transformer: &str) -> Result<Vec<String>, String> {
    let prefix = match transformer {
        "" => String::new(),
        folder => format!("{folder}/"),
    };
    let own = |path: &&&str| {
        let name = path.strip_prefix(prefix.as_str());
        name.is_some_and(|name| !name.contains('/'))
    };
    let whole = format!("{prefix}model.safetensors");
    if paths.contains(&whole.as_str()) {
        return Ok(vec![whole]);
    }
    let index = format!("{prefix}model.safetensors.index.json");
    if !paths.contains(&index.as_str()) {
        return Err(format!("has no {whole}"));
    }
    let mut parts: Vec<String> = (paths.iter().filter(own))
        .filter(|path| path[prefix.len()..].starts_with("model-") && path.ends_with(".safetensors"))
        .map(ToString::to_string)
        .collect();
    parts.sort_unstable();
    parts.insert(0, index);
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_one_file_or_an_index_and_its_parts() {
        let paths = [
            "model.safetensors",
            "0_Transformer/model-00002-of-00002.safetensors",
            "0_Transformer/model-00001-of-00002.safetensors",
            "0_Transformer/model.safetensors.index.json",
            "0_Transformer/other.safetensors",
            "2_Dense/model.safetensors",
        ];
        assert_eq!(
            checkpoint(&paths, ""),
            Ok(vec!["model.safetensors".to_owned()])
        );
        assert_eq!(
            checkpoint(&paths, "0_Transformer").unwrap(),
            [
                "0_Transformer/model.safetensors.index.json",
                "0_Transformer/model-00001-of-00002.safetensors",
                "0_Transformer/model-00002-of-00002.safetensors",
            ]
        );
        let reason = checkpoint(&paths[5..], "").unwrap_err();
        assert!(reason.contains("model.safetensors"), "{reason}");
    }
}

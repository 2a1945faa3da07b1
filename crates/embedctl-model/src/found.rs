//! Weights that were found: an ONNX file, or the checkpoint that it was exported from.

use std::path::PathBuf;

use embedctl_checkpoint::Adapter;
use serde_json::Value;

use super::graph::Graph;
use super::heads;

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

impl CheckpointFiles {
    /// Notes on the checkpoint, by its headers: that the network is taken of several, and tensors that nothing takes.
    #[must_use]
    pub fn network_notes(&self) -> Vec<String> {
        let taken = heads::taken(&self.config);
        embedctl_checkpoint::network_notes(&self.folder, &self.files, taken)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The checkpoints in `folder` and below, each with its folder's name inside the fixtures.
    fn checkpoints(folder: &Path, found: &mut Vec<(String, CheckpointFiles)>) {
        let entries = fs::read_dir(folder).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let config = fs::read(folder.join("config.json"));
        let weights = paths.iter().filter(|path| {
            let ending = path.extension();
            ending.is_some_and(|ending| ending == "safetensors")
        });
        let files: Vec<PathBuf> = weights.cloned().collect();
        if let (Ok(config), false) = (config, files.is_empty()) {
            let name = folder.strip_prefix("../../fixtures").unwrap();
            let checkpoint = CheckpointFiles {
                files,
                folder: folder.to_owned(),
                config: serde_json::from_slice(&config).unwrap(),
                adapter: None,
            };
            found.push((name.display().to_string(), checkpoint));
        }
        for inner in paths.iter().filter(|path| path.is_dir()) {
            checkpoints(inner, found);
        }
    }

    #[test]
    fn no_checkpoint_that_is_computed_whole_gets_a_note() {
        let mut all = Vec::new();
        checkpoints(Path::new("../../fixtures"), &mut all);
        assert!(all.len() > 400, "{}", all.len());
        for (name, checkpoint) in &all {
            let notes = checkpoint.network_notes();
            let unused = |note: &&String| note.contains("the checkpoint has what");
            assert_eq!(notes.iter().find(unused), None, "{name}");
        }
    }
}

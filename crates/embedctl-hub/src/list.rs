//! `--list`: the files of a repository that hold weights.

use serde::Serialize;

use super::client::with_client;
use super::revision::Revision;
use super::store::CachedRepository;
use super::{HubSettings, ModelFilesRequest, ModelId, Transfer};
use crate::onnx_file::{self, OnnxChoice};
use crate::weights;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};

/// The files of a repository that hold weights.
#[derive(Debug, Clone, Serialize)]
pub struct ListedWeights {
    /// Repository.
    pub model: String,
    /// Full commit.
    pub revision: String,
    /// The checkpoint, then ONNX files, sorted by path.
    pub files: Vec<ListedFile>,
}

/// The kind of a file with weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ListedKind {
    /// A checkpoint, for the native engine where it knows the architecture.
    Safetensors,
    /// An ONNX file.
    Onnx,
}

/// A file with weights.
#[derive(Debug, Clone, Serialize)]
pub struct ListedFile {
    /// Its kind.
    pub kind: ListedKind,
    /// Path inside the repository, as `--model-file` takes it.
    pub path: String,
    /// Bytes, with its files of weights; none where the Hub doesn't say.
    pub size: Option<u64>,
    /// Files of weights that go by its name.
    pub data: Vec<String>,
    /// The kinds that `--precision` finds an ONNX file by on this machine.
    pub precision: Vec<&'static str>,
}

/// Asks the Hub (or, offline, the cache) which files with weights a model has.
///
/// # Errors
/// If the model cannot be listed, or has none.
pub fn list(
    settings: &HubSettings,
    model: &ModelId,
    transfer: &dyn Transfer,
    cancel: &CancelToken,
) -> Result<ListedWeights> {
    let store = CachedRepository::new(&settings.cache, &model.repository);
    let wanted = ModelFilesRequest::of(model.clone());
    let source = with_client(settings, cancel, |client| {
        Revision::find(client, &store, &wanted, transfer)
    })?;
    let paths: Vec<&str> = source.listing.paths().collect();
    let onnx = onnx_file::among(&paths);
    let checkpoint = ["", "0_Transformer", "0_StaticEmbedding"]
        .iter()
        .find_map(|folder| weights::checkpoint(&paths, folder).ok());
    if onnx.is_empty() && checkpoint.is_none() {
        let cause = onnx_file::choose(&paths, "", &OnnxChoice::default())
            .expect_err("there is no ONNX file to be chosen");
        return Err(Error::model(model, cause));
    }
    let chosen = onnx_file::kinds(&paths);
    // Bytes of a file and its external data.
    let size = |path: &str, data: &[String]| {
        let of = |path: &str| source.listing.get(path)?.size;
        let data = data.iter().map(|path| of(path).unwrap_or(0));
        Some(data.fold(of(path)?, u64::saturating_add))
    };
    let checkpoint = checkpoint.map(|mut files| {
        let path = files.remove(0);
        ListedFile {
            kind: ListedKind::Safetensors,
            size: size(&path, &files),
            data: files,
            precision: Vec::new(),
            path,
        }
    });
    let onnx = onnx.into_iter().map(|path| {
        let data = data_of(path, &paths);
        ListedFile {
            kind: ListedKind::Onnx,
            size: size(path, &data),
            path: path.to_owned(),
            data,
            precision: chosen
                .iter()
                .filter(|(_, chosen)| chosen == path)
                .map(|(name, _)| *name)
                .collect(),
        }
    });
    Ok(ListedWeights {
        model: model.repository.clone(),
        revision: source.commit,
        files: checkpoint.into_iter().chain(onnx).collect(),
    })
}

/// Files of weights that go by an ONNX file's name.
pub(super) fn data_of(onnx: &str, paths: &[&str]) -> Vec<String> {
    paths
        .iter()
        .filter(|path| {
            path.strip_prefix(onnx)
                .is_some_and(|rest| rest.starts_with("_data") || rest.starts_with(".data"))
        })
        .map(|&path| path.to_owned())
        .collect()
}

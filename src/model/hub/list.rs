//! `--list`: the ONNX files of a repository.

use serde::Serialize;

use super::client::with_client;
use super::revision::Revision;
use super::store::Store;
use super::{ModelId, Settings, Transfer, Wanted};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::model::FileChoice;
use crate::model::onnx_file::{self, OnnxChoice};
use crate::model::precision::Precision;

/// The ONNX files of a repository.
#[derive(Debug, Clone, Serialize)]
pub struct Listed {
    /// Repository.
    pub model: String,
    /// Full commit.
    pub revision: String,
    /// Its ONNX files, sorted by path.
    pub files: Vec<ListedFile>,
}

/// An ONNX file.
#[derive(Debug, Clone, Serialize)]
pub struct ListedFile {
    /// Path inside the repository, as `--model-file` takes it.
    pub path: String,
    /// Bytes, with its files of weights; none where the Hub doesn't say.
    pub size: Option<u64>,
    /// Files of weights that go by its name.
    pub data: Vec<String>,
    /// The kinds that `--precision` finds it by on this machine.
    pub precision: Vec<&'static str>,
}

/// Asks the Hub (or, offline, the cache) which ONNX files a model has.
///
/// # Errors
/// If the model cannot be asked for, or has none.
pub fn list(
    settings: &Settings,
    model: &ModelId,
    transfer: &dyn Transfer,
    cancel: &CancelToken,
) -> Result<Listed> {
    let store = Store::new(&settings.cache, &model.repository);
    let wanted = Wanted {
        model: model.clone(),
        choice: FileChoice::default(),
        all: false,
        extra: Vec::new(),
        local_dir: None,
        locked: None,
    };
    let source = with_client(settings, cancel, |client| {
        Revision::find(client, &store, &wanted, transfer)
    })?;
    let paths: Vec<&str> = source.listing.paths().collect();
    let onnx = onnx_file::among(&paths);
    if onnx.is_empty() {
        let reason = onnx_file::choose(&paths, "", &OnnxChoice::default())
            .expect_err("there is no ONNX file to be chosen");
        return Err(Error::model(model, reason));
    }
    let chosen: Vec<(&'static str, String)> = Precision::ALL
        .into_iter()
        .filter_map(|precision| {
            let choice = OnnxChoice {
                file: None,
                precision: Some(precision),
            };
            let path = onnx_file::choose(&paths, "", &choice).ok()?;
            Some((precision.name(), path))
        })
        .collect();
    let files = onnx.into_iter().map(|path| {
        let data = data_of(path, &paths);
        let size = |path: &str| source.listing.get(path)?.size;
        ListedFile {
            size: data
                .iter()
                .try_fold(size(path), |sum, data| {
                    Some(sum.map(|sum| sum.saturating_add(size(data).unwrap_or(0))))
                })
                .flatten(),
            path: path.to_owned(),
            data,
            precision: chosen
                .iter()
                .filter(|(_, chosen)| chosen == path)
                .map(|(name, _)| *name)
                .collect(),
        }
    });
    Ok(Listed {
        model: model.repository.clone(),
        revision: source.commit,
        files: files.collect(),
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

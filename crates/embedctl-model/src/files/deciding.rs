//! The files that decide a model's vectors: which they are, and their hashes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::ModelFile;
use crate::{Model, ModelProvenance, WeightsKind, heads, sentence_config};
use embedctl_common::error::{Error, Result};
use embedctl_common::file_state::{self, FileState, Noted};
use embedctl_common::hash;
use embedctl_common::small_file;

impl Model {
    /// Hashes the files that decide a vector: the weights of `kind`, tokenizer and metadata.
    ///
    /// # Errors
    /// If one cannot be read, or has changed since the model was opened.
    pub fn provenance(&self, kind: WeightsKind) -> Result<ModelProvenance> {
        let mut files = Vec::new();
        for file in self.files.iter().filter(|file| file.is_of(kind)) {
            // A module's folder may be the checkpoint's.
            let name = self.name_of(&file.path);
            if files.iter().any(|file: &ModelFile| file.path == name) {
                continue;
            }
            if let Some((size, sha256)) = hash_of(file)? {
                files.push(ModelFile {
                    path: name,
                    size,
                    sha256,
                });
            }
        }
        Ok(ModelProvenance {
            id: self.id.clone(),
            revision: self.revision.clone(),
            files,
        })
    }

    /// Checks that no file has changed since it was read. To be called once an engine has read the weights;
    /// [`Model::provenance`] checks again when it hashes the files.
    ///
    /// # Errors
    /// If one was changed since the model was opened; the error names it.
    pub fn check_unchanged(&self, kind: WeightsKind) -> Result<()> {
        let mut files = self.files.iter().filter(|file| file.is_of(kind));
        let changed = files.find(|file| match (&file.state, state_at(&file.path)) {
            (Some(then), Some(now)) => !then.has_content_of(&now),
            (then, now) => then.is_some() || now.is_some(),
        });
        changed.map_or(Ok(()), |file| Err(file_state::changed(&file.path)))
    }

    /// The files that decide a vector, in the provenance's order, each in the state in which it was first opened
    /// (`noted`), or in its present state if it has not been read yet.
    pub(super) fn deciding_files(&self, noted: &Noted) -> Result<Vec<DecidingFile>> {
        let weights = [WeightsKind::Checkpoint, WeightsKind::Onnx]
            .into_iter()
            .flat_map(|kind| {
                let paths = self.weights(kind).into_iter();
                paths.map(move |path| (path, Some(kind)))
            });
        let of_transformer = [
            "tokenizer.json",
            "tokenizer_config.json",
            "special_tokens_map.json",
            "chat_template.jinja",
        ]
        .map(|name| self.transformer.join(name))
        .into_iter()
        .chain([self.network().join("config.json")])
        .chain(
            sentence_config::FILES
                .split_ascii_whitespace()
                .map(|name| self.transformer.join(name)),
        );
        let of_all = [
            "modules.json",
            "config_sentence_transformers.json",
            "artifact.metadata",
            heads::SPARSE_HEAD,
            heads::TOKEN_HEAD,
        ]
        .map(|name| self.folder.join(name));
        let mut folders: Vec<PathBuf> = fs::read_dir(&self.folder)
            .map_err(|error| Error::io("read", &self.folder, error))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.is_dir() && is_module_folder(path))
            .collect();
        folders.sort();
        let of_modules = folders
            .iter()
            .flat_map(|folder| ["config.json", "model.safetensors"].map(|name| folder.join(name)));
        let others = of_transformer.chain(of_all).chain(of_modules);
        let all = weights.chain(others.map(|path| (path, None)));
        let files = all.map(|(path, weights)| DecidingFile {
            state: match noted.get(&path) {
                Some(state) => state.clone(),
                None => state_at(&path),
            },
            path,
            weights,
        });
        Ok(files.collect())
    }
}

/// A file that decides vectors, or would if it were there.
#[derive(Debug, Clone)]
pub(crate) struct DecidingFile {
    path: PathBuf,
    /// The kind, of weights; `None` for files that every engine needs.
    weights: Option<WeightsKind>,
    /// As it was opened; `None` where it was not there.
    state: Option<FileState>,
}

impl DecidingFile {
    fn is_of(&self, kind: WeightsKind) -> bool {
        self.weights.is_none_or(|weights| weights == kind)
    }
}

/// The state of the regular file at `path`; `None` where there is none.
fn state_at(path: &Path) -> Option<FileState> {
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some(FileState::from_metadata(&metadata))
}

/// Module folders are named `1_Pooling`, `2_Dense`, …; those of a route `query_1_Dense`, ….
fn is_module_folder(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        let mut words = name.split('_').rev().skip(1);
        words.any(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// Size and SHA-256 of a file; `None` where there is none, as when the model was opened.
fn hash_of(file: &DecidingFile) -> Result<Option<(u64, String)>> {
    let DecidingFile { path, state, .. } = file;
    let changed = || file_state::changed(path);
    let Some(state) = state else {
        return match path.is_file() {
            true => Err(changed()),
            false => Ok(None),
        };
    };
    let read = |error| Error::io("read", path, error);
    let open = match small_file::open(path) {
        Ok(open) => open,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(changed()),
        Err(error) => return Err(read(error)),
    };
    if !state.has_content_of(&FileState::of(&open).map_err(read)?) {
        return Err(changed());
    }
    let hash = hash::of_file(path, &open).map_err(read)?;
    if !state.has_content_of(&FileState::of(&open).map_err(read)?) {
        return Err(changed());
    }
    Ok(Some((state.length, hash)))
}

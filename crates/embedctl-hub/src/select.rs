//! Selects the files of a repository that embedding needs.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::onnx_file;
use crate::weights::{self, FileChoice, WeightsPreference};
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::small_file;
use embedctl_common::word_list::lists;

/// Decides prompts and the order of modules; read before the rest is chosen.
pub(super) const MODULES: &str = "modules.json";

/// Files at the root that describe a model: those of sentence-transformers, and the settings of Stanford's ColBERT.
const OF_REPOSITORY: [&str; 3] = [
    MODULES,
    "config_sentence_transformers.json",
    "artifact.metadata",
];

/// The file that names the modules of a Router's routes; older versions call it `config.json`.
const ROUTER: &str = "router_config.json";

/// Layers at the root that make sparse vectors and vectors of tokens (FlagEmbedding's `BGEM3FlagModel`).
const HEADS: [&str; 2] = ["sparse_linear.pt", "colbert_linear.pt"];

/// Files of a Transformer and its tokenizer. embedctl reads tokenizer.json; the others are what Python's
/// tokenizers are made from, so that the same cache serves them.
const OF_TRANSFORMER: &str = "config.json tokenizer.json tokenizer_config.json special_tokens_map.json
    added_tokens.json vocab.txt vocab.json merges.txt tokenizer.model spiece.model sentencepiece.bpe.model
    chat_template.jinja adapter_config.json";

/// Endings of weights that embedctl does not read.
const OTHER_WEIGHTS: [&str; 6] = [".bin", ".h5", ".msgpack", ".ot", ".pt", ".ckpt"];

/// Whether a file is read into memory whole, by its name.
pub(super) fn is_metadata(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    [
        "json", "txt", "jinja", "md", "yaml", "yml", "py", "metadata",
    ]
    .contains(&ending)
}

fn is_of_transformer(name: &str) -> bool {
    lists(OF_TRANSFORMER, name) || (name.starts_with("sentence_") && name.ends_with("_config.json"))
}

/// Whether a file that lies in a model's folder could change what `embed` does, by its name.
#[must_use]
pub fn is_read(path: &str) -> bool {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    OF_REPOSITORY.contains(&name)
        || HEADS.contains(&name)
        || name == ROUTER
        || is_of_transformer(name)
        || ".onnx .safetensors .safetensors.index.json .onnx_data .onnx.data"
            .split_ascii_whitespace()
            .any(|ending| name.ends_with(ending))
}

/// The modules' folders, as `modules.json` names them.
#[derive(Debug, Clone, Default)]
pub(super) struct ModuleFolders {
    /// The Transformer's folder; empty: the root.
    transformer: String,
    /// Folders of the other modules.
    others: Vec<String>,
    /// Whether the first module is a StaticEmbedding, whose weights need no config.json.
    is_static: bool,
    /// Where the first module is a Router: its folder, and the file that names its modules, if that is known.
    router: Option<(String, Option<String>)>,
}

/// The part of a Router's file that names its modules, by their folders.
#[derive(Deserialize)]
struct RouterTypes {
    types: BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub(super) struct ModuleFolder {
    #[serde(default)]
    pub(super) path: String,
    #[serde(default, rename = "type")]
    pub(super) kind: String,
}

impl ModuleFolders {
    /// Reads `modules.json`.
    pub(super) fn read(model: &str, modules: &[u8]) -> Result<Self> {
        let modules: Vec<ModuleFolder> = serde_json::from_slice(small_file::without_mark(modules))
            .map_err(|error| {
                Error::model(model, format!("its modules.json cannot be read: {error}"))
            })?;
        let kind = modules.first().map_or("", |module| class(&module.kind));
        let (is_static, is_router) = (is_static(kind), matches!(kind, "Router" | "Asym"));
        let mut paths = modules
            .into_iter()
            .map(|module| match module.path.trim_matches('/') {
                "." => String::new(),
                path => path.to_owned(),
            });
        let transformer = paths.next().unwrap_or_default();
        Ok(Self {
            is_static,
            router: is_router.then(|| (transformer.clone(), None)),
            transformer,
            others: paths.filter(|path| !path.is_empty()).collect(),
        })
    }

    /// The file among `paths` that names the modules of the Router; `None` without a Router.
    pub(super) fn router_file<'p>(&self, paths: &[&'p str]) -> Option<&'p str> {
        let (folder, _) = self.router.as_ref()?;
        [ROUTER, "config.json"].iter().find_map(|name| {
            let wanted = joined(folder, name);
            paths.iter().copied().find(|path| *path == wanted)
        })
    }

    /// Puts the modules of all routes in the Router's place, as its file `path` names them. The network of the texts
    /// that are searched is the model's Transformer.
    pub(super) fn with_routes(mut self, model: &str, path: &str, file: &[u8]) -> Result<Self> {
        let Some((folder, named_in)) = &mut self.router else {
            return Ok(self);
        };
        let RouterTypes { types } = serde_json::from_slice(small_file::without_mark(file))
            .map_err(|error| Error::model(model, format!("its {path} cannot be read: {error}")))?;
        let rank = |(id, kind): &(&String, &String)| {
            let is_network = class(kind).ends_with("Transformer");
            (!is_network, !id.starts_with("document"))
        };
        if let Some((first, kind)) = types.iter().min_by_key(rank) {
            self.is_static = is_static(class(kind));
            self.transformer = joined(folder, first);
            let others = types.keys().filter(|id| *id != first);
            self.others.extend(others.map(|id| joined(folder, id)));
        }
        *named_in = Some(path.to_owned());
        Ok(self)
    }
}

/// A module's class: the last part of its type.
fn class(kind: &str) -> &str {
    kind.rsplit('.').next().unwrap_or_default()
}

fn is_static(class: &str) -> bool {
    matches!(class, "StaticEmbedding" | "SparseStaticEmbedding")
}

fn joined(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}

/// The selected files of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileSelection {
    /// The ONNX file.
    pub(super) onnx: Option<String>,
    /// The checkpoint's files, where it is wanted instead.
    pub(super) checkpoint: Vec<String>,
    /// Everything else.
    pub(super) others: Vec<String>,
}

impl FileSelection {
    /// Every file, the weights last: where they are in place, so is the rest.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.others.iter().map(String::as_str).chain(self.weights())
    }

    /// The files by whose presence a model is told: the ONNX file, or the checkpoint's.
    pub(super) fn weights(&self) -> impl Iterator<Item = &str> {
        let checkpoint = self.checkpoint.iter().rev(); // the index comes last
        checkpoint.chain(self.onnx.as_ref()).map(String::as_str)
    }
}

/// Chooses among the files of a repository.
pub(super) fn select(
    model: &str,
    paths: &[&str],
    layout: &ModuleFolders,
    choice: &FileChoice,
    config: &Value,
) -> Result<FileSelection> {
    let folder = &layout.transformer;
    let inside = |name: &str| joined(folder, name);
    let is_there = |name: &str| paths.contains(&inside(name).as_str());
    let adapted = is_there(weights::ADAPTER_SETTINGS);
    let onnx = || {
        if adapted {
            return Err(weights::refuses_onnx());
        }
        let file = onnx_file::choose(paths, folder, &choice.onnx)?;
        Ok((Some(file), Vec::new()))
    };
    let checkpoint = || {
        let knows = choice.weights.knows().ok_or("was not requested")?;
        if adapted && !is_there(weights::ADAPTER_WEIGHTS) {
            return Err(Cause::of(format!(
                "has no {}",
                inside(weights::ADAPTER_WEIGHTS)
            )));
        }
        // The network of an adapter alone is another repository's.
        let alone = adapted && !is_there("config.json");
        let files = match weights::checkpoint(paths, folder) {
            Err(_) if adapted => Ok(Vec::new()),
            // Weights in another format may be saved as safetensors, if that helps.
            Err(cause) if cause.remedy.is_none() => return Err(cause),
            files => files,
        };
        if !layout.is_static && !alone {
            knows(config).map_err(|reason| weights::unknown_settings(&reason))?;
        }
        let mut files = files?;
        files.extend(adapted.then(|| inside(weights::ADAPTER_WEIGHTS)));
        Ok((None, files))
    };
    let (onnx, checkpoint) = match choice.weights {
        WeightsPreference::Onnx => onnx(),
        WeightsPreference::Checkpoint(_) => checkpoint().map_err(|cause: Cause| {
            let file = onnx().map(|(file, _)| file.unwrap_or_default());
            weights::not_native(cause, file)
        }),
        WeightsPreference::CheckpointFirst(_) => {
            checkpoint().or_else(|other| onnx().map_err(|cause| weights::neither(cause, other)))
        }
        WeightsPreference::OnnxFirst(_) => {
            onnx().or_else(|cause| checkpoint().map_err(|other| weights::neither(cause, other)))
        }
    }
    .map_err(|cause| Error::model(model, cause))?;
    Ok(FileSelection {
        others: metadata(paths, layout),
        onnx,
        checkpoint,
    })
}

/// The Transformer's `config.json`, which tells its architecture.
pub(super) fn config_path(layout: &ModuleFolders) -> String {
    joined(&layout.transformer, "config.json")
}

/// The settings in a `config.json`; empty if it cannot be read.
pub(super) fn config(path: &Path) -> Value {
    let text = std::fs::read(path).ok();
    text.and_then(|text| serde_json::from_slice(small_file::without_mark(&text)).ok())
        .unwrap_or_default()
}

/// Everything that is chosen but the ONNX file.
pub(super) fn metadata(paths: &[&str], layout: &ModuleFolders) -> Vec<String> {
    let wanted = |path: &str| {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let of_router = layout.router.as_ref().and_then(|(_, file)| file.as_deref());
        (folder.is_empty() && (OF_REPOSITORY.contains(&name) || HEADS.contains(&name)))
            || of_router == Some(path)
            || (folder == layout.transformer && is_of_transformer(name))
            || (layout.others.iter().any(|other| other == folder)
                && !OTHER_WEIGHTS.iter().any(|ending| name.ends_with(ending)))
    };
    paths
        .iter()
        .filter(|path| wanted(path))
        .map(|&path| path.to_owned())
        .collect()
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;

//! A model's files, opened, named and hashed. Nothing here touches the network.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Adapter;
use super::ModelName;
use super::config::ModelConfig;
use super::graph::{ElementType, Graph, Value};
use super::locate::{self, GraphOutput};
use super::modules::Modules;
use super::multi::MultiFiles;
use super::options::{TextRole, VectorKind};
use super::{CheckpointFiles, Onnx};
use super::{
    Model, ModelOptions, ModelProvenance, ModelTask, ScoreTask, WeightsKind, metadata, modules,
    resolve, statics,
};
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::file_state::{self, FileState, Noted};
use embedctl_common::folder::name_in;
use embedctl_common::hash;
use embedctl_common::setting::PROVIDER;
use embedctl_common::small_file;
use embedctl_common::word_list::words;

/// What a reranker is asked for.
const SCORE_PAIRS: ModelTask = ModelTask::Score(ScoreTask {
    pairs: true,
    softmax: false,
});

/// A file of the model with its hash.
#[derive(Debug, Clone, Serialize)]
pub struct ModelFile {
    /// Path inside the repository.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
}

impl Model {
    /// Resolves the files of a model and reads its metadata. Loads no weights and touches no network.
    ///
    /// # Errors
    /// If a file is missing or has a setting that embedctl does not support; the message names the file and the setting
    /// to change.
    pub fn open(options: &ModelOptions) -> Result<Self> {
        let (opened, noted) = file_state::noted(|| Self::read(options));
        let mut model = opened?;
        model.config.check_late()?;
        model.files = model.deciding_files(&noted)?;
        Ok(model)
    }

    fn read(options: &ModelOptions) -> Result<Self> {
        let located = locate::folder(options)?;
        let folder = located.folder.clone();
        if let Some(model) = statics::open(&folder, options)? {
            if options.task != ModelTask::Embed {
                return Err(Error::model(
                    folder.display(),
                    "is a static model, which gives vectors and no scores",
                ));
            }
            return Ok(Self {
                id: located.id,
                revision: located.revision,
                transformer: folder.join(model.folder),
                folder,
                onnx: Err(
                    Cause::of("is a static model, which the native engine runs").with(format!(
                        "name it with {PROVIDER} native, or leave {PROVIDER} out"
                    )),
                ),
                checkpoint: Ok(CheckpointFiles {
                    folder: folder_of(&model.weights),
                    files: vec![model.weights],
                    config: serde_json::Value::Null,
                    adapter: None,
                }),
                options: options.clone(),
                config: model.config,
                tokenizer: model.tokenizer.into(),
                reference_dtype: None,
                notes: ModelName::ambiguity(&options.model).into_iter().collect(),
                files: Vec::new(),
            });
        }
        let multi = MultiFiles::find(&folder, options)?;
        // Such a model marks queries and documents. A prompt's name says it, too; a batch job embeds documents.
        let role = (options.role)
            .or_else(|| TextRole::of_name(options.prompt_name.as_deref()?))
            .unwrap_or(TextRole::Document);
        let options = &match &multi {
            Some(_) => ModelOptions {
                role: Some(role),
                ..options.clone()
            },
            None => options.clone(),
        };
        let modules = modules::read(&folder, options, multi.as_ref())?;
        let transformer = modules
            .as_ref()
            .map_or_else(String::new, |modules| modules.transformer.clone());
        let gives_logits = modules.as_ref().map_or_else(
            || options.vectors == Some(VectorKind::Sparse),
            Modules::gives_logits,
        );
        let about = GraphOutput {
            has_modules: modules.is_some(),
            gives_logits,
        };
        let (onnx, checkpoint) = locate::weights(&located, &transformer, about, options)?;
        let onnx = match multi {
            Some(_) => Err(Cause::of(
                "has no ONNX file that is run: the native engine makes the vectors of tokens",
            )
            .with(format!("name {PROVIDER} native, or leave it out"))),
            None => onnx,
        };
        let graph = onnx.as_ref().ok().map(|onnx| &onnx.graph);
        let transformer = folder.join(transformer);
        let network = match &checkpoint {
            Ok(checkpoint) => &checkpoint.folder,
            Err(_) => &transformer,
        };
        let resolved = resolve::resolve(
            &folder,
            network,
            modules,
            multi.as_ref(),
            (graph, checkpoint.as_ref().ok()),
            options,
        )?;
        let mut notes = resolved.notes;
        notes.extend(ModelName::ambiguity(&options.model));
        Ok(Self {
            id: located.id,
            revision: located.revision,
            transformer,
            folder,
            onnx,
            checkpoint,
            options: options.clone(),
            config: resolved.config,
            tokenizer: resolved.tokenizer.into(),
            reference_dtype: resolved.dtype,
            notes,
            files: Vec::new(),
        })
    }

    /// What a model is made for, by its own files: scores, if it was saved as a `CrossEncoder` or its network's class is one
    /// that classifies; else vectors.
    ///
    /// # Errors
    /// If the model is not here, or one of these files cannot be read.
    pub fn usual_task(options: &ModelOptions) -> Result<ModelTask> {
        let located = locate::folder(options)?;
        let pairs = ModelOptions {
            task: SCORE_PAIRS,
            ..options.clone()
        };
        let scores = match modules::read(&located.folder, &pairs, None) {
            Ok(None) if !located.folder.join("modules.json").exists() => {
                let config: Option<serde_json::Value> =
                    metadata::read(&located.folder.join("config.json"))?;
                let config = config.unwrap_or_default();
                let class = config["architectures"][0].as_str().unwrap_or_default();
                class.ends_with("ForSequenceClassification")
            }
            // Those of another task; what is wrong with them is said when they are opened.
            Ok(None) | Err(_) => false,
            Ok(Some(_)) => true,
        };
        Ok(if scores {
            SCORE_PAIRS
        } else {
            ModelTask::Embed
        })
    }

    /// The tokenizer of a model and the configuration by its metadata, as far as it is known without the network: its
    /// output and its widths are stand-ins. Made for comparing tokens with the reference's.
    ///
    /// # Errors
    /// As [`Model::open`], the network left out.
    pub fn tokenizer_alone(options: &ModelOptions) -> Result<(tokenizers::Tokenizer, ModelConfig)> {
        let located = locate::folder(options)?;
        let folder = &located.folder;
        let multi = MultiFiles::find(folder, options)?;
        let modules = modules::read(folder, options, multi.as_ref())?;
        let transformer = modules
            .as_ref()
            .map_or("", |modules| modules.transformer.as_str());
        let (_, network) = locate::network(&located, transformer, options)?;
        let wide = modules
            .as_ref()
            .and_then(|modules| modules.pooling.as_ref()?.width);
        let states = Value {
            name: "last_hidden_state".into(),
            element: ElementType::F32,
            shape: vec![None, None, Some(wide.unwrap_or(1))],
        };
        let graph = Graph {
            outputs: vec![states],
            ..Graph::default()
        };
        let resolved = resolve::resolve(
            folder,
            &network,
            modules,
            multi.as_ref(),
            (Some(&graph), None),
            options,
        )?;
        Ok((resolved.tokenizer, resolved.config))
    }

    /// The file that identifies the model that [`Model::open`] would take, found without reading it or the tokenizer:
    /// the ONNX file, or the checkpoint's first.
    ///
    /// # Errors
    /// If there is none.
    pub fn main_file(options: &ModelOptions) -> Result<PathBuf> {
        let located = locate::folder(options)?;
        if let Some(model) = statics::open(&located.folder, options)? {
            return Ok(model.weights);
        }
        let multi = MultiFiles::find(&located.folder, options)?;
        let modules = modules::read(&located.folder, options, multi.as_ref())?;
        let transformer = modules.map(|modules| modules.transformer);
        let transformer = transformer.unwrap_or_default();
        locate::main_file(&located, &transformer, options)
    }

    /// The folder of the network's `config.json` and checkpoint: the Transformer's, or that of an adapter's base model.
    #[must_use]
    pub fn network(&self) -> &Path {
        let checkpoint = self.checkpoint.as_ref();
        checkpoint.map_or(&self.transformer, |checkpoint| &checkpoint.folder)
    }

    /// Whether there is a checkpoint of a network, from whose description a graph can be built.
    #[must_use]
    pub fn has_network(&self) -> bool {
        // A graph of a checkpoint has no masked-LM head, and pools.
        if self.config.kind.multi().is_some() {
            return false;
        }
        if (self.config.kind.sparse()).is_some_and(|sparse| sparse.terms.is_some()) {
            return false;
        }
        let config = self.checkpoint.as_ref().map(|one| &one.config);
        config.is_ok_and(|config| !config.is_null())
    }

    /// The tokens of the vocabulary by their ids, as many as a sparse vector has components: an id without a token is
    /// written as `[id]`.
    #[must_use]
    pub fn terms(&self) -> std::sync::Arc<[String]> {
        let terms = (0_u32..).take(self.config.width);
        let term = |id: u32| self.tokenizer.id_to_token(id);
        terms
            .map(|id| term(id).unwrap_or_else(|| format!("[{id}]")))
            .collect()
    }

    /// The adapter that changes the checkpoint's weights, where there is one.
    #[must_use]
    pub fn adapter(&self) -> Option<&Adapter> {
        self.checkpoint.as_ref().ok()?.adapter.as_ref()
    }

    /// The name of a file in messages and in provenance: its path inside the model's folder, or the base model's name
    /// and the path inside the base model's folder.
    fn name_of(&self, path: &Path) -> String {
        let base = self.adapter().and_then(|adapter| adapter.base.as_ref());
        match base.filter(|_| !path.starts_with(&self.folder)) {
            Some(base) => format!("{base}/{}", name_in(self.network(), path)),
            None => name_in(&self.folder, path),
        }
    }

    /// The ONNX file.
    ///
    /// # Errors
    /// If there is none; the error says why.
    pub fn onnx(&self) -> Result<&Onnx> {
        let onnx = self.onnx.as_ref();
        onnx.map_err(|cause| Error::model(&self.id, cause))
    }

    /// Things a user should be told once, the weights in use considered.
    #[must_use]
    pub fn notes(&self, kind: WeightsKind) -> Vec<String> {
        let graph = self
            .onnx
            .as_ref()
            .ok()
            .filter(|_| kind == WeightsKind::Onnx);
        let warning = graph.and_then(|onnx| onnx.graph.warning());
        self.notes.iter().cloned().chain(warning).collect()
    }

    /// The reason why the model has no weights of `kind`, where it has none.
    #[must_use]
    pub fn lacks(&self, kind: WeightsKind) -> Option<&Cause> {
        match kind {
            WeightsKind::Checkpoint => self.checkpoint.as_ref().err(),
            WeightsKind::Onnx => self.onnx.as_ref().err(),
        }
    }

    /// The main file of the weights of `kind`: the ONNX file, or the first of the checkpoint's.
    #[must_use]
    pub fn weights_file(&self, kind: WeightsKind) -> Option<PathBuf> {
        self.weights(kind).into_iter().next()
    }

    /// Its path inside the model's folder.
    #[must_use]
    pub fn weights_name(&self, kind: WeightsKind) -> String {
        let file = self.weights_file(kind).unwrap_or_default();
        self.name_of(&file)
    }

    fn weights(&self, kind: WeightsKind) -> Vec<PathBuf> {
        match (&self.checkpoint, &self.onnx) {
            (Ok(checkpoint), _) if kind == WeightsKind::Checkpoint => {
                let adapter = checkpoint.adapter.iter().flat_map(Adapter::files);
                checkpoint.files.iter().cloned().chain(adapter).collect()
            }
            (_, Ok(onnx)) => onnx.files().collect(),
            (_, Err(_)) => Vec::new(),
        }
    }

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
    fn deciding_files(&self, noted: &Noted) -> Result<Vec<DecidingFile>> {
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
        .chain(words(super::sentence_config::FILES).map(|name| self.transformer.join(name)));
        let of_all = [
            "modules.json",
            "config_sentence_transformers.json",
            "artifact.metadata",
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
pub(super) struct DecidingFile {
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

/// The folder that a file lies in.
fn folder_of(file: &Path) -> PathBuf {
    file.parent().unwrap_or(file).to_path_buf()
}

/// Module folders are named `1_Pooling`, `2_Dense`, …
fn is_module_folder(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.split_once('_'))
        .is_some_and(|(number, _)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
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

//! A model's files, opened, named and hashed. Nothing here touches the network.

mod deciding;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::Adapter;
use super::ModelName;
use super::checkpoint_notes;
use super::graph::{ElementType, Graph, Value};
use super::late::check_late;
use super::locate::{self, GraphOutput};
use super::located::{self, Located};
use super::multi::{MultiFiles, MultiLayout};
use super::options::{TextRole, TextTask};
use super::resolve::ModelSources;
use super::statics::StaticModel;
use super::{CheckpointFiles, Onnx};
use super::{
    Model, ModelOptions, ModelTask, ScoreTask, WeightsKind, WeightsPreference, metadata, modules,
    resolve, statics, tasks,
};
pub(super) use deciding::DecidingFile;
use embedctl_checkpoint::LowRankAdapter;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::file_state;
use embedctl_common::folder::name_in;
use embedctl_common::setting::PROVIDER;
use embedctl_rows::ModelConfig;
use embedctl_rows::tokenize::TextTokenizer;
use embedctl_rows::vocabulary;

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
    /// Resolves the files of a model and reads its metadata. Loads no weights and touches no network. `wanted` are the kinds
    /// of weights to look for, which follow from the providers of the engine.
    ///
    /// # Errors
    /// If a file is missing or has a setting that embedctl does not support; the message names the file and the setting
    /// to change.
    pub fn open(options: &ModelOptions, wanted: WeightsPreference) -> Result<Self> {
        let (opened, noted) = file_state::noted(|| Self::read(options, wanted));
        let mut model = opened?;
        check_late(&model.config)?;
        model.has_routes = modules::has_routes(&model.folder)?;
        model.files = model.deciding_files(&noted)?;
        Ok(model)
    }

    /// The model's tokenizer, ready for its limit and prompt; `threads` bounds its parallelism.
    ///
    /// # Errors
    /// If the prompt cannot be tokenized, or threads cannot be started.
    pub fn text_tokenizer(&self, threads: usize) -> Result<TextTokenizer> {
        let file = self.transformer.join("tokenizer.json");
        TextTokenizer::new(Arc::clone(&self.tokenizer), &self.config, file, threads)
    }

    fn read(options: &ModelOptions, wanted: WeightsPreference) -> Result<Self> {
        let kinds = options.of_each_form();
        if kinds.is_empty() {
            return Self::of_one_kind(options, wanted);
        }
        let models = kinds.iter().map(|one| Self::of_one_kind(one, wanted));
        Self::joined(models.collect::<Result<_>>()?, options)
    }

    fn of_one_kind(options: &ModelOptions, wanted: WeightsPreference) -> Result<Self> {
        let located = located::folder(options)?;
        match statics::open(&located.folder, options)? {
            Some(model) => Self::of_static(located, model, options),
            None => Self::of_network(located, options, wanted),
        }
    }

    fn of_static(located: Located, model: StaticModel, options: &ModelOptions) -> Result<Self> {
        let folder = located.folder;
        tasks::chosen(&folder.join(&model.folder), options)?;
        if options.task != ModelTask::Embed {
            return Err(Error::model(
                folder.display(),
                "is a static model, which gives vectors and no scores",
            ));
        }
        Ok(Self {
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
            has_routes: false,
            files: Vec::new(),
        })
    }

    fn of_network(
        located: Located,
        options: &ModelOptions,
        wanted: WeightsPreference,
    ) -> Result<Self> {
        let folder = located.folder.clone();
        let multi = MultiFiles::find(&folder, options)?;
        let options = match &multi {
            Some(_) => with_role(options),
            None => options.clone(),
        };
        let modules = modules::read(&folder, &options, multi.as_ref())?;
        let transformer = modules
            .as_ref()
            .map_or_else(String::new, |modules| modules.transformer.clone());
        let is_plain = (modules.as_ref()).is_none_or(|modules| modules.sparse.is_none());
        let weighs = is_plain && resolve::is_weighed(&folder, &options);
        let gives_logits = match &modules {
            Some(modules) => modules.gives_logits(),
            None => resolve::wants_terms(&folder, &options),
        };
        let about = GraphOutput {
            has_modules: modules.is_some(),
            gives_logits,
        };
        let (onnx, checkpoint) =
            locate::weights(&located, &transformer, about, (&options, wanted))?;
        // A layer beside the network works on the states of any engine.
        let onnx = fitting_graph(onnx, weighs, multi.as_ref());
        let graph = onnx.as_ref().ok().map(|onnx| &onnx.graph);
        let transformer = folder.join(transformer);
        let resolved = resolve::resolve(ModelSources {
            root: &folder,
            network: match &checkpoint {
                Ok(checkpoint) => &checkpoint.folder,
                Err(_) => &transformer,
            },
            modules,
            multi: multi.as_ref(),
            graph,
            checkpoint: checkpoint.as_ref().ok(),
            options: &options,
        })?;
        let mut notes = resolved.notes;
        notes.extend(ModelName::ambiguity(&options.model));
        if onnx.is_ok() {
            notes.extend(locate::lfs_note(&transformer));
        }
        Ok(Self {
            id: located.id,
            revision: located.revision,
            transformer,
            folder,
            onnx,
            checkpoint,
            options,
            config: resolved.config,
            tokenizer: resolved.tokenizer.into(),
            reference_dtype: resolved.dtype,
            notes,
            has_routes: false,
            files: Vec::new(),
        })
    }

    /// What a model is made for, by its own files: scores, if it was saved as a `CrossEncoder` or its network's class is one
    /// that classifies; else vectors.
    ///
    /// # Errors
    /// If the model is not here, or one of these files cannot be read.
    pub fn usual_task(options: &ModelOptions) -> Result<ModelTask> {
        let located = located::folder(options)?;
        let pairs = ModelOptions {
            task: SCORE_PAIRS,
            ..options.clone()
        };
        let scores = match modules::read(&located.folder, &pairs, None) {
            Ok(None) if !located.folder.join("modules.json").exists() => {
                let config = metadata::read_value(&located.folder.join("config.json"))?;
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
        let located = located::folder(options)?;
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
        let resolved = resolve::resolve(ModelSources {
            root: folder,
            network: &network,
            modules,
            multi: multi.as_ref(),
            graph: Some(&graph),
            checkpoint: None,
            options,
        })?;
        Ok((resolved.tokenizer, resolved.config))
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
        let config = self.checkpoint.as_ref().map(|one| &one.config);
        config.is_ok_and(|config| !config.is_null())
    }

    /// The tokens of the vocabulary by their ids, as many as a sparse vector has components: an id without a token is
    /// written as `[id]`.
    #[must_use]
    pub fn terms(&self) -> Arc<[String]> {
        let sparse = (self.config.of_all_kinds()).find(|it| it.sparse.is_some());
        let count = sparse.map_or(self.config.width, |it| it.width);
        vocabulary::terms(&self.tokenizer, count)
    }

    /// The adapter that changes the checkpoint's weights, where there is one.
    #[must_use]
    pub fn adapter(&self) -> Option<&Adapter> {
        self.checkpoint.as_ref().ok()?.adapter.as_ref()
    }

    /// The name of a file in messages and in provenance: its path inside the model's folder, or the base model's name
    /// and the path inside the base model's folder.
    fn name_of(&self, path: &Path) -> String {
        let base = self
            .adapter()
            .and_then(|adapter| adapter.low_rank()?.base.as_ref());
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
        let mut notes: Vec<String> = self.notes.iter().cloned().chain(warning).collect();
        if kind == WeightsKind::Checkpoint {
            notes.extend(checkpoint_notes::notes(self));
        }
        notes
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
                let adapter = checkpoint.adapter.iter().filter_map(Adapter::low_rank);
                let adapter = adapter.flat_map(LowRankAdapter::files);
                checkpoint.files.iter().cloned().chain(adapter).collect()
            }
            (_, Ok(onnx)) => onnx.files().collect(),
            (_, Err(_)) => Vec::new(),
        }
    }
}

/// `options` with the role of texts, which decides how a model of a vector for each token marks them. A prompt's name says it,
/// too; a batch job embeds documents.
fn with_role(options: &ModelOptions) -> ModelOptions {
    let role = (options.role())
        .or_else(|| TextRole::of_name(options.prompt_name.as_deref()?))
        .unwrap_or(TextRole::Document);
    ModelOptions {
        text_task: (options.text_task.clone()).or(Some(TextTask::Role(role))),
        ..options.clone()
    }
}

/// A graph that gives what the layers beside the network work on: the states of tokens. `weighs`: such a layer gives each token
/// its weight; `multi`: of a model of a vector for each token.
fn fitting_graph(
    onnx: Result<Onnx, Cause>,
    weighs: bool,
    multi: Option<&MultiFiles>,
) -> Result<Onnx, Cause> {
    let has_head = weighs || multi.is_some_and(|it| it.layout == MultiLayout::Head);
    match onnx {
        Ok(onnx) if has_head && !resolve::gives_states(&onnx.graph) => Err(Cause::of(
            "gives finished vectors, but this model's layers work on states of tokens",
        )
        .with(format!("name {PROVIDER} native, or another file"))),
        _ if multi.is_some() && !has_head => Err(Cause::of(
            "has no ONNX file that is run: the native engine makes the vectors of tokens",
        )
        .with(format!("name {PROVIDER} native, or leave it out"))),
        onnx => onnx,
    }
}

/// The folder that a file lies in.
fn folder_of(file: &Path) -> PathBuf {
    file.parent().unwrap_or(file).to_path_buf()
}

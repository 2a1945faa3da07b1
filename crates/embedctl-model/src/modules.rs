//! `modules.json`: the modules after the Transformer, with their weights.

mod own_files;
mod routes;

use std::path::{Component, Path, PathBuf};

use super::metadata::{self, ModuleEntry, SentenceModuleConfig, SentenceTransformersConfig};
use super::multi::{self, MultiFiles, MultiLayout, MultiModule, ScoringMask};
use super::options::{ModelOptions, ModelTask, TextRole};
use super::tasks;
use embedctl_common::error::{Error, Result};
use embedctl_kernels::TermPooling;
use embedctl_rows::multi::TokenPooling;
use embedctl_rows::{PoolingMode, Step};
use own_files::{auto_encoder, dense, layer_norm, logit_score, pooling, splade_pooling};

pub(crate) use own_files::{LogitScore, ModuleWeights};
pub(crate) use routes::{entries, has_routes};

/// The modules that make a model's vectors sparse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SparseModule {
    /// `SpladePooling` over the logits of a masked language model.
    Terms(TermPooling),
    /// A `SparseAutoEncoder` that keeps so many components.
    AutoEncoder(usize),
    /// A `SparseStaticEmbedding`.
    Tokens,
}

/// The content of `modules.json`.
#[derive(Debug, Default)]
pub(super) struct Modules {
    /// Folder of the Transformer's files inside the repository.
    pub transformer: String,
    /// Pooling, where there is such a module.
    pub pooling: Option<Pooling>,
    /// Modules after pooling.
    pub steps: Vec<Step>,
    /// Whether the network gives the logits of a masked language model, by the module's type.
    pub is_masked: bool,
    /// The module that makes vectors sparse.
    pub sparse: Option<SparseModule>,
    /// The module that makes a score of logits.
    pub logit_score: Option<LogitScore>,
    /// The module that says which tokens have vectors.
    pub mask: Option<ScoringMask>,
    /// Modules that make a text's vectors fewer.
    pub poolings: Vec<TokenPooling>,
}

impl Modules {
    /// Whether the modules work on the logits of a masked language model.
    pub fn gives_logits(&self) -> bool {
        matches!(self.sparse, Some(SparseModule::Terms(_)))
    }
}

/// A Pooling module.
#[derive(Debug)]
pub(super) struct Pooling {
    pub modes: Vec<PoolingMode>,
    pub include_prompt: bool,
    pub width: Option<usize>,
}

/// A module that follows the Transformer.
enum FollowingModule {
    Pooling(Pooling),
    Step(Step),
    LogitScore(LogitScore),
    Splade(TermPooling),
    Multi(MultiModule),
    /// Does nothing outside training.
    Dropout,
}

/// Reads `modules.json` and the modules' own files, of a Router those of the route that `options` ask for; `None` where
/// the repository has none, or has those of a model for another task, which the reference does not read for scores.
/// `multi`: of a model of a vector for each token.
pub(super) fn read(
    folder: &Path,
    options: &ModelOptions,
    multi: Option<&MultiFiles>,
) -> Result<Option<Modules>> {
    let Some(entries) = entries(folder, options)? else {
        return Ok(None);
    };
    let scores = matches!(options.task, ModelTask::Score(_));
    let whole = folder.join("config_sentence_transformers.json");
    let whole = metadata::read::<SentenceTransformersConfig>(&whole)?.unwrap_or_default();
    if scores && whole.model_type.as_deref() != Some("CrossEncoder") {
        return Ok(None);
    }
    let list = ModuleList {
        file: folder.join("modules.json"),
        folder,
        options,
        scores,
        most: whole.most_active(options),
        is_multi: multi.is_some(),
        works_on: match multi.map(|multi| multi.layout) {
            None => ModuleInput::Sentences,
            Some(MultiLayout::Converted | MultiLayout::Head) => ModuleInput::Both,
            Some(_) => ModuleInput::Tokens,
        },
    };
    list.read(&entries).map(Some)
}

/// The list of a model's modules, and what decides how they are read.
struct ModuleList<'a> {
    file: PathBuf,
    folder: &'a Path,
    options: &'a ModelOptions,
    /// Whether scores are asked for.
    scores: bool,
    /// Entries of a sparse vector that are kept at most, where the user or the whole model's file says so.
    most: Option<usize>,
    /// Whether the model gives each token a vector.
    is_multi: bool,
    works_on: ModuleInput,
}

impl ModuleList<'_> {
    fn refuse(&self, reason: impl Into<String>) -> Error {
        Error::model(self.file.display(), reason.into())
    }

    fn read(&self, entries: &[ModuleEntry]) -> Result<Modules> {
        let mut modules = None;
        let mut named: Vec<(&str, Option<FollowingModule>)> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let kind = self.kind(entry)?;
            let is_first = index == 0 || entries[0].name == entry.name;
            let module = match kind {
                "Transformer" | "StaticEmbedding" | "MLMTransformer" | "SparseStaticEmbedding"
                    if is_first =>
                {
                    modules = Some(Modules {
                        transformer: entry.path.clone(),
                        is_masked: kind == "MLMTransformer",
                        sparse: (kind == "SparseStaticEmbedding").then_some(SparseModule::Tokens),
                        ..Modules::default()
                    });
                    None
                }
                kind => self.following(kind, index, &self.folder.join(&entry.path))?,
            };
            // Of two modules of one name, the later takes the earlier's place.
            match named.iter_mut().find(|(name, _)| *name == entry.name) {
                Some(earlier) => earlier.1 = module,
                None => named.push((&entry.name, module)),
            }
        }
        let (Some(mut modules), Some((_, None))) = (modules, named.first()) else {
            return Err(self.refuse(
                "does not begin with a Transformer, whose tokens the other modules work on",
            ));
        };
        for (_, module) in named {
            if let Some(module) = module {
                self.append(&mut modules, module)?;
            }
        }
        Ok(modules)
    }

    /// The kind of an entry's module.
    ///
    /// # Errors
    /// If its folder lies outside the repository, or its class is the repository's own.
    fn kind<'e>(&self, entry: &'e ModuleEntry) -> Result<&'e str> {
        let is_part = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(&entry.path).components().all(is_part)
            || entry.path.split(['/', '\\']).any(|part| part == "..")
        {
            return Err(self.refuse(format!(
                "names the folder '{}' outside the repository",
                entry.path
            )));
        }
        let own = self.folder.join(&entry.path);
        let own_kind = entry.kind.strip_prefix("sentence_transformers.");
        let pylate =
            (self.is_multi && entry.kind == "pylate.models.Dense.Dense").then_some("Dense");
        let own_code = tasks::is_transformer(&entry.kind, &own).then_some("Transformer");
        own_kind
            .or(pylate)
            .or(own_code)
            .and_then(|rest| rest.rsplit('.').next())
            .ok_or_else(|| {
                self.refuse(format!(
                    "uses a module from the repository's own code ({}), which embedctl does not run",
                    entry.kind
                ))
            })
    }

    /// Reads a module that follows the Transformer, in place `index` of the list; its files lie in `own`.
    fn following(&self, kind: &str, index: usize, own: &Path) -> Result<Option<FollowingModule>> {
        let scores = self.scores;
        Ok(Some(match kind {
            "SpladePooling" if index > 0 && !scores => {
                FollowingModule::Splade(splade_pooling(own)?)
            }
            "SparseAutoEncoder" if index > 0 && !scores => {
                let module = auto_encoder(own, self.most)?;
                FollowingModule::Step(Step::AutoEncoder(module))
            }
            "Pooling" if index > 0 && self.works_on == ModuleInput::Both => {
                FollowingModule::Dropout
            }
            "Pooling" if index > 0 => FollowingModule::Pooling(pooling(own)?),
            "Dense" if index > 0 => {
                FollowingModule::Step(Step::Dense(dense(own, scores, self.works_on)?))
            }
            "LayerNorm" if index > 0 => FollowingModule::Step(Step::LayerNorm(layer_norm(own)?)),
            "Normalize" if index > 0 => self.normalize(own)?,
            "Dropout" if index > 0 => FollowingModule::Dropout,
            "MultiVectorMask" | "HierarchicalTokenPooling" if index > 0 && self.is_multi => {
                let role = self.options.role().unwrap_or(TextRole::Document);
                return Ok(multi::read(kind, own, role)?.map(FollowingModule::Multi));
            }
            "LogitScore" if index > 0 && scores => FollowingModule::LogitScore(logit_score(own)?),
            other => {
                return Err(self.refuse(format!(
                    "has the module {other} in place {index}, which embedctl does not run; it runs a Transformer \
                     followed by Pooling, SpladePooling, Dense, LayerNorm, Normalize, SparseAutoEncoder, MultiVectorMask \
                     and HierarchicalTokenPooling"
                )));
            }
        }))
    }

    fn normalize(&self, own: &Path) -> Result<FollowingModule> {
        let file = own.join("config.json");
        let config = metadata::read::<SentenceModuleConfig>(&file)?.unwrap_or_default();
        let sentences = "sentence_embedding";
        let input = config.module_input_name;
        if self.works_on == ModuleInput::Both && input.as_deref().is_none_or(|it| it == sentences) {
            // There is no such vector here.
            return Ok(FollowingModule::Dropout);
        }
        let input = input.or(Some(sentences.into()));
        self.works_on
            .check(&file, input, config.module_output_name)?;
        Ok(FollowingModule::Step(Step::Normalize))
    }

    /// Puts a module behind those before it.
    fn append(&self, modules: &mut Modules, module: FollowingModule) -> Result<()> {
        match module {
            // Pools the tokens again, without regard to the modules before it.
            FollowingModule::Pooling(_) if self.is_multi => {
                return Err(self.refuse(
                    "has a Pooling module, but is of a model that gives each token a vector",
                ));
            }
            FollowingModule::Multi(MultiModule::Mask(mask)) => modules.mask = Some(mask),
            FollowingModule::Multi(MultiModule::Pooling(pooling)) => {
                modules.poolings.extend(pooling);
            }
            FollowingModule::Step(_) if !modules.poolings.is_empty() => {
                return Err(self.refuse(
                    "has a module behind HierarchicalTokenPooling, which embedctl does not run",
                ));
            }
            FollowingModule::Pooling(pooling) => {
                let early = |step: &Step| !matches!(step, Step::Normalize);
                if modules.pooling.is_none() && modules.steps.iter().any(early) {
                    return Err(self.refuse(
                        "has a Dense or LayerNorm module before the first Pooling, where there is no vector yet",
                    ));
                }
                modules.pooling = Some(pooling);
                modules.steps.clear();
            }
            FollowingModule::Splade(pooling) => {
                modules.sparse = Some(SparseModule::Terms(pooling));
                modules.steps.clear();
            }
            FollowingModule::Step(step) => {
                if let Step::AutoEncoder(module) = &step {
                    modules.sparse = Some(SparseModule::AutoEncoder(module.kept));
                }
                modules.steps.push(step);
            }
            FollowingModule::LogitScore(score) => modules.logit_score = Some(score),
            FollowingModule::Dropout => {}
        }
        Ok(())
    }
}

/// What modules behind the Transformer work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModuleInput {
    Sentences,
    Tokens,
    /// Tokens, whatever the files name.
    Both,
}

impl ModuleInput {
    /// Checks the names of a module's input and output.
    fn check(self, file: &Path, input: Option<String>, output: Option<String>) -> Result<()> {
        let known = match self {
            Self::Sentences => &["sentence_embedding"][..],
            Self::Tokens => &["token_embeddings"],
            Self::Both => &["sentence_embedding", "token_embeddings"],
        };
        for name in [input, output].into_iter().flatten() {
            if !known.contains(&name.as_str()) {
                return Err(Error::model(
                    file.display(),
                    format!(
                        "works on '{name}'; embedctl runs modules of such a model that work on '{}' only",
                        known[0]
                    ),
                ));
            }
        }
        Ok(())
    }
}

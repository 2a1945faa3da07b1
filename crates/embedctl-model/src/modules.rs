//! `modules.json`: the modules after the Transformer, with their weights.

mod own_files;
mod routes;

use std::path::{Component, Path};

use super::PoolingMode;
use super::config::Step;
use super::metadata::{self, SentenceModuleConfig, SentenceTransformersConfig};
use super::multi::{self, MultiFiles, MultiLayout, MultiModule, ScoringMask, TokenPooling};
use super::options::{ModelOptions, ModelTask, TextRole};
use super::tasks;
use embedctl_common::error::{Error, Result};
use embedctl_native::kernels::TermPooling;
use own_files::{auto_encoder, dense, layer_norm, logit_score, pooling, splade_pooling};

pub(crate) use own_files::{LogitScore, ModuleWeights};
pub(crate) use routes::entries;

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
    let list = folder.join("modules.json");
    let Some(entries) = entries(folder, options)? else {
        return Ok(None);
    };
    let scores = matches!(options.task, ModelTask::Score(_));
    if scores {
        let whole = folder.join("config_sentence_transformers.json");
        let whole = metadata::read::<SentenceTransformersConfig>(&whole)?.unwrap_or_default();
        if whole.model_type.as_deref() != Some("CrossEncoder") {
            return Ok(None);
        }
    }
    let refuse = |reason: String| Error::model(list.display(), reason);
    let works_on = match multi.map(|multi| multi.layout) {
        None => ModuleInput::Sentences,
        Some(MultiLayout::Converted | MultiLayout::Head) => ModuleInput::Both,
        Some(_) => ModuleInput::Tokens,
    };
    let role = options.role().unwrap_or(TextRole::Document);
    let mut transformer = None;
    let (mut is_masked, mut by_token) = (false, false);
    let mut named: Vec<(&str, Option<FollowingModule>)> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let own = folder.join(&entry.path);
        let is_part = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(&entry.path).components().all(is_part)
            || entry.path.split(['/', '\\']).any(|part| part == "..")
        {
            return Err(refuse(format!(
                "names the folder '{}' outside the repository",
                entry.path
            )));
        }
        let own_kind = entry.kind.strip_prefix("sentence_transformers.");
        let pylate =
            (multi.is_some() && entry.kind == "pylate.models.Dense.Dense").then_some("Dense");
        let own_code = tasks::is_transformer(&entry.kind, &own).then_some("Transformer");
        let kind = own_kind
            .or(pylate)
            .or(own_code)
            .and_then(|rest| rest.rsplit('.').next())
            .ok_or_else(|| {
                refuse(format!(
                    "uses a module from the repository's own code ({}), which embedctl does not run",
                    entry.kind
                ))
            })?;
        let module = match kind {
            "Transformer" | "StaticEmbedding" | "MLMTransformer" | "SparseStaticEmbedding"
                if index == 0 || entries[0].name == entry.name =>
            {
                transformer = Some(entry.path.clone());
                is_masked = kind == "MLMTransformer";
                by_token = kind == "SparseStaticEmbedding";
                None
            }
            "SpladePooling" if index > 0 && !scores => {
                Some(FollowingModule::Splade(splade_pooling(&own)?))
            }
            "SparseAutoEncoder" if index > 0 && !scores => {
                let module = auto_encoder(&own, options.max_active_dims)?;
                Some(FollowingModule::Step(Step::AutoEncoder(module)))
            }
            "Pooling" if index > 0 && works_on == ModuleInput::Both => {
                Some(FollowingModule::Dropout)
            }
            "Pooling" if index > 0 => Some(FollowingModule::Pooling(pooling(&own)?)),
            "Dense" if index > 0 => Some(FollowingModule::Step(Step::Dense(dense(
                &own, scores, works_on,
            )?))),
            "LayerNorm" if index > 0 => {
                Some(FollowingModule::Step(Step::LayerNorm(layer_norm(&own)?)))
            }
            "Normalize" if index > 0 => {
                let file = own.join("config.json");
                let config = metadata::read::<SentenceModuleConfig>(&file)?.unwrap_or_default();
                let sentences = "sentence_embedding";
                let input = config.module_input_name;
                if works_on == ModuleInput::Both
                    && input.as_deref().is_none_or(|it| it == sentences)
                {
                    // There is no such vector here.
                    Some(FollowingModule::Dropout)
                } else {
                    works_on.check(
                        &file,
                        input.or(Some(sentences.into())),
                        config.module_output_name,
                    )?;
                    Some(FollowingModule::Step(Step::Normalize))
                }
            }
            "Dropout" if index > 0 => Some(FollowingModule::Dropout),
            "MultiVectorMask" | "HierarchicalTokenPooling" if index > 0 && multi.is_some() => {
                multi::read(kind, &own, role)?.map(FollowingModule::Multi)
            }
            "LogitScore" if index > 0 && scores => {
                Some(FollowingModule::LogitScore(logit_score(&own)?))
            }
            other => {
                return Err(refuse(format!(
                    "has the module {other} in place {index}, which embedctl does not run; it runs a Transformer \
                     followed by Pooling, SpladePooling, Dense, LayerNorm, Normalize, SparseAutoEncoder, MultiVectorMask \
                     and HierarchicalTokenPooling"
                )));
            }
        };
        // Of two modules of one name, the later takes the earlier's place.
        match named.iter_mut().find(|(name, _)| *name == entry.name) {
            Some(earlier) => earlier.1 = module,
            None => named.push((&entry.name, module)),
        }
    }
    let (Some(transformer), Some((_, None))) = (transformer, named.first()) else {
        return Err(refuse(
            "does not begin with a Transformer, whose tokens the other modules work on".into(),
        ));
    };
    let mut modules = Modules {
        transformer,
        is_masked,
        sparse: by_token.then_some(SparseModule::Tokens),
        ..Modules::default()
    };
    for (_, module) in named {
        match module {
            // Pools the tokens again, without regard to the modules before it.
            Some(FollowingModule::Pooling(_)) if multi.is_some() => {
                return Err(refuse(
                    "has a Pooling module, but is of a model that gives each token a vector".into(),
                ));
            }
            Some(FollowingModule::Multi(MultiModule::Mask(mask))) => modules.mask = Some(mask),
            Some(FollowingModule::Multi(MultiModule::Pooling(pooling))) => {
                modules.poolings.extend(pooling);
            }
            Some(FollowingModule::Step(_)) if !modules.poolings.is_empty() => {
                return Err(refuse(
                    "has a module behind HierarchicalTokenPooling, which embedctl does not run"
                        .into(),
                ));
            }
            Some(FollowingModule::Pooling(pooling)) => {
                let early = |step: &Step| !matches!(step, Step::Normalize);
                if modules.pooling.is_none() && modules.steps.iter().any(early) {
                    return Err(refuse(
                        "has a Dense or LayerNorm module before the first Pooling, where there is no vector yet"
                            .into(),
                    ));
                }
                modules.pooling = Some(pooling);
                modules.steps.clear();
            }
            Some(FollowingModule::Splade(pooling)) => {
                modules.sparse = Some(SparseModule::Terms(pooling));
                modules.steps.clear();
            }
            Some(FollowingModule::Step(step)) => {
                if let Step::AutoEncoder(module) = &step {
                    modules.sparse = Some(SparseModule::AutoEncoder(module.kept));
                }
                modules.steps.push(step);
            }
            Some(FollowingModule::LogitScore(score)) => modules.logit_score = Some(score),
            Some(FollowingModule::Dropout) | None => {}
        }
    }
    Ok(Some(modules))
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

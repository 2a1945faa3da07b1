//! `modules.json`: the modules after the Transformer, with their weights.

use std::path::{Component, Path};

use super::PoolingMode;
use super::config::Step;
use super::layers::{Dense, DenseActivation, LayerNorm, Residual};
use super::metadata::{
    self, AutoEncoderConfig, DenseConfig, PoolingConfig, SentenceModuleConfig,
    SentenceTransformersConfig, SpladeConfig,
};
use super::multi::{self, MultiFiles, MultiLayout, MultiModule, ScoringMask, TokenPooling};
use super::options::{ModelOptions, ModelTask, TextRole};
use super::score::LogitScore;
use super::sparse::{self, AutoEncoder, SparseModule};
use embedctl_common::error::{Error, Result};
use embedctl_native::kernels::TermPooling;
use embedctl_native::safetensors::{Checkpoint, missing};

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
    let Some(entries) = sparse::entries(folder, options)? else {
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
        None => WorksOn::Sentences,
        Some(MultiLayout::Converted | MultiLayout::Head) => WorksOn::Both,
        Some(_) => WorksOn::Tokens,
    };
    let role = options.role.unwrap_or(TextRole::Document);
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
        let kind = own_kind
            .or(pylate)
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
            "Pooling" if index > 0 && works_on == WorksOn::Both => Some(FollowingModule::Dropout),
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
                if works_on == WorksOn::Both && input.as_deref().is_none_or(|it| it == sentences) {
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
                    "has a Pooling module, and is of a model that gives each token a vector".into(),
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
enum WorksOn {
    Sentences,
    Tokens,
    /// Tokens, whatever the files name.
    Both,
}

impl WorksOn {
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

/// Keys of a Pooling module's config.json.
const POOLING_KEYS: &str = "embedding_dimension include_prompt pooling_mode pooling_mode_cls_token
    pooling_mode_lasttoken pooling_mode_max_tokens pooling_mode_mean_sqrt_len_tokens pooling_mode_mean_tokens
    pooling_mode_weightedmean_tokens word_embedding_dimension";

/// Keys of a Dense module's config.json.
const DENSE_KEYS: &str = "activation_function bias in_features module_input_name module_output_name
    out_features use_residual";

fn pooling(folder: &Path) -> Result<Pooling> {
    let file = folder.join("config.json");
    let config = metadata::read_known::<PoolingConfig>(&file, POOLING_KEYS)?.ok_or_else(|| {
        Error::model(file.display(), "is missing: modules.json lists this module")
    })?;
    let mut modes = Vec::new();
    if let Some(names) = &config.pooling_mode {
        for name in names.names() {
            let mode = PoolingMode::ALL
                .into_iter()
                .find(|mode| mode.name() == name);
            modes.push(mode.ok_or_else(|| {
                let known = PoolingMode::ALL.map(PoolingMode::name).join(", ");
                Error::model(
                    file.display(),
                    format!("names the pooling_mode '{name}'; the modes are {known}"),
                )
            })?);
        }
        if modes.is_empty() {
            return Err(Error::model(
                file.display(),
                "has an empty pooling_mode, so it does not say how tokens become a vector",
            ));
        }
    } else {
        // The old schema's booleans, in the order in which the reference concatenates.
        let old = [
            (config.pooling_mode_cls_token, PoolingMode::Cls),
            (config.pooling_mode_max_tokens, PoolingMode::Max),
            (config.pooling_mode_mean_tokens, PoolingMode::Mean),
            (
                config.pooling_mode_mean_sqrt_len_tokens,
                PoolingMode::MeanSqrtLen,
            ),
            (
                config.pooling_mode_weightedmean_tokens,
                PoolingMode::WeightedMean,
            ),
            (config.pooling_mode_lasttoken, PoolingMode::LastToken),
        ];
        modes.extend(
            old.iter()
                .filter(|(on, _)| *on == Some(true))
                .map(|(_, mode)| *mode),
        );
    }
    if modes.is_empty() {
        modes.push(PoolingMode::Mean);
    }
    let width = config
        .embedding_dimension
        .or(config.word_embedding_dimension);
    let width = width
        .ok_or_else(|| Error::model(file.display(), "does not state its embedding_dimension"))?;
    Ok(Pooling {
        modes,
        include_prompt: config.include_prompt.unwrap_or(true),
        width: Some(width),
    })
}

/// `scores`: whether its output may be scores.
fn dense(folder: &Path, scores: bool, works_on: WorksOn) -> Result<Dense> {
    let file = folder.join("config.json");
    let config = metadata::read_known::<DenseConfig>(&file, DENSE_KEYS)?.ok_or_else(|| {
        Error::model(file.display(), "is missing: modules.json lists this module")
    })?;
    let output = config.module_output_name;
    let output = output.filter(|name| !(scores && name == "scores"));
    works_on.check(&file, config.module_input_name, output)?;
    let activation = match &config.activation_function {
        None => DenseActivation::Tanh,
        Some(named) => named.as_str().and_then(DenseActivation::parse).ok_or_else(|| {
            Error::model(
                file.display(),
                format!(
                    "names the activation {named}, which embedctl does not know; it knows the classes of torch.nn that \
                     need no arguments and no weights, by their full path (torch.nn.modules.activation.Tanh)"
                ),
            )
        })?,
    };
    let weights = ModuleWeights::open(folder)?;
    let (input, output) = (config.in_features, config.out_features);
    let residual = match (config.use_residual, input == output) {
        (false, _) => Residual::None,
        (true, true) => Residual::Identity,
        (true, false) => {
            Residual::Projected(weights.get("residual.weight", input * output)?.into())
        }
    };
    Ok(Dense {
        weight: weights.get("linear.weight", input * output)?.into(),
        bias: if config.bias {
            weights.get("linear.bias", output)?
        } else {
            Vec::new()
        },
        input,
        output,
        activation,
        residual,
    })
}

/// Keys of a `SpladePooling` module's config.json.
const SPLADE_KEYS: &str =
    "activation_function embedding_dimension pooling_strategy word_embedding_dimension";

fn splade_pooling(folder: &Path) -> Result<TermPooling> {
    let file = folder.join("config.json");
    let config = metadata::read_known::<SpladeConfig>(&file, SPLADE_KEYS)?.ok_or_else(|| {
        Error::model(file.display(), "is missing: modules.json lists this module")
    })?;
    let refuse = |key: &str, value: &str, known: &str| {
        let reason = format!("names the {key} '{value}'; sentence-transformers knows {known}");
        Error::model(file.display(), reason)
    };
    Ok(TermPooling {
        sums: match config.pooling_strategy.as_deref().unwrap_or("max") {
            "max" => false,
            "sum" => true,
            other => return Err(refuse("pooling_strategy", other, "max and sum")),
        },
        twice: match config.activation_function.as_deref().unwrap_or("relu") {
            "relu" => false,
            "log1p_relu" => true,
            other => return Err(refuse("activation_function", other, "relu and log1p_relu")),
        },
    })
}

/// Keys of a `SparseAutoEncoder` module's config.json.
const AUTO_ENCODER_KEYS: &str = "dead_threshold hidden_dim input_dim k k_aux normalize";

/// `most`: components that are kept, where the user says so.
fn auto_encoder(folder: &Path, most: Option<usize>) -> Result<AutoEncoder> {
    let file = folder.join("config.json");
    let config =
        metadata::read_known::<AutoEncoderConfig>(&file, AUTO_ENCODER_KEYS)?.ok_or_else(|| {
            Error::model(file.display(), "is missing: modules.json lists this module")
        })?;
    let (input, output) = (config.input_dim, config.hidden_dim);
    if input == 0 || output == 0 || output > metadata::MOST_WIDTH {
        return Err(Error::model(
            file.display(),
            format!("has input_dim {input} and hidden_dim {output}"),
        )
        .with_remedy("fetch the file again"));
    }
    let weights = ModuleWeights::open(folder)?;
    Ok(AutoEncoder {
        pre_bias: weights.get("pre_bias", input)?,
        // The decoder shares it: of the two names one is stored.
        weight: weights.get_any(&["encoder.weight", "decoder.linear.weight"], input * output)?,
        latent_bias: weights.get("latent_bias", output)?,
        input,
        output,
        kept: most.unwrap_or(config.k),
        normalize: config.normalize,
    })
}

/// Keys of a `LogitScore` module's config.json.
const LOGIT_SCORE_KEYS: &str = "true_token_id false_token_id module_input_name";

fn logit_score(folder: &Path) -> Result<LogitScore> {
    let file = folder.join("config.json");
    metadata::read_known(&file, LOGIT_SCORE_KEYS)?
        .ok_or_else(|| Error::model(file.display(), "is missing: modules.json lists this module"))
}

fn layer_norm(folder: &Path) -> Result<LayerNorm> {
    let weights = ModuleWeights::open(folder)?;
    let weight = weights.get("norm.weight", None)?;
    let bias = weights.get("norm.bias", weight.len())?;
    Ok(LayerNorm {
        weight,
        bias,
        // torch.nn.LayerNorm's default, which the reference's module never changes.
        epsilon: 1e-5,
    })
}

/// The `model.safetensors` of a module.
pub(super) struct ModuleWeights(Checkpoint);

impl ModuleWeights {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let file = folder.join("model.safetensors");
        // Any other obstacle is reported when it is opened.
        if file.try_exists().unwrap_or(true) {
            return Checkpoint::open_files(&[file]).map(Self);
        }
        let pickled = folder.join("pytorch_model.bin");
        Err(if pickled.exists() {
            Error::model(
                pickled.display(),
                "holds the module's weights as a pickle, which embedctl does not execute",
            )
            .with_remedy(
                "convert it once with Python: safetensors.torch.save_file(torch.load('pytorch_model.bin', \
                 weights_only=True), 'model.safetensors')",
            )
        } else {
            Error::model(file.display(), "is missing: modules.json lists this module")
                .with_remedy("fetch it")
        })
    }

    /// The same of the first of these names that is there.
    fn get_any(&self, names: &[&str], length: usize) -> Result<Vec<f32>> {
        let found = names.iter().find(|name| self.0.get(name).is_some());
        self.get(found.unwrap_or(&names[0]), length)
    }

    /// The shape of a tensor.
    pub(super) fn shape(&self, name: &str) -> Result<Vec<usize>> {
        let tensor = self.0.get(name).ok_or_else(|| missing(&self.0, name))?;
        Ok(tensor.shape().to_vec())
    }

    /// A tensor as f32; `length` is its expected number of elements.
    pub(super) fn get(&self, name: &str, length: impl Into<Option<usize>>) -> Result<Vec<f32>> {
        let tensor = self.0.get(name).ok_or_else(|| missing(&self.0, name))?;
        let mut sides = tensor.shape().iter();
        let elements = sides.try_fold(1, |all: usize, &side| all.checked_mul(side));
        match length.into() {
            Some(length) if elements != Some(length) => Err(tensor.wrong(format!(
                "has the shape {:?} where config.json asks for {length} elements",
                tensor.shape()
            ))),
            _ => tensor.floats(),
        }
    }
}

//! Repositories of static embeddings: token vectors and a tokenizer, without a network.
//!
//! modules.json decides whose rules hold. If it begins with a StaticEmbedding, sentence-transformers' rules hold: every
//! token counts, special tokens are not added, and nothing is cut unless tokenizer.json truncates. Without modules.json
//! and with `"model_type": "model2vec"` in config.json, model2vec's rules hold: a text is cut to so many characters and
//! tokens, and unknown tokens are left out.

mod tokens;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tokenizers::{Tokenizer, TruncationDirection};

use super::metadata::{self, SentenceTransformersConfig};
use super::modules;
use super::options::ModelOptions;
use super::resolve;
use embedctl_checkpoint::safetensors;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{MAX_LENGTH, POOLING};
use embedctl_rows::vocabulary;
use embedctl_rows::{Frame, ModelConfig, OutputChoice, PositionIds, Prompts, Side, Step};

/// Tokens at which model2vec cuts a text where config.json doesn't say.
const MODEL2VEC_LENGTH: usize = 512;

/// A static model's files and their settings.
pub(super) struct StaticModel {
    /// The folder of weights and tokenizer inside the repository.
    pub folder: String,
    /// `model.safetensors`.
    pub weights: PathBuf,
    pub config: ModelConfig,
    pub tokenizer: Tokenizer,
}

/// model2vec's settings in config.json.
#[derive(Deserialize)]
struct Model2Vec {
    model_type: Option<String>,
    #[serde(default)]
    normalize: bool,
    /// Absent: the default; null: no limit.
    #[serde(default, deserialize_with = "stated")]
    max_length: Option<Option<usize>>,
}

fn stated<'a, D: serde::Deserializer<'a>>(
    value: D,
) -> std::result::Result<Option<Option<usize>>, D::Error> {
    Deserialize::deserialize(value).map(Some)
}

/// The static model in `root`; `None` where it holds another kind of model.
///
/// # Errors
/// If it holds one whose files are missing or contradict each other.
pub(super) fn open(root: &Path, options: &ModelOptions) -> Result<Option<StaticModel>> {
    let Some(entries) = modules::entries(root, options)? else {
        let file = root.join("config.json");
        return match metadata::read_value(&file)?
            .and_then(|value| Model2Vec::deserialize(value).ok())
        {
            Some(config) if config.model_type.as_deref() == Some("model2vec") => {
                model2vec(root, &config, options).map(Some)
            }
            _ => Ok(None),
        };
    };
    let kind = entries.first().map_or("", |entry| entry.kind.as_str());
    let own = kind.strip_prefix("sentence_transformers.");
    match own.and_then(|own| own.rsplit('.').next()) {
        Some("StaticEmbedding") => sentence_transformers(root, options).map(Some),
        Some("SparseStaticEmbedding") => tokens::static_tokens(root, options).map(Some),
        _ => Ok(None),
    }
}

fn sentence_transformers(root: &Path, options: &ModelOptions) -> Result<StaticModel> {
    let modules = modules::read(root, options, None)?.unwrap_or_default();
    if modules.pooling.is_some() {
        return Err(Error::model(
            root.join("modules.json").display(),
            "puts a Pooling module after a StaticEmbedding, which already gives one vector per text",
        ));
    }
    let folder = modules.transformer.trim_matches(['.', '/']).to_string();
    let mut tokenizer = read_tokenizer(&root.join(&folder))?;
    let truncation = tokenizer.get_truncation().cloned();
    let side = match truncation.as_ref().map(|truncation| truncation.direction) {
        Some(TruncationDirection::Left) => Side::Left,
        _ => Side::Right,
    };
    bare(&mut tokenizer)?;
    let limit = truncation.map_or(ModelConfig::UNLIMITED, |truncation| truncation.max_length);
    finish(root, folder, tokenizer, modules.steps, options, |config| {
        config.max_length = limit;
        config.truncation_side = side;
    })
}

fn model2vec(root: &Path, model: &Model2Vec, options: &ModelOptions) -> Result<StaticModel> {
    let file = root.join("tokenizer.json");
    let mut tokenizer = read_tokenizer(root)?;
    bare(&mut tokenizer)?;
    let limit = model.max_length.unwrap_or(Some(MODEL2VEC_LENGTH));
    // The tokenizer's model says which token is unknown, by its text or, in Unigram, by its id.
    let parts = metadata::read_value(&file)?.unwrap_or_default();
    let unknown = match &parts["model"] {
        unigram if unigram["type"] == "Unigram" => unigram["unk_id"]
            .as_u64()
            .and_then(|id| u32::try_from(id).ok()),
        other => other["unk_token"]
            .as_str()
            .and_then(|token| tokenizer.token_to_id(token)),
    };
    let median = vocabulary::median_length(&tokenizer);
    let steps = if model.normalize {
        vec![Step::Normalize]
    } else {
        Vec::new()
    };
    finish(root, String::new(), tokenizer, steps, options, |config| {
        config.max_length = limit.unwrap_or(ModelConfig::UNLIMITED);
        config.dropped_id = unknown;
    })
    .map(|mut model| {
        // The limit in force may be the user's.
        let limit = Some(model.config.max_length).filter(|&limit| limit != ModelConfig::UNLIMITED);
        model.config.most_characters = limit.map(|limit| limit.saturating_mul(median));
        model
    })
}

/// Reads the tokenizer as it is: no class rebuilds it.
fn read_tokenizer(folder: &Path) -> Result<Tokenizer> {
    let file = folder.join("tokenizer.json");
    metadata::tokenizer(&file).map_err(|cause| Error::model(file.display(), cause))
}

/// Removes truncation, padding and special tokens.
fn bare(tokenizer: &mut Tokenizer) -> Result<()> {
    tokenizer
        .with_padding(None)
        .with_post_processor(None::<tokenizers::PostProcessorWrapper>);
    tokenizer
        .with_truncation(None)
        .map(|_| ())
        .map_err(|error| Error::internal(format!("taking a tokenizer's truncation away: {error}")))
}

fn finish(
    root: &Path,
    folder: String,
    tokenizer: Tokenizer,
    mut steps: Vec<Step>,
    options: &ModelOptions,
    decide: impl FnOnce(&mut ModelConfig),
) -> Result<StaticModel> {
    if options.pooling.is_some() {
        return Err(Error::usage(format!(
            "{POOLING} has nothing to pool: a static model gives one vector a text"
        )));
    }
    let weights = root.join(&folder).join("model.safetensors");
    let hidden = width(&weights)?;
    let whole_file = root.join("config_sentence_transformers.json");
    let whole: SentenceTransformersConfig = metadata::read(&whole_file)?.unwrap_or_default();
    let truncate = whole.truncate_dim.clone();
    let prompts = resolve::prompts(&whole);
    let prompt = resolve::choose_prompt(&prompts, options, &whole_file)?;
    let full = resolve::width_after(hidden, &steps, root)?;
    if options.normalize == Some(false) {
        while steps.last() == Some(&Step::Normalize) {
            steps.pop();
        }
    }
    let (dimensions, width) = resolve::dimensions(full, options, (&whole_file, truncate.as_ref()))?;
    let ends_normalized = steps.last() == Some(&Step::Normalize) && dimensions.is_empty();
    let mut config = ModelConfig {
        steps,
        dimensions,
        normalize_last: options.normalize == Some(true) && !ends_normalized,
        hidden_width: hidden,
        width,
        prompts,
        prompt,
        late: options.late,
        ..static_config()
    };
    decide(&mut config);
    match options.max_length {
        Some(0) => {
            return Err(
                Error::usage(format!("{MAX_LENGTH} 0 leaves no room for text"))
                    .with_remedy("the least is 1"),
            );
        }
        Some(asked) => config.max_length = asked,
        None => {}
    }
    Ok(StaticModel {
        folder,
        weights,
        config,
        tokenizer,
    })
}

/// The configuration of a model without a network, before its files are read.
pub(super) fn static_config() -> ModelConfig {
    ModelConfig {
        scores: None,
        sparse: None,
        multi: None,
        beside: Vec::new(),
        max_length: ModelConfig::UNLIMITED,
        greatest_length: ModelConfig::UNLIMITED,
        positions_limit: None,
        frame: Frame::default(),
        truncation_side: Side::Right,
        padding_id: 0,
        special_ids: BTreeSet::new(),
        positions: PositionIds::FromZero,
        output: OutputChoice::Sentence("sentence_embedding".into()),
        pooling: Vec::new(),
        include_prompt: true,
        token_steps: Vec::new(),
        not_last: None,
        steps: Vec::new(),
        dimensions: Vec::new(),
        normalize_last: false,
        hidden_width: 0,
        width: 0,
        prompts: Prompts::default(),
        prompt: String::new(),
        dropped_id: None,
        most_characters: None,
        late: false,
    }
}

/// The width of the token vectors, from the weights' header.
fn width(file: &Path) -> Result<usize> {
    let tensors = safetensors::outlines(file)?;
    ["embedding.weight", "embeddings"]
        .into_iter()
        .find_map(|name| usize::try_from(*tensors.get(name)?.shape.get(1)?).ok())
        .filter(|width| (1..=metadata::MOST_WIDTH).contains(width))
        .ok_or_else(|| {
            Error::model(
                file.display(),
                "has no tensor 'embedding.weight' or 'embeddings' of token vectors",
            )
        })
}

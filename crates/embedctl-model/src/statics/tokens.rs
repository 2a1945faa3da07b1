//! Sparse vectors without a network: a weight for each token (`SparseStaticEmbedding`), such as its inverse document
//! frequency.

use std::path::Path;

use super::{StaticModel, static_config};
use crate::metadata::{self, SentenceTransformersConfig, TransformerConfig};
use crate::modules;
use crate::options::ModelOptions;
use crate::resolve::{self, refuse_dense};
use crate::tokenizer::{self, TokenizerRequests};
use embedctl_checkpoint::safetensors;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::MAX_LENGTH;
use embedctl_rows::sparse::SparseKind;
use embedctl_rows::{ModelConfig, OutputChoice, Step};

/// The model of weights by token in `root`, whose modules.json begins with one.
///
/// # Errors
/// If a file is missing or contradicts another.
pub(crate) fn static_tokens(root: &Path, options: &ModelOptions) -> Result<StaticModel> {
    refuse_dense(options)?;
    let modules = modules::read(root, options, None)?.unwrap_or_default();
    if modules
        .steps
        .iter()
        .any(|step| !matches!(step, Step::Normalize))
    {
        return Err(Error::model(
            root.join("modules.json").display(),
            "has a module behind SparseStaticEmbedding that works on vectors in full, which embedctl does not run",
        ));
    }
    let folder = modules.transformer.trim_matches(['.', '/']).to_string();
    let own = root.join(&folder);
    let tokenizer = tokenizer::read(
        &own,
        &TransformerConfig::default(),
        &TokenizerRequests {
            lower_case: false,
            arguments: serde_json::Map::new(),
            no_special_tokens: true,
            token_types: None,
            split_special_tokens: None,
            pairs: false,
        },
    )?;
    let weights = own.join("model.safetensors");
    let outlines = safetensors::outlines(&weights)?;
    let terms = outlines
        .get("weight")
        .filter(|tensor| tensor.shape.len() == 1)
        .and_then(|tensor| usize::try_from(tensor.shape[0]).ok())
        .filter(|terms| *terms > 0)
        .ok_or_else(|| {
            Error::model(
                weights.display(),
                "has no tensor 'weight' with a weight for each token",
            )
        })?;
    let whole_file = root.join("config_sentence_transformers.json");
    let whole: SentenceTransformersConfig = metadata::read(&whole_file)?.unwrap_or_default();
    let most = whole.most_active(options);
    let prompts = resolve::prompts(&whole);
    let prompt = resolve::choose_prompt(&prompts, options, &whole_file)?;
    let max_length = match options.max_length {
        Some(0) => {
            return Err(
                Error::usage(format!("{MAX_LENGTH} 0 leaves no room for text"))
                    .with_remedy("the least is 1"),
            );
        }
        Some(asked) => asked,
        None => tokenizer.max_length.unwrap_or(ModelConfig::UNLIMITED),
    };
    Ok(StaticModel {
        folder,
        weights,
        config: ModelConfig {
            sparse: Some(SparseKind {
                terms: None,
                by_token: true,
                weighed: None,
                most,
            }),
            max_length,
            truncation_side: tokenizer.truncation_side,
            special_ids: tokenizer.special_ids,
            steps: modules.steps,
            hidden_width: terms,
            width: terms,
            prompts,
            prompt,
            output: OutputChoice::Sentence("sentence_embedding".into()),
            ..static_config()
        },
        tokenizer: tokenizer.tokenizer,
    })
}

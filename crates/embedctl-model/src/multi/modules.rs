//! The modules of modules.json that only models of a vector for each token have.

use std::path::Path;

use serde::Deserialize;

use crate::metadata::{self, OneOrMany};
use crate::options::TextRole;
use embedctl_common::error::{Error, Result};
use embedctl_rows::multi::TokenPooling;

/// A `MultiVectorMask`: which tokens have a vector.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ScoringMask {
    skiplist_words: Option<Vec<String>>,
    skiplist_tasks: Option<OneOrMany>,
    keep_only_token_ids: Option<Vec<u32>>,
}

/// Keys of a `MultiVectorMask` module's config.json.
const MASK_KEYS: &str = "keep_only_token_ids skiplist_tasks skiplist_words";

/// Keys of a `HierarchicalTokenPooling` module's config.json.
const POOLING_KEYS: &str = "normalize_embeddings num_protected_tokens pool_factor tasks";

/// `config.json` of a `HierarchicalTokenPooling` module.
#[derive(Debug, Deserialize)]
struct TokenPoolingConfig {
    #[serde(default = "one")]
    pool_factor: f64,
    #[serde(default = "one_token")]
    num_protected_tokens: usize,
    #[serde(default)]
    normalize_embeddings: bool,
    #[serde(default)]
    tasks: Option<OneOrMany>,
}

fn one() -> f64 {
    1.0
}

fn one_token() -> usize {
    1
}

/// Whether a list of tasks, by default that of documents alone, has the role.
fn lists(tasks: Option<&OneOrMany>, role: TextRole) -> bool {
    match tasks {
        Some(tasks) => tasks.names().iter().any(|task| task == role.name()),
        None => role == TextRole::Document,
    }
}

impl ScoringMask {
    /// One of these words alone.
    pub fn skipping(words: Vec<String>) -> Self {
        Self {
            skiplist_words: Some(words),
            ..Self::default()
        }
    }

    /// The words that have no vector in texts of that role.
    pub fn skipped(&self, role: TextRole) -> &[String] {
        match lists(self.skiplist_tasks.as_ref(), role) {
            true => self.skiplist_words.as_deref().unwrap_or_default(),
            false => &[],
        }
    }

    /// The only tokens with a vector in texts of that role.
    pub fn kept(&self, role: TextRole) -> Option<&[u32]> {
        let kept = self.keep_only_token_ids.as_deref();
        kept.filter(|kept| role == TextRole::Document && !kept.is_empty())
    }
}

/// A module that only such models have.
pub(crate) enum MultiModule {
    Mask(ScoringMask),
    /// A clustering; `None` where it does not act on texts of the role.
    Pooling(Option<TokenPooling>),
}

/// Reads the module of this type in `folder`; `None` for other types.
///
/// # Errors
/// If its file is damaged.
pub(crate) fn read(kind: &str, folder: &Path, role: TextRole) -> Result<Option<MultiModule>> {
    let file = folder.join("config.json");
    match kind {
        "MultiVectorMask" => {
            let mask = metadata::read_known(&file, MASK_KEYS)?.unwrap_or_default();
            Ok(Some(MultiModule::Mask(mask)))
        }
        "HierarchicalTokenPooling" => {
            let config = metadata::read_known::<TokenPoolingConfig>(&file, POOLING_KEYS)?;
            let config = config.ok_or_else(|| {
                Error::model(file.display(), "is missing: modules.json lists this module")
            })?;
            if config.pool_factor.is_nan() || config.pool_factor < 1.0 {
                let reason = format!("has the pool_factor {}", config.pool_factor);
                return Err(Error::model(file.display(), reason)
                    .with_remedy("it must be 1 or greater; fetch the file again"));
            }
            let pooling = TokenPooling {
                factor: config.pool_factor,
                protected: config.num_protected_tokens,
                normalize: config.normalize_embeddings,
            };
            let acts = lists(config.tasks.as_ref(), role);
            Ok(Some(MultiModule::Pooling(acts.then_some(pooling))))
        }
        _ => Ok(None),
    }
}

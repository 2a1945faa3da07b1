//! The layouts in which models of a vector for each token are saved.

use std::path::Path;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::heads;
use crate::metadata::{self, ModuleEntry};
use crate::options::{ModelOptions, ModelTask};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::VECTORS;
use embedctl_vectors::RowForm;

/// How the files of a model say that it gives a vector for each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MultiLayout {
    /// As `MultiVectorEncoder` saves it: modules.json has all modules.
    Own,
    /// As PyLate saves it: a Transformer and Dense modules; the mask and the normalization follow from the type.
    PyLate,
    /// The modules of another encoder, whose Dense modules work on tokens here.
    Converted,
    /// A layer beside the network gives each token its vector, as FlagEmbedding saves it.
    Head,
    /// Stanford's: a checkpoint with the projection inside, and `artifact.metadata`.
    Stanford,
}

/// A key that may be absent, null or set.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ConfigKey(pub Option<Value>);

impl<'de> Deserialize<'de> for ConfigKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self(Some(value)))
    }
}

impl ConfigKey {
    /// Whether the key is there.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// A positive number, where it is one.
    pub fn number(&self) -> Option<usize> {
        let number = self.0.as_ref()?.as_u64()?;
        usize::try_from(number).ok().filter(|number| *number > 0)
    }

    /// Whether it is true; null and absence are not.
    pub fn is_true(&self) -> bool {
        self.0.as_ref().and_then(Value::as_bool) == Some(true)
    }
}

/// Keys of `config_sentence_transformers.json` that PyLate writes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MultiConfig {
    pub model_type: Option<String>,
    pub query_prefix: ConfigKey,
    pub document_prefix: ConfigKey,
    pub query_length: ConfigKey,
    pub document_length: ConfigKey,
    pub query_expansion: ConfigKey,
    pub do_query_expansion: ConfigKey,
    pub attend_to_expansion_tokens: ConfigKey,
    pub attend_to_mask_tokens: ConfigKey,
    pub skiplist_words: ConfigKey,
}

impl MultiConfig {
    /// Whether it has a key of PyLate's.
    pub fn is_marked(&self) -> bool {
        let Self {
            model_type: _,
            query_prefix,
            document_prefix,
            query_length,
            document_length,
            query_expansion,
            do_query_expansion,
            attend_to_expansion_tokens,
            attend_to_mask_tokens,
            skiplist_words,
        } = self;
        [
            query_prefix,
            document_prefix,
            query_length,
            document_length,
            query_expansion,
            do_query_expansion,
            attend_to_expansion_tokens,
            attend_to_mask_tokens,
            skiplist_words,
        ]
        .into_iter()
        .any(ConfigKey::is_there)
    }

    /// The words without a vector, where it lists some.
    pub fn skip_list(&self) -> Option<Vec<String>> {
        let words = self.skiplist_words.0.as_ref()?.as_array()?.iter();
        Some(words.filter_map(Value::as_str).map(str::to_owned).collect())
    }
}

/// `artifact.metadata` of Stanford's checkpoints.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StanfordMetadata {
    pub query_token_id: Option<String>,
    pub doc_token_id: Option<String>,
    pub query_maxlen: Option<usize>,
    pub doc_maxlen: Option<usize>,
    pub attend_to_mask_tokens: Option<bool>,
    pub mask_punctuation: Option<bool>,
}

/// A model of a vector for each token, by its files.
#[derive(Debug)]
pub(crate) struct MultiFiles {
    pub layout: MultiLayout,
    pub config: MultiConfig,
    pub stanford: StanfordMetadata,
}

impl MultiFiles {
    /// Reads how the model in `root` says that it gives a vector for each token; `None` where it does not.
    ///
    /// # Errors
    /// If a file is damaged, or `options` ask for a kind that the files exclude.
    pub fn find(root: &Path, options: &ModelOptions) -> Result<Option<Self>> {
        if options.task != ModelTask::Embed {
            return Ok(None);
        }
        let list = root.join("modules.json");
        let entries = metadata::read::<Vec<ModuleEntry>>(&list)?;
        let file = root.join("config_sentence_transformers.json");
        let config = metadata::read::<MultiConfig>(&file)?.unwrap_or_default();
        let wants = matches!(options.vectors[..], [RowForm::Tokens(_)]);
        let has_head = wants && heads::head(root, heads::TOKEN_HEAD).is_some();
        let layout = match &entries {
            Some(entries) => match Self::of_modules(entries, &config, wants) {
                Some(MultiLayout::Converted) if has_head => Some(MultiLayout::Head),
                layout => layout,
            },
            None => {
                let config = metadata::read_value(&root.join("config.json"))?;
                let is_stanford = config.as_ref().is_some_and(heads::is_stanford);
                if wants && !is_stanford && !has_head {
                    return Err(Error::model(
                        root.display(),
                        "has no projection of its tokens: sentence-transformers would make one at random, to be trained",
                    )
                    .with_remedy(format!("leave {VECTORS} out")));
                }
                match is_stanford {
                    true => Some(MultiLayout::Stanford),
                    false => has_head.then_some(MultiLayout::Head),
                }
            }
        };
        let Some(layout) = layout else {
            return Ok(None);
        };
        if let Some(other) = (options.vectors.iter()).find(|form| form.is_one_per_row()) {
            return Err(Error::usage(format!(
                "{VECTORS} {}: the model's files give each token a vector",
                other.name()
            ))
            .with_remedy("leave it out"));
        }
        let stanford = match layout {
            MultiLayout::Stanford => metadata::read(&root.join("artifact.metadata"))?,
            _ => None,
        };
        Ok(Some(Self {
            layout,
            config: match layout {
                MultiLayout::Stanford => MultiConfig::default(),
                _ => config,
            },
            stanford: stanford.unwrap_or_default(),
        }))
    }

    fn of_modules(
        entries: &[ModuleEntry],
        config: &MultiConfig,
        wants: bool,
    ) -> Option<MultiLayout> {
        let has = |part: &str| entries.iter().any(|entry| entry.kind.contains(part));
        match config.model_type.as_deref() {
            Some("ColBERT") => Some(MultiLayout::PyLate),
            Some("MultiVectorEncoder") => Some(MultiLayout::Own),
            None | Some("SentenceTransformer") => {
                let is_pylate = has("pylate.")
                    || config.query_prefix.is_there()
                    || config.document_prefix.is_there();
                (wants || is_pylate).then_some(MultiLayout::Converted)
            }
            Some(_) => None,
        }
    }
}

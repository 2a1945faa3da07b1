//! How a model's files say that a text's tokens get vectors, and which do.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::{AddedToken, OffsetType};

use super::{Pooled, RoleLength};
use crate::heads::{self, INNER_PROJECTION};
use crate::metadata;
use crate::modules::{ModuleWeights, Modules};
use crate::multi::layout::{ConfigKey, MultiFiles, MultiLayout};
use crate::multi::modules::ScoringMask;
use crate::options::{ModelOptions, TextRole, refuse_given};
use crate::sentence_config::SentenceConfig;
use crate::tokenizer::TokenizerFiles;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{DIMENSIONS, NORMALIZE, POOL_FACTOR, POOLING, VECTORS};
use embedctl_rows::bounded::BoundedSteps;
use embedctl_rows::budget::TextBudget;
use embedctl_rows::multi::{MultiKind, TokenPooling};
use embedctl_rows::{Dense, DenseActivation, Prompts, QueryExpansion, Residual, Step};

/// The characters that Python calls punctuation, which skip lists name.
const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

/// Tokens of an expanded query where no file says it.
const EXPANDED: usize = 32;

/// A `query_expansion` in JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpansionConfig {
    strategy: ExpansionStrategy,
    #[serde(default)]
    attend: bool,
    #[serde(default)]
    token: Option<String>,
    length: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ExpansionStrategy {
    Fixed,
    Min,
}

/// All that decides a model's vectors of tokens.
pub(crate) struct MultiContext<'a> {
    pub files: &'a MultiFiles,
    pub root: &'a Path,
    /// The Transformer's folder.
    pub folder: &'a Path,
    pub sentence: &'a SentenceConfig,
    pub role: TextRole,
}

/// How a role's texts become rows of tokens.
pub(crate) struct RoleTexts {
    pub length: Option<RoleLength>,
    pub expansion: Option<QueryExpansion>,
}

impl MultiContext<'_> {
    /// Puts the model's markers before its prompts of the roles.
    pub fn mark(&self, prompts: &mut Prompts) {
        for (role, marker) in self.markers() {
            let prompt = prompts.by_name.entry(role.name().to_owned()).or_default();
            let rest = prompt.strip_prefix(&marker).unwrap_or(prompt);
            *prompt = format!("{marker}{rest}");
        }
    }

    /// The text that marks each role's texts.
    fn markers(&self) -> Vec<(TextRole, String)> {
        if self.files.layout == MultiLayout::Stanford {
            let stanford = &self.files.stanford;
            let marker = |stated: &Option<String>, usual: &str| match stated.as_deref() {
                None | Some("") => format!("{usual} "),
                Some(token) => format!("{token} "),
            };
            return vec![
                (
                    TextRole::Query,
                    marker(&stanford.query_token_id, "[unused0]"),
                ),
                (
                    TextRole::Document,
                    marker(&stanford.doc_token_id, "[unused1]"),
                ),
            ];
        }
        let config = &self.files.config;
        [
            (TextRole::Query, &config.query_prefix),
            (TextRole::Document, &config.document_prefix),
        ]
        .into_iter()
        .filter_map(|(role, marker)| {
            let marker = marker.0.as_ref()?.as_str().unwrap_or_default();
            Some((role, marker.to_owned()))
        })
        .collect()
    }

    /// Lets the tokenizer keep markers whole that it has a token for.
    ///
    /// # Errors
    /// If the tokenizer fails on one.
    fn keep_markers_whole(&self, tokenizer: &mut TokenizerFiles) -> Result<()> {
        for (_, marker) in self.markers() {
            let Some(word) = marker.split_whitespace().next() else {
                continue;
            };
            let known = |token: &&str| tokenizer.tokenizer.token_to_id(token).is_some();
            let Some(token) = [marker.as_str(), word].into_iter().find(known) else {
                continue;
            };
            let refuse = |error: String| {
                let reason = format!("fails on the marker {token:?}: {error}");
                Error::model(self.folder.join("tokenizer.json").display(), reason)
            };
            let backend = &mut tokenizer.tokenizer;
            let budget = TextBudget::of(token.len());
            let pieces = BoundedSteps::of(backend)
                .and_then(|steps| steps.encode(backend, token, OffsetType::None, &budget));
            let pieces = pieces.map_err(refuse)?;
            if pieces.get_tokens() != [token] {
                let whole = AddedToken::from(token, true).normalized(false);
                backend
                    .add_special_tokens([whole])
                    .map_err(|error| refuse(error.to_string()))?;
            }
            tokenizer
                .special_ids
                .extend(tokenizer.tokenizer.token_to_id(token));
        }
        Ok(())
    }

    /// How the role's texts become rows of tokens; the tokenizer keeps their markers whole from now on.
    ///
    /// # Errors
    /// If the files contradict each other, or ask for what embedctl does not do.
    pub fn texts(&self, tokenizer: &mut TokenizerFiles) -> Result<RoleTexts> {
        self.keep_markers_whole(tokenizer)?;
        let lengths = self.lengths();
        if self.role == TextRole::Document {
            return Ok(RoleTexts {
                length: lengths.document.map(RoleLength::Usual),
                expansion: None,
            });
        }
        let Some(stated) = lengths.expansion else {
            return Ok(RoleTexts {
                length: lengths.query.map(RoleLength::Usual),
                expansion: None,
            });
        };
        let refuse = |reason: String| Error::model(self.root.display(), reason);
        let stated = ExpansionConfig::deserialize(stated)
            .map_err(|error| refuse(format!("has a query_expansion that is wrong ({error})")))?;
        let length = stated.length;
        if !(1..=metadata::MOST_WIDTH).contains(&length) {
            return Err(refuse(format!("expands queries to {length} tokens")));
        }
        if lengths.query.is_some_and(|query| query < length) {
            return Err(refuse(format!(
                "cuts queries at {} tokens and expands them to {length}",
                lengths.query.unwrap_or_default()
            )));
        }
        let file = self.folder.join("tokenizer_config.json");
        let config = metadata::read_object(&file)?.unwrap_or_default();
        if config.get("padding_side").and_then(Value::as_str) == Some("left") {
            return Err(Error::model(
                file.display(),
                "pads on the left, so queries would be expanded on the left, which embedctl does not do",
            ));
        }
        let named = |name: &str| {
            let named = tokenizer.names.iter().find(|(own, _)| own == name)?;
            tokenizer.tokenizer.token_to_id(&named.1)
        };
        let id = match &stated.token {
            Some(token) => tokenizer.tokenizer.token_to_id(token),
            None => named("mask_token").or_else(|| named("eos_token")),
        };
        let id = id.ok_or_else(|| {
            refuse(format!(
                "expands queries with {}, which the tokenizer does not have",
                stated.token.as_deref().unwrap_or("its mask token")
            ))
        })?;
        Ok(RoleTexts {
            length: match stated.strategy {
                ExpansionStrategy::Fixed => Some(RoleLength::Always(length)),
                ExpansionStrategy::Min => lengths.query.map(|it| RoleLength::Usual(it.max(length))),
            },
            expansion: Some(QueryExpansion {
                id,
                length,
                attends: stated.attend,
            }),
        })
    }

    /// The lengths that the files state: the Transformer's own before PyLate's and Stanford's.
    fn lengths(&self) -> ConfiguredLengths {
        let MultiFiles {
            layout,
            config,
            stanford,
        } = self.files;
        let own = &self.sentence.of_roles;
        let fixed = |attend: bool, length: usize| {
            let length = if length == 0 { EXPANDED } else { length };
            serde_json::json!({"strategy": "fixed", "attend": attend, "length": length})
        };
        let (mut query, mut document) = (
            config.query_length.number(),
            config.document_length.number(),
        );
        let mut expansion = None;
        if *layout == MultiLayout::Stanford {
            document = stanford.doc_maxlen;
            let attend = stanford.attend_to_mask_tokens.unwrap_or(false);
            expansion = Some(fixed(attend, stanford.query_maxlen.unwrap_or(0)));
        } else if config.query_expansion.is_there() {
            expansion.clone_from(&config.query_expansion.0);
        } else if config.is_marked() && config.do_query_expansion.0 != Some(Value::Bool(false)) {
            let attends = match config.attend_to_expansion_tokens.is_there() {
                true => &config.attend_to_expansion_tokens,
                false => &config.attend_to_mask_tokens,
            };
            expansion = Some(fixed(attends.is_true(), query.take().unwrap_or(0)));
        }
        let stated = |own: &ConfigKey, other: Option<usize>| match own.is_there() {
            true => own.number(),
            false => other,
        };
        query = stated(&own.query_length, query);
        document = stated(&own.document_length, document);
        if own.query_expansion.is_there() {
            expansion.clone_from(&own.query_expansion.0);
        }
        ConfiguredLengths {
            query,
            document,
            expansion: expansion.filter(|value| !value.is_null()),
        }
    }
}

struct ConfiguredLengths {
    query: Option<usize>,
    document: Option<usize>,
    expansion: Option<Value>,
}

/// Refuses options about one vector for a text.
fn check_options(options: &ModelOptions, role: TextRole) -> Result<()> {
    let single = [
        (POOLING, options.pooling.is_some()),
        (DIMENSIONS, !options.dimensions.is_empty()),
        // Scaling each vector is possible, and undoing it is not.
        (NORMALIZE, options.normalize == Some(false)),
    ];
    refuse_given(
        &single,
        "one vector for a text",
        "this model gives one for each token",
    )?;
    match options.pool_factor {
        Some(_) if role == TextRole::Query => Err(Error::usage(format!(
            "{POOL_FACTOR} is about documents: queries keep all of their vectors"
        ))
        .with_remedy("leave it out")),
        _ => Ok(()),
    }
}

/// The kind of a model's vectors of tokens, and the modules that make them.
///
/// # Errors
/// If the files contradict each other, or `options` ask for what such models do not do.
pub(crate) fn resolve(
    context: &MultiContext<'_>,
    modules: Option<Modules>,
    tokenizer: &TokenizerFiles,
    expansion: Option<QueryExpansion>,
    options: &ModelOptions,
) -> Result<(Pooled, MultiKind)> {
    let MultiContext {
        files, root, role, ..
    } = context;
    check_options(options, *role)?;
    let modules = modules.unwrap_or_default();
    let mut steps = modules.steps;
    let punctuation = || PUNCTUATION.chars().map(String::from).collect();
    let mask = match files.layout {
        MultiLayout::Own => modules.mask,
        MultiLayout::PyLate => {
            steps.push(Step::Normalize);
            let words = files.config.skip_list();
            Some(ScoringMask::skipping(words.unwrap_or_else(punctuation)))
        }
        MultiLayout::Converted => {
            if !steps.iter().any(|step| matches!(step, Step::Dense(_))) {
                return Err(Error::model(
                    root.join("modules.json").display(),
                    "has no Dense module that could make vectors of tokens: sentence-transformers would make one at \
                     random, to be trained",
                )
                .with_remedy(format!(
                    "leave {VECTORS} out, or fetch {} if the repository has it",
                    heads::TOKEN_HEAD
                )));
            }
            steps.push(Step::Normalize);
            let words = files.config.skip_list();
            let usual = !context.markers().is_empty();
            let words = words.or_else(|| usual.then(punctuation));
            Some(ScoringMask::skipping(words.unwrap_or_default()))
        }
        MultiLayout::Head => {
            let layer = heads::layer(&root.join(heads::TOKEN_HEAD), DenseActivation::Identity)?;
            steps = vec![Step::Dense(layer), Step::Normalize];
            None
        }
        MultiLayout::Stanford => {
            steps = vec![Step::Dense(stanford_projection(root)?), Step::Normalize];
            let skips = files.stanford.mask_punctuation.unwrap_or(true);
            let words = if skips { punctuation() } else { Vec::new() };
            Some(ScoringMask::skipping(words))
        }
    };
    let mut poolings = modules.poolings;
    if options.normalize == Some(true) && !poolings.is_empty() {
        return Err(Error::usage(format!(
            "{NORMALIZE}: the model's own token pooling comes before it, which embedctl does not do"
        ))
        .with_remedy("leave it out"));
    }
    poolings.extend(options.pool_factor.map(TokenPooling::by));
    let id = |word: &String| tokenizer.tokenizer.token_to_id(word);
    let skipped = mask.as_ref().map_or(&[][..], |mask| mask.skipped(*role));
    let kept = mask.as_ref().and_then(|mask| mask.kept(*role));
    let kind = MultiKind {
        skipped: skipped.iter().filter_map(id).collect(),
        kept: kept.map(|kept| kept.iter().copied().collect()),
        expansion_counts: mask.is_some() || expansion.is_some_and(|it| it.attends),
        // The first token is `<s>`, from which the dense vector is made.
        leading: usize::from(files.layout == MultiLayout::Head),
        poolings,
    };
    let pooled = Pooled {
        include_prompt: true,
        steps,
        ..Pooled::default()
    };
    Ok((pooled, kind))
}

/// The projection inside Stanford's checkpoint.
fn stanford_projection(root: &Path) -> Result<Dense> {
    let weights = ModuleWeights::open(root)?;
    let shape = weights.shape(INNER_PROJECTION)?;
    let [output, input] = shape[..] else {
        return Err(Error::model(
            root.display(),
            format!("has a projection {INNER_PROJECTION} of the shape {shape:?}"),
        ));
    };
    Ok(Dense {
        weight: weights.get(INNER_PROJECTION, input * output)?.into(),
        bias: Vec::new(),
        input,
        output,
        activation: DenseActivation::Identity,
        residual: Residual::None,
    })
}

//! From metadata to configuration: the reference's rules, and the user's overrides.

mod limits;
mod multi;
mod output;
mod pooling;
mod processed;
mod score;
mod sparse;

use std::path::Path;

use super::CheckpointFiles;
use super::config::{ModelConfig, OutputChoice, OutputKind, PositionIds, Prompts, Step};
use super::frame::Frame;
use super::graph::Graph;
use super::heads;
use super::metadata::{self, SentenceTransformersConfig, TransformerConfig};
use super::modules::Modules;
use super::multi::MultiFiles;
use super::options::{ModelOptions, ModelTask, TextRole};
use super::positions;
use super::sentence_config::{self, SentenceConfig};
use super::tasks;
use super::tokenizer::{self, TokenizerRequests};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{PROMPT, PROMPT_NAME};
use embedctl_hub::gguf;
use embedctl_native::adds_token_types;
use limits::{LengthLimits, limits};
use multi::{MultiContext, RoleTexts};
use output::{TOKEN_OUTPUTS, choose_logits, choose_output, choose_term_logits};
use pooling::{check_widths, hidden_width, pooling};
use processed::no_processor;
use score::ScoreFiles;
use sparse::SparseFiles;

pub(crate) use sparse::{is_weighed, refuse_dense};

pub(crate) use limits::RoleLength;
pub(crate) use output::{gives_finished_vectors, gives_states};
pub(crate) use pooling::{Pooled, dimensions, width_after};

/// A repository's metadata, read and combined.
pub(super) struct Resolved {
    pub config: ModelConfig,
    pub tokenizer: tokenizers::Tokenizer,
    /// See [`super::Model::reference_dtype`].
    pub dtype: Option<String>,
    pub notes: Vec<String>,
}

/// Reads all metadata under `root` and applies `options`; `network` is the folder of the network's `config.json`, which
/// for an adapter alone is the base model's.
pub(super) fn resolve(
    root: &Path,
    network: &Path,
    modules: Option<Modules>,
    multi: Option<&MultiFiles>,
    (graph, checkpoint): (Option<&Graph>, Option<&CheckpointFiles>),
    options: &ModelOptions,
) -> Result<Resolved> {
    let mut notes = Vec::new();
    let scores = match options.task {
        ModelTask::Embed => None,
        ModelTask::Score(task) => Some(task),
    };
    let folder = match &modules {
        Some(modules) => root.join(&modules.transformer),
        None => root.to_path_buf(),
    };
    let transformer_file = network.join("config.json");
    let transformer: TransformerConfig =
        metadata::read(&transformer_file)?.ok_or_else(|| missing(root, &transformer_file))?;
    // Without modules.json the reference builds all modules anew and reads neither of these files.
    let sentence = match modules {
        Some(_) => sentence_config::read(&folder)?,
        None => SentenceConfig::default(),
    };
    notes.extend(sentence.notes.iter().cloned());
    tasks::chosen(network, options)?;
    notes.extend(tasks::note(network, options));
    let whole_file = root.join("config_sentence_transformers.json");
    let whole: SentenceTransformersConfig = match modules {
        Some(_) => metadata::read(&whole_file)?.unwrap_or_default(),
        None => SentenceTransformersConfig::default(),
    };
    if let Some(kind) = whole.model_type.as_deref().filter(|kind| {
        let vectors = ["SentenceTransformer", "SparseEncoder"];
        scores.is_none() && multi.is_none() && !vectors.contains(kind)
    }) {
        let error = Error::model(
            whole_file.display(),
            format!(
                "describes a {kind}; embedctl embeds with models of type SentenceTransformer, SparseEncoder and \
                 MultiVectorEncoder"
            ),
        );
        return Err(match kind {
            "CrossEncoder" => error.with_remedy("it scores pairs of texts: ask it for scores"),
            _ => error,
        });
    }
    let mut sparse = match scores {
        _ if multi.is_some() => None,
        None => sparse::resolve(
            &SparseFiles {
                root,
                config_file: &transformer_file,
                modules: modules.as_ref(),
                sentence: &sentence,
                model_type: whole.model_type.as_deref(),
                most: whole.max_active_dims,
            },
            options,
            &mut notes,
        )?,
        Some(_) => None,
    };
    let terms = sparse.as_ref().and_then(|sparse| sparse.terms);
    if scores.is_none() && terms.is_none() {
        sentence.check_gives_states()?;
    }
    no_processor(&folder, &transformer)?;
    let mut tokenizer = tokenizer::read(
        &folder,
        &transformer,
        &TokenizerRequests {
            lower_case: sentence.do_lower_case,
            arguments: sentence.arguments.clone(),
            no_special_tokens: sentence.texts.no_special_tokens,
            token_types: sentence.texts.token_types,
            split_special_tokens: sentence.texts.split_special_tokens,
            pairs: scores.is_some_and(|task| task.pairs),
        },
    )?;
    if tokenizer.frame.gives_types {
        let config: Option<serde_json::Value> = metadata::read(&transformer_file)?;
        if config.is_some_and(|config| adds_token_types(&config)) {
            tokenizer.frame = tokenizer.frame.typed();
        }
    }
    notes.append(&mut tokenizer.notes);
    let without_weight = sparse.as_mut().and_then(|sparse| sparse.weighed.as_mut());
    let weighs = without_weight.is_some();
    if let Some(without) = without_weight {
        *without = heads::without_weight(&tokenizer);
    }
    let multi = multi.map(|files| MultiContext {
        files,
        root,
        folder: &folder,
        sentence: &sentence,
        role: options.role().unwrap_or(TextRole::Document),
    });
    let texts = match &multi {
        Some(multi) => {
            multi.keep_markers_whole(&mut tokenizer)?;
            multi.texts(&tokenizer)?
        }
        None => texts_of_role(&sentence, options)?,
    };
    if let (None, None, Some(file)) = (scores, &modules, &tokenizer.chat_template) {
        return Err(Error::model(
            file,
            "holds a chat template and the repository has no modules.json, so the reference would wrap every text in \
             chat messages, which embedctl does not do",
        )
        .with_remedy("use a repository made for embedding"));
    }

    let output = match (scores, graph) {
        (Some(_), Some(graph)) if checkpoint.is_none() => choose_logits(graph, root)?,
        (None, Some(graph)) if terms.is_some() && checkpoint.is_none() => {
            choose_term_logits(graph, root)?
        }
        _ if terms.is_some() => OutputChoice::Tokens(TOKEN_OUTPUTS[0].into()),
        (Some(_), _) => OutputChoice::Tokens(TOKEN_OUTPUTS[0].into()),
        (None, _) => choose_output(graph, modules.is_some(), &sentence, &mut notes, root)?,
    };
    let has_own_head = scores.is_some() || terms.is_some();
    let graph = graph.filter(|_| !has_own_head || checkpoint.is_none());
    let range = positions::position_range(&transformer, tokenizer.padding);
    let LengthLimits {
        max_length,
        positions_limit,
    } = limits(
        range,
        &sentence,
        &tokenizer,
        texts.length,
        options,
        &mut notes,
    )?;
    let truncate_dim = (whole.truncate_dim.clone()).filter(|_| scores.is_none() && multi.is_none());
    let activation = whole.activation_fn.clone();
    let mut prompts = prompts(whole);
    tasks::add_prompts(&mut prompts.by_name, network);
    if let Some(multi) = &multi {
        multi.mark(&mut prompts);
    }
    let prompt = choose_prompt(&prompts, options, &whole_file)?;
    if let Some(name) = options.prompt_name.as_deref().filter(|_| prompt.is_empty()) {
        notes.push(format!(
            "{PROMPT_NAME} {name} has no effect: the model's prompt of that name is empty ({PROMPT} \
             gives a text of your own)"
        ));
    }
    let unknown_width = || {
        Error::model(
            root.display(),
            "neither the graph nor config.json (hidden_size) says how wide a hidden state is",
        )
    };
    let mut all_terms = None;
    let (mut pooled, kind) = match scores {
        None if terms.is_some() => {
            let kind = sparse.unwrap_or_default();
            let graph = graph.map(|graph| (graph, &output));
            let (pooled, count) = kind.pooled(modules, graph, &transformer_file)?;
            all_terms = Some(count);
            (pooled, OutputKind::Sparse(kind))
        }
        None if weighs => {
            let kind = sparse.unwrap_or_default();
            let (pooled, count) = kind.pooled(None, None, &transformer_file)?;
            all_terms = Some(count);
            let steps = vec![Step::Dense(heads::weights(&root.join(heads::SPARSE_HEAD))?)];
            (Pooled { steps, ..pooled }, OutputKind::Sparse(kind))
        }
        None if multi.is_some() => {
            let multi = multi
                .as_ref()
                .ok_or_else(|| Error::internal("no files of such a model"))?;
            let resolved = multi::resolve(multi, modules, &tokenizer, texts.expansion, options)?;
            (resolved.0, OutputKind::Multi(resolved.1))
        }
        None => {
            let mut pooled = pooling(modules, &transformer, &output, options, &mut notes, root)?;
            let files = checkpoint.filter(|_| graph.is_none());
            if let Some(layer) = files.map(heads::projection).transpose()?.flatten() {
                pooled.project(layer, root)?;
            }
            (
                pooled,
                sparse.map_or(OutputKind::Vectors, OutputKind::Sparse),
            )
        }
        Some(task) => {
            let files = ScoreFiles {
                task,
                root,
                folder: &folder,
                config_file: &transformer_file,
                modules,
                checkpoint,
                sentence: &sentence,
                activation: activation.as_deref(),
                tokenizer: &tokenizer,
                width: transformer.width(),
            };
            let (head, kind) = score::resolve(files, options, &mut notes)?;
            (head, OutputKind::Scores(kind))
        }
    };
    let hidden =
        hidden_width(graph, &output, &transformer, pooled.width).ok_or_else(unknown_width)?;
    if weighs {
        width_after(hidden, &pooled.steps, root)?;
    }
    let full = match all_terms {
        Some(terms) => terms,
        None if multi.is_some() => width_after(hidden, &pooled.steps, root)?,
        None => check_widths(hidden, &output, &pooled, root)?,
    };
    if options.normalize == Some(false) {
        while pooled.steps.last() == Some(&Step::Normalize) {
            pooled.steps.pop();
        }
    }
    let (dimensions, width) = dimensions(full, options, (&whole_file, truncate_dim.as_ref()))?;
    let ends_normalized = pooled.steps.last() == Some(&Step::Normalize) && dimensions.is_empty();
    let positions = match range.after_padding {
        Some(id) => PositionIds::AfterPadding(id),
        None => PositionIds::FromZero,
    };
    Ok(Resolved {
        dtype: sentence.dtype.or_else(|| transformer.dtype()),
        config: ModelConfig {
            beside: Vec::new(),
            max_length,
            positions_limit,
            frame: Frame {
                expansion: texts.expansion,
                ..tokenizer.frame
            },
            truncation_side: tokenizer.truncation_side,
            padding_id: tokenizer.padding,
            special_ids: tokenizer.special_ids,
            positions,
            kind,
            output,
            pooling: pooled.modes,
            include_prompt: pooled.include_prompt,
            token_steps: pooled.token_steps,
            not_last: pooled.not_last,
            steps: pooled.steps,
            dimensions,
            normalize_last: options.normalize == Some(true) && !ends_normalized,
            hidden_width: hidden,
            width,
            prompts,
            prompt,
            dropped_id: None,
            most_characters: None,
            late: options.late,
        },
        tokenizer: tokenizer.tokenizer,
        notes,
    })
}

/// How the texts of the role that `options` name become rows, of a model of one vector for a text.
fn texts_of_role(sentence: &SentenceConfig, options: &ModelOptions) -> Result<RoleTexts> {
    let of_roles = &sentence.of_roles;
    let expands = of_roles.query_expansion.0.as_ref();
    if options.role() == Some(TextRole::Query) && expands.is_some_and(|it| !it.is_null()) {
        let file = sentence.file.as_deref().unwrap_or(Path::new("the model"));
        return Err(Error::model(
            file.display(),
            "expands queries (query_expansion), which embedctl does for models that give each token a vector",
        ));
    }
    let length = match options.role() {
        Some(TextRole::Query) => of_roles.query_length.number(),
        Some(TextRole::Document) => of_roles.document_length.number(),
        None => None,
    };
    Ok(RoleTexts {
        length: length.map(RoleLength::Usual),
        expansion: None,
    })
}

/// The prompts of config_sentence_transformers.json; null is an empty one.
pub(super) fn prompts(whole: SentenceTransformersConfig) -> Prompts {
    Prompts {
        by_name: whole
            .prompts
            .into_iter()
            .map(|(name, prompt)| (name, prompt.unwrap_or_default()))
            .collect(),
        default: whole.default_prompt_name,
    }
}

pub(super) fn choose_prompt(
    prompts: &Prompts,
    options: &ModelOptions,
    file: &Path,
) -> Result<String> {
    let known = || {
        let names: Vec<&str> = prompts.by_name.keys().map(String::as_str).collect();
        if names.is_empty() {
            "the model has none".to_string()
        } else {
            format!("the model has {}", names.join(", "))
        }
    };
    // The reference has two for every model, empty unless the files fill them.
    let named = |name: &str| match (prompts.by_name.get(name), name) {
        (None, "query" | "document") => Some(String::new()),
        (prompt, _) => prompt.cloned(),
    };
    if let (None, None, Some(task)) = (&options.prompt, &options.prompt_name, &options.text_task) {
        return Ok(named(task.name()).unwrap_or_default());
    }
    match (&options.prompt, &options.prompt_name) {
        (Some(_), Some(_)) => Err(Error::usage(format!(
            "{PROMPT} and {PROMPT_NAME} exclude each other"
        ))
        .with_remedy("give the text or the name")),
        (Some(prompt), None) => Ok(prompt.clone()),
        (None, Some(name)) => named(name).ok_or_else(|| {
            Error::usage(format!("{PROMPT_NAME} {name}: no such prompt; {}", known()))
                .with_remedy(format!("a prompt's own text can be given with {PROMPT}"))
        }),
        (None, None) => match &prompts.default {
            None => Ok(String::new()),
            Some(name) => named(name).ok_or_else(|| {
                Error::model(
                    file.display(),
                    format!(
                        "names the default prompt '{name}' but does not hold it; {}",
                        known()
                    ),
                )
                .with_remedy(format!("choose with {PROMPT} or {PROMPT_NAME}"))
            }),
        },
    }
}
/// The error for a folder without config.json: its files may be those of another program.
fn missing(root: &Path, config: &Path) -> Error {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    match names.find(|name| gguf::is_gguf(name)) {
        Some(name) => Error::model(root.display(), gguf::refuses_gguf(&name)),
        None => Error::model(config.display(), "is missing"),
    }
}

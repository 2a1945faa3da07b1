//! From metadata to configuration: the reference's rules, and the user's overrides.

mod head;
mod limits;
mod multi;
mod output;
mod pooling;
mod processed;
mod prompts;
mod score;
mod sparse;
mod stated;

use std::path::Path;

use super::CheckpointFiles;
use super::graph::Graph;
use super::heads;
use super::modules::Modules;
use super::multi::MultiFiles;
use super::options::{ModelOptions, ModelTask, TextRole};
use super::positions;
use super::sentence_config::SentenceConfig;
use super::tasks;
use super::tokenizer::TokenizerFiles;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{PROMPT, PROMPT_NAME};
use embedctl_rows::{Frame, ModelConfig, OutputChoice, Prompts};
use head::HeadSources;
use limits::LimitSources;
use multi::{MultiContext, RoleTexts};
use output::{TOKEN_OUTPUTS, choose_logits, choose_output, choose_term_logits};
use processed::no_processor;
use stated::StatedSettings;

pub(crate) use sparse::{is_weighed, refuse_dense, wants_terms};

pub(crate) use limits::RoleLength;
pub(crate) use output::{gives_finished_vectors, gives_states};
pub(crate) use pooling::{Pooled, dimensions, width_after};
pub(crate) use prompts::{choose_prompt, prompts};

/// A repository's metadata, read and combined.
pub(super) struct ResolvedModel {
    pub config: ModelConfig,
    pub tokenizer: tokenizers::Tokenizer,
    /// See [`super::Model::reference_dtype`].
    pub dtype: Option<String>,
    pub notes: Vec<String>,
}

/// What a model's configuration is resolved from.
pub(super) struct ModelSources<'a> {
    /// The repository.
    pub root: &'a Path,
    /// The folder of the network's `config.json`, which for an adapter alone is the base model's.
    pub network: &'a Path,
    pub modules: Option<Modules>,
    pub multi: Option<&'a MultiFiles>,
    pub graph: Option<&'a Graph>,
    pub checkpoint: Option<&'a CheckpointFiles>,
    pub options: &'a ModelOptions,
}

/// Reads all metadata of `sources` and applies the options.
pub(super) fn resolve(sources: ModelSources<'_>) -> Result<ResolvedModel> {
    let mut notes = Vec::new();
    let ModelSources { root, options, .. } = sources;
    let gives_scores = options.task != ModelTask::Embed;
    let stated = StatedSettings::read(&sources, &mut notes)?;
    let sentence = &stated.sentence;
    let has_modules = sources.modules.is_some();
    let mut sparse = stated.sparse(&sources, &mut notes)?;
    let gives_terms = sparse.as_ref().is_some_and(|it| it.terms.is_some());
    if !gives_scores && !gives_terms {
        sentence.check_gives_states()?;
    }
    no_processor(&stated.folder, &stated.transformer)?;
    let mut tokenizer = stated.tokenizer(options.task)?;
    notes.append(&mut tokenizer.notes);
    if let Some(without) = sparse.as_mut().and_then(|it| it.weighed.as_mut()) {
        *without = heads::without_weight(&tokenizer);
    }
    let multi = sources.multi.map(|files| MultiContext {
        files,
        root,
        folder: &stated.folder,
        sentence,
        role: options.role().unwrap_or(TextRole::Document),
    });
    let texts = match &multi {
        Some(multi) => multi.texts(&mut tokenizer)?,
        None => texts_of_role(sentence, options)?,
    };
    if !gives_scores && !has_modules {
        refuse_chat(&tokenizer)?;
    }

    let has_own_head = gives_scores || gives_terms;
    let output = match has_own_head {
        true => output_of_head(&sources, gives_terms)?,
        false => choose_output(sources.graph, has_modules, sentence, &mut notes, root)?,
    };
    let range = positions::position_range(&stated.transformer, tokenizer.padding);
    let limits = LimitSources {
        range,
        sentence,
        tokenizer: &tokenizer,
        of_role: texts.length,
        options,
    };
    let limits = limits.limits(&mut notes)?;
    let (prompts, prompt) = prompt_of(&stated, &sources, multi.as_ref(), &mut notes)?;
    let checkpoint = sources.checkpoint;
    let head_sources = HeadSources {
        root,
        stated: &stated,
        graph: (sources.graph).filter(|_| !has_own_head || checkpoint.is_none()),
        checkpoint,
        output: &output,
        multi: multi.as_ref(),
        expansion: texts.expansion,
        tokenizer: &tokenizer,
        options,
    };
    let shaped = head_sources.resolve(sparse, sources.modules, &mut notes)?;
    let head = shaped.head;
    Ok(ResolvedModel {
        config: ModelConfig {
            beside: Vec::new(),
            max_length: limits.max_length,
            greatest_length: limits.greatest_length,
            positions_limit: limits.positions_limit,
            frame: Frame {
                expansion: texts.expansion,
                ..tokenizer.frame
            },
            truncation_side: tokenizer.truncation_side,
            padding_id: tokenizer.padding,
            special_ids: tokenizer.special_ids,
            positions: range.ids(),
            scores: head.scores,
            sparse: head.sparse,
            multi: head.multi,
            output,
            pooling: head.pooled.modes,
            include_prompt: head.pooled.include_prompt,
            token_steps: head.pooled.token_steps,
            not_last: head.pooled.not_last,
            steps: head.pooled.steps,
            dimensions: shaped.dimensions,
            normalize_last: shaped.normalize_last,
            hidden_width: shaped.hidden_width,
            width: shaped.width,
            prompts,
            prompt,
            dropped_id: None,
            most_characters: None,
            late: options.late,
        },
        tokenizer: tokenizer.tokenizer,
        dtype: (stated.sentence.dtype).or_else(|| stated.transformer.dtype()),
        notes,
    })
}

/// The graph's output that a head's logits are read from, or that head's input where the checkpoint is run.
fn output_of_head(sources: &ModelSources<'_>, gives_terms: bool) -> Result<OutputChoice> {
    match sources.graph {
        Some(graph) if sources.checkpoint.is_none() => match gives_terms {
            true => choose_term_logits(graph, sources.root),
            false => choose_logits(graph, sources.root),
        },
        _ => Ok(OutputChoice::Tokens(TOKEN_OUTPUTS[0].into())),
    }
}

/// All prompts of a model, and the one that is put before texts.
fn prompt_of(
    stated: &StatedSettings,
    sources: &ModelSources<'_>,
    multi: Option<&MultiContext<'_>>,
    notes: &mut Vec<String>,
) -> Result<(Prompts, String)> {
    let options = sources.options;
    let mut prompts = prompts(&stated.whole);
    tasks::add_prompts(&mut prompts.by_name, sources.network);
    if let Some(multi) = multi {
        multi.mark(&mut prompts);
    }
    let prompt = choose_prompt(&prompts, options, &stated.whole_file)?;
    if let Some(name) = options.prompt_name.as_deref().filter(|_| prompt.is_empty()) {
        notes.push(format!(
            "{PROMPT_NAME} {name} has no effect: the model's prompt of that name is empty ({PROMPT} \
             gives a text of your own)"
        ));
    }
    Ok((prompts, prompt))
}

/// Refuses a chat template where the reference would put every text into it.
fn refuse_chat(tokenizer: &TokenizerFiles) -> Result<()> {
    let Some(file) = &tokenizer.chat_template else {
        return Ok(());
    };
    Err(Error::model(
        file,
        "holds a chat template and the repository has no modules.json, so the reference would wrap every text in \
         chat messages, which embedctl does not do",
    )
    .with_remedy("use a repository made for embedding"))
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

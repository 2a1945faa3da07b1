//! From metadata to configuration: the rules by which the reference decides, and the user's overrides.

use std::path::Path;

use tokenizers::PostProcessor;

use super::config::{ModelConfig, OutputChoice, PoolingMode, Positions, Prompts, Step};
use super::graph::Graph;
use super::metadata::{
    self, SENTENCE_CONFIGS, SentenceConfig, SentenceTransformersConfig, TransformerConfig,
};
use super::modules::{self, Modules};
use super::options::ModelOptions;
use super::tokenizer_files::{self, TokenizerFiles, real_limit};
use crate::error::{Error, Result};

/// Architectures whose learned positions start at the padding id + 1, so that that many of
/// `max_position_embeddings` are never used. Nothing in a repository's files says so.
const POSITIONS_AFTER_PADDING: [&str; 14] = [
    "camembert",
    "data2vec-text",
    "esm",
    "ibert",
    "lilt",
    "longformer",
    "luke",
    "markuplm",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
];

/// Names under which exports publish token-level states, in order of preference.
const TOKEN_OUTPUTS: [&str; 2] = ["last_hidden_state", "token_embeddings"];

/// The name under which exports publish finished vectors.
const SENTENCE_OUTPUT: &str = "sentence_embedding";

/// A repository's metadata, read and combined.
pub(super) struct Resolved {
    pub config: ModelConfig,
    pub tokenizer: tokenizers::Tokenizer,
    pub notes: Vec<String>,
}

/// The Transformer's folder inside the repository, as `modules.json` places it.
pub(super) fn read_modules(root: &Path) -> Result<Option<Modules>> {
    modules::read(root)
}

/// Reads all metadata under `root` and applies `options`.
pub(super) fn resolve(
    root: &Path,
    modules: Option<Modules>,
    graph: Option<&Graph>,
    options: &ModelOptions,
) -> Result<Resolved> {
    let mut notes = Vec::new();
    let folder = match &modules {
        Some(modules) => root.join(&modules.transformer),
        None => root.to_path_buf(),
    };
    let transformer_file = folder.join("config.json");
    let transformer: TransformerConfig = metadata::read(&transformer_file)?
        .ok_or_else(|| Error::model(transformer_file.display(), "is missing"))?;
    let sentence = sentence_config(&folder, modules.is_some())?;
    let whole_file = root.join("config_sentence_transformers.json");
    let whole: SentenceTransformersConfig = metadata::read(&whole_file)?.unwrap_or_default();
    if let Some(kind) = whole
        .model_type
        .as_deref()
        .filter(|kind| *kind != "SentenceTransformer")
    {
        return Err(Error::model(
            whole_file.display(),
            format!("describes a {kind}; embedctl runs models of type SentenceTransformer"),
        ));
    }
    let tokenizer = tokenizer_files::read(&folder, &transformer, &sentence)?;
    if let (None, Some(file)) = (&modules, &tokenizer.chat_template) {
        return Err(Error::model(
            file,
            "holds a chat template and the repository has no modules.json, so the reference would wrap every text in \
             chat messages, which embedctl does not do; use a repository made for embedding",
        ));
    }

    let output = match graph {
        Some(graph) => choose_output(graph, modules.is_some(), root)?,
        None => OutputChoice::Tokens(TOKEN_OUTPUTS[0].into()),
    };
    let max_length = max_length(&transformer, &sentence, &tokenizer, options, &mut notes)?;
    let truncate_dim = whole.truncate_dim;
    let prompts = prompts(whole);
    let prompt = choose_prompt(&prompts, options, &whole_file)?;
    if let Some(name) = options.prompt_name.as_deref().filter(|_| prompt.is_empty()) {
        notes.push(format!(
            "--prompt-name {name} has no effect: the model's files put nothing before texts under that name (--prompt \
             gives a text of your own)"
        ));
    }
    let mut pooled = pooling(modules, &transformer, &output, options, &mut notes, root)?;
    let hidden = hidden_width(graph, &output, &transformer, pooled.width).ok_or_else(|| {
        Error::model(
            root.display(),
            "neither the graph nor config.json (hidden_size) says how wide a hidden state is",
        )
    })?;
    let full = check_widths(hidden, &output, &pooled, root)?;
    if options.normalize == Some(false) {
        while pooled.steps.last() == Some(&Step::Normalize) {
            pooled.steps.pop();
        }
    }
    let dimensions = dimensions(full, options, truncate_dim)?;
    let ends_normalized = pooled.steps.last() == Some(&Step::Normalize) && dimensions.is_none();
    let positions = match after_padding(&transformer, &tokenizer) {
        Some(id) => Positions::AfterPadding(id),
        None => Positions::FromZero,
    };
    Ok(Resolved {
        config: ModelConfig {
            max_length,
            truncation_side: tokenizer.truncation_side,
            padding_id: tokenizer.padding,
            special_ids: tokenizer.special_ids,
            positions,
            output,
            pooling: pooled.modes,
            include_prompt: pooled.include_prompt,
            steps: pooled.steps,
            dimensions,
            normalize_last: options.normalize == Some(true) && !ends_normalized,
            hidden_width: hidden,
            width: dimensions.unwrap_or(full),
            prompts,
            prompt,
            dropped_id: None,
            most_characters: None,
        },
        tokenizer: tokenizer.tokenizer,
        notes,
    })
}

/// The prompts of config_sentence_transformers.json.
pub(super) fn prompts(whole: SentenceTransformersConfig) -> Prompts {
    Prompts {
        by_name: whole
            .prompts
            .into_iter()
            .filter_map(|(name, prompt)| Some((name, prompt?)))
            .collect(),
        default: whole.default_prompt_name,
    }
}

fn sentence_config(folder: &Path, has_modules: bool) -> Result<SentenceConfig> {
    // Without modules.json the reference builds the Transformer anew and does not look at this file.
    if !has_modules {
        return Ok(SentenceConfig::default());
    }
    for name in SENTENCE_CONFIGS {
        let file = folder.join(name);
        let Some(config) = metadata::read::<SentenceConfig>(&file)? else {
            continue;
        };
        if let Some(modalities) = &config.modality_config {
            if modalities.contains_key("message") {
                return Err(Error::model(
                    file.display(),
                    "lists the modality 'message': the reference wraps every text in chat messages, which embedctl does \
                     not do",
                ));
            }
            let text = modalities.get("text");
            let method = text
                .and_then(|text| text.get("method"))
                .and_then(|method| method.as_str());
            if text.is_none() || method.is_some_and(|method| method != "forward") {
                return Err(Error::model(
                    file.display(),
                    "does not embed text through the model's forward pass, which is all that embedctl runs",
                ));
            }
        }
        return Ok(config);
    }
    Ok(SentenceConfig::default())
}

/// The padding id, in architectures whose positions start behind it.
fn after_padding(transformer: &TransformerConfig, tokenizer: &TokenizerFiles) -> Option<u32> {
    let kind = transformer.model_type.as_deref()?;
    POSITIONS_AFTER_PADDING
        .contains(&kind)
        .then(|| transformer.pad_id().unwrap_or(tokenizer.padding))
}

/// Whether a graph's only output that can be read is one vector a text.
pub(super) fn gives_finished_vectors(graph: &Graph, has_modules: bool) -> bool {
    let tokens = TOKEN_OUTPUTS
        .into_iter()
        .any(|name| graph.output(name).is_some());
    graph.output(SENTENCE_OUTPUT).is_some() && (!tokens || !has_modules)
}

fn choose_output(graph: &Graph, has_modules: bool, root: &Path) -> Result<OutputChoice> {
    let tokens = TOKEN_OUTPUTS
        .into_iter()
        .find(|name| graph.output(name).is_some());
    if gives_finished_vectors(graph, has_modules) {
        return Ok(OutputChoice::Sentence(SENTENCE_OUTPUT.into()));
    }
    if let Some(name) = tokens {
        return Ok(OutputChoice::Tokens(name.into()));
    }
    if let [only] = graph.outputs.as_slice()
        && only.shape.len() == 3
    {
        return Ok(OutputChoice::Tokens(only.name.clone()));
    }
    let names: Vec<&str> = graph
        .outputs
        .iter()
        .map(|output| output.name.as_str())
        .collect();
    Err(Error::model(
        root.display(),
        format!(
            "the graph's outputs are {}; none is last_hidden_state, token_embeddings or sentence_embedding, so it is no \
             export for embedding (another file can be named with --model-file)",
            names.join(", ")
        ),
    ))
}

fn max_length(
    transformer: &TransformerConfig,
    sentence: &SentenceConfig,
    tokenizer: &TokenizerFiles,
    options: &ModelOptions,
    notes: &mut Vec<String>,
) -> Result<usize> {
    let positions = transformer
        .max_position_embeddings
        .and_then(|max| usize::try_from(max).ok())
        .filter(|&max| max > 0);
    let usable = match (positions, after_padding(transformer, tokenizer)) {
        (Some(max), Some(id)) => Some(max.saturating_sub(id as usize + 1)),
        (max, _) => max,
    };
    let special = tokenizer
        .tokenizer
        .get_post_processor()
        .map_or(0, |post| post.added_tokens(false));

    if let Some(asked) = options.max_length {
        if asked <= special {
            return Err(Error::usage(format!(
                "--max-length {asked} leaves no room for text: this model adds {special} special tokens, so the least \
                 is {}{}",
                special + 1,
                usable
                    .map(|max| format!(" and the most {max}"))
                    .unwrap_or_default()
            )));
        }
        if let Some(max) = usable.filter(|&max| asked > max) {
            return Err(Error::usage(format!(
                "--max-length {asked} is beyond this model's {max} positions; choose a value from {} to {max}",
                special + 1
            )));
        }
        return Ok(asked);
    }
    let extra = sentence
        .processor_kwargs
        .as_ref()
        .and_then(|extra| extra.model_max_length);
    let stated = sentence
        .processing_limit()
        .or(sentence.max_seq_length)
        .or(extra)
        .and_then(real_limit);
    let limit = match stated {
        Some(stated) => Some(stated),
        None => [tokenizer.max_length, positions]
            .into_iter()
            .flatten()
            .min(),
    };
    Ok(match (limit, usable) {
        (Some(limit), Some(usable)) if limit > usable => {
            notes.push(format!(
                "the model's files ask for {limit} tokens but it has {usable} usable positions; longer texts are cut at \
                 {usable}"
            ));
            usable
        }
        (Some(limit), _) => limit.max(special + 1),
        (None, _) => {
            notes.push("the model's files state no length limit; no text is cut (set one with --max-length)".into());
            ModelConfig::UNLIMITED
        }
    })
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
    match (&options.prompt, &options.prompt_name) {
        (Some(_), Some(_)) => Err(Error::usage(
            "--prompt and --prompt-name exclude each other: give the text or the name",
        )),
        (Some(prompt), None) => Ok(prompt.clone()),
        // The reference has these two for every model, empty unless the files fill them.
        (None, Some(name)) if matches!(name.as_str(), "query" | "document") => {
            Ok(prompts.by_name.get(name).cloned().unwrap_or_default())
        }
        (None, Some(name)) => prompts.by_name.get(name).cloned().ok_or_else(|| {
            Error::usage(format!(
                "--prompt-name {name}: no such prompt; {} (a prompt's own text can be given with --prompt)",
                known()
            ))
        }),
        (None, None) => match &prompts.default {
            None => Ok(String::new()),
            Some(name) => prompts.by_name.get(name).cloned().ok_or_else(|| {
                Error::model(
                    file.display(),
                    format!(
                        "names the default prompt '{name}' but does not hold it; {}; choose with --prompt or --prompt-name",
                        known()
                    ),
                )
            }),
        },
    }
}

struct Pooled {
    modes: Vec<PoolingMode>,
    include_prompt: bool,
    steps: Vec<Step>,
    width: Option<usize>,
}

fn pooling(
    modules: Option<Modules>,
    transformer: &TransformerConfig,
    output: &OutputChoice,
    options: &ModelOptions,
    notes: &mut Vec<String>,
    root: &Path,
) -> Result<Pooled> {
    if let OutputChoice::Sentence(name) = output {
        if options.pooling.is_some() {
            return Err(Error::usage(format!(
                "--pooling has nothing to pool: the graph gives finished vectors ('{name}'); another export can be named \
                 with --model-file"
            )));
        }
        let later = modules.iter().flat_map(|modules| &modules.steps);
        if later
            .into_iter()
            .any(|step| matches!(step, Step::Dense(_) | Step::LayerNorm(_)))
        {
            notes.push(format!(
                "the graph's only output is '{name}': it is taken as final and the Dense and LayerNorm modules of \
                 modules.json are not applied again"
            ));
        }
        return Ok(Pooled {
            modes: Vec::new(),
            include_prompt: true,
            steps: Vec::new(),
            width: None,
        });
    }
    let mut pooled = match modules {
        Some(modules) => {
            let (modes, include_prompt, width) = match modules.pooling {
                Some(pooling) => (pooling.modes, pooling.include_prompt, pooling.width),
                None if options.pooling.is_some() => (Vec::new(), true, None),
                None => {
                    return Err(Error::model(
                        root.join("modules.json").display(),
                        "has no Pooling module, so it does not say how tokens become a vector; name a mode with --pooling",
                    ));
                }
            };
            Pooled {
                modes,
                include_prompt,
                steps: modules.steps,
                width,
            }
        }
        None => {
            let architecture = transformer.architectures.iter().flatten().next();
            let causal = architecture.is_some_and(|name| name.ends_with("ForCausalLM"))
                && transformer.is_causal.unwrap_or(true);
            let mode = if causal {
                PoolingMode::LastToken
            } else {
                PoolingMode::Mean
            };
            if options.pooling.is_none() {
                notes.push(format!(
                    "the repository has no modules.json: taking {} pooling without normalization, as sentence-transformers \
                     does (--pooling and --normalize override)",
                    mode.name()
                ));
            }
            Pooled {
                modes: vec![mode],
                include_prompt: true,
                steps: Vec::new(),
                width: None,
            }
        }
    };
    if let Some(modes) = &options.pooling {
        if modes.is_empty() {
            return Err(Error::usage("--pooling needs at least one mode"));
        }
        pooled.modes.clone_from(modes);
    }
    Ok(pooled)
}

fn hidden_width(
    graph: Option<&Graph>,
    output: &OutputChoice,
    transformer: &TransformerConfig,
    pooling: Option<usize>,
) -> Option<usize> {
    let declared = graph
        .and_then(|graph| graph.output(output.name()))
        .and_then(|value| value.shape.last().copied().flatten());
    declared.or(pooling).or_else(|| transformer.width())
}

/// Follows the width through the modules; returns that of the last.
fn check_widths(
    hidden: usize,
    output: &OutputChoice,
    pooled: &Pooled,
    root: &Path,
) -> Result<usize> {
    if !(1..=metadata::MOST_WIDTH).contains(&hidden) {
        return Err(Error::model(
            root.display(),
            format!(
                "the ONNX file declares an output of {hidden} components; they go from 1 to {}: fetch it again",
                metadata::MOST_WIDTH
            ),
        ));
    }
    let width = match output {
        OutputChoice::Sentence(_) => hidden,
        OutputChoice::Tokens(_) => hidden * pooled.modes.len(),
    };
    width_after(width, &pooled.steps, root)
}

/// The width of a vector of `width` components after these modules.
pub(super) fn width_after(mut width: usize, steps: &[Step], root: &Path) -> Result<usize> {
    for step in steps {
        let (expected, next) = match step {
            Step::Dense(dense) => (dense.input, dense.output),
            Step::LayerNorm(norm) => (norm.weight.len(), norm.weight.len()),
            Step::Normalize => (width, width),
        };
        if expected != width {
            return Err(Error::model(
                root.display(),
                format!(
                    "a module of modules.json takes vectors of {expected} components but gets {width}; with --pooling, \
                     choose modes that fit it"
                ),
            ));
        }
        width = next;
    }
    Ok(width)
}

pub(super) fn dimensions(
    full: usize,
    options: &ModelOptions,
    stated: Option<usize>,
) -> Result<Option<usize>> {
    match options.dimensions {
        Some(asked) if asked == 0 || asked > full => Err(Error::usage(format!(
            "--dimensions {asked} is not possible: this model's vectors have {full} components"
        ))),
        Some(asked) => Ok((asked < full).then_some(asked)),
        None => Ok(stated.filter(|&stated| stated > 0 && stated < full)),
    }
}

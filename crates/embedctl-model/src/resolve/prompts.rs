//! A model's prompts, and the choice of one.

use std::path::Path;

use crate::metadata::SentenceTransformersConfig;
use crate::options::ModelOptions;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{PROMPT, PROMPT_NAME};
use embedctl_rows::Prompts;

/// The prompts of config_sentence_transformers.json; null is an empty one.
pub(crate) fn prompts(whole: &SentenceTransformersConfig) -> Prompts {
    let prompts = whole.prompts.iter();
    Prompts {
        by_name: prompts
            .map(|(name, prompt)| (name.clone(), prompt.clone().unwrap_or_default()))
            .collect(),
        default: whole.default_prompt_name.clone(),
    }
}

/// The prompt that `options` choose among `prompts` of `file`.
///
/// # Errors
/// If there is no prompt of that name.
pub(crate) fn choose_prompt(
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

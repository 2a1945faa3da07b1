//! What a query has in place of the settings that an output's texts had: the prompt, the role or the task of queries.

use crate::engine::Resolved;
use crate::error::{ErrorKind, Result};
use crate::inspect::QUERY_PROMPT;
use crate::model::{ModelOptions, TextRole, TextTask};
use crate::setting::PROMPT;
use embedctl_rows::ModelConfig;

/// The prompt of queries, where the user named none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum QueryPrompt {
    /// The one of the output's texts, or none.
    #[default]
    Same,
    /// The model's own one for queries, which the output's texts do not have.
    OfModel,
    /// This one of the output's texts, since the model names none for queries.
    OfTexts(String),
}

impl QueryPrompt {
    /// What is done where `config` has the settings of an output's texts, whose task was `task`.
    #[must_use]
    pub fn of(config: &ModelConfig, task: Option<&TextTask>) -> Self {
        let prompts = &config.prompts.by_name;
        match prompts.get(QUERY_PROMPT) {
            Some(prompt) if *prompt == config.prompt => Self::Same,
            Some(_) => Self::OfModel,
            None if config.prompt.is_empty() => Self::Same,
            // The prompt of a task that the query has, too.
            None if task.and_then(|task| prompts.get(task.name())) == Some(&config.prompt) => {
                Self::Same
            }
            None => Self::OfTexts(config.prompt.clone()),
        }
    }

    /// What the user should know.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let Self::OfTexts(prompt) = self else {
            return None;
        };
        Some(format!(
            "queries get the prompt of the output's texts, {prompt:?}, since the model has none named `{QUERY_PROMPT}`: give \
             theirs with {PROMPT}, or the same one if that is meant"
        ))
    }
}

/// The task of queries, where `own` has that of an output's texts: the role of a query, if texts have a role or a route;
/// of a model with tasks of its own the one that is named like that of the texts but for its end (`retrieval.query` beside
/// `retrieval.passage`), if there is such a task. Else that of the texts.
///
/// # Errors
/// If the model cannot be opened.
pub fn query_task(own: &Resolved) -> Result<Option<TextTask>> {
    let of_texts = &own.model().text_task;
    if of_texts.is_none() && !own.open_files()?.has_routes {
        return Ok(None);
    }
    let query = TextRole::Query.name();
    let wanted = match of_texts {
        None | Some(TextTask::Role(_)) => TextTask::Role(TextRole::Query),
        Some(TextTask::Own(name)) => match name.rsplit_once('.') {
            Some((family, "passage" | "document")) => TextTask::Own(format!("{family}.{query}")),
            _ => return Ok(of_texts.clone()),
        },
    };
    let asked = ModelOptions {
        text_task: Some(wanted.clone()),
        prompt: None,
        prompt_name: None,
        // Both have a length of their own, and queries keep all of their vectors.
        max_length: None,
        pool_factor: None,
        ..own.model().clone()
    };
    match own.with_settings(&asked).open_files() {
        Ok(_) => Ok(Some(wanted)),
        // It knows no such role or task.
        Err(error) if error.kind() == ErrorKind::Usage => Ok(of_texts.clone()),
        Err(error) => Err(error),
    }
}

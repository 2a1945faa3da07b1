//! The model of a search: the output's own, with what queries have in place of its texts' settings.

use super::corpus::Corpus;
use crate::Embedder;
use crate::cancel::CancelToken;
use crate::engine::{EngineOptions, Resolved};
use crate::error::{Error, Result};
use crate::inspect::{QUERY_PROMPT, RecordedModel, same_model};
use crate::model::{ModelOptions, TextRole, TextTask, VectorKind};
use crate::record::RowVectors;
use crate::setting::PROMPT;

/// The model that embeds queries.
pub struct QueryModel {
    embedder: Embedder,
    /// The prompt of queries; empty where they have none.
    pub prompt: String,
    /// What the user should know of it.
    pub warning: Option<String>,
}

impl Corpus {
    /// The model and the engine of the output's vectors, whose files may not be here yet. `given` has what the user said:
    /// where models are kept, and a prompt or a task of queries. `named` is another place of the model.
    ///
    /// # Errors
    /// If the provenance has a setting that this version does not know.
    pub fn model(
        &self,
        named: Option<&str>,
        given: &ModelOptions,
        engine: &EngineOptions,
    ) -> Result<(ModelOptions, EngineOptions)> {
        let recorded = RecordedModel::of(&self.made, named, given)?.options;
        let options = ModelOptions {
            prompt_name: None,
            ..recorded
        };
        Ok((options, RecordedModel::engine(&self.identity, engine)))
    }

    /// Opens that model, whose files are here, for queries.
    ///
    /// # Errors
    /// If it cannot be opened, or is not the one that made the vectors.
    pub fn open_model(
        &self,
        resolved: &Resolved,
        given: &ModelOptions,
        cancel: &CancelToken,
    ) -> Result<QueryModel> {
        let own = RecordedModel::settled(&self.made, resolved)?;
        let options = resolved.model().clone();
        let mut asked = own.model().clone();
        if self.has_several {
            asked.vectors = vec![self.kind];
        }
        if self.kind != VectorKind::Dense {
            // What was settled is about the dense vectors beside these.
            asked.pooling = options.pooling;
            asked.normalize = options.normalize;
            asked.dimensions = options.dimensions;
        } else if asked.dimensions.len() > 1 {
            // One column is compared.
            asked.dimensions = self.dimensions.into_iter().collect();
        }
        let is_asked = given.prompt.is_some() || given.prompt_name.is_some();
        let mut warning = None;
        if let Some(TextTask::Role(_)) = &asked.text_task {
            // A role has a prompt of its own.
            asked.text_task = Some(TextTask::Role(TextRole::Query));
            asked.prompt = None;
            if !self.kind.is_one_per_row() {
                // Queries have a length of their own.
                asked.max_length = None;
            }
        }
        if let Some(task) = &given.text_task {
            asked.text_task = Some(task.clone());
            asked.prompt = None;
        }
        if is_asked {
            asked.prompt.clone_from(&given.prompt);
            asked.prompt_name.clone_from(&given.prompt_name);
        } else if self.kind == VectorKind::Dense && given.text_task.is_none() {
            let config = own.open_files()?.config;
            if config.prompts.by_name.contains_key(QUERY_PROMPT) {
                asked.prompt = None;
                asked.prompt_name = Some(QUERY_PROMPT.to_owned());
            } else if !config.prompt.is_empty() {
                warning = Some(format!(
                    "queries get the prompt of the output's texts, {:?}, since the model has none named `{QUERY_PROMPT}`: \
                     give theirs with {PROMPT}, or the same one if that is meant",
                    config.prompt
                ));
            }
        }
        let embedder = Embedder::open(own.with_settings(&asked), cancel)?;
        same_model(&embedder, &self.identity)?;
        Ok(QueryModel {
            prompt: embedder.model().config.prompt.clone(),
            embedder,
            warning,
        })
    }
}

impl QueryModel {
    /// The vectors of queries.
    ///
    /// # Errors
    /// If one cannot be embedded.
    pub fn embed(&mut self, queries: &[String]) -> Result<RowVectors> {
        let rows = self.embedder.embed_rows(queries)?;
        match rows {
            RowVectors::Several(_) => Err(Error::internal("queries of several kinds of vectors")),
            rows => Ok(rows),
        }
    }
}

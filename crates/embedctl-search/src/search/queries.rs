//! The model of a search: the output's own, with what queries have in place of its texts' settings.

use super::corpus::Corpus;
use crate::cancel::CancelToken;
use crate::engine::{EngineOptions, Resolved};
use crate::error::{Error, Result};
use crate::inspect::{QUERY_PROMPT, QueryPrompt, RecordedModel, query_task, same_model};
use crate::model::{ModelOptions, TextRole, TextTask, WeightsKind};
use crate::record::Numbers;
use embedctl_engine::Embedder;
use embedctl_vectors::Terms;

/// The model that embeds queries.
pub struct QueryModel {
    embedder: Embedder,
    /// The prompt of queries; empty where they have none.
    pub prompt: String,
    /// What the user should know of it.
    pub warning: Option<String>,
}

/// The vectors of queries.
pub struct EmbeddedQueries {
    /// One for each query.
    pub vectors: Numbers,
    /// Queries of which the model takes only the beginning.
    pub truncated: usize,
    /// The most tokens that it takes.
    pub limit: usize,
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
        let reads_onnx = engine.providers.may_use(WeightsKind::Onnx);
        let options = ModelOptions {
            prompt_name: None,
            // A provider that the user named may have no use for the file that made the vectors.
            model_file: recorded.model_file.clone().filter(|_| reads_onnx),
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
            asked.vectors = vec![self.form.clone()];
        }
        if !self.form.is_dense() {
            // What was settled is about the dense vectors beside these.
            asked.pooling = options.pooling;
            asked.normalize = options.normalize;
            asked.dimensions = options.dimensions;
        } else if asked.dimensions.len() > 1 {
            // One column is compared.
            asked.dimensions = self.dimensions.into_iter().collect();
        }
        let of_texts = asked.text_task.clone();
        asked.text_task = match &given.text_task {
            Some(task) => Some(task.clone()),
            None => query_task(&own.with_settings(&asked))?,
        };
        if let Some(TextTask::Role(_)) = &asked.text_task {
            // Queries have a length of their own.
            asked.max_length = match self.form.is_one_per_row() {
                true => length_that_was_asked_for(&own)?,
                false => None,
            };
            if asked.text_task == Some(TextTask::Role(TextRole::Query)) {
                // It keeps all of its vectors.
                asked.pool_factor = None;
            }
        }
        let is_asked = given.prompt.is_some() || given.prompt_name.is_some();
        let mut warning = None;
        if is_asked {
            asked.prompt.clone_from(&given.prompt);
            asked.prompt_name.clone_from(&given.prompt_name);
        } else if of_texts != asked.text_task && (of_texts.is_some() || given.text_task.is_some()) {
            // A task has a prompt of its own.
            asked.prompt = None;
        } else {
            let config = own.open_files()?.config;
            let prompt = QueryPrompt::of(&config, asked.text_task.as_ref());
            warning = prompt.warning();
            if prompt == QueryPrompt::OfModel {
                asked.prompt = None;
                asked.prompt_name = Some(QUERY_PROMPT.to_owned());
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

/// The most tokens of a row, where the user once named it: what is as in the model's files is left to them.
fn length_that_was_asked_for(own: &Resolved) -> Result<Option<usize>> {
    let by_itself = ModelOptions {
        max_length: None,
        ..own.model().clone()
    };
    let usual = own
        .with_settings(&by_itself)
        .open_files()?
        .config
        .max_length;
    Ok(own.model().max_length.filter(|own| *own != usual))
}

impl QueryModel {
    /// The terms of its sparse vectors.
    #[must_use]
    pub fn terms(&self) -> Terms {
        Terms::named(self.embedder.model().terms())
    }

    /// The vectors of queries.
    ///
    /// # Errors
    /// If one cannot be embedded.
    pub fn embed(&mut self, queries: &[String]) -> Result<EmbeddedQueries> {
        let texts = queries.iter().collect();
        let truncated = self.embedder.tokenize(&texts).truncated();
        let vectors = self.embedder.embed_rows(queries)?.into_one();
        Ok(EmbeddedQueries {
            vectors: vectors
                .ok_or_else(|| Error::internal("queries of several kinds of vectors"))?,
            truncated,
            limit: self.embedder.model().config.max_length,
        })
    }
}

//! The model that made an output, as its provenance records it, to be opened again.

use serde_json::Value;

use crate::engine::{EngineOptions, Provider, ProviderChoice, Resolved};
use crate::error::{Error, Result};
use crate::identity::{VectorIdentity, VectorSettings};
use crate::model::{ModelOptions, ModelTask, ScoreTask, TextRole, TextTask, WeightsKind};
use embedctl_rows::PoolingMode;
use embedctl_vectors::RowForm;

/// The name that models give to their prompt for queries.
pub const QUERY_PROMPT: &str = "query";

/// A model with what overrode its own files.
pub struct RecordedModel {
    /// Its options, but for the pooling.
    pub options: ModelOptions,
    /// Its pooling.
    pub pooling: Vec<PoolingMode>,
}

impl RecordedModel {
    /// The model in the provenance `made`, or `named` in its place. `options` say where models are kept.
    ///
    /// # Errors
    /// If the provenance has a setting that this version does not know.
    pub fn of(made: &Value, named: Option<&str>, options: &ModelOptions) -> Result<Self> {
        let identity = VectorIdentity::of_provenance(made);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let id = text(&made["model"]["id"]).unwrap_or_default();
        let name = match (named, text(&made["model"]["revision"])) {
            (Some(model), _) => model.to_owned(),
            (None, Some(revision)) => format!("{id}@{revision}"),
            (None, None) => id,
        };
        let VectorSettings {
            model_file,
            pooling,
            prompt,
            max_length,
            task,
            include_prompt: _, // the model's files say so
            normalized: _,     // the caller decides
            normalized_before_cut: _,
            late_chunking: _, // chunks alone are pooled so
            vectors,
            sparse,
            multi,
            scores,
            dimensions: _,
        } = identity.settings.clone();
        let native = identity.weights() == WeightsKind::Checkpoint;
        let parse = |name: &String| name.parse::<PoolingMode>().map_err(Error::usage);
        let pooling = pooling.iter().flatten().map(parse);
        let precision = identity.precision().filter(|_| native);
        let precision = precision.map(|it| it.parse().map_err(Error::usage));
        let forms = identity.settings.vector_forms()?;
        let has_dense = forms.iter().any(RowForm::is_dense);
        Ok(Self {
            options: ModelOptions {
                model: name,
                task: scores.map_or(ModelTask::Embed, |scores| {
                    ModelTask::Score(ScoreTask {
                        pairs: scores.pairs,
                        softmax: scores.softmax,
                    })
                }),
                // Dense vectors alone need no word.
                vectors: match vectors {
                    None if matches!(forms[..], [RowForm::Dense(_)]) => Vec::new(),
                    _ => forms,
                },
                text_task: (sparse.as_ref().and_then(|sparse| sparse.role.as_deref()))
                    .or(multi.as_ref().map(|multi| multi.role.as_str()))
                    .and_then(TextRole::of_name)
                    .map(TextTask::Role)
                    .or(task.and_then(|task| task.parse().ok())),
                pool_factor: multi.as_ref().and_then(|multi| multi.pool_factor),
                max_active_dims: sparse.as_ref().and_then(|sparse| sparse.max_active_dims),
                prompt,
                max_length,
                model_file: model_file.filter(|_| !native),
                precision: precision.transpose()?,
                ..options.clone()
            },
            // Scores and sparse vectors have no pooling but the model's own.
            pooling: match has_dense {
                true => pooling.collect::<Result<_>>()?,
                false => Vec::new(),
            },
        })
    }

    /// The model of this provenance with the settings that depend on its own files, which must be here by now: a setting that
    /// is as in the files is left to them.
    ///
    /// # Errors
    /// If the model cannot be opened.
    pub fn settled(made: &Value, resolved: &Resolved) -> Result<Resolved> {
        let then = VectorIdentity::of_provenance(made).settings;
        let open = |options: &ModelOptions| resolved.with_settings(options).open_files();
        let mut options = resolved.model().clone();
        let own = open(&options)?.config;
        let recorded = Self::of(made, None, &options)?;
        // Named again, its own modes would be another thing.
        if options.pooling.is_none()
            && !recorded.pooling.is_empty()
            && own.pooling != recorded.pooling
        {
            options.pooling = Some(recorded.pooling);
        }
        if let Some(dimensions) = &then.dimensions
            && options.dimensions.is_empty()
            && own.vectors() != *dimensions
        {
            options.dimensions.clone_from(&dimensions.0);
        }
        if options.normalize.is_none() {
            if then.normalized_before_cut == Some(false) {
                options.normalize = Some(false);
            } else if let Some(normalized) = then.normalized
                && open(&options)?.config.normalized() != normalized
            {
                options.normalize = Some(normalized);
            }
        }
        Ok(resolved.with_settings(&options))
    }

    /// The model of this provenance with its pooling, where that is not the model's own: named again, its own modes would be
    /// another thing.
    ///
    /// # Errors
    /// If the model cannot be opened.
    pub fn pooled(made: &Value, resolved: Resolved) -> Result<Resolved> {
        let pooling = Self::of(made, None, resolved.model())?.pooling;
        if pooling.is_empty() || resolved.open_files()?.config.pooling == pooling {
            return Ok(resolved);
        }
        Ok(resolved.with_settings(&ModelOptions {
            pooling: Some(pooling),
            ..resolved.model().clone()
        }))
    }

    /// The engine that makes vectors like those of `identity`, where the user left it to the program.
    #[must_use]
    pub fn engine(identity: &VectorIdentity, engine: &EngineOptions) -> EngineOptions {
        let native = identity.weights() == WeightsKind::Checkpoint;
        let mut engine = engine.clone();
        if native && engine.providers == ProviderChoice::Auto {
            engine.providers = ProviderChoice::List(vec![Provider::Native]);
        }
        engine
    }
}

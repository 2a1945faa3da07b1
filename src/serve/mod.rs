//! The batch job's model behind HTTP: `embedctl serve`.
//!
//! Tokenizer, batches, workers and pooling are those of [`crate::Embedder`], so a text's vector is the one that the batch
//! job gives it. [`LikeFile`] takes the model and its settings from an output.

mod like;
mod model;
mod rows;

use std::sync::Arc;

pub use embedctl_serve::{
    ApiKeys, BoundListener, Listen, Notice, Notify, ServedModel, ServerOptions, serve,
};

pub use like::LikeFile;

use crate::cancel::CancelToken;
use crate::engine::{EngineInfo, LoadedModel, Resolved};
use crate::error::Result;
use crate::identity::VectorIdentity;
use crate::inspect::Verification;
use crate::output::Dtype;
use crate::rows::Dimensions;
use model::OpenedModel;
use rows::LikeRows;

/// A model that is ready to be served.
pub struct ReadyModel {
    /// It.
    pub model: Arc<dyn ServedModel>,
    /// Hub id or folder.
    pub id: String,
    /// Widths of its vectors.
    pub dimensions: Dimensions,
    /// The engine that runs it.
    pub engine: EngineInfo,
    /// Threads that run it.
    pub threads: usize,
    /// The prompt before queries that name none; `None` where rows are scores.
    pub prompt: Option<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Opens a model for a server; with `like`, one whose vectors mix with those of that output. `verified` goes into
/// `/info`.
///
/// # Errors
/// If the model or the engine cannot be had, or the vectors would not mix.
pub fn open(
    resolved: Resolved,
    like: Option<&LikeFile>,
    verified: Option<&Verification>,
    cancel: &CancelToken,
) -> Result<ReadyModel> {
    let loaded = LoadedModel::open(resolved, cancel)?;
    let mut notes = loaded.model().notes(loaded.weights());
    let files = loaded.provenance()?.clone();
    let mut identity = VectorIdentity {
        dtype: Some(Dtype::F32.name().to_owned()),
        ..loaded.identity()?
    };
    if let Some(like) = like {
        identity = like.typed(identity);
        notes.extend(like.check((&loaded, &identity))?);
    }
    let (id, info) = (loaded.model().id.clone(), loaded.info().clone());
    let (dimensions, threads) = (loaded.model().config.vectors(), loaded.threads());
    let config = &loaded.model().config;
    let prompt = (config.scores.is_none()).then(|| config.prompt.clone());
    let of_rows = Arc::clone(loaded.model());
    let mut model = OpenedModel::new(loaded, &identity, &files, like, verified)?;
    let mut warnings: Vec<String> = like.and_then(LikeFile::warning).into_iter().collect();
    match like.map_or(Ok(None), |like| like.rows(model.card(), &of_rows)) {
        Ok(rows) => {
            warnings.extend(rows.iter().flat_map(LikeRows::warnings).cloned());
            model.rows = rows;
        }
        Err(error) => notes.push(format!("rows are not searched: {error}")),
    }
    Ok(ReadyModel {
        model: Arc::new(model),
        id,
        dimensions,
        engine: info,
        threads,
        prompt,
        notes,
        warnings,
    })
}

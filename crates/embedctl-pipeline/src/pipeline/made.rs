//! The provenance of what a run writes.

use std::cell::OnceCell;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use serde_json::Value;

use super::EmbedOptions;
use super::batching::Joined;
use crate::cancel::CancelToken;
use crate::engine::background::wait;
use crate::engine::{EngineInfo, LoadedModel};
use crate::error::{Error, Result};
use crate::model::{Model, ModelProvenance};
use crate::progress::Counts;
use crate::provenance::Provenance;
use crate::threads::locked;
use crate::tokenize::chunks::Chunked;

/// The model's files, once they are hashed.
pub(super) type HashedFiles = Receiver<Result<ModelProvenance>>;

/// Builds the provenances of a run's outputs.
pub(super) struct ProvenanceBuilder<'c> {
    pub(super) model: Arc<Model>,
    /// As it was when the run began.
    pub(super) info: EngineInfo,
    cosine: Joined,
    chunked: Option<Chunked>,
    /// See [`Provenance::text`].
    text: Option<String>,
    /// See [`Provenance::query`].
    query: Option<String>,
    /// See [`Provenance::id`].
    id: Option<String>,
    /// The model's files are hashed meanwhile.
    hashes: HashedFiles,
    files: OnceCell<ModelProvenance>,
    pub(super) cancel: &'c CancelToken,
}

impl<'c> ProvenanceBuilder<'c> {
    /// Of a run of `loaded` with these options.
    pub(super) fn new(
        loaded: &LoadedModel,
        options: &EmbedOptions,
        chunked: Option<Chunked>,
        hashes: &HashedFiles,
        cosine: &Joined,
        cancel: &'c CancelToken,
    ) -> Self {
        Self {
            model: Arc::clone(loaded.model()),
            info: loaded.info().clone(),
            cosine: Arc::clone(cosine),
            chunked,
            text: options.input.text(),
            query: options.input.query(),
            id: options.input.ids(),
            hashes: hashes.clone(),
            files: OnceCell::new(),
            cancel,
        }
    }
}

impl ProvenanceBuilder<'_> {
    /// The model's files, once they are hashed.
    pub(super) fn files(&self) -> Result<&ModelProvenance> {
        if let Some(files) = self.files.get() {
            return Ok(files);
        }
        let hashed = wait(self.cancel, &self.hashes)?;
        Ok(self.files.get_or_init(|| hashed))
    }

    /// Fails as soon as the files are known to have changed while they were read, and not at the end of a long run.
    pub(super) fn check_files(&self) -> Result<()> {
        if let Ok(hashed) = self.hashes.try_recv() {
            self.files.set(hashed?).ok();
        }
        Ok(())
    }

    /// The engine that runs the model, as far as it is known.
    pub(super) fn info(&self) -> EngineInfo {
        EngineInfo {
            cosine: *locked(&self.cosine),
            ..self.info.clone()
        }
    }

    /// The provenance of something that has no counts yet.
    pub(super) fn at_first(&self) -> Result<Value> {
        let mut made = self.provenance(&Counts::default())?;
        if let Some(object) = made.as_object_mut() {
            object.retain(|name, _| !["rows", "tokens"].contains(&name.as_str()));
        }
        Ok(made)
    }

    /// The provenance of something with these counts.
    pub(super) fn provenance(&self, counts: &Counts) -> Result<Value> {
        let (files, info) = (self.files()?, self.info());
        let provenance = Provenance {
            text: self.text.clone(),
            query: self.query.clone(),
            id: self.id.clone(),
            ..Provenance::new(&self.model, files, &info, self.chunked, counts)
        };
        serde_json::to_value(&provenance)
            .map_err(|error| Error::internal(format!("writing the provenance: {error}")))
    }
}

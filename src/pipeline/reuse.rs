//! Vectors of an earlier output in place of new ones.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::EmbedOptions;
use crate::batch::TokenRows;
use crate::engine::{EngineInfo, Provider};
use crate::error::{Error, Result};
use crate::job::{Objects, Storage, is_folder, is_inside};
use crate::model::{Model, ModelProvenance};
use crate::output::{Destination, Dtype, OutputOptions};
use crate::progress::Counts;
use crate::provenance::Provenance;
use crate::reuse::{Found, Old, Reuse};
use crate::storage::Address;

/// An earlier output, and what its vectors must be.
#[derive(Debug, Clone)]
pub(super) struct Earlier {
    old: Old,
    dtype: Dtype,
}

impl Earlier {
    /// The earlier output that options name.
    pub(super) fn of(options: &EmbedOptions) -> Result<Option<Self>> {
        let Some(path) = &options.reuse else {
            return Ok(None);
        };
        if let Destination::Path(out) = &options.output.destination
            && options.output.force
            && is_folder(out)
            && (is_inside(path, out) || is_inside(out, path))
        {
            return Err(Error::usage(format!(
                "--reuse {}: --force removes it before the run begins",
                path.display()
            ))
            .with_remedy("write to another folder"));
        }
        let parts = super::job::of(options)?.and_then(|job| job.format());
        let output = OutputOptions {
            format: parts.or(options.output.format),
            ..options.output.clone()
        };
        Ok(Some(Self {
            old: Old::look(path, storage(path, options)?, &output)?,
            dtype: output.resolved_dtype()?,
        }))
    }

    /// Refuses it where it can be known, before an engine is open, that its vectors are others.
    pub(super) fn check_model(&self, model: &Model) -> Result<()> {
        let info = EngineInfo::new("", String::new(), Provider::Native);
        let files = ModelProvenance {
            id: String::new(),
            revision: None,
            files: Vec::new(),
        };
        let now = Provenance::new(model, &files, &info, None, &Counts::default(), None);
        let now = serde_json::to_value(&now)
            .map_err(|error| Error::internal(format!("writing the provenance: {error}")))?;
        let later = ["model", "model_file", "precision"];
        self.old.check(&now, self.dtype, &later)
    }

    /// Refuses it if its vectors are others than those of the run with this provenance.
    pub(super) fn check(&self, now: &Value) -> Result<()> {
        self.old.check(now, self.dtype, &[])
    }

    /// To be asked for vectors of these widths.
    pub(super) fn ask(&self, widths: Vec<usize>) -> Asked {
        Asked::Waiting(self.old.clone(), widths)
    }
}

/// The folder of parts on an object store, if it is one.
fn storage(path: &Path, options: &EmbedOptions) -> Result<Option<Arc<dyn Storage>>> {
    if !Address::is_url_path(path) || !is_folder(path) {
        return Ok(None);
    }
    let address = Address::parse(&path.to_string_lossy())?;
    Ok(Some(Arc::new(Objects::new(
        options.files.storage()?,
        &address,
    ))))
}

/// An earlier output, whose texts are read when the first text is looked up.
#[allow(clippy::large_enum_variant)] // there is one
pub(super) enum Asked {
    Waiting(Old, Vec<usize>),
    Open(Reuse),
}

impl Asked {
    /// What it has of these texts.
    pub(super) fn find<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> Result<Found> {
        if let Self::Waiting(old, widths) = self {
            *self = Self::Open(old.clone().open(widths)?);
        }
        match self {
            Self::Open(reuse) => reuse.find(texts),
            Self::Waiting(..) => Err(Error::internal("an earlier output that was not opened")),
        }
    }
}

/// The tokens of all texts, `tokens` being those of the texts that were not found: the others have none.
pub(super) fn with_found(found: &Found, texts: usize, tokens: TokenRows) -> TokenRows {
    if tokens.len() == texts {
        return tokens;
    }
    let mut all = TokenRows::default();
    let mut next = 0;
    for text in 0..texts {
        if found.get(text).is_some() {
            all.push([], false);
        } else {
            all.push(tokens.get(next).iter().copied(), tokens.is_truncated(next));
            next += 1;
        }
    }
    all
}

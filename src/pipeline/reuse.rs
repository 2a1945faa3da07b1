//! Vectors of an earlier output in place of new ones.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::EmbedOptions;
use super::distinct::Distinct;
use super::fingerprint::{LATER, not_open};
use crate::batch::TokenRows;
use crate::engine::{EngineInfo, Provider};
use crate::error::{Error, Result};
use crate::job::{Local, Objects, is_folder, is_inside};
use crate::model::{Model, ModelProvenance};
use crate::output::{Destination, Dtype};
use crate::progress::Counts;
use crate::provenance::Provenance;
use crate::record::Texts;
use crate::reuse::{Found, Old, Reuse};
use crate::setting::{FORCE, REUSE};
use crate::storage::{Address, Readable};

/// An earlier output, and what its vectors must be.
#[derive(Debug, Clone)]
pub(crate) struct Earlier {
    old: Old,
    dtype: Dtype,
}

impl Earlier {
    /// The earlier output that options name.
    pub(super) fn of(options: &EmbedOptions) -> Result<Option<Self>> {
        let Some(path) = &options.reuse else {
            return Ok(None);
        };
        let asked = format!("{REUSE} {}", path.display());
        if let Destination::Path(out) = &options.output.destination
            && options.output.force
            && is_folder(out)
            && (is_inside(path, out) || is_inside(out, path))
        {
            return Err(
                Error::usage(format!("{asked}: {FORCE} removes it before the run begins"))
                    .with_remedy("write to another folder"),
            );
        }
        Ok(Some(Self {
            old: look(path, asked, options)?,
            dtype: options.output.resolved_dtype()?,
        }))
    }

    /// Its vectors, to be looked up by a caller that has opened its model and engine.
    pub(crate) fn vectors_for(&self, model: &Model, info: &EngineInfo) -> Result<EarlierVectors> {
        let files = model.provenance(info.provider == Provider::Native)?;
        self.check(&provenance(model, &files, info)?)?;
        Ok(self.ask(model.config.vectors().0))
    }

    /// That nothing proves its vectors, for the user.
    pub(super) fn note(&self) -> Option<&str> {
        self.old.unproven()
    }

    /// Refuses it where it can be known, before an engine is open, that its vectors are others.
    pub(super) fn check_model(&self, model: &Model) -> Result<()> {
        let (files, info) = not_open();
        let now = provenance(model, &files, &info)?;
        self.old.check(&now, self.dtype, &LATER)
    }

    /// Refuses it if its vectors are others than those of the run with this provenance.
    pub(super) fn check(&self, now: &Value) -> Result<()> {
        self.old.check(now, self.dtype, &[])
    }

    /// To be asked for vectors of these widths.
    pub(super) fn ask(&self, widths: Vec<usize>) -> EarlierVectors {
        EarlierVectors {
            old: self.old.clone(),
            widths,
            open: None,
        }
    }
}

fn provenance(model: &Model, files: &ModelProvenance, info: &EngineInfo) -> Result<Value> {
    let now = Provenance::new(model, files, info, None, &Counts::default(), None);
    serde_json::to_value(&now)
        .map_err(|error| Error::internal(format!("writing the provenance: {error}")))
}

/// Looks at the folder, the file or the object at `path`.
fn look(path: &Path, asked: String, options: &EmbedOptions) -> Result<Old> {
    let storage = match Address::is_url_path(path) {
        true => Some(options.files.storage()?),
        false => None,
    };
    match storage {
        Some(storage) if is_folder(path) => {
            let address = Address::parse(&path.to_string_lossy())?;
            Old::folder(asked, Arc::new(Objects::new(storage, &address)))
        }
        None if path.is_dir() => Old::folder(asked, Arc::new(Local::new(path))),
        None if !path.is_file() => Err(Error::usage(format!("{asked}: there is no such output"))
            .with_remedy("leave the option out, if there is no earlier output yet")),
        storage => {
            let file = Readable::open(path, storage.as_ref())?;
            Old::file(asked, file, &options.output)
        }
    }
}

/// An earlier output, whose texts are read when the first text is looked up.
pub(crate) struct EarlierVectors {
    old: Old,
    /// Of a row's vectors.
    widths: Vec<usize>,
    open: Option<Reuse>,
}

impl EarlierVectors {
    /// What it has of the distinct texts of these.
    pub(crate) fn find(&mut self, texts: &Texts, distinct: &Distinct) -> Result<Found> {
        let reuse = match &mut self.open {
            Some(reuse) => reuse,
            none => none.insert(self.old.clone().open(&self.widths)?),
        };
        reuse.find((0..distinct.len()).map(|number| texts.get(distinct.first(number))))
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

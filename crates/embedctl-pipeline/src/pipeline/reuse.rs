//! Vectors of an earlier output in place of new ones.

use std::path::Path;

use super::EmbedOptions;
use super::in_flight::Distinct;
use crate::engine::EngineInfo;
use crate::error::{Error, Result};
use crate::identity;
use crate::job::{is_folder, is_inside};
use crate::model::{Model, ModelProvenance};
use crate::output::{Destination, Forms, OutputOptions, RunFiles};
use crate::record::Texts;
use crate::reuse::{EarlierOutput, Found, Reuse};
use crate::setting::{FORCE, REUSE};
use crate::storage::Location;
use embedctl_vectors::Terms;

/// An earlier output that options name.
#[derive(Debug, Clone)]
pub(crate) struct ReusedOutput {
    old: EarlierOutput,
}

impl ReusedOutput {
    /// The earlier output that options name. `files` has the object stores that it may lie in.
    pub(super) fn of(options: &EmbedOptions, files: &RunFiles) -> Result<Option<Self>> {
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
            old: look(path, asked, options, files)?,
        }))
    }

    /// Its vectors for `output`, to be looked up by a caller that has opened its model and engine.
    pub(crate) fn vectors_for(
        &self,
        model: &Model,
        info: &EngineInfo,
        output: &OutputOptions,
    ) -> Result<EarlierVectors> {
        let files = model.provenance(info.provider.weights_of(model))?;
        self.check(model, &files, info, output)?;
        Ok(self.ask(model))
    }

    /// A note for the user if nothing proves its vectors.
    pub(super) fn note(&self) -> Option<&str> {
        self.old.unproven()
    }

    /// Refuses it if differences from the vectors in `output` are known before an engine is open.
    pub(super) fn check_model(&self, model: &Model, output: &OutputOptions) -> Result<()> {
        self.old.check(&identity::of_output(model, output)?)
    }

    /// Refuses it if its vectors differ from those of the run.
    pub(super) fn check(
        &self,
        model: &Model,
        files: &ModelProvenance,
        info: &EngineInfo,
        output: &OutputOptions,
    ) -> Result<()> {
        let now = identity::of_output(model, output)?;
        self.old.check(&now.with_engine(model, files, info))
    }

    /// The lookup for vectors of `model`.
    pub(super) fn ask(&self, model: &Model) -> EarlierVectors {
        let mut forms = model.config.forms();
        if self.old.has_maps() {
            forms = forms.with_terms(&Terms::named(model.terms()));
        }
        EarlierVectors {
            old: self.old.clone(),
            forms,
            open: None,
        }
    }
}

/// Opens the folder, the file or the object at `path`.
fn look(
    path: &Path,
    asked: String,
    options: &EmbedOptions,
    files: &RunFiles,
) -> Result<EarlierOutput> {
    let location = Location::of(path)?;
    let (storage, is_folder) = match location {
        Location::Remote(_) => (Some(files.storage()?), is_folder(path)),
        Location::Local(_) => (None, path.is_dir()),
    };
    if is_folder {
        return EarlierOutput::folder(asked, location.folder(storage.as_ref())?);
    }
    if storage.is_none() && !path.is_file() {
        return Err(Error::usage(format!("{asked}: there is no such output"))
            .with_remedy("leave the option out, if there is no earlier output yet"));
    }
    let file = location.read(storage.as_ref())?;
    EarlierOutput::file(asked, file, &options.output)
}

/// An earlier output, whose texts are read when the first text is looked up.
pub(crate) struct EarlierVectors {
    old: EarlierOutput,
    /// The forms of the model's rows.
    forms: Forms,
    open: Option<Reuse>,
}

impl EarlierVectors {
    /// Looks up the distinct texts.
    pub(crate) fn find(&mut self, texts: &Texts, distinct: &Distinct) -> Result<Found> {
        let reuse = match &mut self.open {
            Some(reuse) => reuse,
            none => none.insert(self.old.clone().open(&self.forms)?),
        };
        reuse.find((0..distinct.len()).map(|number| texts.get(distinct.first(number))))
    }
}

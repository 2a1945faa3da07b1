//! An output whose vectors the server's are to mix with.

use std::path::Path;

use serde_json::Value;

use crate::cancel::CancelToken;
use crate::embedder::LoadedModel;
use crate::engine::{self, EngineOptions, Provider, ProviderChoice};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::{self, VectorIdentity};
use crate::input::{InputOptions, Source};
use crate::inspect::{self, RecordedModel, Verified};
use crate::job::State;
use crate::model::{Model, ModelOptions, ModelProvenance, WeightsKind};
use crate::output::{self, Destination, Dtype, OutputFormat, OutputOptions};
use crate::setting::{LIKE, MODEL, PROMPT, VERIFY};
use crate::storage::{Location, Readable, Storage};

/// The field of an identity that a user may change on purpose: queries have a prompt of their own.
const PROMPT_FIELD: &str = "prompt";

/// An output of `embed`, and what its provenance says of its vectors.
pub struct LikeFile {
    /// How it was asked for, for messages.
    asked: String,
    /// It, or the first part of the folder.
    file: Readable,
    made: Value,
    identity: VectorIdentity,
    /// Whether the user gave another prompt than the output's.
    has_own_prompt: bool,
}

impl LikeFile {
    /// Reads the provenance of a file, of a folder of parts, or at an address.
    ///
    /// # Errors
    /// If there is none, or its vectors are of a type that no answer holds.
    pub fn open(path: &Path, storage: Option<&Storage>) -> Result<Self> {
        let asked = format!("{LIKE} {}", path.display());
        let without = || {
            Error::usage(format!("{asked}: it has no provenance, in it or beside it")).with_remedy(
                "name a file that embedctl has written, or a folder of its parts; or name the model",
            )
        };
        let location = Location::of(path)?;
        let file = match location.is_folder() {
            true => {
                let folder = location.folder(storage)?;
                let state = State::read(folder.as_ref(), None)?;
                let part = state.parts.values().next().ok_or_else(without)?;
                folder.open(&part.file)?
            }
            false => location.read(storage)?,
        };
        let format = OutputFormat::from_path(file.path()).ok_or_else(without)?;
        let made = output::provenance(&file, format)?.ok_or_else(without)?;
        let identity = VectorIdentity::of_provenance(&made);
        let dtype = identity.dtype();
        if ![Dtype::F32.name(), Dtype::F16.name()].contains(&dtype) {
            return Err(Error::usage(format!(
                "{asked}: it holds {dtype} vectors, and a server answers with floats"
            ))
            .with_remedy("name the f32 output that they were made of, or name the model"));
        }
        Ok(Self {
            asked,
            file,
            made,
            identity,
            has_own_prompt: false,
        })
    }

    /// The model and the engine of its vectors. `given` has what the user said: where models are kept, a prompt in place
    /// of the output's, and settings that may not differ from the output's. `named` is another place of the model.
    ///
    /// # Errors
    /// If the provenance has a setting that this version does not know.
    pub fn options(
        &mut self,
        named: Option<&str>,
        given: &ModelOptions,
        engine: &EngineOptions,
    ) -> Result<(ModelOptions, EngineOptions)> {
        let recorded = RecordedModel::of(&self.made, named, given)?.options;
        self.has_own_prompt = given.prompt.is_some() || given.prompt_name.is_some();
        let options = ModelOptions {
            prompt: match self.has_own_prompt {
                true => given.prompt.clone(),
                false => recorded.prompt.clone(),
            },
            max_length: given.max_length.or(recorded.max_length),
            precision: given.precision.or(recorded.precision),
            model_file: given.model_file.clone().or(recorded.model_file.clone()),
            ..recorded
        };
        let mut engine = engine.clone();
        let native = self.identity.weights() == WeightsKind::Checkpoint;
        if native && engine.providers == ProviderChoice::Auto {
            engine.providers = ProviderChoice::List(vec![Provider::Native]);
        }
        Ok((options, engine))
    }

    /// The same options with those that depend on the model's own files, which must be here by now.
    ///
    /// # Errors
    /// If the model cannot be opened.
    pub fn settle(&self, options: ModelOptions, engine: &EngineOptions) -> Result<ModelOptions> {
        let then = &self.identity.settings;
        let open = |options: &ModelOptions| {
            let (settled, _) = engine::settle(options, engine)?;
            Model::open(&settled)
        };
        let mut options = options;
        let own = open(&options)?.config;
        let recorded = RecordedModel::of(&self.made, None, &options)?;
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
        Ok(options)
    }

    /// Refuses vectors that would not mix with the output's; notes on differences that the user wanted or that do no harm.
    pub(super) fn check(&self, now: &VectorIdentity) -> Result<Vec<String>> {
        let differences = self.identity.differences(now);
        let is_wanted = |key: &str| key == PROMPT_FIELD && self.has_own_prompt;
        let decide: Vec<_> = (differences.iter())
            .filter(|it| it.decides && !is_wanted(&it.key))
            .cloned()
            .collect();
        if !decide.is_empty() {
            return Err(Error::usage(format!(
                "{}: the server's vectors would not mix with its vectors: {}",
                self.asked,
                identity::listed(&decide)
            ))
            .with_remedy(format!(
                "leave the settings to the file, and name the model that made it with {MODEL} if it has moved"
            )));
        }
        let wanted = differences.iter().filter(|it| is_wanted(&it.key));
        Ok(wanted
            .map(|it| {
                format!("{it}: {PROMPT} was given for queries; everything else is the file's")
            })
            .collect())
    }

    /// Embeds `count` rows of the output again, as [`inspect::verify`] does. Their texts must stand in it or beside it.
    ///
    /// # Errors
    /// If they cannot be embedded, or are not as near as they should be.
    pub fn verify(
        &self,
        count: usize,
        (model, engine): (&ModelOptions, &EngineOptions),
        cancel: &CancelToken,
    ) -> Result<Verified> {
        let file = inspect::file(&self.file, None, cancel)?;
        let rows = inspect::kept_texts(&self.file)?.ok_or_else(|| {
            Error::usage(format!(
                "{VERIFY}: the texts of {} are not beside it",
                self.file.name
            ))
            .with_remedy("leave it out, or name an output with its texts")
        })?;
        let texts = inspect::Texts {
            sources: vec![Source::Object(rows)],
            input: InputOptions::default(),
        };
        let kept = ModelOptions {
            cache_dir: model.cache_dir.clone(),
            ..ModelOptions::default()
        };
        let named = Some(model.model.as_str());
        let verified = inspect::verify(&file, count, &texts, named, &kept, engine, cancel)
            .map_err(|error| match error.kind() {
                ErrorKind::Usage => Error::usage(format!(
                    "{VERIFY}: rows of {} cannot be embedded again",
                    self.file.name
                ))
                .with_remedy("leave it out, or name an output with its texts")
                .caused_by(error),
                _ => error,
            })?;
        if verified.worst.same {
            return Ok(verified);
        }
        Err(Error::usage(format!(
            "{VERIFY}: row {} of {} was embedded again, and the cosine to its vector is {:.6}",
            verified.worst.worst_row, self.file.name, verified.worst.least_cosine
        ))
        .with_remedy("look at it with `embedctl inspect`: its vectors are not of its texts"))
    }

    /// How it was asked for.
    pub(super) fn path(&self) -> String {
        self.file.name.clone()
    }

    /// Whether the user gave another prompt than the output's.
    pub(super) fn has_own_prompt(&self) -> bool {
        self.has_own_prompt
    }

    fn dtype(&self) -> &str {
        self.identity.dtype()
    }
}

/// The identity of the vectors that a server of this model answers with.
pub(super) fn identity(
    loaded: &LoadedModel,
    files: &ModelProvenance,
    like: Option<&LikeFile>,
) -> Result<VectorIdentity> {
    let output = OutputOptions::new(Destination::Stdout);
    let identity = VectorIdentity::new(&loaded.model, &output)?;
    Ok(VectorIdentity {
        dtype: Some(like.map_or(Dtype::F32.name(), LikeFile::dtype).to_owned()),
        ..identity.with_engine(&loaded.model, files, &loaded.info)
    })
}

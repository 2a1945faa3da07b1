//! An output whose vectors the server's are to mix with.

use std::path::{Path, PathBuf};

use embedctl_serve::ModelCard;
use embedctl_vectors::RowForm;
use serde_json::Value;

use crate::cancel::CancelToken;
use crate::engine::{EngineInfo, EngineOptions, LoadedModel, Resolved};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::{self, VectorIdentity};
use crate::input::{InputOptions, Source};
use crate::inspect::{self, QUERY_PROMPT, QueryPrompt, RecordedModel, Verification, query_task};
use crate::job::State;
use crate::model::{Model, ModelOptions, TextTask};
use crate::output::{self, Dtype};
use crate::setting::{LIKE, MAX_ACTIVE_DIMS, MODEL, PROMPT, Setting, TASK, VECTORS, VERIFY};
use crate::storage::{Location, Readable, Storage};

use super::rows::LikeRows;

/// The field of an identity that tells how chunks get their vectors. A query is not in chunks.
const LATE_FIELD: &str = "late_chunking";

/// An output of `embed`, and what its provenance says of its vectors.
pub struct LikeFile {
    /// Where it lies, as it was asked for.
    path: PathBuf,
    /// The same, for messages.
    asked: String,
    /// It, or the first part of the folder.
    file: Readable,
    made: Value,
    identity: VectorIdentity,
    queries: QuerySettings,
    /// The model that makes the output's own vectors, where the server's are not the same.
    reference: Option<Resolved>,
    /// Where the user named no prompt for queries: what is done about the output's own one.
    unasked: QueryPrompt,
    /// The model's task for queries, where the output's texts have another one and the user named none.
    other_task: Option<TextTask>,
}

/// What the user gave for queries, in place of the output's.
#[derive(Debug, Clone, Default)]
struct QuerySettings {
    prompt: Option<String>,
    prompt_name: Option<String>,
    task: Option<TextTask>,
    max_active_dims: Option<usize>,
    /// Of an output with vectors of several forms, the one that is served.
    form: Option<RowForm>,
}

impl QuerySettings {
    fn has_prompt(&self) -> bool {
        self.prompt.is_some() || self.prompt_name.is_some()
    }

    /// Whether queries are as the output's texts.
    fn is_empty(&self) -> bool {
        !self.has_prompt()
            && self.task.is_none()
            && self.max_active_dims.is_none()
            && self.form.is_none()
    }

    /// The setting by which a field of an identity may differ.
    fn setting_of(&self, field: &str) -> Option<Setting> {
        let task = self.task.as_ref().map(|_| TASK);
        match field {
            "prompt" if self.has_prompt() => Some(PROMPT),
            // A task has a prompt of its own.
            "prompt" | "task" | "sparse.role" | "multi.role" => task,
            "sparse.max_active_dims" => self.max_active_dims.map(|_| MAX_ACTIVE_DIMS),
            _ => None,
        }
    }
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
        let format = output::format_of(&file)?;
        let made = output::provenance(&file, format)?.ok_or_else(without)?;
        let identity = VectorIdentity::of_provenance(&made);
        let dtype = identity.dtype();
        if ![Dtype::F32.name(), Dtype::F16.name()].contains(&dtype) {
            return Err(Error::usage(format!(
                "{asked}: it holds {dtype} vectors, but a server answers with floats"
            ))
            .with_remedy("name the f32 output that they were made of, or name the model"));
        }
        Ok(Self {
            path: path.to_owned(),
            asked,
            file,
            made,
            identity,
            queries: QuerySettings::default(),
            reference: None,
            unasked: QueryPrompt::default(),
            other_task: None,
        })
    }

    /// The model and the engine of its vectors. `given` has what the user said: where models are kept, what queries have
    /// in place of the output's (a prompt, a task, a number of entries, one of several kinds of vectors), and settings that may not differ from
    /// the output's. `named` is another place of the model.
    ///
    /// # Errors
    /// If the provenance has a setting that this version does not know, or the output has no vectors of the kind that is
    /// asked for.
    pub fn options(
        &mut self,
        named: Option<&str>,
        given: &ModelOptions,
        engine: &EngineOptions,
    ) -> Result<(ModelOptions, EngineOptions)> {
        let recorded = RecordedModel::of(&self.made, named, given)?.options;
        self.queries = QuerySettings {
            prompt: given.prompt.clone(),
            prompt_name: given.prompt_name.clone(),
            task: given.text_task.clone(),
            max_active_dims: given.max_active_dims,
            form: self.form(&given.vectors)?,
        };
        let options = ModelOptions {
            prompt_name: None,
            max_length: given.max_length.or(recorded.max_length),
            precision: given.precision.or(recorded.precision),
            model_file: given.model_file.clone().or(recorded.model_file.clone()),
            pool_factor: given.pool_factor.or(recorded.pool_factor),
            ..recorded
        };
        Ok((options, RecordedModel::engine(&self.identity, engine)))
    }

    /// The form of the vectors that are asked for, where the output has several.
    fn form(&self, asked: &[RowForm]) -> Result<Option<RowForm>> {
        let forms = self.identity.settings.vector_forms()?;
        let own: Vec<&str> = match &forms[..] {
            [] => vec!["scores"],
            forms => forms.iter().map(RowForm::name).collect(),
        };
        if let Some(other) = asked.iter().find(|form| !forms.contains(form)) {
            return Err(Error::usage(format!(
                "{VECTORS} {}: {} has {}",
                other.name(),
                self.file.name,
                own.join(", ")
            ))
            .with_remedy("leave it out, or choose a kind that the file has"));
        }
        if own.len() == 1 {
            return Ok(None);
        }
        match asked {
            [form] => Ok(Some(form.clone())),
            _ => Err(Error::usage(format!(
                "{}: its rows have vectors of several kinds ({}), but a server gives one",
                self.asked,
                own.join(", ")
            ))
            .with_remedy(format!("choose the kind with {VECTORS}"))),
        }
    }

    /// The server's model: `resolved` with the settings that depend on its own files, which must be here by now, and with
    /// what the user gave for queries.
    ///
    /// # Errors
    /// If the model cannot be opened.
    pub fn settle(&mut self, resolved: &Resolved) -> Result<Resolved> {
        let own = RecordedModel::settled(&self.made, resolved)?;
        self.unasked = self.unasked_prompt(&own)?;
        self.other_task = self.unasked_task(&own)?;
        if self.unasked == QueryPrompt::OfModel {
            self.queries.prompt_name = Some(QUERY_PROMPT.to_owned());
        }
        if self.queries.is_empty() {
            return Ok(own);
        }
        let options = resolved.model().clone();
        let mut served = own.model().clone();
        let queries = &self.queries;
        if queries.has_prompt() || queries.task.is_some() {
            // A task has a prompt of its own.
            served.prompt.clone_from(&queries.prompt);
            served.prompt_name.clone_from(&queries.prompt_name);
        }
        if let Some(task) = &queries.task {
            served.text_task = Some(task.clone());
        }
        served.max_active_dims = queries.max_active_dims.or(own.model().max_active_dims);
        if let Some(form) = &queries.form {
            served.vectors = vec![form.clone()];
            if !form.is_dense() {
                // What was settled is about the dense vectors beside these.
                served.pooling = options.pooling;
                served.normalize = options.normalize;
                served.dimensions = options.dimensions;
            }
        }
        let served = own.with_settings(&served);
        self.reference = Some(own);
        Ok(served)
    }

    /// The prompt that queries have by themselves. A prompt for documents is not one for queries, so the output's own one is
    /// not taken without a word.
    fn unasked_prompt(&self, own: &Resolved) -> Result<QueryPrompt> {
        let is_asked = self.queries.has_prompt() || self.queries.task.is_some();
        if is_asked || self.identity.settings.scores.is_some() {
            return Ok(QueryPrompt::Same);
        }
        let config = own.open_files()?.config;
        // The server's own texts may be such as the output's, which have none.
        Ok(match config.prompt.is_empty() {
            true => QueryPrompt::Same,
            false => QueryPrompt::of(&config, own.model().text_task.as_ref()),
        })
    }

    /// The task that the model has for queries, where it is another one than the texts' and nothing was asked for.
    fn unasked_task(&self, own: &Resolved) -> Result<Option<TextTask>> {
        let is_asked = self.queries.has_prompt() || self.queries.task.is_some();
        if is_asked || self.identity.settings.scores.is_some() {
            return Ok(None);
        }
        let of_texts = own.model().text_task.as_ref();
        Ok(query_task(own)?.filter(|task| Some(task) != of_texts))
    }

    /// What the user should know of the prompt and the task of queries.
    pub(super) fn warning(&self) -> Option<String> {
        match &self.other_task {
            Some(task) => Some(format!(
                "queries get the task of the output's texts; {TASK} {} gives them theirs",
                task.name()
            )),
            None => self.unasked.warning(),
        }
    }

    /// Refuses a server whose vectors would not mix with the output's; notes on differences that the user wanted or that do
    /// no harm. What the user gave for queries is left aside first: with the output's own settings, model and engine must
    /// give its vectors.
    ///
    /// # Errors
    /// If they would not, or the model cannot be opened.
    pub(super) fn check(
        &self,
        (loaded, now): (&LoadedModel, &VectorIdentity),
    ) -> Result<Vec<String>> {
        let reference = self.reference.as_ref();
        let own = reference.map(|resolved| self.identity_of(resolved, loaded.info()));
        let own = own.transpose()?;
        let differences = self.identity.differences(own.as_ref().unwrap_or(now));
        let decide: Vec<_> = (differences.iter())
            .filter(|it| it.decides && it.key != LATE_FIELD)
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
        let late = differences.iter().filter(|it| it.key == LATE_FIELD);
        let mut notes: Vec<String> = late
            .map(|it| format!("{it}: queries are embedded whole"))
            .collect();
        notes.extend(self.identity.differences(now).iter().filter_map(|it| {
            let setting = self.queries.setting_of(&it.key)?;
            Some(match self.unasked {
                QueryPrompt::OfModel if it.key == "prompt" => format!(
                    "{it}: queries get the model's prompt `{QUERY_PROMPT}`; {setting} gives them another one"
                ),
                _ => format!("{it}: {setting} was given for queries"),
            })
        }));
        Ok(notes)
    }

    /// The identity of the vectors that a model gives, if an engine like this one runs it.
    fn identity_of(&self, resolved: &Resolved, info: &EngineInfo) -> Result<VectorIdentity> {
        let model = resolved.open_files()?;
        let files = model.provenance(info.provider.weights_of(&model))?;
        let identity = VectorIdentity::new(&model).with_engine(&model, &files, info);
        Ok(self.typed(identity))
    }

    /// The model that made the output, alone: without what the user said of the server's.
    ///
    /// # Errors
    /// As [`LikeFile::options`].
    pub fn recorded(&self, model: &ModelOptions) -> Result<ModelOptions> {
        let kept = ModelOptions {
            cache_dir: model.cache_dir.clone(),
            ..ModelOptions::default()
        };
        Ok(RecordedModel::of(&self.made, Some(&model.model), &kept)?.options)
    }

    /// Embeds `count` rows of the output again with the [recorded model](LikeFile::recorded), as [`inspect::verify`] does.
    /// Their texts must stand in it or beside it.
    ///
    /// # Errors
    /// If they cannot be embedded, or are not as near as they should be.
    pub fn verify(
        &self,
        count: usize,
        resolved: Resolved,
        cancel: &CancelToken,
    ) -> Result<Verification> {
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
        let verified =
            inspect::verify(&file, count, &texts, resolved, cancel).map_err(|error| match error
                .kind()
            {
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
        let worst = &verified.worst;
        let column = match verified.columns.is_empty() {
            true => String::new(),
            false => format!(" ({})", worst.column),
        };
        Err(Error::usage(format!(
            "{VERIFY}: row {} of {}{column} was embedded again and is not as it was: {}",
            worst.worst_row,
            self.file.name,
            worst.in_words()
        ))
        .with_remedy("look at it with `embedctl inspect`: its numbers are not of its texts"))
    }

    /// Its rows, for searches; `None` where it holds scores. Queries of a search get the model's prompt for
    /// queries unless the user named one, as `embedctl search` gives it.
    ///
    /// # Errors
    /// As [`LikeRows::open`].
    pub(super) fn rows(&self, served: &ModelCard, model: &Model) -> Result<Option<LikeRows>> {
        let queries = &self.queries;
        if self.identity.settings.scores.is_some() || !served.form.is_one_per_row() {
            return Ok(None);
        }
        let takes_prompt =
            !queries.has_prompt() && queries.task.is_none() && self.other_task.is_none();
        // An empty prompt is none.
        let prompt = served.prompts.get(QUERY_PROMPT);
        let has_query_prompt = takes_prompt && prompt.is_some_and(|prompt| !prompt.is_empty());
        LikeRows::open(&self.path, queries.form.clone(), has_query_prompt, model).map(Some)
    }

    /// How it was asked for.
    pub(super) fn path(&self) -> String {
        self.file.name.clone()
    }

    /// Whether vectors of this identity have another prompt than the output's.
    pub(super) fn prompt_differs(&self, now: &VectorIdentity) -> bool {
        self.identity.settings.prompt != now.settings.prompt
    }

    fn dtype(&self) -> &str {
        self.identity.dtype()
    }

    /// An identity of vectors of the output's type.
    pub(super) fn typed(&self, identity: VectorIdentity) -> VectorIdentity {
        VectorIdentity {
            dtype: Some(self.dtype().to_owned()),
            ..identity
        }
    }
}

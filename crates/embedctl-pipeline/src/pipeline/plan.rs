//! A run's plan: options resolved together, once. Contradictions are refused before any work.

use std::cell::OnceCell;

use super::reuse::ReusedOutput;
use super::shares::{shares, with_inputs};
use super::{EmbedOptions, fingerprint};
use crate::engine::Resolved;
use crate::error::{Error, Result};
use crate::identity::VectorIdentity;
use crate::input::Source;
use crate::job::{Fingerprint, Job, SourceState, folder_format, is_inside};
use crate::model::{Model, ModelOptions};
use crate::output::{
    self, BackgroundWriter, Calibration, Destination, Forms, RunFiles, RunOutput, VectorWriter,
};
use crate::record::SourceNames;
use crate::rejects::RejectsWriter;
use crate::setting::{
    INPUT_FORMAT, LATE, LIMIT, MAX_ACTIVE_DIMS, OUTPUT, POOL_FACTOR, REJECTS, REUSE, SAMPLE, SHARD,
    SetBy,
};
use crate::storage::Location;
use arrow::datatypes::Schema;
use embedctl_records::fields::LineIds;
use embedctl_records::format::InputFormat;
use embedctl_records::options::InputOptions;

/// The resolved options of a run.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// The model and the engine.
    resolved: Resolved,
    pub(super) options: EmbedOptions,
    /// The output as it will be written.
    output: RunOutput,
    /// The forms of rows that the model gives, once it is known.
    forms: Option<Forms>,
    /// Whether the output is in parts, or becomes one file of parts.
    pub(super) job: Option<Job>,
    /// The resources of the run's writers, which the caller shares.
    files: RunFiles,
    /// The output whose vectors are reused, once it was opened.
    earlier: OnceCell<Option<ReusedOutput>>,
}

impl RunPlan {
    /// Resolves the options. Uses the names of files only, not their content. `files` lists what the run begins to write,
    /// for a caller that may have to end without unwinding.
    ///
    /// # Errors
    /// If options contradict each other, or two files of the run stand under one name.
    pub fn new(resolved: Resolved, options: &EmbedOptions, files: &RunFiles) -> Result<Self> {
        let model = resolved.model();
        let settled = options.settled();
        let said = options.input.format;
        let options = &settled;
        if said.is_none() && options.input.format == Some(InputFormat::File) {
            files.note(format!(
                "each input is one text, as all of them are documents; `{INPUT_FORMAT} {}` embeds their lines",
                InputFormat::Text
            ));
        }
        check_places(model, options)?;
        let output = options.run_output();
        if model.vectors.len() > 1 {
            output.options.check_several()?;
        }
        Ok(Self {
            job: job(options, files)?,
            files: files.clone(),
            resolved,
            forms: None,
            options: options.clone(),
            output,
            earlier: OnceCell::new(),
        })
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &EmbedOptions {
        &self.options
    }

    /// The output as it will be written.
    #[must_use]
    pub fn output(&self) -> &RunOutput {
        &self.output
    }

    /// The resources of its writers.
    #[must_use]
    pub fn files(&self) -> &RunFiles {
        &self.files
    }

    /// The forms of rows: those that the model gives, and before it is known those that are asked for.
    pub(crate) fn forms(&self) -> Forms {
        let forms = self.forms.clone();
        forms.unwrap_or_else(|| self.resolved.model().asked_forms())
    }

    /// Reads ids of JSON as the output that is resumed has them.
    pub(super) fn set_line_ids(&mut self, line_ids: LineIds) {
        self.options.input.line_ids = line_ids;
    }

    /// Divides components into steps by these ranges, for a caller that finds them after it has checked all places.
    pub fn calibrate(&mut self, ranges: Calibration) {
        self.output.options.calibration = Some(ranges);
    }

    /// The plan for the vectors of `model`.
    ///
    /// # Errors
    /// If the output's format cannot hold them, or an option has no meaning for them.
    pub(crate) fn for_model(&self, model: &Model) -> Result<Self> {
        if model.config.late && self.options.reuse.is_some() {
            return Err(Error::usage(format!(
                "{REUSE}: texts are looked up in an earlier output, but with {LATE} the vector of a chunk depends on the \
                 text around it"
            ))
            .with_remedy("leave one of them out"));
        }
        if model.config.any_multi().is_none() && self.resolved.model().pool_factor.is_some() {
            return Err(Error::usage(format!(
                "{POOL_FACTOR} is about models that give each token a vector, but this model gives one for a text"
            ))
            .with_remedy("leave it out"));
        }
        if model.config.any_sparse().is_none() && self.resolved.model().max_active_dims.is_some() {
            return Err(Error::usage(format!(
                "{MAX_ACTIVE_DIMS} is about sparse vectors, but this model's are given in full"
            ))
            .with_remedy("leave it out"));
        }
        let mut plan = self.clone();
        plan.forms = Some(self.options.forms_of(model)?);
        // A plan may be run again.
        plan.files = self.files.with_new_clock();
        Ok(plan)
    }

    /// The model and the engine.
    #[must_use]
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// The run as a job; `None` if it is not one.
    #[must_use]
    pub fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// Whether sources can be read and outputs be written, as far as that can be told without a model: for a caller that
    /// has to fetch one first. Reads no record, leaves nothing behind.
    ///
    /// # Errors
    /// Everything that would prevent the start of the run.
    pub fn check(&self) -> Result<()> {
        let options = &self.options;
        let mut reader = options.reader()?;
        self.earlier()?;
        let schema = options.extra().schema(&reader.schema())?;
        let (output, files) = (&self.output, &self.files);
        let (forms, sources) = (&self.forms(), options.sources.len());
        if let Some(job) = &self.job {
            job.look()?;
            if job.shard().count > 1 {
                shares(job.shard(), options, &mut reader)?;
            }
            if !job.is_single() {
                output::check_options(output, forms)?;
                return output.check_names(forms, &schema, sources);
            }
        }
        let is_there = match &output.options.destination {
            Destination::Path(path) => path.exists(),
            Destination::Stdout => false,
        };
        if is_there && options.job.resume {
            // A complete output is no obstacle: whether it is this run's is found out where the run begins.
            output::check_options(output, forms)?;
            output.check_names(forms, &schema, sources)?;
        } else {
            output::check(output, forms, sources, &schema, files)?;
        }
        match &options.rejects {
            Some(path) => RejectsWriter::check(path, output.options.force, files),
            None => Ok(()),
        }
    }

    /// The earlier output whose vectors are taken.
    ///
    /// # Errors
    /// If it does not exist or has no provenance.
    pub(crate) fn earlier(&self) -> Result<Option<&ReusedOutput>> {
        if self.earlier.get().is_none() {
            let earlier = ReusedOutput::of(&self.options, &self.files)?;
            let _ = self.earlier.set(earlier);
        }
        Ok(self.earlier.get().and_then(Option::as_ref))
    }

    /// All that decides a vector or a column of the output.
    pub(super) fn fingerprint(
        &self,
        sources: &[SourceState],
        identity: &VectorIdentity,
    ) -> Result<Fingerprint> {
        fingerprint::fingerprint(&self.options, &self.output, sources, identity)
    }

    /// Creates the output that is one file or stream, and the file of its rejects.
    pub(super) fn create(
        &self,
        names: SourceNames,
        columns: &Schema,
    ) -> Result<(Box<dyn VectorWriter>, Option<RejectsWriter>)> {
        let (output, files) = (&self.output, &self.files);
        // A stream's reader has rows as soon as they are written.
        let is_stream = output.options.is_stream()?;
        let mut writer = output::create(output, &self.forms(), names, columns, files)?;
        if !is_stream {
            writer = Box::new(BackgroundWriter::new(writer, files.clock()));
        }
        let rejects = self.options.rejects.as_ref();
        let rejects = rejects.map(|path| RejectsWriter::create(path, output.options.force, files));
        Ok((writer, rejects.transpose()?))
    }
}

/// The job that options ask for; none where a run is none. `files` has the object stores that it may lie in.
///
/// # Errors
/// If options contradict each other.
pub fn job(options: &EmbedOptions, files: &RunFiles) -> Result<Option<Job>> {
    let Some(mut job) = Job::of(&options.output, &options.job)? else {
        return Ok(None);
    };
    if job.is_single() {
        return Ok(Some(job));
    }
    if let Destination::Path(path) = &options.output.destination
        && let remote @ Location::Remote(_) = Location::of(path)?
    {
        let storage = files.storage()?;
        job = job.with_storage(remote.folder(Some(&storage))?);
    }
    if job.shard().count > 1 {
        job = with_inputs(&job, options);
        let InputOptions { limit, sample, .. } = &options.input;
        for (option, asked) in [(LIMIT, limit), (SAMPLE, sample)] {
            if let Some(records) = asked {
                return Err(Error::usage(format!(
                    "{option} {records}: a shard does not know how many records others read before its own"
                ))
                .with_remedy(format!("leave {option} out, or {SHARD}")));
            }
        }
    }
    if let Some(path) = &options.rejects {
        return Err(Error::usage(format!(
            "{REJECTS} {}: a folder keeps the rejects of its parts itself, in {}",
            path.display(),
            job.rejects()
        ))
        .with_remedy("leave the option out"));
    }
    if let Destination::Path(folder) = &options.output.destination {
        let inside = options.sources.iter().filter_map(Source::path);
        if let Some(path) = inside.into_iter().find(|path| is_inside(path, folder)) {
            return Err(Error::usage(format!(
                "the input {} lies in the folder that {OUTPUT} names",
                path.display()
            ))
            .with_remedy("write to a folder of its own"));
        }
    }
    Ok(Some(job))
}

/// Checks that no two files of a run of `model` have the same name: one would replace another, or an input.
/// Compares names only.
///
/// # Errors
/// If two do; the message names both.
pub fn check_places(model: &ModelOptions, options: &EmbedOptions) -> Result<()> {
    let is_folder = folder_format(&options.output).is_some();
    let inputs = options.sources.iter().map(Source::path);
    let rejects = options.rejects.iter().map(|path| (REJECTS.into(), path));
    let others = options
        .others
        .iter()
        .map(|(option, path)| (SetBy::Name(option), path));
    let others: Vec<_> = rejects
        .chain(others)
        .map(|(option, path)| (option, path.as_path()))
        .collect();
    let out = match &options.output.destination {
        Destination::Path(path) if !is_folder => Some((SetBy::Setting(OUTPUT), path.as_path())),
        _ => None,
    };
    let mut written = others.iter().copied().chain(out);
    if let Some((option, path)) = written.find(|(_, path)| model.is_read_from(path)) {
        let (path, model) = (path.display(), &model.model);
        let reason = format!("{option} {path}: the model {model} is read from a file of that name");
        return Err(Error::usage(reason).with_remedy("write it elsewhere"));
    }
    let reuse = options.reuse.as_deref();
    output::refuse_overlap(&options.output, is_folder, &others, inputs, reuse)
}

//! From a plan to a run whose files are open, and to its end.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::select;

use super::Summary;
use super::job::JobSink;
use super::output_forms::OutputForms;
use super::plan::RunPlan;
use super::reuse::ReusedOutput;
use super::run::Run;
use super::sink::{RowSink, WholeSink};
use super::source::{RecordSource, Streams};
use crate::cancel::CancelToken;
use crate::engine::background::{ended, in_background};
use crate::engine::{LoadedModel, OpeningModel, Resolved};
use crate::error::{Error, Result};
use crate::input::RecordReader;
use crate::job;
use crate::model::Model;
use crate::output::Destination;
use crate::progress::Progress;

impl Run {
    /// Opens everything that can fail, in order of cost: files that need no model come first.
    pub(super) fn open(
        plan: &RunPlan,
        loaded: Option<&Arc<LoadedModel>>,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let started = Instant::now();
        let earlier = plan.earlier()?.cloned();
        let (source, job) = plan.source()?;
        let model = match loaded {
            Some(loaded) => ModelSource::Loaded(loaded),
            None => {
                let resolved = plan.resolved().clone();
                ModelSource::Files(Arc::new(resolved.open_files()?), Box::new(resolved))
            }
        };
        let plan = &plan.for_model(model.files())?;
        let options = plan.options();
        let output = OutputForms {
            output: plan.output().clone(),
            forms: plan.forms(),
        };
        if let Some(earlier) = &earlier {
            earlier.check_model(model.files(), &plan.output().options)?;
        }
        let sink: Box<dyn RowSink> = match job {
            Some(mut job) => {
                job.check(plan, model.files())?;
                let input = source.input();
                let extra = options.extra_of(model.files());
                output.columns(&extra, input.names().len(), &input.schema())?;
                Box::new(job)
            }
            None => Box::new(whole(plan, model.files(), source.input())?),
        };
        let unproven = earlier.as_ref().and_then(ReusedOutput::note);
        let older = plan.files().take_notes();
        for note in older.iter().map(String::as_str).chain(unproven) {
            progress.warning(note);
        }
        let model = match model {
            ModelSource::Loaded(loaded) => OpeningModel::ready(Arc::clone(loaded)),
            ModelSource::Files(model, resolved) => OpeningModel::begin(model, *resolved)?,
        };
        let chunked = match &options.chunking {
            Some(chunking) => Some(model.tokenizer().chunked(chunking)?),
            None => None,
        };
        Ok(Self {
            started,
            model,
            source,
            sink,
            chunked,
            earlier,
            options: options.clone(),
            output,
            write_clock: Arc::clone(plan.files().clock()),
        })
    }
}

impl RunPlan {
    /// Opens the input: all of it, or the remaining records of a job, with that job.
    fn source(&self) -> Result<(Box<dyn RecordSource>, Option<JobSink>)> {
        let options = &self.options;
        if let Some(job) = &self.job {
            let (source, sink) = JobSink::open(self, job)?;
            return Ok((Box::new(source), Some(sink)));
        }
        if let Destination::Path(path) = &options.output.destination
            && options.output.force
        {
            // The remains of an unfinished run, if the single file is made anew.
            job::forget(path)?;
        }
        let mut reader = options.reader()?;
        if options.output.is_stream()? {
            reader.begin_small();
        }
        Ok(match options.input.batches.are_whole() {
            true => (Box::new(Streams::new(reader)), None),
            false => (Box::new(reader), None),
        })
    }

    /// Runs the plan.
    ///
    /// # Errors
    /// As [`super::embed`].
    pub fn embed(&self, progress: &Arc<dyn Progress>, cancel: &CancelToken) -> Result<Summary> {
        run(self, None, progress, cancel)
    }
}

/// Runs the plan on a detached thread: a write to a pipe without an active reader can block for ever, and cancellation
/// must not wait for it.
pub(super) fn run(
    plan: &RunPlan,
    loaded: Option<&Arc<LoadedModel>>,
    progress: &Arc<dyn Progress>,
    cancel: &CancelToken,
) -> Result<Summary> {
    let run = Run::open(plan, loaded, progress.as_ref())?;
    let summary = in_background("run", {
        let (progress, cancel) = (Arc::clone(progress), cancel.clone());
        move || run.drive(progress.as_ref(), &cancel)
    })?;
    select! {
        recv(summary) -> result => result.map_err(|_| ended("run"))?,
        recv(cancel.channel()) -> _ => summary.recv_timeout(cancel.patience()).unwrap_or_else(|_| {
            plan.files().remove();
            Err(Error::interrupted())
        }),
    }
}

/// Creates the output that is not in parts, before any work.
fn whole(plan: &RunPlan, model: &Model, input: &RecordReader) -> Result<WholeSink> {
    let schema = plan.options().extra_of(model).schema(&input.schema())?;
    let (writer, rejects) = plan.create(input.names(), &schema)?;
    Ok(WholeSink { writer, rejects })
}

/// Where a run's model comes from, its files open.
enum ModelSource<'l> {
    /// What a request led to; no engine is open yet.
    Files(Arc<Model>, Box<Resolved>),
    /// A model that is ready to run.
    Loaded(&'l Arc<LoadedModel>),
}

impl ModelSource<'_> {
    fn files(&self) -> &Arc<Model> {
        match self {
            Self::Files(model, _) => model,
            Self::Loaded(loaded) => loaded.model(),
        }
    }
}

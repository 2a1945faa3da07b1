//! The sinks of rows and rejected records: one interface for a whole output and for the parts of a job; and the
//! provenance of what they write.

use std::cell::OnceCell;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use serde_json::Value;

use super::assembly::{Assembly, OutputRow};
use super::in_flight::{InFlight, Portion};
use super::plan::RunPlan;
use super::source::InputEnd;
use super::workers::Joined;
use crate::cancel::CancelToken;
use crate::engine::EngineInfo;
use crate::engine::background::wait;
use crate::error::{Error, Result};
use crate::input::RecordReader;
use crate::job;
use crate::model::{Model, ModelProvenance};
use crate::output::{Finish, VectorWriter};
use crate::progress::Counts;
use crate::provenance::Provenance;
use crate::record::{Reject, SourceNames, TextHash, WindowSpan};
use crate::rejects::RejectsWriter;
use crate::threads::locked;
use crate::tokenize::Chunked;
use arrow::datatypes::SchemaRef;

/// A portion of a window whose records are all settled.
pub(super) struct SettledPortion<'a> {
    pub(super) in_flight: &'a InFlight,
    pub(super) portion: &'a Portion,
    pub(super) assembly: Assembly<'a>,
    /// Its rows, in the input's order.
    pub(super) rows: &'a [OutputRow],
    /// Its rejected records, in the input's order.
    pub(super) rejects: &'a [Reject],
    pub(super) names: &'a SourceNames,
    /// Counts of the run, this portion counted.
    pub(super) counts: Counts,
}

impl SettledPortion<'_> {
    /// The hashes of its rows' texts: of chunks their own, of records that were never a text none.
    pub(super) fn hashes(&self, mark: &WindowSpan) -> Vec<u8> {
        let hash = |row: &OutputRow| match (row.text, &self.in_flight.spans) {
            (None, _) => TextHash::default(),
            (Some(text), None) => mark.texts[text as usize],
            (Some(text), Some(_)) => job::text_hash(self.in_flight.window.texts.get(text as usize)),
        };
        self.rows.iter().flat_map(hash).collect()
    }
}

/// The results of earlier runs for the same output.
#[derive(Default)]
pub(super) struct EarlierRuns {
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    /// Records that they have rejected.
    pub(super) rejected: u64,
    /// Whether they have embedded anything.
    pub(super) has_rows: bool,
}

/// Takes the windows of a run, in order.
pub(super) trait RowSink: Send {
    /// Begins to write, once the engine is known; `schema` is that of the rows' columns, as far as it is known.
    ///
    /// # Errors
    /// If the output is one of other settings, or cannot be written.
    fn begin(&mut self, made: &ProvenanceBuilder<'_>, schema: SchemaRef) -> Result<EarlierRuns>;

    /// Writes a portion of a window.
    ///
    /// # Errors
    /// If the system refuses.
    fn write(&mut self, portion: SettledPortion<'_>, made: &ProvenanceBuilder<'_>) -> Result<()>;

    /// The writer of streams of record batches.
    ///
    /// # Errors
    /// If this sink does not write streams.
    fn streams(&mut self) -> Result<&mut dyn VectorWriter>;

    /// Saves the written rows of a failed run. The next run embeds again the rows that could not be saved.
    fn salvage(&mut self, made: &ProvenanceBuilder<'_>);

    /// Whether an interrupted run keeps its written rows.
    fn outlives_its_run(&self) -> bool;

    /// Publishes the output; whether it is complete, which of a job in shards depends on others.
    ///
    /// # Errors
    /// If the system refuses.
    fn finish(
        self: Box<Self>,
        end: InputEnd,
        schema: SchemaRef,
        counts: &Counts,
        made: &ProvenanceBuilder<'_>,
    ) -> Result<bool>;
}

/// An output and its rejects, published together at the end: a file, an object, or a stream.
pub(super) struct WholeSink {
    pub(super) writer: Box<dyn VectorWriter>,
    pub(super) rejects: Option<RejectsWriter>,
}

impl WholeSink {
    /// Creates the output, before any work.
    pub(super) fn create(plan: &RunPlan, model: &Model, input: &RecordReader) -> Result<Self> {
        let schema = plan.options().extra_of(model).schema(&input.schema())?;
        let (writer, rejects) = plan.create(input.names(), &schema)?;
        Ok(Self { writer, rejects })
    }
}

impl RowSink for WholeSink {
    fn begin(&mut self, made: &ProvenanceBuilder<'_>, _: SchemaRef) -> Result<EarlierRuns> {
        self.writer.about(&|| made.at_first())?;
        Ok(EarlierRuns::default())
    }

    fn write(&mut self, portion: SettledPortion<'_>, _: &ProvenanceBuilder<'_>) -> Result<()> {
        if let Some(list) = &mut self.rejects {
            for reject in portion.rejects {
                list.write(reject, portion.names)?;
            }
        }
        // A batch is answered, whatever is in it.
        if portion.in_flight.window.batch.is_some() {
            return self.writer.write(portion.assembly.rows(portion.rows)?);
        }
        // Without a row there may be no final schema yet, and there is nothing to write.
        for rows in portion.rows.chunks(portion.assembly.slice()) {
            self.writer.write(portion.assembly.rows(rows)?)?;
        }
        Ok(())
    }

    fn streams(&mut self) -> Result<&mut dyn VectorWriter> {
        Ok(self.writer.as_mut())
    }

    fn salvage(&mut self, _: &ProvenanceBuilder<'_>) {}

    fn outlives_its_run(&self) -> bool {
        false
    }

    fn finish(
        self: Box<Self>,
        _: InputEnd,
        schema: SchemaRef,
        counts: &Counts,
        made: &ProvenanceBuilder<'_>,
    ) -> Result<bool> {
        let finish = Finish {
            schema,
            provenance: &made.provenance(counts)?,
            rejects: self.rejects,
        };
        self.writer.finish(finish).map(|()| true)
    }
}

/// Builds the provenances of a run's outputs.
pub(super) struct ProvenanceBuilder<'c> {
    pub(super) model: Arc<Model>,
    /// As it was when the run began.
    pub(super) info: EngineInfo,
    pub(super) cosine: Joined,
    pub(super) chunked: Option<Chunked>,
    /// See [`Provenance::text`].
    pub(super) text: Option<String>,
    /// See [`Provenance::query`].
    pub(super) query: Option<String>,
    /// See [`Provenance::id`].
    pub(super) id: Option<String>,
    /// The model's files are hashed meanwhile.
    pub(super) hashes: Receiver<Result<ModelProvenance>>,
    pub(super) files: OnceCell<ModelProvenance>,
    pub(super) cancel: &'c CancelToken,
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

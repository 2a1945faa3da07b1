//! The sinks of rows and rejected records: one interface for a whole output and for the parts of a job.

use super::assembly::{Assembly, OutputRow};
use super::in_flight::{InFlight, Portion};
use super::made::ProvenanceBuilder;
use super::source::InputEnd;
use crate::error::Result;
use crate::output::{Finish, VectorWriter};
use crate::progress::Counts;
use crate::record::{Reject, SourceNames};
use crate::rejects::RejectsWriter;
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

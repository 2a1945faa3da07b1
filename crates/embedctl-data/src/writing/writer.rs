//! The interface of a format's writer.

use super::encoding::VectorEncoding;
use super::rejects::RejectsWriter;
use super::target::Target;
use arrow::datatypes::{Schema, SchemaRef};
use embedctl_common::error::{Error, Result};
use embedctl_common::hash::Hash;
use embedctl_records::record::Rows;

/// The data that a writer needs at the end.
#[derive(Debug)]
pub struct Finish<'a> {
    /// Schema of `id` and the kept fields, for outputs without any row.
    pub schema: SchemaRef,
    /// The run's provenance: one JSON object.
    pub provenance: &'a serde_json::Value,
    /// The rejected records, published with the output; of the same [`RunFiles`](super::run_files::RunFiles).
    pub rejects: Option<RejectsWriter>,
}

impl Finish<'_> {
    /// The file of rejected records, to be published with the output.
    pub(crate) fn into_rejects(self) -> Option<Target> {
        self.rejects.map(RejectsWriter::into_target)
    }

    /// The provenance with the hashes of what was written with it, under `sha256`: they are what says that
    /// files beside each other are of one run.
    pub(crate) fn provenance(
        &self,
        encoding: &VectorEncoding,
        written: &[(&str, &Hash)],
    ) -> serde_json::Value {
        let rejects = self
            .rejects
            .as_ref()
            .map(|rejects| ("rejects", rejects.hash()));
        let hashes: serde_json::Map<_, _> = (written.iter().copied())
            .chain(rejects)
            .map(|(name, hash)| (name.to_owned(), hash.hex().into()))
            .collect();
        let mut provenance = self.provenance.clone();
        if let Some(object) = provenance.as_object_mut() {
            encoding.describe(object);
            if !hashes.is_empty() {
                object.insert("sha256".to_owned(), hashes.into());
            }
        }
        provenance
    }
}

/// Writes rows in the order in which they come.
///
/// Dropped without [`VectorWriter::finish`], a writer removes whatever it has written.
pub trait VectorWriter: Send {
    /// Appends rows; may be called with none. The columns' types are those of the first call with
    /// any row. When it returns, the reader of a stream (Arrow, JSONL, PostgreSQL) has these rows.
    ///
    /// # Errors
    /// If the system refuses (a full disk, a closed pipe).
    fn write(&mut self, rows: Rows) -> Result<()>;

    /// Told before the first row; where it stands at the beginning of an output, `made` says what made it, as far
    /// as that is known by then: all but counts.
    ///
    /// # Errors
    /// As `made`.
    fn about(&mut self, made: &dyn Fn() -> Result<serde_json::Value>) -> Result<()> {
        let _ = made;
        Ok(())
    }

    /// Begins one of several streams of record batches
    /// ([`RunOutput::streams`](super::options::RunOutput::streams)). The reader has its schema when this
    /// returns. `columns` are those of its rows.
    ///
    /// # Errors
    /// As [`VectorWriter::write`]; or if a column bears the name of one that holds vectors.
    fn begin_stream(&mut self, columns: &Schema) -> Result<()> {
        let _ = columns;
        Err(Error::internal("this output has no streams"))
    }

    /// Ends it.
    ///
    /// # Errors
    /// As [`VectorWriter::write`].
    fn end_stream(&mut self) -> Result<()> {
        Err(Error::internal("this output has no streams"))
    }

    /// Completes the output and publishes it under its name, with the files beside it and the rejects: all
    /// of them or none.
    ///
    /// # Errors
    /// If the system refuses; nothing new stands under any final name then.
    fn finish(self: Box<Self>, finish: Finish<'_>) -> Result<()>;
}

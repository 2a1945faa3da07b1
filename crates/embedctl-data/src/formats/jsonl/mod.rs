//! JSON Lines: a line is a JSON object.
//!
//! Arrow's reader of JSON is not used for records: it stops at a bad line, where a record is to be rejected with its line and kept as
//! it was written.

mod vectors;
mod write;

use std::io::Read;

use super::output::{OutputSpec, WriterParts};
use crate::vectors::{TakeBatch, in_order};
use crate::writing::format::Compression;
use crate::writing::writer::VectorWriter;
use embedctl_common::error::Result;
use embedctl_records::vectors::{RecordedColumns, TakeVector};
use embedctl_storage::Readable;
use embedctl_vectors::Forms;

/// The format of vectors.
pub(super) struct JsonlOutput(pub Compression);

impl OutputSpec for JsonlOutput {
    fn create(&self, begin: WriterParts) -> Result<Box<dyn VectorWriter>> {
        Ok(Box::new(write::JsonlWriter::new(
            begin.target,
            begin.encoding,
            self.0,
        )?))
    }

    fn read_vectors(
        &self,
        file: &Readable,
        recorded: &RecordedColumns,
        take: &mut TakeVector<'_>,
    ) -> Result<()> {
        vectors::read(file, self.0, recorded, take)
    }

    fn read_columns(
        &self,
        file: &Readable,
        forms: &Forms,
        take: &mut TakeBatch<'_>,
    ) -> Result<bool> {
        vectors::batches(file, self.0, forms, take).map(|()| true)
    }

    /// Of lines: as they were before they were compressed.
    fn hashed(&self, file: &Readable, name: &str) -> Result<Box<dyn Read>> {
        match name {
            "lines" => vectors::lines(file, self.0),
            _ => Ok(Box::new(in_order(file)?)),
        }
    }
}

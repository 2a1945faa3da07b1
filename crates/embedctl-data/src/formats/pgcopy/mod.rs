//! PostgreSQL's `COPY … FROM … WITH (FORMAT binary)`, with vectors in pgvector's types.

mod fields;
mod interval;
mod vectors;
mod write;

use super::output::{Beginning, OutputSpec};
use crate::vectors::{RecordedColumns, TakeVector};
use crate::writing::writer::VectorWriter;
use arrow::datatypes::FieldRef;
use embedctl_common::error::Result;
use embedctl_storage::Readable;

/// The format.
pub(super) struct PgcopyOutput;

impl OutputSpec for PgcopyOutput {
    fn create(&self, begin: Beginning) -> Result<Box<dyn VectorWriter>> {
        Ok(Box::new(write::PgcopyWriter::new(
            begin.target,
            begin.encoding,
        )?))
    }

    fn check_type(&self, field: &FieldRef) -> Result<(), String> {
        fields::check_type(field)
    }

    fn read_vectors(
        &self,
        file: &Readable,
        _: &RecordedColumns,
        take: &mut TakeVector<'_>,
    ) -> Result<()> {
        vectors::read(file, take)
    }
}

//! PostgreSQL's `COPY … FROM … WITH (FORMAT binary)`, with vectors in pgvector's types.

mod vectors;
mod write;

use super::output::{OutputSpec, WriterParts};
use super::refused_type;
use crate::writing::refused::RefusedValue;
use crate::writing::writer::VectorWriter;
use arrow::array::RecordBatch;
use arrow::datatypes::FieldRef;
use embedctl_common::error::{Cause, Result};
use embedctl_records::pgcopy::fields;
use embedctl_records::vectors::{RecordedColumns, TakeVector};
use embedctl_storage::Readable;

/// The format.
pub(super) struct PgcopyOutput;

impl OutputSpec for PgcopyOutput {
    fn create(&self, begin: WriterParts) -> Result<Box<dyn VectorWriter>> {
        Ok(Box::new(write::PgcopyWriter::new(
            begin.target,
            begin.encoding,
        )?))
    }

    fn check_type(&self, field: &FieldRef) -> Result<(), String> {
        fields::check_type(field)
    }

    fn refuses_values(&self) -> bool {
        true
    }

    fn refused(&self, columns: &RecordBatch) -> Result<Vec<RefusedValue>> {
        for field in columns.schema_ref().fields() {
            self.check_type(field)
                .map_err(|reason| refused_type(field, &reason))?;
        }
        let refused = fields::Fields::new(columns)?.refused().into_iter();
        let value = |(row, column, reason)| {
            let name = columns.schema_ref().field(column).name();
            RefusedValue {
                row,
                column,
                cause: Cause::of(format!("the field `{name}`: {reason}")).with(fields::leave_out()),
            }
        };
        Ok(refused.map(value).collect())
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

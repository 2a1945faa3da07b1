//! PostgreSQL's `COPY … FROM … WITH (FORMAT binary)`, with vectors in pgvector's types.

mod fields;
mod interval;
mod vectors;
mod write;

use super::output::{Beginning, OutputFacts, OutputSpec, RowTexts, SIDECAR_HASH, VectorShape};
use crate::output::quantize::Dtype;
use crate::output::read::{Said, TakeVector};
use crate::output::writer::VectorWriter;
use arrow::datatypes::FieldRef;
use embedctl_common::error::Result;
use embedctl_storage::Readable;

/// The format.
pub(super) struct PgcopyOutput;

impl OutputSpec for PgcopyOutput {
    fn facts(&self) -> OutputFacts {
        OutputFacts {
            endings: &["pgcopy"],
            about: "Rows for PostgreSQL's COPY ... WITH (FORMAT binary), vectors in pgvector's types",
            shape: VectorShape::Fields,
            dtypes: &[Dtype::F32, Dtype::F16, Dtype::Binary, Dtype::Ubinary],
            hashes: &["stream", SIDECAR_HASH],
            row_texts: RowTexts::Nowhere,
            names_vectors: false,
            ..OutputFacts::DEFAULT
        }
    }

    fn create(&self, begin: Beginning) -> Result<Box<dyn VectorWriter>> {
        Ok(Box::new(write::PgcopyWriter::new(
            begin.target,
            begin.encoding,
        )?))
    }

    fn check_type(&self, field: &FieldRef) -> Result<(), String> {
        fields::check_type(field)
    }

    fn read_vectors(&self, file: &Readable, _: &Said, take: &mut TakeVector<'_>) -> Result<()> {
        vectors::read(file, take)
    }
}

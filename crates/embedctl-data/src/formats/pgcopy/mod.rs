//! PostgreSQL's `COPY … FROM … WITH (FORMAT binary)`, with vectors in pgvector's types.

mod fields;
mod vectors;
mod write;

use super::output::{Beginning, OutputSpec, RowTexts, SIDECAR_HASH, VectorShape};
use crate::output::encoding::Encoding;
use crate::output::quantize::Dtype;
use crate::output::read::{Said, TakeVector};
use crate::output::target::Target;
use crate::output::writer::VectorWriter;
use embedctl_common::error::Result;
use embedctl_storage::Readable;

/// The format.
pub(super) struct PgcopyOutput;

impl OutputSpec for PgcopyOutput {
    fn endings(&self) -> &'static [&'static str] {
        &["pgcopy"]
    }

    fn about(&self) -> &'static str {
        "Rows for PostgreSQL's COPY ... WITH (FORMAT binary), vectors in pgvector's types"
    }

    fn shape(&self) -> VectorShape {
        VectorShape::Fields
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F32, Dtype::F16, Dtype::Binary, Dtype::Ubinary]
    }

    fn hashes(&self) -> &'static [&'static str] {
        &["stream", SIDECAR_HASH]
    }

    fn row_texts(&self) -> RowTexts {
        RowTexts::Nowhere
    }

    fn create(
        &self,
        target: Target,
        encoding: Encoding,
        _: Beginning,
    ) -> Result<Box<dyn VectorWriter>> {
        Ok(Box::new(write::PgcopyWriter::new(target, encoding)?))
    }

    fn names_vectors(&self) -> bool {
        false
    }

    fn read_vectors(&self, file: &Readable, _: &Said, take: &mut TakeVector<'_>) -> Result<()> {
        vectors::read(file, take)
    }
}

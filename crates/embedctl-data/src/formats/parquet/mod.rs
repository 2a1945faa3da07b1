//! Apache Parquet.

mod footer;
mod pages;
mod plain;
mod properties;
mod read;
mod rows;
mod thrift;
mod vectors;
mod write;

use std::sync::Arc;

use serde_json::Value;

#[cfg(test)]
pub(crate) use pages::MOST_ELEMENTS;
pub(super) use read::not_a_file;

use super::input::InputSpec;
use super::output::{OutputSpec, WriterParts};
use crate::formats::reader::Reader;
use crate::reading::source::{Planned, SourceOpener};
use crate::vectors::ChosenRows;
use crate::writing::made;
use crate::writing::writer::VectorWriter;
use arrow::datatypes::FieldRef;
use embedctl_common::error::Result;
use embedctl_records::options::InputOptions;
use embedctl_records::vectors::{RecordedColumns, TakeVector};
use embedctl_records::window::OpenWindow;
use embedctl_storage::Readable;
use embedctl_vectors::Forms;

/// The format of records.
pub(super) struct ParquetInput;

impl InputSpec for ParquetInput {
    fn open(
        &self,
        source: &Arc<Planned>,
        options: &Arc<InputOptions>,
        opener: &mut SourceOpener<'_>,
        filling: &mut OpenWindow,
    ) -> Result<Option<Box<dyn Reader>>> {
        read::open(source, options, opener, filling).map(Some)
    }

    fn stretches(&self, source: &Arc<Planned>) -> Result<Option<Vec<u64>>> {
        read::row_groups(source)
    }
}

/// The format of vectors.
pub(super) struct ParquetOutput;

impl OutputSpec for ParquetOutput {
    fn create(&self, begin: WriterParts) -> Result<Box<dyn VectorWriter>> {
        Ok(Box::new(write::ParquetWriter::new(begin)))
    }

    fn check_type(&self, field: &FieldRef) -> Result<(), String> {
        properties::check_type(field)
    }

    fn provenance(&self, file: &Readable) -> Result<Option<Value>> {
        Ok(made::parsed(vectors::provenance(file)?))
    }

    fn read_vectors(
        &self,
        file: &Readable,
        said: &RecordedColumns,
        take: &mut TakeVector<'_>,
    ) -> Result<()> {
        vectors::read(file, said, take)
    }

    fn choose_rows(&self, file: &Readable, forms: &Forms) -> Result<Option<Box<dyn ChosenRows>>> {
        rows::open(file, forms).map(Some)
    }
}

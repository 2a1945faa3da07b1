//! Arrow's own files and streams (IPC).

mod answers;
mod claims;
mod footer;
mod open;
mod read;
mod vectors;
mod write;

use std::sync::Arc;

use serde_json::Value;

pub use footer::ArrowBatches;

use super::input::InputSpec;
use super::output::{OutputSpec, WriterParts};
use crate::formats::reader::Reader;
use crate::reading::source::{Planned, SourceOpener};
use crate::vectors::TakeBatch;
use crate::writing::made;
use crate::writing::writer::VectorWriter;
use arrow::datatypes::{FieldRef, SchemaRef};
use embedctl_common::error::Result;
use embedctl_records::options::InputOptions;
use embedctl_records::vectors::{RecordedColumns, TakeVector, places};
use embedctl_records::window::OpenWindow;
use embedctl_storage::Readable;
use embedctl_vectors::Forms;

/// The format of records: a file or a stream, told apart by the first bytes.
pub(super) struct ArrowInput;

impl InputSpec for ArrowInput {
    fn open(
        &self,
        source: &Arc<Planned>,
        options: &Arc<InputOptions>,
        opener: &mut SourceOpener<'_>,
        filling: &mut OpenWindow,
    ) -> Result<Option<Box<dyn Reader>>> {
        open::open(source, options, opener, filling)
    }

    fn stretches(&self, source: &Arc<Planned>) -> Result<Option<Vec<u64>>> {
        open::batches(source)
    }
}

/// A file of vectors.
pub(super) struct ArrowFileOutput;

impl OutputSpec for ArrowFileOutput {
    fn create(&self, begin: WriterParts) -> Result<Box<dyn VectorWriter>> {
        Ok(Box::new(write::IpcWriter::new(begin, true)))
    }

    fn check_type(&self, field: &FieldRef) -> Result<(), String> {
        write::check_type(field, true)
    }

    fn provenance(&self, file: &Readable) -> Result<Option<Value>> {
        Ok(made::parsed(vectors::provenance_of_file(file)?))
    }

    fn read_vectors(
        &self,
        file: &Readable,
        recorded: &RecordedColumns,
        take: &mut TakeVector<'_>,
    ) -> Result<()> {
        vectors::of_file(file, recorded, take)
    }

    fn read_columns(
        &self,
        file: &Readable,
        forms: &Forms,
        take: &mut TakeBatch<'_>,
    ) -> Result<bool> {
        let chosen = |schema: &SchemaRef| places(forms, schema);
        vectors::batches_of_file(file, chosen, take).map(|()| true)
    }
}

/// A stream of vectors.
pub(super) struct ArrowStreamOutput;

impl OutputSpec for ArrowStreamOutput {
    fn create(&self, begin: WriterParts) -> Result<Box<dyn VectorWriter>> {
        Ok(match begin.streams {
            true => Box::new(answers::BatchWriter::new(begin.target, begin.encoding)),
            false => Box::new(write::IpcWriter::new(begin, false)),
        })
    }

    fn check_type(&self, field: &FieldRef) -> Result<(), String> {
        write::check_type(field, false)
    }

    fn provenance(&self, file: &Readable) -> Result<Option<Value>> {
        match made::beside(file)? {
            Some(made) => Ok(Some(made)),
            None => Ok(made::parsed(vectors::provenance_of_stream(file)?)),
        }
    }

    fn read_vectors(
        &self,
        file: &Readable,
        recorded: &RecordedColumns,
        take: &mut TakeVector<'_>,
    ) -> Result<()> {
        vectors::of_stream(file, recorded, take)
    }

    fn read_columns(
        &self,
        file: &Readable,
        _forms: &Forms,
        take: &mut TakeBatch<'_>,
    ) -> Result<bool> {
        vectors::batches_of_stream(file, take).map(|()| true)
    }
}

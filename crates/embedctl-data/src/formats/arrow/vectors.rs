//! Vectors read back from Arrow's files and streams, and the provenance in a footer or a schema.

use std::io::{BufRead, BufReader};

use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;

use super::claims::CheckedMessages;
use super::footer::{ArrowBatches, Footer};
use crate::vectors::{TakeBatch, failed, guarded, in_order};
use crate::writing::made::{KEY, decoded};
use embedctl_common::error::Result;
use embedctl_records::vectors::{RecordedColumns, TakeVector, of_batch, vectors_in};
use embedctl_storage::Readable;

pub(super) fn of_file(
    file: &Readable,
    recorded: &RecordedColumns,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    let chosen = |schema: &SchemaRef| Some(vectors_in(schema, recorded));
    let mut rows = 0;
    batches_of_file(file, chosen, &mut |batch| {
        of_batch(&batch, recorded, &mut rows, take)
    })
}

/// A stream, or several one after another.
pub(super) fn of_stream(
    file: &Readable,
    recorded: &RecordedColumns,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    let mut rows = 0;
    batches_of_stream(file, &mut |batch| {
        of_batch(&batch, recorded, &mut rows, take)
    })
}

/// The columns of a file that `chosen` names, batch by batch.
pub(super) fn batches_of_file(
    file: &Readable,
    chosen: impl FnOnce(&SchemaRef) -> Option<Vec<usize>>,
    take: &mut TakeBatch<'_>,
) -> Result<()> {
    let mut batches = guarded(file, || ArrowBatches::open(&file.bytes, chosen))?;
    while let Some(batch) = guarded(file, || batches.next_batch())? {
        take(batch)?;
    }
    Ok(())
}

/// All columns of a stream, or of several one after another, batch by batch.
pub(super) fn batches_of_stream(file: &Readable, take: &mut TakeBatch<'_>) -> Result<()> {
    let mut bytes = BufReader::new(CheckedMessages::new(in_order(file)?));
    loop {
        let mut reader = guarded(file, || StreamReader::try_new(&mut bytes, None))?;
        while let Some(batch) = guarded(file, || reader.next().transpose())? {
            take(batch)?;
        }
        drop(reader);
        let rest = bytes.fill_buf().map_err(|error| failed(file, error))?;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// The provenance in a file's footer, as text.
pub(super) fn provenance_of_file(file: &Readable) -> Result<Option<String>> {
    let footer = decoded(|| Footer::read(file.bytes.as_ref()))?;
    Ok(footer.and_then(|footer| footer.metadata(KEY).cloned()))
}

/// The provenance in a stream's schema, as text.
pub(super) fn provenance_of_stream(file: &Readable) -> Result<Option<String>> {
    let bytes = file.bytes.reader_from(0);
    let bytes = bytes.map_err(|error| file.failed(error))?;
    let reader = decoded(|| StreamReader::try_new(CheckedMessages::new(bytes), None))?;
    Ok(reader.and_then(|reader| reader.schema().metadata().get(KEY).cloned()))
}

//! Vectors read back from Arrow's files and streams, and the provenance in a footer or a schema.

use std::io::BufRead;

use arrow::ipc::reader::{FileReader, StreamReader};

use super::footer::{check, next_batch};
use crate::output::made::{KEY, decoded};
use crate::output::read::lists::{of_batch, vectors_in};
use crate::output::read::{Said, TakeVector, failed, guarded, in_order};
use embedctl_common::error::Result;
use embedctl_storage::Readable;

pub(super) fn of_file(file: &Readable, said: &Said, take: &mut TakeVector<'_>) -> Result<()> {
    let schema = guarded(file, || check(file.bytes.as_ref()))?;
    let columns = Some(vectors_in(&schema, said));
    let mut reader = guarded(file, || FileReader::try_new(file.seeking(), columns))?;
    let mut read = 0;
    while let Some(batch) = guarded(file, || next_batch(&mut reader, &mut read))? {
        of_batch(&batch, said, take)?;
    }
    Ok(())
}

/// A stream, or several one after another.
pub(super) fn of_stream(file: &Readable, said: &Said, take: &mut TakeVector<'_>) -> Result<()> {
    let mut bytes = in_order(file)?;
    loop {
        let mut reader = guarded(file, || StreamReader::try_new(&mut bytes, None))?;
        while let Some(batch) = guarded(file, || reader.next().transpose())? {
            of_batch(&batch, said, take)?;
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
    let open = || {
        check(file.bytes.as_ref())?;
        FileReader::try_new(file.seeking(), None)
    };
    Ok(decoded(open)?.and_then(|reader| reader.custom_metadata().get(KEY).cloned()))
}

/// The provenance in a stream's schema, as text.
pub(super) fn provenance_of_stream(file: &Readable) -> Result<Option<String>> {
    let bytes = file.bytes.reader_from(0);
    let bytes = bytes.map_err(|error| file.failed(error))?;
    let reader = decoded(|| StreamReader::try_new(bytes, None))?;
    Ok(reader.and_then(|reader| reader.schema().metadata().get(KEY).cloned()))
}

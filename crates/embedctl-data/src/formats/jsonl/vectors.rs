//! Arrays of numbers in lines of JSON.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use crate::vectors::{TakeBatch, failed, guarded, in_order};
use crate::writing::format::Compression;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::json::ReaderBuilder;
use embedctl_common::error::Result;
use embedctl_records::json_vectors::line_vectors;
use embedctl_records::sparse::SparseColumn;
use embedctl_records::vectors::{RecordedColumns, TakeVector};
use embedctl_storage::Readable;
use embedctl_vectors::Forms;

/// A line that is longer holds no vector of any model.
const MAX_LINE: u64 = 64 << 20;

/// Rows that are read at a time.
const BATCH_ROWS: usize = 256;

pub(super) fn read(
    file: &Readable,
    compression: Compression,
    recorded: &RecordedColumns,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    let failed = |error| failed(file, error);
    let mut lines = BufReader::new(lines(file, compression)?);
    let mut line = Vec::new();
    for line_number in 1_u64.. {
        line.clear();
        let length = (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line);
        if length.map_err(failed)? == 0 {
            return Ok(());
        }
        line_vectors(&line, line_number, &file.name, recorded, take)?;
    }
    Ok(())
}

/// The columns of vectors of these forms, batch by batch.
pub(super) fn batches(
    file: &Readable,
    compression: Compression,
    forms: &Forms,
    take: &mut TakeBatch<'_>,
) -> Result<()> {
    let list = |item: DataType| DataType::List(Arc::new(Field::new_list_field(item, false)));
    let fields = forms.columns().map(|(form, name, _)| {
        let column = match SparseColumn::of(form) {
            Some(sparse) => sparse.data_type(),
            None if form.is_one_per_row() => list(DataType::Float32),
            None => list(list(DataType::Float32)),
        };
        Field::new(name, column, true)
    });
    let schema = Arc::new(Schema::new(fields.collect::<Fields>()));
    let lines = BufReader::new(lines(file, compression)?);
    let mut reader = guarded(file, || {
        ReaderBuilder::new(schema)
            .with_batch_size(BATCH_ROWS)
            .build(lines)
    })?;
    while let Some(batch) = guarded(file, || reader.next().transpose())? {
        take(batch)?;
    }
    Ok(())
}

/// The lines of a file, decompressed.
///
/// # Errors
/// If it cannot be read, or is not compressed so.
pub(super) fn lines(file: &Readable, compression: Compression) -> Result<Box<dyn Read>> {
    decompressed(in_order(file)?, compression).map_err(|error| failed(file, error))
}

fn decompressed(
    bytes: impl BufRead + 'static,
    compression: Compression,
) -> io::Result<Box<dyn Read>> {
    Ok(match compression {
        Compression::None => Box::new(bytes),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(bytes)),
        Compression::Zstd => Box::new(zstd::Decoder::with_buffer(bytes)?),
    })
}

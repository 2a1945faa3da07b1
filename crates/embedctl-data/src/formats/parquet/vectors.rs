//! Vectors read back from Parquet, of its columns of vectors alone, and the provenance among its metadata.

use std::sync::Arc;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use ::parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use ::parquet::file::reader::FileReader;
use arrow::datatypes::DataType;

use super::footer::{load, reader};
use super::pages::FileChunks;
use crate::vectors::columns::{of_batch, vectors_in};
use crate::vectors::{CUT, RecordedColumns, TakeVector, guarded, unreadable};
use crate::writing::made::{KEY, decoded};
use embedctl_common::error::Result;
use embedctl_storage::Readable;

/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 1024;

/// Numbers that room is made for at a time: a list's width counts for each row, null rows included.
const BATCH_NUMBERS: usize = 4 << 20;

/// A width up to this is believed, however little the file holds: its rows may all be null.
const WIDE: usize = 1 << 16;

pub(super) fn read(
    file: &Readable,
    said: &RecordedColumns,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    let chunks = FileChunks::new(Arc::clone(&file.bytes));
    let options = ArrowReaderOptions::new();
    let metadata = guarded(file, || load(&chunks, options))?;
    let columns = vectors_in(metadata.schema(), said);
    let groups = metadata.metadata().row_groups();
    let values = groups.iter().flat_map(RowGroupMetaData::columns);
    let held = values.map(ColumnChunkMetaData::num_values).max();
    let widest = (columns.iter())
        .filter_map(
            |&column| match metadata.schema().field(column).data_type() {
                DataType::FixedSizeList(_, width) => usize::try_from(*width).ok(),
                _ => None,
            },
        )
        .max();
    let widest = widest.unwrap_or(1).max(1);
    let held = held.and_then(|held| usize::try_from(held).ok());
    if widest > held.unwrap_or(0).max(WIDE) {
        let why = format!("it claims vectors of {widest} numbers, but holds fewer");
        return Err(unreadable(file.path(), why).with_remedy(CUT));
    }
    let mask = ProjectionMask::roots(metadata.parquet_schema(), columns);
    let chunks = chunks.of_groups(groups.iter(), u64::MAX);
    let steps = chunks.clone();
    let mut batches = guarded(file, || {
        ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, metadata)
            .with_projection(mask)
            .with_batch_size((BATCH_NUMBERS / widest).clamp(1, BATCH_ROWS))
            .build()
    })?;
    let mut rows = 0;
    while let Some(batch) = guarded(file, || {
        steps.begin_step(false);
        batches.next().transpose()
    })? {
        of_batch(&batch, said, &mut rows, take)?;
    }
    Ok(())
}

/// The provenance, as text.
pub(super) fn provenance(file: &Readable) -> Result<Option<String>> {
    let chunks = FileChunks::new(Arc::clone(&file.bytes));
    let Some(reader) = decoded(|| reader(chunks))? else {
        return Ok(None);
    };
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let mut entries = metadata.into_iter().flatten();
    let own = entries.find(|entry| entry.key == KEY);
    Ok(own.and_then(|entry| entry.value.clone()))
}

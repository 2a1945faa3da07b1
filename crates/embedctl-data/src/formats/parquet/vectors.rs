//! Vectors read back from Parquet, of its columns of vectors alone, and the provenance among its metadata.

use std::sync::Arc;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use ::parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use ::parquet::file::reader::FileReader;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use crossbeam_channel::bounded;

use super::footer::{load, reader};
use super::pages::FileChunks;
use super::plain::PlainPages;
use crate::vectors::{guarded, unreadable};
use crate::writing::made::{KEY, decoded};
use embedctl_common::error::{Error, Result};
use embedctl_common::threads::{spawn_scoped, usable_cores};
use embedctl_records::vectors::{CUT, RecordedColumns, TakeVector, of_batch, vectors_in};
use embedctl_storage::Readable;

/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 1024;

/// Numbers that room is made for at a time: a list's width counts for each row, null rows included.
const BATCH_NUMBERS: usize = 4 << 20;

/// Bytes of row groups that are decoded side by side at most: each may be in memory as a whole, while those before it are
/// handed over.
const SIDE_BY_SIDE: u64 = 512 << 20;

/// Batches of a row group that may wait.
const MOST_WAITING: u64 = 1 << 16;

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
    let mask = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
    let sizes = (groups.iter()).map(|group| group.total_byte_size().unsigned_abs());
    let at_once = SIDE_BY_SIDE / sizes.max().unwrap_or(0).max(1);
    let columns = VectorColumns {
        file,
        chunks,
        mask,
        only: only(&metadata, &columns),
        batch_rows: (BATCH_NUMBERS / widest).clamp(1, BATCH_ROWS),
        metadata,
    };
    let mut rows = 0;
    let mut take = |batch: &RecordBatch| of_batch(batch, said, &mut rows, take);
    let at_once = usize::try_from(at_once).unwrap_or(usize::MAX);
    let threads = usable_cores().min(columns.groups()).min(at_once);
    match threads > 1 {
        true => columns.decode_side_by_side(threads, &mut take),
        false => (0..columns.groups()).try_for_each(|group| columns.decode(group, |it| take(&it))),
    }
}

/// The columns of vectors of a file.
struct VectorColumns<'a> {
    file: &'a Readable,
    chunks: FileChunks,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    /// Where there is one: the schema of it alone, and its number among the columns of a row group.
    only: Option<(SchemaRef, usize)>,
    /// Rows that are decoded at a time.
    batch_rows: usize,
}

/// Of a file with one column of vectors, the schema of it alone and its number among the columns of a row group.
fn only(metadata: &ArrowReaderMetadata, columns: &[usize]) -> Option<(SchemaRef, usize)> {
    let [column] = *columns else {
        return None;
    };
    let described = metadata.parquet_schema();
    let leaves = 0..described.num_columns();
    let mut leaves = leaves.filter(|leaf| described.get_column_root_idx(*leaf) == column);
    let (leaf, None) = (leaves.next()?, leaves.next()) else {
        return None;
    };
    let schema = metadata.schema().project(&[column]).ok()?;
    Some((Arc::new(schema), leaf))
}

impl VectorColumns<'_> {
    /// How many row groups there are.
    fn groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// Decodes a row group, batch by batch.
    fn decode(&self, group: usize, mut take: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let metadata = self.metadata.metadata().row_group(group);
        let chunks = self.chunks.of_groups([metadata].into_iter(), u64::MAX);
        let steps = chunks.clone();
        let mut done = 0;
        if let Some((schema, leaf)) = &self.only {
            let (chunks, schema) = (chunks.clone(), Arc::clone(schema));
            let pages = guarded(self.file, || {
                PlainPages::open(chunks, metadata, *leaf, schema)
            })?;
            if let Some(mut pages) = pages {
                while let Some(batch) = guarded(self.file, || {
                    steps.begin_step(false);
                    pages.next()
                })? {
                    done += batch.num_rows();
                    take(batch)?;
                }
            }
            if done > 0 && done as i64 == metadata.num_rows() {
                return Ok(());
            }
        }
        // What remains is in pages of other forms.
        let mut batches = guarded(self.file, || {
            ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, self.metadata.clone())
                .with_row_groups(vec![group])
                .with_projection(self.mask.clone())
                .with_batch_size(self.batch_rows)
                .with_offset(done)
                .build()
        })?;
        let mut skips = done > 0;
        while let Some(batch) = guarded(self.file, || {
            steps.begin_step(std::mem::take(&mut skips));
            batches.next().transpose()
        })? {
            take(batch)?;
        }
        Ok(())
    }

    /// Decodes all row groups, each by one of some threads, and hands over their batches in the file's order.
    fn decode_side_by_side(
        &self,
        threads: usize,
        take: &mut dyn FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let stopped = || Error::internal("a thread that decodes vectors has ended");
        let groups = self.metadata.metadata().row_groups().iter();
        let most_rows = groups.map(|group| group.num_rows().unsigned_abs()).max();
        let most_batches = most_rows.unwrap_or(0) / self.batch_rows as u64 + 2;
        // A damaged file may claim any number.
        let most_batches = most_batches.min(MOST_WAITING) as usize;
        std::thread::scope(|scope| {
            let mut decoders = Vec::with_capacity(threads);
            for first in 0..threads {
                // `None` ends a row group. A whole one may wait.
                let (sender, receiver) = bounded::<Result<Option<RecordBatch>>>(most_batches);
                decoders.push(receiver);
                spawn_scoped(scope, "vectors", move || {
                    for group in (first..self.groups()).step_by(threads) {
                        let batches = self.decode(group, |batch| {
                            sender.send(Ok(Some(batch))).map_err(|_| stopped())
                        });
                        let is_failed = batches.is_err();
                        let is_unwanted = sender.send(batches.map(|()| None)).is_err();
                        if is_failed || is_unwanted {
                            return;
                        }
                    }
                })?;
            }
            for group in 0..self.groups() {
                let decoder = &decoders[group % threads];
                while let Some(batch) = decoder.recv().map_err(|_| stopped())?? {
                    take(&batch)?;
                }
            }
            Ok(())
        })
    }
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

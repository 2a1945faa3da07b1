//! Vectors of chosen rows of Parquet: pages are found by the index that the file has of them.

use std::convert::Infallible;
use std::sync::Arc;

use super::footer::load;
use super::pages::FileChunks;
use crate::vectors::{ChosenRows, guarded, no_such_vectors, runs};
use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
};
use ::parquet::file::metadata::PageIndexPolicy;
use embedctl_common::error::Result;
use embedctl_records::vectors::{BatchRows, TakeRow, places};
use embedctl_storage::Readable;
use embedctl_vectors::Forms;

struct ParquetRows {
    file: Readable,
    rows: u64,
    forms: Forms,
    chunks: FileChunks,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
}

/// Opens a file.
///
/// # Errors
/// If it cannot be read, or holds no such vectors.
pub(super) fn open(file: &Readable, forms: &Forms) -> Result<Box<dyn ChosenRows>> {
    let chunks = FileChunks::new(Arc::clone(&file.bytes));
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
    let metadata = guarded(file, || load(&chunks, options))?;
    let chunks = chunks.of_groups(metadata.metadata().row_groups().iter(), u64::MAX);
    let schema = metadata.schema();
    let found = places(forms, schema).ok_or_else(|| no_such_vectors(file.path(), forms))?;
    let mask = ProjectionMask::roots(metadata.parquet_schema(), found);
    let rows = metadata.metadata().file_metadata().num_rows();
    Ok(Box::new(ParquetRows {
        file: file.clone(),
        rows: rows.cast_unsigned(),
        forms: forms.clone(),
        chunks,
        metadata,
        mask,
    }))
}

impl ChosenRows for ParquetRows {
    fn rows(&self) -> u64 {
        self.rows
    }

    fn read(&mut self, rows: &[u64], take: &mut TakeRow<'_>) -> Result<()> {
        self.chunks.begin_step(true);
        let groups = self.metadata.metadata().row_groups().iter();
        let lengths: Vec<u64> = groups
            .map(|group| group.num_rows().cast_unsigned())
            .collect();
        let (mut before, mut done) = (0, 0);
        for (group, length) in lengths.into_iter().enumerate() {
            let inside = rows[done..].partition_point(|&row| row < before + length);
            let wanted: Vec<u64> = rows[done..done + inside]
                .iter()
                .map(|row| row - before)
                .collect();
            before += length;
            if wanted.is_empty() {
                continue;
            }
            let index = |row: u64| usize::try_from(row).unwrap_or(usize::MAX);
            let wanted = runs(&wanted).map(|run| index(run.start)..index(run.end));
            let selection = RowSelection::from_consecutive_ranges(wanted, index(length));
            let mut reader = guarded(&self.file, || {
                let (chunks, metadata) = (self.chunks.clone(), self.metadata.clone());
                ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, metadata)
                    .with_projection(self.mask.clone())
                    .with_row_groups(vec![group])
                    .with_row_selection(selection)
                    .build()
            })?;
            while let Some(batch) = guarded(&self.file, || reader.next().transpose())? {
                let vectors = guarded(&self.file, || {
                    Ok::<_, Infallible>(BatchRows::of(&batch, &self.forms))
                })?;
                vectors.hand_over(batch.num_rows(), done, take);
                done += batch.num_rows();
            }
        }
        Ok(())
    }
}

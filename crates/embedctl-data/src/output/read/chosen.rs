//! Vectors of chosen rows: of matrices and Parquet without reading what lies between; other files are laid out as a
//! matrix in a temporary file first.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
};
use ::parquet::file::metadata::PageIndexPolicy;

use super::binary::{self, floats};
use super::lists::{Vectors, element};
use super::{Said, guarded, read_as, unreadable};
use crate::input::Chunks;
use crate::output::options::OutputFormat;
use crate::output::quantize::Dtype;
use arrow::datatypes::DataType;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::EMBEDDING_FIELD;
use embedctl_storage::{Address, Readable};

/// A file of vectors in float32 or float16, whose rows are read as they are asked for. Vectors of several columns
/// stand one after another in a row.
pub struct ChosenVectors {
    file: Readable,
    width: usize,
    rows: u64,
    stored: Stored,
}

enum Stored {
    /// Row after row, from `start`.
    Matrix {
        read_at: ReadAt,
        start: u64,
        dtype: Dtype,
    },
    /// Pages are found by the index that the file has of them.
    Parquet {
        chunks: Chunks,
        metadata: ArrowReaderMetadata,
        mask: ProjectionMask,
        columns: Vec<String>,
    },
}

/// Fills with the bytes from there on.
type ReadAt = Box<dyn Fn(u64, &mut [u8]) -> io::Result<()> + Send>;

/// The temporary file that other than matrices and Parquet are laid out in, however many they are; made for the first.
#[derive(Default)]
pub struct Aside(Option<Arc<File>>);

impl ChosenVectors {
    /// Opens a file, whose vectors are in these columns, of these widths; a matrix has one without a
    /// name.
    ///
    /// # Errors
    /// If it cannot be read, or holds no such vectors.
    pub fn open(
        named: &Readable,
        format: OutputFormat,
        columns: &[(String, usize)],
        aside: &mut Aside,
    ) -> Result<Self> {
        let width = columns.iter().map(|(_, width)| width).sum();
        let path = named.path();
        let failed = |error| Error::io("read", path, error);
        let (rows, stored) = match format {
            OutputFormat::Parquet => parquet(named, columns)?,
            OutputFormat::Npy | OutputFormat::Fbin if !Address::is_url_path(path) => {
                let mut file = named.seeking();
                let (rows, found, dtype) = match format {
                    OutputFormat::Npy => binary::npy_shape(named, &mut file)?,
                    _ => binary::bin_shape(named, &mut file, format)?,
                };
                if found != width as u64 || columns.len() > 1 || dtype.bytes() == 1 {
                    return Err(other(path, columns));
                }
                let start = file.stream_position().map_err(failed)?;
                let bytes = Arc::clone(&named.bytes);
                let stored = Stored::Matrix {
                    read_at: Box::new(move |offset, into| bytes.read_at(offset, into)),
                    start,
                    dtype,
                };
                (rows, stored)
            }
            _ => laid_out(named, format, columns, aside)?,
        };
        Ok(Self {
            file: named.clone(),
            width,
            rows,
            stored,
        })
    }

    /// Closes its file; the next reading opens it again.
    pub fn close(&self) {
        self.file.bytes.close();
    }

    /// Its rows; of other than Parquet those that have a vector.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Hands over the vectors of `rows`, which ascend, each with the index of its row among them. A row without a
    /// vector is passed over.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read(&mut self, rows: &[u64], take: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let (named, width) = (&self.file, self.width);
        match &mut self.stored {
            Stored::Matrix {
                read_at,
                start,
                dtype,
            } => {
                let failed = |error| named.failed(error);
                let bytes = width * dtype.bytes();
                let mut buffer = Vec::new();
                let mut done = 0;
                for run in runs(rows) {
                    let at = *start + run.start * bytes as u64;
                    let length = usize::try_from(run.end - run.start).unwrap_or(0);
                    buffer.resize(length * bytes, 0);
                    read_at(at, &mut buffer).map_err(failed)?;
                    for row in buffer.chunks_exact(bytes) {
                        let vector: Vec<f32> = match dtype {
                            Dtype::F16 => floats(row, |two| half::f16::from_le_bytes(two).to_f32()),
                            _ => floats(row, f32::from_le_bytes),
                        };
                        take(done, &vector);
                        done += 1;
                    }
                }
                Ok(())
            }
            Stored::Parquet {
                chunks,
                metadata,
                mask,
                columns,
            } => {
                let groups = metadata.metadata().row_groups().iter();
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
                    let mut reader = guarded(named, || {
                        let (chunks, metadata) = (chunks.clone(), metadata.clone());
                        ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, metadata)
                            .with_projection(mask.clone())
                            .with_row_groups(vec![group])
                            .with_row_selection(selection)
                            .build()
                    })?;
                    while let Some(batch) = guarded(named, || reader.next().transpose())? {
                        let lists = (columns.iter())
                            .filter_map(|name| batch.column_by_name(name))
                            .map(|column| {
                                guarded(named, || Ok::<_, Infallible>(Vectors::of(column)))
                            })
                            .collect::<Result<Vec<_>>>()?;
                        for row in 0..batch.num_rows() {
                            let parts = lists.iter().filter_map(|column| column.get(row));
                            let vector = parts.collect::<Vec<_>>().concat();
                            if vector.len() == width {
                                take(done, &vector);
                            }
                            done += 1;
                        }
                    }
                }
                Ok(())
            }
        }
    }
}

/// Consecutive rows together.
fn runs(rows: &[u64]) -> impl Iterator<Item = Range<u64>> {
    (rows.chunk_by(|one, next| one + 1 == *next)).map(|run| run[0]..run[0] + run.len() as u64)
}

fn parquet(file: &Readable, columns: &[(String, usize)]) -> Result<(u64, Stored)> {
    let chunks = Chunks::new(Arc::clone(&file.bytes));
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
    let metadata = guarded(file, || ArrowReaderMetadata::load(&chunks, options))?;
    let chunks = chunks.of_groups(metadata.metadata().row_groups().iter());
    let schema = metadata.schema();
    let found: Option<Vec<usize>> = (columns.iter())
        .map(|(name, width)| {
            let (index, field) = schema.column_with_name(name)?;
            let fits = match field.data_type() {
                DataType::FixedSizeList(_, length) => usize::try_from(*length) == Ok(*width),
                _ => true,
            };
            let is_float = matches!(element(field.data_type()), Some(Dtype::F32 | Dtype::F16));
            (fits && is_float).then_some(index)
        })
        .collect();
    let found = found.ok_or_else(|| other(file.path(), columns))?;
    let mask = ProjectionMask::roots(metadata.parquet_schema(), found);
    let rows = metadata.metadata().file_metadata().num_rows();
    let stored = Stored::Parquet {
        mask,
        columns: columns.iter().map(|(name, _)| name.clone()).collect(),
        metadata,
        chunks,
    };
    Ok((rows.cast_unsigned(), stored))
}

/// Writes the vectors of a file, row by row, behind what stands in the temporary one.
fn laid_out(
    source: &Readable,
    format: OutputFormat,
    columns: &[(String, usize)],
    aside: &mut Aside,
) -> Result<(u64, Stored)> {
    let failed = |error| Error::io("write a temporary file for", source.path(), error);
    let file = match &aside.0 {
        Some(file) => Arc::clone(file),
        None => Arc::new(tempfile::tempfile().map_err(failed)?),
    };
    aside.0 = Some(Arc::clone(&file));
    let start = (&*file).seek(SeekFrom::End(0)).map_err(failed)?;
    let mut writer = BufWriter::new(&*file);
    let mut rows = 0;
    let mut row = vec![
        0;
        columns
            .iter()
            .map(|(_, width)| width * size_of::<f32>())
            .sum()
    ];
    let mut filled = 0;
    let said = Said {
        columns: columns.iter().map(|(name, _)| name.clone()).collect(),
        dtype: None,
    };
    read_as(source, format, &said, &mut |vector| {
        // Matrices and PostgreSQL's format have no names.
        let has_names = !format.is_matrix() && format != OutputFormat::Pgcopy;
        let is = |name: &str| !has_names || name == vector.column;
        let Some(column) = columns.iter().position(|(name, _)| is(name)) else {
            return Ok(());
        };
        if vector.values.len() != columns[column].1 {
            return Err(other(source.path(), columns));
        }
        let before: usize = columns[..column].iter().map(|(_, width)| width).sum();
        let place = row[before * size_of::<f32>()..].chunks_exact_mut(size_of::<f32>());
        for (value, place) in vector.values.iter().zip(place) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        filled += 1;
        if filled == columns.len() {
            filled = 0;
            rows += 1;
            writer.write_all(&row).map_err(failed)?;
        }
        Ok(())
    })?;
    writer.flush().map_err(failed)?;
    drop(writer);
    source.bytes.close();
    let read_at = move |offset, into: &mut [u8]| {
        let mut file = &*file;
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(into)
    };
    let stored = Stored::Matrix {
        read_at: Box::new(read_at),
        start,
        dtype: Dtype::F32,
    };
    Ok((rows, stored))
}

fn other(path: &Path, columns: &[(String, usize)]) -> Error {
    let wanted: Vec<String> = (columns.iter())
        .map(|(name, width)| format!("`{name}` of {width} numbers"))
        .collect();
    unreadable(path, format!("holds no vectors {}", wanted.join(", ")))
        .with_remedy(format!("name their column as it was ({EMBEDDING_FIELD})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_follow_one_another_are_read_together() {
        let found: Vec<_> = runs(&[0, 1, 2, 5, 7, 8]).collect();
        assert_eq!(found, [0..3, 5..6, 7..9]);
        assert_eq!(runs(&[]).count(), 0);
    }
}

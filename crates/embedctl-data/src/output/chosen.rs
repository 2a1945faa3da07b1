//! Vectors of chosen rows, without the rows between if the format allows it; other files are laid out as a matrix in a
//! temporary file first.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::errors::ParquetError;
use tempfile::TempDir;

use crate::vectors::{ChosenRows, MatrixRows, no_such_vectors, unreadable};
use crate::writing::format::OutputFormat;
use arrow::array::RecordBatch;
use embedctl_common::error::{Error, Result};
use embedctl_common::small_file;
use embedctl_records::quantize::Dtype;
use embedctl_records::vectors::{RecordedColumn, RecordedColumns, TakeRow, places};
use embedctl_storage::Readable;
use embedctl_vectors::{Forms, RowForm, RowParts};

/// Rows that are read at a time where all are.
const ROWS_AT_A_TIME: u64 = 1024;

/// A file of vectors in float32 or float16, whose rows are read as they are asked for. Vectors of several columns
/// stand one after another in a row.
pub struct ChosenVectors {
    file: Readable,
    rows: Box<dyn ChosenRows>,
}

/// Where other than matrices and Parquet are laid out: dense vectors in one temporary file, however many files they come
/// from, and others as a table for each.
#[derive(Default)]
pub struct TemporaryVectors {
    matrix: Option<Arc<File>>,
    tables: Option<TempDir>,
    /// How many tables there are.
    count: usize,
}

impl ChosenVectors {
    /// Opens a file that holds vectors of these kinds.
    ///
    /// # Errors
    /// If it cannot be read, holds no such vectors, or does not tell them row by row.
    pub fn open(
        named: &Readable,
        format: OutputFormat,
        forms: &Forms,
        temporary: &mut TemporaryVectors,
    ) -> Result<Self> {
        let rows = match format.spec().choose_rows(named, forms)? {
            Some(rows) => rows,
            None if forms.are_dense() => Box::new(laid_out(named, format, forms, temporary)?),
            None => as_table(named, format, forms, temporary)?,
        };
        Ok(Self {
            file: named.clone(),
            rows,
        })
    }

    /// The same without a temporary file; `None` where the format is read in order alone.
    ///
    /// # Errors
    /// If it cannot be read, or holds no such vectors.
    pub fn in_place(named: &Readable, format: OutputFormat, forms: &Forms) -> Result<Option<Self>> {
        let rows = format.spec().choose_rows(named, forms)?;
        Ok(rows.map(|rows| Self {
            file: named.clone(),
            rows,
        }))
    }

    /// Closes its file; the next reading opens it again.
    pub fn close(&self) {
        self.file.bytes.close();
    }

    /// Its rows; of other than Parquet those that have a vector.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows.rows()
    }

    /// Hands over the vectors of `rows`, which ascend, each with the index of its row among them. A row without a
    /// vector is passed over.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read(&mut self, rows: &[u64], take: &mut TakeRow<'_>) -> Result<()> {
        self.rows.read(rows, take)
    }

    /// Hands over the vectors of each row that has some, in order.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn for_each(&mut self, take: &mut dyn FnMut(RowParts<'_>)) -> Result<()> {
        let (mut start, end) = (0, self.rows());
        while start < end {
            let next = end.min(start + ROWS_AT_A_TIME);
            let rows: Vec<u64> = (start..next).collect();
            self.read(&rows, &mut |_, row| take(row))?;
            start = next;
        }
        Ok(())
    }
}

/// Copies the columns of a file's vectors into a temporary table, whose rows can be chosen.
fn as_table(
    source: &Readable,
    format: OutputFormat,
    forms: &Forms,
    temporary: &mut TemporaryVectors,
) -> Result<Box<dyn ChosenRows>> {
    let failed = |error: io::Error| Error::io("write a temporary file for", source.path(), error);
    let folder = match &temporary.tables {
        Some(folder) => folder,
        None => temporary
            .tables
            .insert(tempfile::tempdir().map_err(failed)?),
    };
    let path = folder.path().join(format!("{}.parquet", temporary.count));
    temporary.count += 1;
    let mut table: Option<ArrowWriter<File>> = None;
    let facts = format.facts();
    let is_held = (forms.all().iter()).all(|form| facts.holds(form));
    let mut copy = |batch: RecordBatch| {
        let places = places(forms, batch.schema_ref());
        let places = places.ok_or_else(|| no_such_vectors(source.path(), forms))?;
        let mut write = || -> Result<(), ParquetError> {
            let columns = batch.project(&places)?;
            let writer = match &mut table {
                Some(writer) => writer,
                None => {
                    let file = File::create(&path)?;
                    table.insert(ArrowWriter::try_new(file, columns.schema(), None)?)
                }
            };
            writer.write(&columns)
        };
        write().map_err(|error| failed(io::Error::other(error)))
    };
    let is_read = is_held && format.spec().read_columns(source, forms, &mut copy)?;
    source.bytes.close();
    if !is_read {
        return Err(unreadable(
            source.path(),
            format!("vectors of this kind are not read back from {format} row by row"),
        )
        .with_remedy("name an output in parquet, arrow or jsonl"));
    }
    let Some(table) = table else {
        return Ok(Box::new(NoRows));
    };
    table
        .close()
        .map_err(|error| failed(io::Error::other(error)))?;
    let table = Readable::file(&path)?;
    let rows = OutputFormat::Parquet.spec().choose_rows(&table, forms)?;
    rows.ok_or_else(|| Error::internal("a table whose rows cannot be chosen"))
}

/// A file without rows.
struct NoRows;

impl ChosenRows for NoRows {
    fn rows(&self) -> u64 {
        0
    }

    fn read(&mut self, _rows: &[u64], _take: &mut TakeRow<'_>) -> Result<()> {
        Ok(())
    }
}

/// Appends the vectors of a file, row by row, to the temporary one.
fn laid_out(
    source: &Readable,
    format: OutputFormat,
    wanted: &Forms,
    temporary: &mut TemporaryVectors,
) -> Result<MatrixRows> {
    let failed = |error| Error::io("write a temporary file for", source.path(), error);
    let file = match &temporary.matrix {
        Some(file) => Arc::clone(file),
        None => Arc::new(tempfile::tempfile().map_err(failed)?),
    };
    temporary.matrix = Some(Arc::clone(&file));
    let start = (&*file).seek(SeekFrom::End(0)).map_err(failed)?;
    let mut writer = BufWriter::new(&*file);
    let mut rows = 0;
    let columns = wanted.columns().map(|(_, name, width)| (name, width));
    let columns: Vec<(&str, usize)> = columns.collect();
    let mut row = vec![0; wanted.first().width() * size_of::<f32>()];
    // The columns whose vector of the row in hand is there.
    let mut filled = vec![false; columns.len()];
    let recorded = columns.iter().map(|(name, _)| RecordedColumn {
        name: (*name).to_owned(),
        dtype: None,
        form: Some(RowForm::Dense(vec![0])),
        width: None,
    });
    let recorded = RecordedColumns {
        columns: recorded.collect(),
    };
    let other_vectors = || no_such_vectors(source.path(), wanted);
    format
        .spec()
        .read_vectors(source, &recorded, &mut |vector| {
            let named = columns.iter().position(|(name, _)| *name == vector.column);
            // Where columns have no names, they are known by their order.
            let has_names = format.facts().names_vectors;
            let next = || filled.iter().position(|is_filled| !is_filled);
            let Some(column) = named.or_else(|| next().filter(|_| !has_names)) else {
                return Ok(());
            };
            if vector.values.len() != columns[column].1 || filled[column] {
                return Err(other_vectors());
            }
            let before: usize = columns[..column].iter().map(|(_, width)| width).sum();
            let place = row[before * size_of::<f32>()..].chunks_exact_mut(size_of::<f32>());
            for (value, place) in vector.values.iter().zip(place) {
                place.copy_from_slice(&value.to_le_bytes());
            }
            filled[column] = true;
            if filled.iter().all(|is_filled| *is_filled) {
                filled.fill(false);
                rows += 1;
                writer.write_all(&row).map_err(failed)?;
            }
            Ok(())
        })?;
    if filled.contains(&true) {
        return Err(other_vectors());
    }
    writer.flush().map_err(failed)?;
    drop(writer);
    source.bytes.close();
    let read_at = move |offset, into: &mut [u8]| small_file::read_at(&file, into, offset);
    Ok(MatrixRows {
        file: source.clone(),
        read_at: Box::new(read_at),
        start,
        rows,
        width: wanted.first().width(),
        dtype: Dtype::F32,
    })
}

//! Vectors of chosen rows, without the rows between if the format allows it; other files are laid out as a matrix in a
//! temporary file first.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use crate::formats::matrix::MatrixRows;
use crate::vectors::{ChosenRows, Said, no_such_vectors};
use crate::writing::format::OutputFormat;
use crate::writing::quantize::Dtype;
use embedctl_common::error::{Error, Result};
use embedctl_storage::Readable;

/// A file of vectors in float32 or float16, whose rows are read as they are asked for. Vectors of several columns
/// stand one after another in a row.
pub struct ChosenVectors {
    file: Readable,
    rows: Box<dyn ChosenRows>,
}

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
        let rows = match format.spec().choose_rows(named, columns)? {
            Some(rows) => rows,
            None => Box::new(laid_out(named, format, columns, aside)?),
        };
        Ok(Self {
            file: named.clone(),
            rows,
        })
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
    pub fn read(&mut self, rows: &[u64], take: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        self.rows.read(rows, take)
    }
}

/// Appends the vectors of a file, row by row, to the temporary one.
fn laid_out(
    source: &Readable,
    format: OutputFormat,
    columns: &[(String, usize)],
    aside: &mut Aside,
) -> Result<MatrixRows> {
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
        sparse_width: None,
        by_token: false,
    };
    format.spec().read_vectors(source, &said, &mut |vector| {
        let has_names = format.facts().names_vectors;
        let is = |name: &str| !has_names || name == vector.column;
        let Some(column) = columns.iter().position(|(name, _)| is(name)) else {
            return Ok(());
        };
        if vector.values.len() != columns[column].1 {
            return Err(no_such_vectors(source.path(), columns));
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
    Ok(MatrixRows {
        file: source.clone(),
        read_at: Box::new(read_at),
        start,
        rows,
        width: columns.iter().map(|(_, width)| width).sum(),
        dtype: Dtype::F32,
    })
}

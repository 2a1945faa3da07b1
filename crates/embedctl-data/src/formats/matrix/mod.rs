//! One matrix, and beside it a file that describes its rows: NPY, `fbin`, `i8bin` and `u8bin`, and of sparse vectors NPZ.
//! Beside an NPY file of tokens' vectors another one says how many each row has.

mod npz;
mod rows;
mod tokens;
mod vectors;
mod write;

use std::io::Read;

use super::output::{OutputSpec, WriterParts};
use crate::vectors::{ChosenRows, MatrixRows, TakeBatch, in_order};
use crate::writing::writer::VectorWriter;
use arrow::array::{ArrayRef, RecordBatch};
use embedctl_common::error::{Error, Result};
use embedctl_records::vectors::{RecordedColumns, TakeVector};
use embedctl_storage::Readable;
use embedctl_vectors::Forms;

/// The formats, which differ in their headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatrixOutput {
    Npy,
    Fbin,
    I8bin,
    U8bin,
}

/// A sparse matrix.
pub(super) struct NpzOutput;

impl OutputSpec for NpzOutput {
    fn create(&self, begin: WriterParts) -> Result<Box<dyn VectorWriter>> {
        Ok(Box::new(npz::NpzWriter::new(begin)?))
    }

    fn read_vectors(
        &self,
        file: &Readable,
        _: &RecordedColumns,
        take: &mut TakeVector<'_>,
    ) -> Result<()> {
        npz::read(file, take)
    }

    fn read_columns(
        &self,
        file: &Readable,
        forms: &Forms,
        take: &mut TakeBatch<'_>,
    ) -> Result<bool> {
        npz::batches(file, forms, take)
    }
}

/// Rows that are handed over at a time.
const BATCH_ROWS: usize = 256;

/// A batch of one column.
fn batch_of(name: &str, column: ArrayRef) -> Result<RecordBatch> {
    RecordBatch::try_from_iter([(name, column)])
        .map_err(|error| Error::internal(format!("rows of a matrix as a batch: {error}")))
}

impl OutputSpec for MatrixOutput {
    fn create(&self, begin: WriterParts) -> Result<Box<dyn VectorWriter>> {
        let is_npy = *self == Self::Npy;
        let writer = write::MatrixWriter::new(begin, is_npy)?;
        Ok(Box::new(writer))
    }

    fn read_vectors(
        &self,
        file: &Readable,
        _: &RecordedColumns,
        take: &mut TakeVector<'_>,
    ) -> Result<()> {
        vectors::read(file, *self, take)
    }

    fn choose_rows(&self, file: &Readable, forms: &Forms) -> Result<Option<Box<dyn ChosenRows>>> {
        rows::choose(file, *self, forms)
    }

    fn matrix(&self, file: &Readable) -> Result<Option<MatrixRows>> {
        rows::open(file, *self)
    }

    fn read_columns(
        &self,
        file: &Readable,
        forms: &Forms,
        take: &mut TakeBatch<'_>,
    ) -> Result<bool> {
        tokens::batches(file, *self, forms, take)
    }

    /// The header, or the values behind it.
    fn hashed(&self, file: &Readable, name: &str) -> Result<Box<dyn Read>> {
        let mut bytes = in_order(file)?;
        if !["header", "values"].contains(&name) {
            return Ok(Box::new(bytes));
        }
        let (rows, width, dtype) = vectors::shape(file, &mut bytes, *self)?;
        if name == "values" {
            return Ok(Box::new(bytes));
        }
        let values = (dtype.bytes() as u64).checked_mul(width);
        let values = values.and_then(|row| row.checked_mul(rows));
        let header = values.and_then(|values| file.bytes.len().checked_sub(values));
        Ok(Box::new(in_order(file)?.take(header.unwrap_or(0))))
    }
}

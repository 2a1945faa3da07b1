//! Values of records that a format has no form for: their records are rejected before anything is written.

use std::sync::Arc;

use super::format::OutputFormat;
use arrow::array::{Array, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::nullif;
use embedctl_common::error::{Cause, Error, Result};

/// A value that a format has no form for.
#[derive(Debug, Clone)]
pub struct RefusedValue {
    /// Its row.
    pub row: usize,
    /// The number of its column.
    pub column: usize,
    /// The reason, and the remedy.
    pub cause: Cause,
}

impl OutputFormat {
    /// Whether the format has no form for some values of the types that it holds ([`OutputFormat::refused`]).
    #[must_use]
    pub fn refuses_values(self) -> bool {
        self.spec().refuses_values()
    }

    /// The values of columns of records that the format has no form for, although it has one for their types.
    ///
    /// # Errors
    /// If it has none for the type of a column.
    pub fn refused(self, columns: &RecordBatch) -> Result<Vec<RefusedValue>> {
        self.spec().refused(columns)
    }
}

/// The columns with null in the place of these values.
///
/// # Errors
/// Only on an internal error.
pub fn without_refused(columns: &RecordBatch, refused: &[RefusedValue]) -> Result<RecordBatch> {
    let failed = |error| Error::internal(format!("values that are left out: {error}"));
    let mut arrays = columns.columns().to_vec();
    for (number, array) in arrays.iter_mut().enumerate() {
        let mut of_column = refused
            .iter()
            .filter(|value| value.column == number)
            .peekable();
        if of_column.peek().is_none() {
            continue;
        }
        let mut mask = vec![false; array.len()];
        of_column.for_each(|value| mask[value.row] = true);
        *array = nullif(array, &BooleanArray::from(mask)).map_err(failed)?;
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(columns.num_rows()));
    let schema = Arc::clone(columns.schema_ref());
    RecordBatch::try_new_with_options(schema, arrays, &rows).map_err(failed)
}

//! Rows as record batches: `id`, the kept fields, and the vectors as lists.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};

use super::encoding::Encoding;
use crate::error::{Error, Result};
use crate::record::Rows;

/// Makes record batches of one schema.
#[derive(Debug)]
pub(super) struct Table {
    encoding: Encoding,
    /// Known with the first row.
    schema: Option<SchemaRef>,
}

impl Table {
    pub fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            schema: None,
        }
    }

    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// Begins anew, with rows of other columns.
    pub fn begin(&mut self, columns: &Schema) -> SchemaRef {
        self.schema = None;
        Arc::clone(self.schema(columns))
    }

    /// The schema; the first call decides the columns' types.
    pub fn schema(&mut self, columns: &Schema) -> &SchemaRef {
        self.schema.get_or_insert_with(|| {
            let columns = columns.fields().iter().cloned();
            let fields: Vec<_> = columns.chain(self.encoding.fields()).collect();
            Arc::new(Schema::new(fields))
        })
    }

    /// Some rows.
    ///
    /// # Errors
    /// If they are not of the first rows' types, or a vector cannot be written as it should.
    pub fn batch(&mut self, mut rows: Rows) -> Result<RecordBatch> {
        self.encoding.check_shape(&rows)?;
        let mut arrays = rows.columns.columns().to_vec();
        arrays.extend(self.encoding.arrays(&mut rows)?);
        let schema = self.schema(rows.columns.schema_ref()).clone();
        RecordBatch::try_new(schema, arrays)
            .map_err(|error| Error::internal(format!("rows as a record batch: {error}")))
    }
}

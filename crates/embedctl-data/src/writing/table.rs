//! Rows as record batches: `id`, the kept fields, and the vectors as lists.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::encoding::VectorEncoding;
use super::made::KEY;
use crate::record::Rows;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use embedctl_common::error::{Error, Result};

/// Makes record batches of one schema.
#[derive(Debug)]
pub(crate) struct BatchBuilder {
    encoding: VectorEncoding,
    /// Known with the first row.
    schema: Option<SchemaRef>,
    /// The provenance in the schema, if there is one.
    made: Option<String>,
}

impl BatchBuilder {
    pub fn new(encoding: VectorEncoding) -> Self {
        Self {
            encoding,
            schema: None,
            made: None,
        }
    }

    /// Puts the provenance into the schema.
    pub fn about(&mut self, made: &dyn Fn() -> Result<Value>) -> Result<()> {
        let mut made = made()?;
        if let Some(object) = made.as_object_mut() {
            self.encoding.describe(object);
        }
        self.made = Some(made.to_string());
        Ok(())
    }

    pub fn encoding(&self) -> &VectorEncoding {
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
            let made = self.made.iter();
            let metadata = made.map(|made| (KEY.to_owned(), made.clone()));
            let metadata: HashMap<String, String> = metadata.collect();
            Arc::new(Schema::new_with_metadata(fields, metadata))
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

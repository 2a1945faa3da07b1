//! Parquet: `id`, the kept fields, and the vectors as a list of fixed size.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::arrow_writer::ArrowWriterOptions;
use ::parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter, encode_arrow_schema};
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::schema::types::ColumnPath;
use arrow::array::{ArrayRef, FixedSizeListArray, Float32Array, RecordBatch};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::fault::{io_cause, write_error};
use super::target::Target;
use super::{EMBEDDING, Finish, VectorWriter, check_shape};
use crate::error::{Error, Result};
use crate::record::Rows;

/// Key of the file's metadata that holds the run's provenance.
const PROVENANCE: &str = "embedctl";

/// Bytes of a row group, which is held in memory until it is complete.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// Rows of a row group at most, for narrow vectors.
const ROW_GROUP_ROWS: usize = 1 << 17;

/// Compression level: vectors hardly compress (7 to 8 %), and higher levels gain nothing.
const ZSTD_LEVEL: i32 = 1;

pub(super) struct ParquetWriter {
    target: Option<Target>,
    /// Made with the first row, when the columns' types are known.
    writer: Option<ArrowWriter<Target>>,
    shown: PathBuf,
    dimensions: usize,
    /// Width of a vector, as Arrow counts.
    width: i32,
    schema: SchemaRef,
    row_group_bytes: usize,
}

impl ParquetWriter {
    /// Begins a file; `dimensions` is the width of a vector.
    pub fn new(target: Target, dimensions: usize) -> Result<Self> {
        let width = i32::try_from(dimensions)
            .map_err(|_| Error::internal(format!("vectors of {dimensions} dimensions")))?;
        Ok(Self {
            shown: target.shown().to_path_buf(),
            target: Some(target),
            writer: None,
            dimensions,
            width,
            schema: Arc::new(Schema::empty()),
            row_group_bytes: ROW_GROUP_BYTES,
        })
    }

    /// The writer; the first call decides the columns' types.
    fn open(&mut self, columns: &Schema) -> Result<&mut ArrowWriter<Target>> {
        if let Some(target) = self.target.take() {
            let mut fields = columns.fields().to_vec();
            let list = DataType::FixedSizeList(item(), self.width);
            fields.push(Arc::new(Field::new(EMBEDDING, list, false)));
            self.schema = Arc::new(Schema::new(fields));
            let properties = properties(&self.schema, self.dimensions, self.row_group_bytes);
            // The Arrow schema is written at the end, when the provenance is known that belongs into it.
            let options = ArrowWriterOptions::new()
                .with_properties(properties)
                .with_skip_arrow_metadata(true);
            let writer = ArrowWriter::try_new_with_options(target, self.schema.clone(), options)
                .map_err(|error| failure(&self.shown, &error))?;
            self.writer = Some(writer);
        }
        self.writer
            .as_mut()
            .ok_or_else(|| Error::internal("the Parquet file could not be begun"))
    }
}

impl VectorWriter for ParquetWriter {
    fn write(&mut self, rows: Rows) -> Result<()> {
        check_shape(&rows, self.dimensions)?;
        if rows.is_empty() {
            return Ok(());
        }
        self.open(rows.columns.schema_ref())?;
        let values = Float32Array::new(ScalarBuffer::from(rows.vectors), None);
        let list = FixedSizeListArray::try_new(item(), self.width, Arc::new(values), None);
        let batch = list.and_then(|list| {
            let mut arrays: Vec<ArrayRef> = rows.columns.columns().to_vec();
            arrays.push(Arc::new(list));
            RecordBatch::try_new(self.schema.clone(), arrays)
        });
        let batch = batch.map_err(|error| Error::internal(format!("rows for Parquet: {error}")))?;
        let shown = self.shown.clone();
        let writer = self.open(&Schema::empty())?;
        writer
            .write(&batch)
            .map_err(|error| failure(&shown, &error))
    }

    fn finish(mut self: Box<Self>, finish: Finish<'_>) -> Result<()> {
        let shown = self.shown.clone();
        let provenance = finish.provenance(&[]).to_string();
        self.open(&finish.schema)?;
        // Twice: readers of Parquet look among the file's metadata, and those that find an Arrow schema there
        // (pyarrow's and pandas' read functions) show the metadata of that one alone.
        let schema = Schema::clone(&self.schema)
            .with_metadata(HashMap::from([(PROVENANCE.to_owned(), provenance.clone())]));
        let writer = self.open(&finish.schema)?;
        writer.append_key_value_metadata(KeyValue::new(PROVENANCE.to_owned(), provenance));
        writer.append_key_value_metadata(KeyValue::new(
            ARROW_SCHEMA_META_KEY.to_owned(),
            encode_arrow_schema(&schema),
        ));
        writer.finish().map_err(|error| failure(&shown, &error))?;
        writer.inner_mut().publish(finish.rejects)
    }
}

impl Drop for ParquetWriter {
    fn drop(&mut self) {
        // The encoder's buffer writes its rest when it is dropped; nobody wants it.
        if let Some(writer) = &mut self.writer {
            writer.inner_mut().abandon();
        }
    }
}

/// A value of a vector.
fn item() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Float32, false))
}

fn properties(schema: &Schema, dimensions: usize, row_group_bytes: usize) -> WriterProperties {
    let rows = row_group_bytes / (dimensions * size_of::<f32>()).max(1);
    let level = ZstdLevel::try_new(ZSTD_LEVEL).expect("zstd has that level");
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("embedctl ", env!("CARGO_PKG_VERSION")).to_string())
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(rows.clamp(1, ROW_GROUP_ROWS)))
        .set_max_row_group_bytes(Some(row_group_bytes));
    // Neither vectors nor ids repeat, and nobody asks for the smallest component. Plain values: splitting
    // their bytes would save another 9 %, write 10 % slower, and shut out older readers.
    let vectors = ColumnPath::new(vec![EMBEDDING.into(), "list".into(), item().name().clone()]);
    properties = properties
        .set_column_dictionary_enabled(vectors.clone(), false)
        .set_column_statistics_enabled(vectors, EnabledStatistics::None);
    if let Some(id) = schema.fields().first() {
        let id = ColumnPath::new(vec![id.name().clone()]);
        properties = properties.set_column_dictionary_enabled(id, false);
    }
    properties.build()
}

/// What the encoder reports is the system's refusal, or a bug.
fn failure(shown: &Path, error: &ParquetError) -> Error {
    match io_cause(error) {
        Some(cause) => write_error(shown, cause),
        None => Error::internal(format!("encoding Parquet: {error}")),
    }
}

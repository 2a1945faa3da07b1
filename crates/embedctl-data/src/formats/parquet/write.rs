//! Parquet: `id`, the kept fields, and the vectors as a list of fixed size.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use ::parquet::arrow::arrow_writer::ArrowWriterOptions;
use ::parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter, encode_arrow_schema};
use ::parquet::file::metadata::KeyValue;

use super::properties::{check_types, properties};
use crate::formats::output::WriterParts;
use crate::writing::encoding::BatchBuilder;
use crate::writing::fault::encoding_error;
use crate::writing::made::KEY;
use crate::writing::proof::{self, SelfHashed};
use crate::writing::target::Target;
use crate::writing::writer::{Finish, VectorWriter};
use arrow::datatypes::Schema;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{KEEP, OUTPUT_FORMAT};
use embedctl_common::stage::Clock;
use embedctl_records::record::Rows;
use embedctl_records::retype;

/// Bytes of a row group, which is held in memory until it is complete.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// Numbers of vectors that are encoded at a time: for each the encoder makes a place of eight bytes and a level, which for a
/// whole window are more memory than a cache holds, and new memory each time.
const ENCODED_NUMBERS: usize = 1 << 18;

type FileWriter = ArrowWriter<SelfHashed<Target>>;

pub(super) struct ParquetWriter {
    target: Option<Target>,
    /// Made with the first row, when the columns' types are known.
    writer: Option<FileWriter>,
    shown: PathBuf,
    table: BatchBuilder,
    row_group_bytes: usize,
    clock: Arc<Clock>,
}

impl ParquetWriter {
    /// Begins a file.
    pub fn new(begin: WriterParts) -> Self {
        Self {
            shown: begin.target.shown().to_path_buf(),
            target: Some(begin.target),
            writer: None,
            table: BatchBuilder::new(begin.encoding),
            row_group_bytes: ROW_GROUP_BYTES,
            clock: begin.clock,
        }
    }

    /// The writer; the first call decides the columns' types.
    fn open(&mut self, columns: &Schema) -> Result<&mut FileWriter> {
        if let Some(target) = self.target.take() {
            let schema = retype::schema(self.table.schema(columns), retype::parquet_times);
            check_types(&schema)?;
            let (encoding, bytes) = (self.table.encoding(), self.row_group_bytes);
            let properties = properties(&schema, encoding, bytes).build();
            let options = ArrowWriterOptions::new()
                .with_properties(properties)
                .with_skip_arrow_metadata(true);
            let proves = target.is_rewritable();
            let target = SelfHashed::new(target, proves, &self.clock);
            let writer = ArrowWriter::try_new_with_options(target, schema, options)
                .map_err(|error| encoding_error(&self.shown, "Parquet", &error))?;
            self.writer = Some(writer);
        }
        self.writer
            .as_mut()
            .ok_or_else(|| Error::internal("the Parquet file could not be begun"))
    }
}

impl VectorWriter for ParquetWriter {
    fn write(&mut self, rows: Rows) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let batch = self.table.batch(rows)?;
        let batch = retype::batch_for_parquet(&batch).map_err(|error| {
            Error::usage(format!("{KEEP}: Parquet: {error}"))
                .with_remedy(format!("choose {OUTPUT_FORMAT} arrow"))
        })?;
        let shown = self.shown.clone();
        let numbers = self.table.encoding().row_bytes() / size_of::<f32>();
        let at_once = (ENCODED_NUMBERS / numbers.max(1)).max(1);
        let writer = self.open(&Schema::empty())?;
        for start in (0..batch.num_rows()).step_by(at_once) {
            let rows = batch.slice(start, at_once.min(batch.num_rows() - start));
            writer
                .write(&rows)
                .map_err(|error| encoding_error(&shown, "Parquet", &error))?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, finish: Finish<'_>) -> Result<()> {
        let shown = self.shown.clone();
        let provenance = finish.provenance(self.table.encoding(), &[]);
        let schema = self.table.schema(&finish.schema);
        let schema = Schema::clone(&retype::schema(schema, retype::parquet_times));
        // Twice: readers of Parquet look among the file's metadata, and those that find an Arrow schema there
        // (pyarrow's and pandas' read functions) show the metadata of that one alone.
        // The hash of the file stands among the file's metadata alone.
        let metadata = HashMap::from([(KEY.to_owned(), provenance.to_string())]);
        let schema = schema.with_metadata(metadata);
        let writer = self.open(&finish.schema)?;
        // The last rows, so that the footer alone is remembered for the hash.
        writer
            .flush()
            .map_err(|error| encoding_error(&shown, "Parquet", &error))?;
        writer.inner_mut().begin_footer();
        let provenance = match writer.inner_mut().proves() {
            true => proof::with_place(&provenance),
            false => provenance,
        };
        let schema = encode_arrow_schema(&schema);
        for (key, value) in [
            (KEY, provenance.to_string()),
            (ARROW_SCHEMA_META_KEY, schema),
        ] {
            writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        writer
            .finish()
            .map_err(|error| encoding_error(&shown, "Parquet", &error))?;
        let digits = writer.inner_mut().digits()?;
        let target = writer.inner_mut().get_mut();
        if let Some((at, digits)) = digits {
            target.overwrite(at, digits.as_bytes())?;
        }
        target.publish(finish.into_rejects())
    }
}

impl Drop for ParquetWriter {
    fn drop(&mut self) {
        // The encoder's buffer writes its rest when it is dropped, and the output is given up.
        if let Some(writer) = &mut self.writer {
            writer.inner_mut().get_mut().abandon();
        }
    }
}

//! Rows as row groups of a Parquet file, whose pages of vectors other threads may compress.
//!
//! [`::parquet::arrow::ArrowWriter`] keeps its columns to itself, so this does what it does with them: rows go to the same
//! row groups, and the file has the same bytes (`tests` compare them).

use std::io::{self, Write};
use std::sync::Arc;

use ::parquet::arrow::ArrowSchemaConverter;
use ::parquet::arrow::arrow_writer::{
    ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use ::parquet::errors::Result;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;

use super::page_threads::{CompressedColumn, PageStores, PageThreads};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;

/// How the pages of some columns are compressed by other threads.
pub(super) struct BackgroundPages {
    pub(super) threads: PageThreads,
    /// The file's properties, but for these columns uncompressed.
    pub(super) properties: WriterProperties,
}

/// Writes a Parquet file.
pub(super) struct RowGroupWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    factory: ArrowRowGroupWriterFactory,
    stores: Option<Arc<PageStores>>,
    schema: SchemaRef,
    /// Rows and bytes of a row group at most.
    most: (usize, usize),
    /// Values that the encoder takes at once.
    at_once: usize,
    group: Option<RowGroup>,
}

/// The row group in hand.
struct RowGroup {
    columns: Vec<ArrowColumnWriter>,
    /// Of each column, where other threads compress its pages.
    pages: Vec<Option<Arc<CompressedColumn>>>,
    rows: usize,
}

impl RowGroup {
    /// Bytes of its rows once they are encoded, about; waits for pages that are being compressed.
    fn bytes(&self) -> Result<usize> {
        let columns = self.columns.iter();
        let encoded: usize = columns
            .map(ArrowColumnWriter::get_estimated_total_bytes)
            .sum();
        let (mut before, mut after) = (0, 0);
        for pages in self.pages.iter().flatten() {
            let bytes = pages.bytes()?;
            before += bytes.0;
            after += bytes.1;
        }
        Ok(encoded + after - before)
    }
}

impl<W: Write + Send> RowGroupWriter<W> {
    /// Begins a file of rows of this schema.
    pub(super) fn new(
        sink: W,
        schema: SchemaRef,
        properties: WriterProperties,
        beside: Option<BackgroundPages>,
    ) -> Result<Self> {
        let most = (
            properties.max_row_group_row_count().unwrap_or(usize::MAX),
            properties.max_row_group_bytes().unwrap_or(usize::MAX),
        );
        let at_once = properties.write_batch_size();
        let converter = ArrowSchemaConverter::new().with_coerce_types(properties.coerce_types());
        let described = converter.convert(&schema)?.root_schema_ptr();
        let file = SerializedFileWriter::new(sink, Arc::clone(&described), Arc::new(properties))?;
        let (factory, stores) = match beside {
            None => (
                ArrowRowGroupWriterFactory::new(&file, Arc::clone(&schema)),
                None,
            ),
            Some(beside) => {
                // Columns have the properties of a file, so one that goes nowhere has those of encoders.
                let properties = Arc::new(beside.properties);
                let nowhere =
                    SerializedFileWriter::new(io::sink(), described, Arc::clone(&properties))?;
                let stores = Arc::new(PageStores::new(beside.threads, properties));
                let factory = ArrowRowGroupWriterFactory::new(&nowhere, Arc::clone(&schema));
                let factory = factory.with_page_store_factory(Arc::clone(&stores) as _);
                (factory, Some(stores))
            }
        };
        Ok(Self {
            file,
            factory,
            stores,
            schema,
            most,
            at_once,
            group: None,
        })
    }

    /// Appends rows.
    ///
    /// # Errors
    /// If the sink refuses, or the rows are of another schema.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut rest = batch.clone();
        while rest.num_rows() > 0 {
            let count = self.fitting(rest.num_rows())?;
            if count == 0 {
                self.end_group()?;
                continue;
            }
            let group = match &mut self.group {
                Some(group) => group,
                none => none.insert(RowGroup {
                    columns: (self.factory)
                        .create_column_writers(self.file.flushed_row_groups().len())?,
                    pages: self.stores.as_ref().map(|it| it.take()).unwrap_or_default(),
                    rows: 0,
                }),
            };
            let rows = rest.slice(0, count);
            let mut written = 0;
            for (field, column) in self.schema.fields().iter().zip(rows.columns()) {
                let mut leaves = 0;
                for part in parts_of(column, self.at_once) {
                    let of_part = compute_leaves(field, &part)?;
                    for (leaf, column) in of_part.iter().zip(&mut group.columns[written..]) {
                        column.write(leaf)?;
                    }
                    leaves = of_part.len();
                }
                written += leaves;
            }
            group.rows += count;
            rest = rest.slice(count, rest.num_rows() - count);
        }
        Ok(())
    }

    /// How many of so many rows the row group in hand can take; none if it is full.
    fn fitting(&self, rows: usize) -> Result<usize> {
        let (most_rows, most_bytes) = self.most;
        let Some(group) = &self.group else {
            return Ok(rows.min(most_rows));
        };
        let rows = rows.min(most_rows.saturating_sub(group.rows));
        if rows == 0 {
            return Ok(0);
        }
        let bytes = group.bytes()?;
        // By the bytes of its rows so far.
        let left = most_bytes.saturating_sub(bytes);
        Ok(match bytes / group.rows {
            _ if left == 0 => 0,
            0 => rows,
            row => rows.min(left / row),
        })
    }

    /// Hands the row group in hand to the sink.
    ///
    /// # Errors
    /// If the sink refuses.
    pub(super) fn end_group(&mut self) -> Result<()> {
        let Some(group) = self.group.take() else {
            return Ok(());
        };
        let closed = group.columns.into_iter().map(ArrowColumnWriter::close);
        let mut chunks = closed.collect::<Result<Vec<_>>>()?;
        let pages = chunks.iter_mut().zip(&group.pages);
        for (chunk, pages) in pages.filter_map(|(chunk, pages)| Some((chunk, pages.as_ref()?))) {
            pages.describe(chunk.close_mut())?;
        }
        let mut row_group = self.file.next_row_group()?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut row_group)?;
        }
        row_group.close()?;
        Ok(())
    }

    /// Hands all rows to the sink, and flushes it.
    ///
    /// # Errors
    /// If the sink refuses.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.end_group()?;
        Ok(self.file.flush()?)
    }

    /// The sink.
    pub(super) fn sink(&mut self) -> &mut W {
        self.file.inner_mut()
    }

    /// Adds to the file's metadata.
    pub(super) fn add_metadata(&mut self, key: &str, value: String) {
        let entry = KeyValue::new(key.to_owned(), value);
        self.file.append_key_value_metadata(entry);
    }

    /// Writes the footer.
    ///
    /// # Errors
    /// If the sink refuses.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.end_group()?;
        self.file.finish().map(|_| ())
    }
}

/// Numbers of a column of vectors that are encoded at a time.
const PART: usize = 1 << 18;

/// A column of vectors in parts: for each number the encoder makes a place of eight bytes and a level, which for a whole
/// window are more memory than a cache holds, and new memory each time. Pages end where the encoder has taken
/// `at_once` values and the rest of their row, and parts end there, too, so that pages are those of the whole column.
fn parts_of(column: &ArrayRef, at_once: usize) -> Vec<ArrayRef> {
    let lists = column.as_fixed_size_list_opt();
    let lists = lists.filter(|lists| lists.null_count() == 0 && lists.value_length() > 0);
    let Some(lists) = lists else {
        return vec![Arc::clone(column)];
    };
    let width = usize::try_from(lists.value_length()).unwrap_or(1);
    let together = at_once.div_ceil(width);
    let rows = (PART / width / together).max(1) * together;
    let starts = (0..column.len()).step_by(rows);
    let part = |start| column.slice(start, rows.min(column.len() - start));
    starts.map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::super::write::{properties, with_pages_beside};
    use super::*;
    use crate::output::{Dtype, Forms, OutputOptions};
    use crate::writing::encoding::VectorEncoding;
    use ::parquet::arrow::ArrowWriter;
    use ::parquet::arrow::arrow_writer::ArrowWriterOptions;
    use ::parquet::schema::types::ColumnPath;
    use arrow::array::StringArray;
    use arrow::datatypes::Schema;

    /// Rows with an id, a text of some length and the vectors that `options` ask for; values repeat here and there, so
    /// that pages shrink by different shares.
    fn batch(encoding: &VectorEncoding, first: usize, rows: usize, text: usize) -> RecordBatch {
        let text_of = |row: usize| "some words ".repeat(text * (row % 7) / 7) + &row.to_string();
        let ids: StringArray = (first..first + rows)
            .map(|it| Some(it.to_string()))
            .collect();
        let texts: StringArray = (first..first + rows).map(|it| Some(text_of(it))).collect();
        let width = encoding.columns()[0].dimensions;
        let value = |at: usize| match (at / 5000) % 3 {
            0 => 0.25,
            _ => (at.wrapping_mul(2_654_435_761) >> 7 & 0xffff) as f32 / 65_536.0,
        };
        let values = (first * width..(first + rows) * width).map(value);
        let mut rows = crate::output::tests::support::id_rows(first, rows, width);
        rows.vectors = crate::record::RowVectors::Dense {
            width,
            values: values.collect(),
        };
        let vectors = encoding.arrays(&mut rows).unwrap();
        let fields = ["id", "text"].map(|name| (name, true));
        let kept: [ArrayRef; 2] = [Arc::new(ids), Arc::new(texts)];
        let fields = fields.map(|(name, nullable)| {
            Arc::new(arrow::datatypes::Field::new(
                name,
                arrow::datatypes::DataType::Utf8,
                nullable,
            ))
        });
        let schema = Schema::new(
            fields
                .into_iter()
                .chain(encoding.fields())
                .collect::<Vec<_>>(),
        );
        let arrays = kept.into_iter().chain(vectors).collect();
        RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
    }

    /// The file that the parquet crate's own writer makes, and the one that this makes with so many threads.
    fn both(
        encoding: &VectorEncoding,
        bytes: usize,
        batches: &[RecordBatch],
        threads: usize,
    ) -> [Vec<u8>; 2] {
        let schema = batches[0].schema();
        let usual = properties(&schema, encoding, bytes).build();
        let mut own = Vec::new();
        let options = ArrowWriterOptions::new()
            .with_properties(usual.clone())
            .with_skip_arrow_metadata(true);
        let mut writer =
            ArrowWriter::try_new_with_options(&mut own, Arc::clone(&schema), options).unwrap();
        batches
            .iter()
            .for_each(|batch| writer.write(batch).unwrap());
        writer.close().unwrap();
        let mut made = Vec::new();
        let beside = PageThreads::start(threads, &Arc::default());
        assert_eq!(beside.is_some(), threads > 0);
        let is_wide = schema.fields().len() > 1000;
        let beside = beside.or_else(|| is_wide.then(PageThreads::none));
        let beside = beside.map(|it| with_pages_beside(&schema, encoding, bytes, it));
        let mut writer = RowGroupWriter::new(&mut made, schema, usual, beside).unwrap();
        batches
            .iter()
            .for_each(|batch| writer.write(batch).unwrap());
        writer.flush().unwrap();
        writer.finish().unwrap();
        drop(writer);
        [own, made]
    }

    #[test]
    fn files_have_the_bytes_of_the_parquet_crates_own_writer() {
        for (width, dtype) in [
            (384, Dtype::F32),
            (1024, Dtype::F32),
            (37, Dtype::F32),
            (384, Dtype::F16),
            (384, Dtype::Binary),
        ] {
            let options = OutputOptions {
                dtype: Some(dtype),
                format: Some(crate::output::OutputFormat::Parquet),
                ..OutputOptions::default()
            };
            let encoding = VectorEncoding::new(&options.into(), &Forms::dense(&[width])).unwrap();
            // Row groups that end by rows, by bytes (long texts), and in the middle of batches.
            for (text, bytes) in [(0, 1 << 20), (0, 3 << 20), (200, 1 << 20), (200, 3 << 20)] {
                let sizes = [1, 700, 1200, 3, 600];
                let mut first = 0;
                let batches = sizes.map(|rows| {
                    first += rows;
                    batch(&encoding, first - rows, rows, text)
                });
                for threads in [0, 1, 3] {
                    let [own, made] = both(&encoding, bytes, &batches, threads);
                    assert!(
                        own == made,
                        "{width} {dtype} {text} {bytes} {threads} threads"
                    );
                }
            }
        }
    }

    /// Each dictionary takes room from its first value on.
    #[test]
    fn tables_of_many_columns_have_no_dictionaries() {
        let encoding =
            VectorEncoding::new(&OutputOptions::default().into(), &Forms::dense(&[4])).unwrap();
        for (columns, has_dictionaries) in [(10, true), (2_000, false)] {
            let field = |number: usize| {
                let kind = arrow::datatypes::DataType::Utf8;
                arrow::datatypes::Field::new(format!("field {number}"), kind, true)
            };
            let schema = Schema::new((0..columns).map(field).collect::<Vec<_>>());
            let properties = properties(&schema, &encoding, 1 << 20).build();
            let column = ColumnPath::new(vec!["field 5".to_owned()]);
            assert_eq!(
                properties.dictionary_enabled(&column),
                has_dictionaries,
                "{columns}"
            );
        }
    }

    /// The pages of all its columns are compressed beside the encoders.
    #[test]
    fn a_table_of_many_columns_has_the_same_bytes() {
        for dtype in [Dtype::F32, Dtype::Ubinary] {
            let options = OutputOptions {
                dtype: Some(dtype),
                format: Some(crate::output::OutputFormat::Parquet),
                ..OutputOptions::default()
            };
            let encoding = VectorEncoding::new(&options.into(), &Forms::dense(&[16])).unwrap();
            let wide = |first, rows| {
                let batch = batch(&encoding, first, rows, 2);
                let (fields, texts) = (batch.schema().fields().clone(), batch.column(1));
                let more = (0..1_200).map(|number| {
                    let field = fields[1].as_ref().clone();
                    Arc::new(field.with_name(format!("field {number}")))
                });
                let fields: Vec<_> = fields.iter().cloned().chain(more).collect();
                let columns = batch.columns().iter().cloned();
                let columns = columns.chain(std::iter::repeat_n(Arc::clone(texts), 1_200));
                RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.collect()).unwrap()
            };
            for threads in [0, 1] {
                let [own, made] = both(&encoding, 1 << 20, &[wide(0, 3), wide(3, 40)], threads);
                assert!(own == made, "{dtype} {threads} threads");
            }
        }
    }

    #[test]
    fn a_file_without_rows_has_the_same_bytes() {
        let encoding =
            VectorEncoding::new(&OutputOptions::default().into(), &Forms::dense(&[4])).unwrap();
        let empty = [batch(&encoding, 0, 0, 0)];
        let [own, made] = both(&encoding, 1 << 20, &empty, 2);
        assert!(own == made);
    }
}

//! Assembles rows of the output from records and vectors.
//!
//! A record is one row, or one row for each of its chunks, with its columns repeated; with rejected rows as
//! nulls it has a row in any case.

use std::sync::Arc;

use super::labels::LabelColumns;
use crate::error::{Error, Result};
use crate::record::{Origin, RowParts, RowRef, RowVectors, Rows, SourceNames, Texts};
use crate::setting::KEEP;
use crate::tokenize::chunks::{Span, headings_above};
use arrow::array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, StringBuilder, UInt32Array,
    new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use embedctl_records::options::HEADING;

/// Bytes of rows that are put together at a time, about: the columns of a record are repeated for each of its
/// chunks.
const SLICE_BYTES: usize = 16 << 20;

/// Columns of rows besides those of their records and their vectors.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExtraColumns {
    /// Whether records are cut into chunks.
    pub(crate) chunks: bool,
    /// Whether each chunk's text is a column.
    pub(crate) chunk_text: bool,
    /// Whether each chunk has a key of its own in a column.
    pub(crate) chunk_id: bool,
    /// Whether the headings above each chunk are a column.
    pub(crate) heading: bool,
    /// Whether each row has a UUID.
    pub(crate) uuid: bool,
    /// Whether the column of ids is left out.
    pub(crate) no_ids: bool,
    /// Whether rejected rows stay, with their errors.
    pub(crate) errors: bool,
    /// The labels of a row's scores, where it has several.
    pub(crate) labels: Option<LabelColumns>,
}

impl ExtraColumns {
    fn fields(&self) -> Vec<FieldRef> {
        let number = |name| Arc::new(Field::new(name, DataType::Int64, self.errors));
        let text = |name, nullable| Arc::new(Field::new(name, DataType::Utf8, nullable));
        let mut fields = Vec::new();
        if self.chunks {
            fields.extend(["chunk", "chunk_start", "chunk_end"].map(number));
        }
        if self.heading {
            fields.push(text(HEADING, true));
        }
        if self.chunk_text {
            fields.push(text("chunk_text", self.errors));
        }
        if self.chunk_id {
            fields.push(text("chunk_id", self.errors));
        }
        if self.uuid {
            fields.push(text("uuid", false));
        }
        if let Some(labels) = &self.labels {
            fields.extend(labels.fields());
        }
        if self.errors {
            fields.push(text("embedding_error", true));
        }
        fields
    }

    /// The schema of rows whose records have columns of that one.
    ///
    /// # Errors
    /// If one of them has the name of a column that is added.
    pub(crate) fn schema(&self, records: &Schema) -> Result<SchemaRef> {
        let added = self.fields();
        let own = usize::from(self.no_ids);
        let records = records.fields().iter().skip(own);
        if let Some(field) = added
            .iter()
            .find(|field| records.clone().any(|own| own.name() == field.name()))
        {
            let name = field.name();
            let reason =
                format!("the output has a column `{name}` of its own, and the input has one, too");
            return Err(
                Error::usage(reason).with_remedy(format!("rename it, or leave it out ({KEEP})"))
            );
        }
        let fields: Vec<FieldRef> = records.cloned().chain(added).collect();
        Ok(Arc::new(Schema::new(fields)))
    }
}

/// A row to be written.
pub(crate) struct OutputRow {
    /// The row of its columns among [`Assembly::columns`].
    pub(crate) columns: u32,
    pub(crate) origin: Origin,
    pub(crate) row: RowRef,
    /// Which of the window's texts it is; none for a record that was never one.
    pub(crate) text: Option<u32>,
    /// Why it has no vector.
    pub(crate) error: Option<String>,
}

/// All that a window's rows are made of.
pub(crate) struct Assembly<'a> {
    pub(crate) extra: ExtraColumns,
    /// Names of the sources.
    pub(crate) names: &'a SourceNames,
    /// Columns of records.
    pub(crate) columns: &'a RecordBatch,
    /// Of the texts.
    pub(crate) texts: &'a Texts,
    /// The texts of the records, if the texts are chunks.
    pub(crate) records: Option<&'a Texts>,
    /// Which parts of records the texts are, if they are chunks.
    pub(crate) spans: Option<&'a [Span]>,
    /// The texts' vectors.
    pub(crate) vectors: &'a [Option<RowParts<'a>>],
    /// No vectors, of their form.
    pub(crate) no_rows: RowVectors,
    pub(crate) dimensions: usize,
}

impl Assembly<'_> {
    /// How many rows to put together at a time.
    pub(crate) fn slice(&self) -> usize {
        if self.spans.is_none() {
            return usize::MAX;
        }
        let bytes = self.columns.get_array_memory_size() / self.columns.num_rows().max(1);
        (SLICE_BYTES / (bytes + self.dimensions * size_of::<f32>()).max(1)).max(1)
    }

    /// Some of the rows.
    pub(crate) fn rows(&self, planned: &[OutputRow]) -> Result<Rows> {
        let columns = self.columns(planned);
        let missing: NullBuffer = planned.iter().map(|row| row.error.is_none()).collect();
        let mut vectors = self.no_rows.same();
        vectors.reserve(planned.len());
        for row in planned {
            let vector = row.text.and_then(|text| self.vectors[text as usize]);
            match vector {
                Some(vector) => vectors.push(vector),
                None => vectors.push_nothing(),
            }
        }
        Ok(Rows {
            columns: columns
                .map_err(|error| Error::internal(format!("putting rows together: {error}")))?,
            origins: planned.iter().map(|row| row.origin).collect(),
            refs: planned.iter().map(|row| row.row).collect(),
            vectors,
            dimensions: self.dimensions,
            missing: Some(missing).filter(|missing| missing.null_count() > 0),
        })
    }

    fn columns(&self, planned: &[OutputRow]) -> Result<RecordBatch, ArrowError> {
        let in_place = planned.len() == self.columns.num_rows()
            && (planned.iter().zip(0..)).all(|(row, place)| row.columns == place);
        let records = if in_place {
            self.columns.clone()
        } else {
            let indices: UInt32Array = planned.iter().map(|row| row.columns).collect();
            take_record_batch(self.columns, &indices)?
        };
        let fields = self.extra.fields();
        if fields.is_empty() && !self.extra.no_ids {
            return Ok(records);
        }
        let own = usize::from(self.extra.no_ids);
        let mut arrays = records.columns()[own..].to_vec();
        if let Some(spans) = self.spans {
            let number = |of: fn(&Span) -> u64| -> ArrayRef {
                let numbers = planned.iter().map(|row| {
                    let span = &spans[row.text? as usize];
                    Some(i64::try_from(of(span)).expect("no text has 2^63 code points"))
                });
                Arc::new(numbers.collect::<Int64Array>())
            };
            arrays.push(number(|span| u64::from(span.part)));
            arrays.push(number(|span| span.start));
            arrays.push(number(|span| span.end));
        }
        if self.extra.heading {
            arrays.push(Arc::new(self.headings(planned)));
        }
        if self.extra.chunk_text {
            let texts = planned
                .iter()
                .map(|row| Some(self.texts.get(row.text? as usize)));
            arrays.push(Arc::new(texts.collect::<StringArray>()));
        }
        if self.extra.chunk_id || self.extra.uuid {
            arrays.extend(self.keys(&records, planned)?);
        }
        if let Some(labels) = &self.extra.labels {
            let scores = |row: &OutputRow| Some(self.vectors[row.text? as usize]?.first().values());
            arrays.extend(labels.arrays(planned.iter().map(scores)));
        }
        if self.extra.errors {
            let errors = planned.iter().map(|row| row.error.as_deref());
            arrays.push(Arc::new(errors.collect::<StringArray>()));
        }
        let own = records.schema_ref().fields().iter().skip(own).cloned();
        let schema = Schema::new(own.chain(fields).collect::<Vec<_>>());
        let rows = RecordBatchOptions::new().with_row_count(Some(planned.len()));
        RecordBatch::try_new_with_options(Arc::new(schema), arrays, &rows)
    }

    /// The headings above each row's chunk; null where there is none.
    fn headings(&self, planned: &[OutputRow]) -> StringArray {
        let place = |row: &OutputRow| Some(self.spans?[row.text? as usize]);
        let of_record = |row: &OutputRow| Some(place(row)?.text);
        let mut headings = StringBuilder::new();
        for rows in planned.chunk_by(|a, b| of_record(a) == of_record(b)) {
            let record = self.records.zip(rows.first().and_then(of_record));
            let text = record.map_or("", |(records, record)| records.get(record as usize));
            let starts = rows
                .iter()
                .map(|row| place(row).map_or(0, |span| span.start));
            // A text that is no Markdown has none.
            let found = headings_above(text, starts).unwrap_or_default();
            let words = |row: usize| found.get(row).filter(|words| !words.is_empty());
            (0..rows.len()).for_each(|row| headings.append_option(words(row)));
        }
        headings.finish()
    }
}

/// `columns` with `rows` more behind them that are null throughout.
pub(super) fn with_nulls(columns: &RecordBatch, rows: usize) -> Result<RecordBatch> {
    let schema = columns.schema();
    let nulls = schema
        .fields()
        .iter()
        .map(|field| new_null_array(field.data_type(), rows));
    let nulls = RecordBatch::try_new(schema.clone(), nulls.collect())
        .map_err(|error| Error::internal(format!("null rows: {error}")))?;
    followed_by(columns, &nulls)
}

/// `columns` with more rows behind them.
pub(super) fn followed_by(columns: &RecordBatch, more: &RecordBatch) -> Result<RecordBatch> {
    concat_batches(&columns.schema(), [columns, more])
        .map_err(|error| Error::internal(format!("rows of rejected records: {error}")))
}

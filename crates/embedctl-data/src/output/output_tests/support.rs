//! Rows and outputs for the tests of `output`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::output::{
    Destination, Finish, Forms, OutputFormat, OutputOptions, RunFiles, VectorWriter, create,
};
use crate::writing::rejects::RejectsWriter;
use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use embedctl_common::error::Result;
use embedctl_records::record::{JSON_COLUMN, Origin, RowRef, RowVectors, Rows, SourceNames};
use embedctl_vectors::Numbers;

/// `id` and a column of every type that a field can be kept as; the second row is all null.
pub(crate) fn kept_batch() -> RecordBatch {
    let json = Field::new("json", DataType::Utf8, true)
        .with_metadata([(JSON_COLUMN.0.to_string(), JSON_COLUMN.1.to_string())]);
    let fields = vec![
        Field::new("id", DataType::Utf8, true),
        Field::new("a.b", DataType::Utf8, true),
        Field::new("int", DataType::Int64, true),
        Field::new("float", DataType::Float64, true),
        Field::new("bool", DataType::Boolean, true),
        json,
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![Some("ä\"1\""), None, Some("")])),
        Arc::new(StringArray::from(vec![Some("zwei\nlines"), None, Some("")])),
        Arc::new(Int64Array::from(vec![
            Some(-9_007_199_254_740_993),
            None,
            Some(0),
        ])),
        Arc::new(Float64Array::from(vec![Some(0.1), None, Some(f64::NAN)])),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(StringArray::from(vec![
            Some(r#"{"x": [1, null]}"#),
            None,
            Some(r#""日本\n""#),
        ])),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Schema of nothing but string ids.
pub(crate) fn id_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Utf8, true)]))
}

/// Ids `first…` with vectors whose components all differ.
pub(crate) fn id_rows(first: usize, count: usize, dimensions: usize) -> Rows {
    let ids = (first..first + count).map(|id| Some(id.to_string()));
    let ids: ArrayRef = Arc::new(ids.collect::<StringArray>());
    rows(
        RecordBatch::try_new(id_schema(), vec![ids]).unwrap(),
        first,
        dimensions,
    )
}

/// The same with the entries alone that are not zero.
pub(crate) fn sparse_rows(first: usize, count: usize, dimensions: usize) -> Rows {
    let rows = id_rows(first, count, dimensions);
    let mut entries = Numbers::of_entries();
    for row in first..first + count {
        let all = (0..).zip(vector(row, dimensions));
        entries.push_entries(all.filter(|(_, value)| *value != 0.0));
    }
    Rows {
        vectors: entries.into(),
        ..rows
    }
}

/// Rows of `columns`, as if `first` rows had come before.
pub(crate) fn rows(columns: RecordBatch, first: usize, dimensions: usize) -> Rows {
    let numbers = first..first + columns.num_rows();
    Rows {
        origins: numbers
            .clone()
            .map(|row| Origin {
                source: u32::try_from(row % 2).unwrap(),
                line: row as u64 + 1,
                offset: 0,
            })
            .collect(),
        refs: numbers
            .clone()
            .map(|row| RowRef {
                record: row as u64,
                part: 0,
            })
            .collect(),
        vectors: RowVectors::in_full(
            dimensions,
            numbers.flat_map(|row| vector(row, dimensions)).collect(),
        ),
        dimensions,
        columns,
        missing: None,
    }
}

/// The vector of row `row`.
pub(crate) fn vector(row: usize, dimensions: usize) -> Vec<f32> {
    (0..dimensions)
        .map(|column| ((row * dimensions + column) as f32).sin())
        .collect()
}

pub(crate) fn options(path: &Path) -> OutputOptions {
    OutputOptions::new(Destination::Path(path.to_path_buf()))
}

pub(crate) fn forced(path: &Path) -> OutputOptions {
    OutputOptions {
        force: true,
        ..options(path)
    }
}

pub(crate) fn names() -> SourceNames {
    ["one.jsonl".to_string(), "two.jsonl".to_string()].into()
}

/// A writer of ids and vectors of two dimensions.
pub(crate) fn writer(options: &OutputOptions) -> Result<Box<dyn VectorWriter>> {
    writer_of(options, &RunFiles::new())
}

/// The same, of a run.
pub(crate) fn writer_of(
    options: &OutputOptions,
    files: &RunFiles,
) -> Result<Box<dyn VectorWriter>> {
    create(
        &options.clone().into(),
        &Forms::dense(&[2]),
        names(),
        &id_schema(),
        files,
    )
}

pub(crate) fn provenance() -> Value {
    json!({"schema": 1, "model": {"id": "org/modèle"}})
}

/// As it is written, of vectors as they are by default.
pub(crate) fn written() -> Value {
    let mut provenance = provenance();
    provenance["dtype"] = "f32".into();
    provenance["vector_columns"] = json!(["embedding"]);
    provenance
}

/// Completes a writer.
pub(crate) fn finish(writer: Box<dyn VectorWriter>, schema: SchemaRef) -> Result<()> {
    writer.finish(Finish {
        schema,
        provenance: &provenance(),
        rejects: None,
    })
}

/// Completes a writer of ids with the run's rejects.
pub(crate) fn finish_with(
    writer: Box<dyn VectorWriter>,
    rejects: Option<RejectsWriter>,
) -> Result<()> {
    writer.finish(Finish {
        schema: id_schema(),
        provenance: &provenance(),
        rejects,
    })
}

/// Writes `count` rows of two dimensions.
pub(crate) fn write(options: &OutputOptions, count: usize) -> Result<()> {
    let mut writer = writer(options)?;
    writer.write(id_rows(0, count, 2))?;
    finish(writer, id_schema())
}

/// Everything in a folder, hidden files too.
pub(crate) fn listing(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// `options` with a format, for paths whose ending names none.
pub(crate) fn with_format(options: OutputOptions, format: OutputFormat) -> OutputOptions {
    OutputOptions {
        format: Some(format),
        ..options
    }
}

/// A message with all its causes, as the command line prints them.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}

/// A path in a folder.
pub(crate) fn at(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

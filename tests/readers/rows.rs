//! The rows that every reader gets: all types, missing values, characters beyond ASCII.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use embedctl::output::{self, Destination, Finish, Forms, OutputOptions, RunFiles};
use embedctl::record::{JSON_COLUMN, Origin, RowRef, RowVectors, Rows};
use serde_json::{Value, json};

/// Width of a vector.
pub const DIMENSIONS: usize = 384;
/// Rows of a Parquet file: two row groups.
pub const ROWS: usize = 50_000;
/// Rows of other files.
pub const FEW: usize = 3_000;

pub fn schema() -> SchemaRef {
    let json = Field::new("extra", DataType::Utf8, true)
        .with_metadata([(JSON_COLUMN.0.to_string(), JSON_COLUMN.1.to_string())]);
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("year", DataType::Int64, true),
        Field::new("score", DataType::Float64, true),
        Field::new("ok", DataType::Boolean, true),
        json,
    ]))
}

/// Every seventh id and every third kept field is missing.
pub fn id(row: usize) -> Option<String> {
    (row % 7 != 3).then(|| format!("№{row}"))
}

pub fn kept<T>(row: usize, value: T) -> Option<T> {
    (row % 3 != 1).then_some(value)
}

pub fn component(row: usize, column: usize) -> f32 {
    let hash = (row * DIMENSIONS + column).wrapping_mul(2_654_435_761) % 2_000_003;
    hash as f32 / 1_000_001.5 - 1.0
}

pub fn rows(first: usize, count: usize) -> Rows {
    let all = || first..first + count;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(all().map(id).collect::<StringArray>()),
        Arc::new(
            all()
                .map(|row| kept(row, format!("Zeile {row}\n«ü»")))
                .collect::<StringArray>(),
        ),
        Arc::new(
            all()
                .map(|row| kept(row, row as i64 - 7))
                .collect::<Int64Array>(),
        ),
        Arc::new(
            all()
                .map(|row| kept(row, row as f64 / 8.0))
                .collect::<Float64Array>(),
        ),
        Arc::new(
            all()
                .map(|row| kept(row, row % 2 == 0))
                .collect::<BooleanArray>(),
        ),
        Arc::new(
            all()
                .map(|row| kept(row, format!("{{\"n\": [{row}]}}")))
                .collect::<StringArray>(),
        ),
    ];
    Rows {
        columns: RecordBatch::try_new(schema(), columns).unwrap(),
        origins: all()
            .map(|row| Origin {
                source: 0,
                line: row as u64 + 1,
                offset: 0,
            })
            .collect(),
        refs: all()
            .map(|row| RowRef {
                record: row as u64,
                part: 0,
            })
            .collect(),
        vectors: RowVectors::in_full(
            DIMENSIONS,
            all()
                .flat_map(|row| (0..DIMENSIONS).map(move |column| component(row, column)))
                .collect(),
        ),
        dimensions: DIMENSIONS,
        missing: None,
    }
}

pub fn provenance() -> Value {
    json!({"schema": 1, "model": {"id": "org/modèle"}, "engine": {"engine": "fake"}})
}

/// As it is written.
pub fn written() -> Value {
    let mut provenance = provenance();
    provenance["dtype"] = "f32".into();
    provenance["vector_columns"] = ["embedding"].into();
    provenance
}

pub fn write(path: &Path, count: usize) {
    write_as(path, count, |_| {});
}

/// Writes `count` rows, with other options than the usual.
pub fn write_as(path: &Path, count: usize, change: impl FnOnce(&mut OutputOptions)) {
    let mut options = OutputOptions::new(Destination::Path(path.to_path_buf()));
    change(&mut options);
    let names = ["in.jsonl".to_string()].into();
    let mut writer = output::create(
        &options.clone().into(),
        &Forms::dense(&[DIMENSIONS]),
        names,
        &schema(),
        &RunFiles::new(),
    )
    .unwrap();
    for first in (0..count).step_by(4096) {
        writer
            .write(rows(first, (count - first).min(4096)))
            .unwrap();
    }
    let finish = Finish {
        schema: schema(),
        provenance: &provenance(),
        rejects: None,
    };
    writer.finish(finish).unwrap();
}

//! What is written is read by the tools that people read it with: `pyarrow`, `pandas`, `polars`,
//! `duckdb`, `numpy`.
//!
//! Each test writes rows with this library, has a few lines of Python read them and say as JSON what
//! they found, and compares that. Skipped by name where the Python packages are absent.

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use embedctl::output::{self, Destination, Finish, JSON_TYPE, OutputOptions, TYPE_KEY};
use embedctl::record::{Origin, RowRef, Rows};
use serde_json::{Value, json};

const DIMENSIONS: usize = 384;
/// Rows of a Parquet file: two row groups.
const ROWS: usize = 50_000;
/// Rows of other files.
const FEW: usize = 3_000;

fn schema() -> SchemaRef {
    let json = Field::new("extra", DataType::Utf8, true)
        .with_metadata([(TYPE_KEY.to_string(), JSON_TYPE.to_string())]);
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
fn id(row: usize) -> Option<String> {
    (row % 7 != 3).then(|| format!("№{row}"))
}

fn kept<T>(row: usize, value: T) -> Option<T> {
    (row % 3 != 1).then_some(value)
}

fn component(row: usize, column: usize) -> f32 {
    let hash = (row * DIMENSIONS + column).wrapping_mul(2_654_435_761) % 2_000_003;
    hash as f32 / 1_000_001.5 - 1.0
}

fn rows(first: usize, count: usize) -> Rows {
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
        vectors: all()
            .flat_map(|row| (0..DIMENSIONS).map(move |column| component(row, column)))
            .collect(),
        dimensions: DIMENSIONS,
    }
}

fn provenance() -> Value {
    json!({"schema": 1, "model": {"id": "org/modèle"}})
}

fn write(path: &Path, count: usize) {
    let options = OutputOptions {
        destination: Destination::Path(path.to_path_buf()),
        format: None,
        force: false,
    };
    let names = ["in.jsonl".to_string()].into();
    let mut writer = output::create(&options, DIMENSIONS, names, &schema()).unwrap();
    for first in (0..count).step_by(4096) {
        writer
            .write(rows(first, (count - first).min(4096)))
            .unwrap();
    }
    let finish = Finish {
        schema: schema(),
        provenance: &provenance(),
    };
    writer.finish(&finish).unwrap();
}

/// What a script says of a file of `count` rows, as JSON; `None` where the packages are absent.
///
/// The script finds the file in `path`, and hands its answer to `say`. `ends(ROWS)` picks the rows to compare
/// out of a list: the first 20 and the last 20.
fn read(test: &str, modules: &[&str], name: &str, count: usize, script: &str) -> Option<Value> {
    let python = support::python(test, modules)?;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    // Standard output may hold a progress bar.
    let answer = folder.path().join("answer");
    write(&path, count);
    let prelude = "import json, math, sys\npath = sys.argv[1]\n\
        say = lambda value: json.dump(value, open(sys.argv[2], 'w'), default=lambda x: x.tolist())\n\
        ends = lambda rows: list(rows[:20]) + list(rows[-20:])\n";
    let output = Command::new(python)
        .args(["-c", &format!("{prelude}{script}")])
        .args([&path, &answer])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{test}:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(serde_json::from_slice(&std::fs::read(answer).unwrap()).unwrap())
}

/// Compares the rows at both ends of a file of `count`; `parsed`: whether the reader parses JSON texts.
fn assert_rows(read: &Value, count: usize, parsed: bool) {
    let read = read.as_array().unwrap();
    let expected = (0..20).chain(count - 20..count);
    assert_eq!(read.len(), 40);
    for (row, read) in expected.zip(read) {
        assert_eq!(read["id"], json!(id(row)), "row {row}");
        assert_eq!(read["text"], json!(kept(row, format!("Zeile {row}\n«ü»"))));
        assert_eq!(read["year"].as_f64(), kept(row, row as f64 - 7.0));
        assert_eq!(read["score"].as_f64(), kept(row, row as f64 / 8.0));
        assert_eq!(read["ok"], json!(kept(row, row % 2 == 0)));
        let extra = if parsed {
            kept(row, json!({"n": [row]}))
        } else {
            kept(row, json!(format!("{{\"n\": [{row}]}}")))
        };
        assert_eq!(read["extra"], json!(extra));
        assert_vector(&read["embedding"], row);
    }
}

/// Compares a vector bit by bit.
fn assert_vector(read: &Value, row: usize) {
    let read: Vec<u32> = read
        .as_array()
        .unwrap()
        .iter()
        .map(|value| (value.as_f64().unwrap() as f32).to_bits())
        .collect();
    let expected: Vec<u32> = (0..DIMENSIONS)
        .map(|column| component(row, column).to_bits())
        .collect();
    assert_eq!(read, expected, "row {row}");
}

#[test]
fn pyarrow_reads_parquet() {
    let script = "
import pyarrow.parquet as pq
file = pq.ParquetFile(path)
table = file.read()
say({
    'types': {field.name: str(field.type) for field in table.schema},
    'nullable': table.schema.field('embedding').nullable,
    'metadata': json.loads(file.metadata.metadata[b'embedctl']),
    'extra': table.schema.field('extra').metadata[b'embedctl.type'].decode(),
    'created_by': file.metadata.created_by,
    'groups': [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)],
    'codec': file.metadata.row_group(0).column(6).compression,
    'encodings': file.metadata.row_group(0).column(6).encodings,
    'rows': ends(table.to_pylist()),
})";
    let Some(read) = read(
        "pyarrow_reads_parquet",
        &["pyarrow"],
        "o.parquet",
        ROWS,
        script,
    ) else {
        return;
    };
    assert_eq!(
        read["types"],
        json!({
            "id": "string", "text": "string", "year": "int64", "score": "double", "ok": "bool",
            "extra": "string", "embedding": "fixed_size_list<item: float not null>[384]",
        })
    );
    assert_eq!(read["nullable"], false);
    assert_eq!(read["metadata"], provenance());
    assert_eq!(read["extra"], "json");
    assert!(
        read["created_by"]
            .as_str()
            .unwrap()
            .starts_with("embedctl ")
    );
    assert_eq!(read["groups"].as_array().unwrap().len(), 2);
    assert_eq!(read["codec"], "ZSTD");
    assert!(!read["encodings"].to_string().contains("DICTIONARY"));
    assert_rows(&read["rows"], ROWS, false);
}

#[test]
fn pandas_reads_parquet() {
    let script = "
import numpy as np, pandas as pd
frame = pd.read_parquet(path)
plain = frame.astype(object).where(frame.notna(), None)
say({
    'columns': list(frame.columns),
    'rows': len(frame),
    'stacked': str(np.stack(frame['embedding'].to_numpy()).dtype),
    'ends': ends(plain.to_dict('records')),
})";
    let modules = ["pandas", "pyarrow"];
    let Some(read) = read("pandas_reads_parquet", &modules, "o.parquet", ROWS, script) else {
        return;
    };
    let columns = ["id", "text", "year", "score", "ok", "extra", "embedding"];
    assert_eq!(read["columns"], json!(columns));
    assert_eq!(read["rows"], ROWS);
    assert_eq!(read["stacked"], "float32");
    assert_rows(&read["ends"], ROWS, false);
}

#[test]
fn polars_reads_parquet() {
    let script = "
import polars as pl
frame = pl.read_parquet(path)
say({
    'types': {name: str(kind) for name, kind in frame.schema.items()},
    'lazy': pl.scan_parquet(path).filter(pl.col('year') == 5).collect()['id'].to_list(),
    'ends': ends(frame.to_dicts()),
})";
    let Some(read) = read(
        "polars_reads_parquet",
        &["polars"],
        "o.parquet",
        ROWS,
        script,
    ) else {
        return;
    };
    let embedding = read["types"]["embedding"].as_str().unwrap();
    assert!(
        embedding.starts_with("Array(Float32") && embedding.contains("384"),
        "{embedding}"
    );
    assert_eq!(read["types"]["id"], "String");
    assert_eq!(read["lazy"], json!([id(12)]));
    assert_rows(&read["ends"], ROWS, false);
}

#[test]
fn duckdb_reads_parquet() {
    let script = "
import duckdb
table = duckdb.sql(f\"from read_parquet('{path}')\")
rows = [dict(zip(table.columns, row)) for row in table.fetchall()]
norm = duckdb.sql(f\"\"\"
    select max(abs(list_dot_product(embedding, embedding)
                   - list_sum(list_transform(embedding, lambda x: x * x)))) from '{path}'
\"\"\").fetchall()[0][0]
say({
    'types': dict(zip(table.columns, map(str, table.types))),
    'provenance': json.loads(duckdb.sql(f\"\"\"
        select value from parquet_kv_metadata('{path}') where key = 'embedctl'
    \"\"\").fetchall()[0][0]),
    'norm': norm,
    'ends': ends(rows),
})";
    let Some(read) = read(
        "duckdb_reads_parquet",
        &["duckdb"],
        "o.parquet",
        ROWS,
        script,
    ) else {
        return;
    };
    assert_eq!(
        read["types"],
        json!({
            "id": "VARCHAR", "text": "VARCHAR", "year": "BIGINT", "score": "DOUBLE", "ok": "BOOLEAN",
            "extra": "VARCHAR", "embedding": "FLOAT[]",
        })
    );
    assert_eq!(read["provenance"], provenance());
    assert!(read["norm"].as_f64().unwrap() < 1e-2);
    assert_rows(&read["ends"], ROWS, false);
}

#[test]
fn numpy_reads_npy() {
    let script = "
import numpy as np
array = np.load(path)
mapped = np.load(path, mmap_mode='r')
lines = [json.loads(line) for line in open(path + '.rows.jsonl', encoding='utf-8')]
say({
    'dtype': array.dtype.str, 'shape': array.shape, 'c': array.flags.c_contiguous,
    'offset': mapped.offset, 'equal': bool((mapped == array).all()),
    'provenance': json.load(open(path + '.json', encoding='utf-8')),
    'places': [(line['row'], line['line']) for line in ends(lines)],
    'count': len(lines),
    'ends': [{**line, 'embedding': array[line['row']]} for line in ends(lines)],
})";
    let Some(read) = read("numpy_reads_npy", &["numpy"], "o.npy", FEW, script) else {
        return;
    };
    assert_eq!(read["dtype"], "<f4");
    assert_eq!(read["shape"], json!([FEW, DIMENSIONS]));
    assert_eq!(read["c"], true);
    assert_eq!(read["offset"].as_u64().unwrap() % 64, 0);
    assert_eq!(read["equal"], true);
    assert_eq!(read["provenance"], provenance());
    assert_eq!(read["count"], FEW);
    assert_eq!(read["places"][39], json!([FEW - 1, FEW]));
    assert_rows(&read["ends"], FEW, true);
}

#[test]
fn python_reads_jsonl() {
    let script = "
rows = [json.loads(line) for line in open(path, encoding='utf-8')]
say({'keys': list(rows[0]), 'count': len(rows), 'ends': ends(rows)})";
    let Some(read) = read("python_reads_jsonl", &["json"], "o.jsonl", FEW, script) else {
        return;
    };
    let keys = ["id", "text", "year", "score", "ok", "extra", "embedding"];
    assert_eq!(read["keys"], json!(keys));
    assert_eq!(read["count"], FEW);
    assert_rows(&read["ends"], FEW, true);
}

#[test]
fn polars_reads_jsonl() {
    let script = "
import polars as pl
frame = pl.read_ndjson(path)
say({'embedding': str(frame.schema['embedding']), 'ends': ends(frame.to_dicts())})";
    let Some(read) = read("polars_reads_jsonl", &["polars"], "o.jsonl", FEW, script) else {
        return;
    };
    assert_eq!(read["embedding"], "List(Float64)");
    assert_rows(&read["ends"], FEW, true);
}

#[test]
fn duckdb_reads_jsonl() {
    let script = "
import duckdb
table = duckdb.sql(f\"from read_json('{path}')\")
rows = [dict(zip(table.columns, row)) for row in table.fetchall()]
say({'embedding': str(table.types[-1]), 'ends': ends(rows)})";
    let Some(read) = read("duckdb_reads_jsonl", &["duckdb"], "o.jsonl", FEW, script) else {
        return;
    };
    assert_eq!(read["embedding"], "DOUBLE[]");
    assert_rows(&read["ends"], FEW, true);
}

#[test]
fn every_reader_reads_a_parquet_file_without_rows() {
    let script = "
import duckdb, pandas as pd, polars as pl, pyarrow.parquet as pq
table = pq.read_table(path)
say({
    'pyarrow': [table.num_rows, str(table.schema.field('embedding').type)],
    'pandas': pd.read_parquet(path).shape,
    'polars': pl.read_parquet(path).shape,
    'duckdb': duckdb.sql(f\"select count(*) from '{path}'\").fetchall()[0][0],
})";
    let test = "every_reader_reads_a_parquet_file_without_rows";
    let modules = ["duckdb", "pandas", "polars", "pyarrow"];
    let Some(read) = read(test, &modules, "o.parquet", 0, script) else {
        return;
    };
    assert_eq!(
        read,
        json!({
            "pyarrow": [0, "fixed_size_list<item: float not null>[384]"],
            "pandas": [0, 7], "polars": [0, 7], "duckdb": 0,
        })
    );
}

#[test]
fn numpy_reads_an_array_without_rows() {
    let script = "
import numpy as np
array = np.load(path)
say([array.dtype.str, array.shape, open(path + '.rows.jsonl').read()])";
    let test = "numpy_reads_an_array_without_rows";
    let Some(read) = read(test, &["numpy"], "o.npy", 0, script) else {
        return;
    };
    assert_eq!(read, json!(["<f4", [0, 384], ""]));
}

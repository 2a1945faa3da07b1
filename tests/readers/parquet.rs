//! Parquet.

use serde_json::json;

use crate::rows::{ROWS, id, written};
use crate::{assert_rows, read};

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
    'of_the_schema': json.loads(pq.read_table(path).schema.metadata[b'embedctl']),
    'extra': table.schema.field('extra').metadata[b'embedctl.type'].decode(),
    'created_by': file.metadata.created_by,
    'groups': [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)],
    'codecs': [file.metadata.row_group(0).column(at).compression for at in (1, 6)],
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
    let mut metadata = read["metadata"].clone();
    let hashes = metadata.as_object_mut().unwrap().remove("sha256").unwrap();
    assert!(hashes["file"].is_string());
    assert_eq!(metadata, written());
    assert_eq!(read["of_the_schema"], written());
    assert_eq!(read["extra"], "json");
    assert!(
        read["created_by"]
            .as_str()
            .unwrap()
            .starts_with("embedctl ")
    );
    assert_eq!(read["groups"].as_array().unwrap().len(), 2);
    assert_eq!(read["codecs"], json!(["ZSTD", "UNCOMPRESSED"]));
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
    let mut provenance = read["provenance"].clone();
    provenance
        .as_object_mut()
        .unwrap()
        .remove("sha256")
        .unwrap();
    assert_eq!(provenance, written());
    assert!(read["norm"].as_f64().unwrap() < 1e-2);
    assert_rows(&read["ends"], ROWS, false);
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

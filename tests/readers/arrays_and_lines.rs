//! NPY with what stands beside it, and JSONL.

use serde_json::json;

use crate::rows::{DIMENSIONS, FEW, written};
use crate::{assert_rows, read};

#[test]
fn numpy_reads_npy() {
    let script = "
import hashlib
import numpy as np
array = np.load(path)
mapped = np.load(path, mmap_mode='r')
lines = [json.loads(line) for line in open(path + '.rows.jsonl', encoding='utf-8')]
beside = open(path + '.json', 'rb').read()
own = json.loads(beside)['sha256']['provenance'].encode()
sha256 = lambda data: hashlib.sha256(data).hexdigest()
say({
    'dtype': array.dtype.str, 'shape': array.shape, 'c': array.flags.c_contiguous,
    'offset': mapped.offset, 'equal': bool((mapped == array).all()),
    'provenance': json.load(open(path + '.json', encoding='utf-8')),
    'places': [(line['row'], line['line']) for line in ends(lines)],
    'sha256': {
        'header': sha256(open(path, 'rb').read(128)),
        'values': sha256(array.tobytes()),
        'rows': sha256(open(path + '.rows.jsonl', 'rb').read()),
        'provenance': sha256(beside.replace(own, b'0' * 64)),
    },
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
    // The sign that the matrix and its rows belong together.
    let mut with_sums = written();
    with_sums["sha256"] = read["sha256"].clone();
    assert_eq!(read["provenance"], with_sums);
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

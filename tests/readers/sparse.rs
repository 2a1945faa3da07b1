//! Sparse vectors: scipy's matrix, and structures and maps in Parquet.

use std::path::Path;

use embedctl::output::{self, Destination, Finish, Forms, OutputOptions, RowForm, RunFiles, Terms};
use embedctl::record::{Numbers, Rows};
use serde_json::{Value, json};

use crate::rows::{DIMENSIONS, component, provenance, rows};
use crate::{run, single, support};

const COUNT: usize = 60;

/// Some components of a row; of every seventh row none.
fn entries(row: usize) -> Vec<(u32, f32)> {
    let chosen = |column: &usize| !row.is_multiple_of(7) && (column + row).is_multiple_of(3);
    let all = (0..DIMENSIONS).filter(chosen);
    all.map(|column| (u32::try_from(column).unwrap(), component(row, column)))
        .collect()
}

/// A script's output for a file of that name, with maps from tokens if asked.
fn read(test: &str, modules: &[&str], name: &str, tokens: bool, script: &str) -> Option<Value> {
    let python = support::python(test, modules)?;
    Some(read_with(test, &python, name, tokens, script))
}

/// The same by the Python of that path.
fn read_with(test: &str, python: &Path, name: &str, tokens: bool, script: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let options = OutputOptions {
        sparse_tokens: tokens,
        ..OutputOptions::new(Destination::Path(path.clone()))
    };
    let mut forms = Forms::from(RowForm::Sparse(Terms::new(DIMENSIONS)));
    if tokens {
        let terms = (0..DIMENSIONS).map(|term| format!("t{term}")).collect();
        forms = forms.with_terms(&Terms::named(terms));
    }
    let mut sparse = Numbers::of_entries();
    (0..COUNT).for_each(|row| sparse.push_entries(entries(row)));
    let rows = Rows {
        vectors: sparse.into(),
        ..rows(0, COUNT)
    };
    let columns = rows.columns.schema();
    let (names, files) = (["in".to_owned()].into(), RunFiles::new());
    let mut writer =
        output::create(&options.clone().into(), &forms, names, &columns, &files).unwrap();
    writer.write(rows).unwrap();
    let finish = Finish {
        schema: columns,
        provenance: &provenance(),
        rejects: None,
    };
    writer.finish(finish).unwrap();
    run(test, python, &path, folder.path(), script)
}

fn expected() -> Value {
    (0..COUNT)
        .map(|row| {
            let exact = entries(row).into_iter();
            let exact = exact.map(|(index, value)| (index, f64::from(value)));
            let (indices, values): (Vec<u32>, Vec<f64>) = exact.unzip();
            json!([indices, values])
        })
        .collect()
}

#[test]
fn scipy_loads_npz() {
    let script = "
import scipy.sparse, zipfile
matrix = scipy.sparse.load_npz(path)
lines = [json.loads(line) for line in open(path + '.rows.jsonl', encoding='utf-8')]
say({
    'bad': zipfile.ZipFile(path).testzip(), 'shape': matrix.shape, 'format': matrix.format, 'dtype': matrix.dtype.str,
    'sorted': bool(matrix.has_sorted_indices), 'places': [line['row'] for line in lines],
    'rows': [[matrix[row].indices, matrix[row].data] for row in range(matrix.shape[0])],
})";
    let Some(found) = read("scipy_loads_npz", &["scipy"], "o.npz", false, script) else {
        return;
    };
    assert_eq!(found["bad"], Value::Null);
    assert_eq!(found["shape"], json!([COUNT, DIMENSIONS]));
    assert_eq!(found["format"], "csr");
    assert_eq!(found["dtype"], "<f4");
    assert_eq!(found["sorted"], true);
    assert_eq!(found["places"], json!((0..COUNT).collect::<Vec<_>>()));
    assert_eq!(single(&found["rows"]), single(&expected()));
}

#[test]
fn pyarrow_polars_and_duckdb_read_structures() {
    let script = "
import pyarrow.parquet as pq
table = pq.read_table(path)
rows = lambda all: [[row['indices'], row['values']] for row in all]
answer = {'type': str(table.schema.field('embedding').type), 'pyarrow': rows(table['embedding'].to_pylist())}
try:
    import polars
    answer['polars'] = rows(polars.read_parquet(path)['embedding'].to_list())
except ImportError:
    pass
try:
    import duckdb
    answer['duckdb'] = rows(row[0] for row in duckdb.sql(f\"select embedding from '{path}'\").fetchall())
except ImportError:
    pass
say(answer)";
    let test = "pyarrow_polars_and_duckdb_read_structures";
    let Some(found) = read(test, &["pyarrow"], "o.parquet", false, script) else {
        return;
    };
    let kind = "struct<indices: list<item: uint32 not null> not null, values: list<item: float not null> not null>";
    assert_eq!(found["type"], kind);
    for reader in ["pyarrow", "polars", "duckdb"] {
        if let Some(rows) = found.get(reader) {
            assert_eq!(single(rows), single(&expected()), "{reader}");
        }
    }
}

#[test]
fn pyarrow_reads_maps_of_tokens() {
    let script = "
import pyarrow.parquet as pq
table = pq.read_table(path)
say({'type': str(table.schema.field('embedding').type), 'rows': table['embedding'].to_pylist()})";
    let test = "pyarrow_reads_maps_of_tokens";
    let Some(found) = read(test, &["pyarrow"], "o.parquet", true, script) else {
        return;
    };
    let kind = found["type"].as_str().unwrap();
    assert!(kind.starts_with("map<string, float"), "{kind}");
    let row = |row| -> Value {
        let named = entries(row).into_iter();
        named
            .map(|(term, weight)| json!([format!("t{term}"), f64::from(weight)]))
            .collect()
    };
    let expected: Vec<Value> = (0..COUNT).map(row).collect();
    assert_eq!(single(&found["rows"]), single(&json!(expected)));
}

/// The greatest dot products of all rows, found by Qdrant in its local mode.
#[test]
fn qdrant_searches_sparse_vectors() {
    let test = "qdrant_searches_sparse_vectors";
    let Some(python) = support::databases(test) else {
        return;
    };
    let script = "
from qdrant_client import QdrantClient, models
rows = [json.loads(line)['embedding'] for line in open(path, encoding='utf-8')]
client = QdrantClient(':memory:')
client.create_collection('v', vectors_config={}, sparse_vectors_config={'text': models.SparseVectorParams()})
client.upload_points('v', [
    models.PointStruct(id=number, vector={'text': models.SparseVector(**row)}) for number, row in enumerate(rows)
])
query = rows[8]
found = client.query_points('v', query=models.SparseVector(**query), using='text', limit=len(rows)).points
def dot(row):
    weights = dict(zip(row['indices'], row['values']))
    return sum(weights.get(index, 0) * value for index, value in zip(query['indices'], query['values']))
dots = {number: dot(row) for number, row in enumerate(rows)}
assert len(found) > 10
for point in found:
    assert abs(point.score - dots[point.id]) <= 1e-4 * max(1, abs(dots[point.id])), (point.id, point.score)
assert found[0].score >= max(dots.values()) - 1e-4
kept = client.retrieve('v', ids=list(range(len(rows))), with_vectors=True)
own = {point.id: point.vector.get('text') for point in kept}
say([[own[number].indices, own[number].values] if own[number] else [[], []] for number in range(len(rows))])";
    let said = read_with(test, &python, "o.jsonl", false, script);
    assert_eq!(single(&said), single(&expected()));
}

//! Every type of component, in every format, by every reader: all agree with numpy.

use std::collections::BTreeMap;
use std::path::Path;

use embedctl::cancel::CancelToken;
use embedctl::output::{Calibration, Dtype, VectorType};
use embedctl::storage::Readable;
use serde_json::{Value, json};

use crate::rows::{FEW, write_as};
use crate::{run, support};

/// Rows of the files: the comparison is of every value.
const COUNT: usize = 200;

fn ranges_of(folder: &Path) -> Calibration {
    let file = Readable::file(&folder.join("f32.npy")).unwrap();
    Calibration::read(&file, &CancelToken::new()).unwrap()
}

/// Writes `dtype.ENDING` of every type, the ranges of two being those of `f32.npy`.
fn write_all(folder: &Path, endings: &[&str]) {
    for dtype in Dtype::ALL {
        for ending in endings {
            let path = folder.join(format!("{dtype}.{ending}"));
            write_as(&path, COUNT, |options| {
                options.dtype = Some(dtype);
                options.calibration = dtype.needs_ranges().then(|| ranges_of(folder));
            });
        }
    }
}

/// The output of a script that compares `load(PATH, DTYPE)` with numpy's array for every type.
fn compared(test: &str, modules: &[&str], ending: &str, load: &str) -> Option<Value> {
    let python = support::python(test, modules)?;
    let folder = tempfile::tempdir().unwrap();
    write_all(folder.path(), &["npy", ending]);
    let script = format!(
        "
import numpy as np, os
{load}
found = {{}}
for dtype in ['f32', 'f16', 'int8', 'uint8', 'binary', 'ubinary']:
    stem = os.path.join(path, dtype)
    expected = np.load(stem + '.npy')
    array = np.asarray(load(stem + '.{ending}'))
    found[dtype] = [str(array.dtype), array.shape == expected.shape and bool((array == expected).all())]
say(found)"
    );
    Some(run(test, &python, folder.path(), folder.path(), &script))
}

/// Every array as numpy has it, in numpy's own type.
fn assert_all(found: &Value, halves_are: &str) {
    let expected: BTreeMap<&str, Value> = [
        ("f32", "float32"),
        ("f16", halves_are),
        ("int8", "int8"),
        ("uint8", "uint8"),
        ("binary", "int8"),
        ("ubinary", "uint8"),
    ]
    .map(|(dtype, kind)| (dtype, json!([kind, true])))
    .into();
    assert_eq!(found, &json!(expected));
}

#[test]
fn pandas_and_pyarrow_read_every_type_of_component() {
    let load = "
import pandas as pd
load = lambda path: np.stack(pd.read_parquet(path)['embedding'].to_numpy())";
    let test = "pandas_and_pyarrow_read_every_type_of_component";
    if let Some(found) = compared(test, &["pandas", "pyarrow", "numpy"], "parquet", load) {
        assert_all(&found, "float16");
    }
}

#[test]
fn polars_reads_every_type_of_component() {
    let load = "
import polars as pl
load = lambda path: pl.read_parquet(path)['embedding'].to_numpy()";
    let test = "polars_reads_every_type_of_component";
    if let Some(found) = compared(test, &["polars", "numpy"], "parquet", load) {
        assert_all(&found, "float16");
    }
}

#[test]
fn duckdb_reads_every_type_of_component() {
    let load = "
import duckdb
kinds = {'FLOAT[]': 'float32', 'TINYINT[]': 'int8', 'UTINYINT[]': 'uint8'}
def load(path):
    table = duckdb.sql(f\"select embedding from '{path}'\")
    return np.array([row[0] for row in table.fetchall()], dtype=kinds[str(table.types[0])])";
    let test = "duckdb_reads_every_type_of_component";
    if let Some(found) = compared(test, &["duckdb", "numpy"], "parquet", load) {
        assert_all(&found, "float32");
    }
}

#[test]
fn arrow_files_hold_every_type_of_component() {
    let load = "
import pyarrow.feather
def load(path):
    column = pyarrow.feather.read_table(path)['embedding'].combine_chunks()
    return column.flatten().to_numpy().reshape(len(column), -1)";
    let test = "arrow_files_hold_every_type_of_component";
    if let Some(found) = compared(test, &["pyarrow", "numpy"], "arrow", load) {
        assert_all(&found, "float16");
    }
}

#[test]
fn compressed_lines_hold_every_type_of_component() {
    let load = "
import gzip, json
kinds = {'f32': 'float32', 'f16': 'float16', 'binary': 'int8', 'ubinary': 'uint8'}
def load(path):
    dtype = os.path.basename(path).split('.')[0]
    lines = gzip.open(path, 'rt', encoding='utf-8')
    return np.array([json.loads(line)['embedding'] for line in lines], dtype=kinds.get(dtype, dtype))";
    let test = "compressed_lines_hold_every_type_of_component";
    if let Some(found) = compared(test, &["numpy"], "jsonl.gz", load) {
        assert_all(&found, "float16");
    }
}

#[test]
fn matrices_with_a_head_of_two_numbers_are_numpys() {
    let test = "matrices_with_a_head_of_two_numbers_are_numpys";
    let Some(python) = support::python(test, &["numpy"]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    write_all(folder.path(), &["npy"]);
    for (ending, dtype) in [("fbin", "f32"), ("i8bin", "int8"), ("u8bin", "uint8")] {
        write_as(
            &folder.path().join(format!("{dtype}.{ending}")),
            COUNT,
            |options| {
                options.calibration = (ending != "fbin").then(|| ranges_of(folder.path()));
            },
        );
    }
    let script = "
import numpy as np, os
found = []
for name, kind in [('f32.fbin', 'f4'), ('int8.i8bin', 'i1'), ('uint8.u8bin', 'u1')]:
    rows, width = np.fromfile(os.path.join(path, name), dtype='<u4', count=2)
    array = np.fromfile(os.path.join(path, name), dtype=kind, offset=8).reshape(rows, width)
    lines = [json.loads(line) for line in open(os.path.join(path, name + '.rows.jsonl'))]
    expected = np.load(os.path.join(path, name.split('.')[0] + '.npy'))
    found.append([bool((array == expected).all()), len(lines) == rows, lines[7]['line']])
say(found)";
    let found = run(test, &python, folder.path(), folder.path(), script);
    assert_eq!(
        found,
        json!([[true, true, 8], [true, true, 8], [true, true, 8]])
    );
}

#[test]
fn every_reader_of_arrow_reads_files_and_streams() {
    let test = "every_reader_of_arrow_reads_files_and_streams";
    let Some(python) = support::python(test, &["pyarrow", "pandas", "polars", "duckdb"]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for name in ["o.arrow", "o.arrows"] {
        write_as(&folder.path().join(name), FEW, |options| {
            options.vector_type = Some(VectorType::List);
        });
    }
    let script = "
import duckdb, os, pandas as pd, polars as pl, pyarrow as pa
file, stream = os.path.join(path, 'o.arrow'), os.path.join(path, 'o.arrows')
with pa.ipc.open_file(file) as reader:
    provenance = json.loads(reader.metadata[b'embedctl'])
    rows = reader.read_all()
with pa.ipc.open_stream(stream) as reader:
    assert reader.read_all().equals(rows)
say({
    'provenance': provenance['dtype'],
    'embedding': str(rows.schema.field('embedding').type),
    'pandas': pd.read_feather(file).shape,
    'polars': [pl.read_ipc(file).shape, pl.read_ipc_stream(stream).shape],
    'duckdb': duckdb.sql('select count(*), sum(len(embedding)) from rows').fetchall()[0],
})";
    let found = run(test, &python, folder.path(), folder.path(), script);
    assert_eq!(
        found,
        json!({
            "provenance": "f32",
            "embedding": "list<item: float not null>",
            "pandas": [FEW, 7],
            "polars": [[FEW, 7], [FEW, 7]],
            "duckdb": [FEW, FEW * 384],
        })
    );
}

#[test]
fn lancedb_takes_an_arrow_file_and_finds_numpys_neighbours() {
    let test = "lancedb_takes_an_arrow_file_and_finds_numpys_neighbours";
    let Some(python) = support::lancedb(test) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for name in ["o.arrow", "o.npy"] {
        write_as(&folder.path().join(name), FEW, |_| {});
    }
    let script = "
import lancedb, numpy as np, os, pyarrow.feather
table = pyarrow.feather.read_table(os.path.join(path, 'o.arrow'))
matrix = np.load(os.path.join(path, 'o.npy'))
row = lancedb.connect(os.path.join(path, 'lance')).create_table('t', table)
found = []
for query in [0, 7, 2999]:
    near = row.search(matrix[query]).limit(10).to_arrow()['embedding'].to_pylist()
    expected = np.argsort(((matrix - matrix[query]) ** 2).sum(axis=1), kind='stable')[:10]
    found.append(bool((np.array(near, dtype='float32') == matrix[expected]).all()))
say(found)";
    let found = run(test, &python, folder.path(), folder.path(), script);
    assert_eq!(found, json!([true, true, true]));
}

//! Vectors of tokens: lists of vectors in Parquet and Arrow, read by pyarrow, polars, DuckDB and LanceDB, and NPY with the
//! number of vectors of each row beside it, read by `numpy` and put into Qdrant.

use std::path::Path;

use embedctl::output::{Destination, Finish, OutputOptions, RowForm, RunFiles, RunOutput, create};
use embedctl::record::{Numbers, Rows};
use serde_json::{Value, json};

use crate::rows::{DIMENSIONS, component, provenance, rows};
use crate::{run, single, support};

const COUNT: usize = 60;

/// How many vectors a row has.
fn length(row: usize) -> usize {
    1 + row % 5
}

/// The row that has no vectors, where rows may be without.
const MISSING: usize = 9;

/// Writes rows of vectors; `nullable`: one of them is null.
fn write(path: &Path, nullable: bool) {
    let output = RunOutput {
        nullable,
        ..OutputOptions::new(Destination::Path(path.to_path_buf())).into()
    };
    let forms = RowForm::Tokens(DIMENSIONS).into();
    let mut vectors = Numbers::of_vectors(DIMENSIONS);
    let is_missing = |row| nullable && row == MISSING;
    for row in 0..COUNT {
        let length = if is_missing(row) { 0 } else { length(row) };
        let values = (0..length * DIMENSIONS).map(|column| component(row, column));
        vectors.push_values(&values.collect::<Vec<_>>());
    }
    let rows = Rows {
        vectors: vectors.into(),
        missing: nullable.then(|| (0..COUNT).map(|row| !is_missing(row)).collect()),
        ..rows(0, COUNT)
    };
    let columns = rows.columns.schema();
    let (names, files) = (["in".to_owned()].into(), RunFiles::new());
    let mut writer = create(&output, &forms, names, &columns, &files).unwrap();
    writer.write(rows).unwrap();
    let finish = Finish {
        schema: columns,
        provenance: &provenance(),
        rejects: None,
    };
    writer.finish(finish).unwrap();
}

/// What a script says of a file of that name.
fn read(test: &str, python: &Path, name: &str, nullable: bool, script: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    write(&path, nullable);
    run(test, python, &path, folder.path(), script)
}

/// How many vectors rows have, and the first component of each row's last vector.
fn expected() -> Value {
    (0..COUNT)
        .map(|row| {
            let last = component(row, (length(row) - 1) * DIMENSIONS);
            json!([length(row), DIMENSIONS, f64::from(last)])
        })
        .collect()
}

/// Reads a file of that name, with a row that is null and without.
fn check(test: &str, modules: &[&str], name: &str, script: &str) {
    let Some(python) = support::python(test, modules) else {
        return;
    };
    for nullable in [false, true] {
        let mut expected = expected();
        if nullable {
            expected[MISSING] = Value::Null;
        }
        let said = read(test, &python, name, nullable, script);
        assert_eq!(single(&said), single(&expected), "{test}, {nullable}");
    }
}

const ABOUT: &str = "say([row and [len(row), len(row[0]), float(row[-1][0])] for row in rows])";

#[test]
fn pyarrow_reads_lists_of_vectors() {
    let test = "pyarrow_reads_lists_of_vectors";
    let parquet = "import pyarrow.parquet as pq\ntable = pq.read_table(path)";
    let feather = "import pyarrow.feather as f\ntable = f.read_table(path)";
    let stream = "import pyarrow as pa\ntable = pa.ipc.open_stream(path).read_all()";
    for (name, reader) in [
        ("v.parquet", parquet),
        ("v.arrow", feather),
        ("v.arrows", stream),
    ] {
        let kind = "assert str(table.schema.field('embedding').type.value_type).startswith('fixed_size_list')";
        let script = format!("{reader}\n{kind}\nrows = table['embedding'].to_pylist()\n{ABOUT}");
        check(test, &["pyarrow"], name, &script);
    }
}

#[test]
fn polars_reads_lists_of_vectors() {
    let test = "polars_reads_lists_of_vectors";
    for (name, reader) in [("v.parquet", "read_parquet"), ("v.arrow", "read_ipc")] {
        let script = format!(
            "import polars as pl\nrows = pl.{reader}(path)['embedding'].to_list()\n{ABOUT}"
        );
        check(test, &["polars"], name, &script);
    }
}

#[test]
fn duckdb_reads_lists_of_vectors() {
    let test = "duckdb_reads_lists_of_vectors";
    for (name, reader) in [("v.parquet", "read_parquet"), ("v.jsonl", "read_json")] {
        let script = format!(
            "import duckdb\n\
             found = duckdb.sql(f\"select embedding from {reader}('{{path}}')\")\n\
             assert str(found.types[0]) in ('FLOAT[][]', 'DOUBLE[][]'), found.types\n\
             rows = [row[0] for row in found.fetchall()]\n{ABOUT}"
        );
        check(test, &["duckdb"], name, &script);
    }
}

#[test]
fn numpy_parts_a_matrix_by_lengths() {
    let test = "numpy_parts_a_matrix_by_lengths";
    let Some(python) = support::python(test, &["numpy"]) else {
        return;
    };
    let script = format!(
        "import numpy as np\n\
         matrix, lengths = np.load(path), np.load(path + '.lengths.npy')\n\
         assert (lengths.dtype.str, matrix.dtype.str) == ('<i8', '<f4')\n\
         lines = [json.loads(line) for line in open(path + '.rows.jsonl', encoding='utf-8')]\n\
         assert [line['row'] for line in lines] == list(range(len(lengths)))\n\
         assert lengths.sum() == len(matrix)\n\
         rows = [own.tolist() for own in np.split(matrix, np.cumsum(lengths)[:-1])]\n{ABOUT}"
    );
    let said = read(test, &python, "v.npy", false, &script);
    assert_eq!(single(&said), single(&expected()));
}

#[test]
fn lancedb_searches_lists_of_vectors() {
    let test = "lancedb_searches_lists_of_vectors";
    let Some(python) = support::lancedb(test) else {
        return;
    };
    let script = format!(
        "import lancedb, pyarrow.parquet as pq, tempfile\n\
         table = lancedb.connect(tempfile.mkdtemp()).create_table('v', pq.read_table(path))\n\
         rows = table.to_arrow()['embedding'].to_pylist()\n\
         found = table.search(rows[7]).distance_type('cosine').limit(1).to_list()\n\
         assert found[0]['embedding'] == rows[7], found\n{ABOUT}"
    );
    let said = read(test, &python, "v.parquet", false, &script);
    assert_eq!(single(&said), single(&expected()));
}

/// The greatest MaxSim of all rows, found by Qdrant in its local mode.
#[test]
fn qdrant_searches_vectors_of_tokens() {
    let test = "qdrant_searches_vectors_of_tokens";
    let Some(python) = support::databases(test) else {
        return;
    };
    let script = format!(
        "import numpy as np\n\
         from qdrant_client import QdrantClient, models\n\
         matrix, lengths = np.load(path), np.load(path + '.lengths.npy')\n\
         rows = [own.tolist() for own in np.split(matrix, np.cumsum(lengths)[:-1])]\n\
         client = QdrantClient(':memory:')\n\
         by_token = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)\n\
         config = models.VectorParams(size={DIMENSIONS}, distance=models.Distance.DOT, multivector_config=by_token)\n\
         client.create_collection('v', vectors_config=config)\n\
         client.upload_collection('v', vectors=rows, ids=list(range(len(rows))))\n\
         query = rows[7]\n\
         found = client.query_points('v', query=query, limit=len(rows)).points\n\
         sims = [(np.array(query) @ np.array(row).T).max(axis=1).sum() for row in rows]\n\
         assert len(found) == len(rows)\n\
         for point in found:\n\
         \x20   assert abs(point.score - sims[point.id]) < 1e-3 * abs(sims[point.id]), (point.id, point.score)\n\
         assert found[0].id == int(np.argmax(sims))\n{ABOUT}"
    );
    let said = read(test, &python, "v.npy", false, &script);
    assert_eq!(single(&said), single(&expected()));
}

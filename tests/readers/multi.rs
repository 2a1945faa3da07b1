//! Vectors of tokens: lists of vectors in Parquet and Arrow, read by pyarrow, polars, DuckDB and LanceDB.

use embedctl::output::{self, Destination, Finish, OutputOptions, RowNumbers, RunFiles};
use embedctl::record::{RowVectors, Rows};
use embedctl_common::MultiRows;
use serde_json::{Value, json};

use crate::rows::{DIMENSIONS, component, provenance, rows};
use crate::{run, support};

const COUNT: usize = 60;

/// How many vectors a row has.
fn length(row: usize) -> usize {
    1 + row % 5
}

/// What a script says of a file of that name.
fn read(test: &str, modules: &[&str], name: &str, script: &str) -> Option<Value> {
    let python = support::python(test, modules)?;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let options = OutputOptions {
        numbers: RowNumbers::Multi,
        ..OutputOptions::new(Destination::Path(path.clone()))
    };
    let mut vectors = MultiRows::new(DIMENSIONS);
    for row in 0..COUNT {
        let values = (0..length(row) * DIMENSIONS).map(|column| component(row, column));
        vectors.push(&values.collect::<Vec<_>>());
    }
    let rows = Rows {
        vectors: RowVectors::Multi(vectors),
        ..rows(0, COUNT)
    };
    let columns = rows.columns.schema();
    let (names, files) = (["in".to_owned()].into(), RunFiles::new());
    let mut writer = output::create(&options, &[DIMENSIONS], names, &columns, &files).unwrap();
    writer.write(rows).unwrap();
    let finish = Finish {
        schema: columns,
        provenance: &provenance(),
        rejects: None,
    };
    writer.finish(finish).unwrap();
    Some(run(test, &python, &path, folder.path(), script))
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

fn check(test: &str, modules: &[&str], name: &str, script: &str) {
    if let Some(said) = read(test, modules, name, script) {
        assert_eq!(said, expected(), "{test}");
    }
}

const ABOUT: &str = "say([[len(row), len(row[0]), float(row[-1][0])] for row in rows])";

#[test]
fn pyarrow_reads_lists_of_vectors() {
    for (name, reader) in [
        (
            "v.parquet",
            "import pyarrow.parquet as pq; table = pq.read_table(path)",
        ),
        (
            "v.arrow",
            "import pyarrow.feather as f; table = f.read_table(path)",
        ),
    ] {
        let kind = "assert str(table.schema.field('embedding').type.value_type).startswith('fixed_size_list')";
        let script = format!("{reader}\n{kind}\nrows = table['embedding'].to_pylist()\n{ABOUT}");
        check(
            "pyarrow_reads_lists_of_vectors",
            &["pyarrow"],
            name,
            &script,
        );
    }
}

#[test]
fn polars_reads_lists_of_vectors() {
    let script = format!(
        "import polars as pl\nrows = pl.read_parquet(path)['embedding'].to_list()\n{ABOUT}"
    );
    check(
        "polars_reads_lists_of_vectors",
        &["polars"],
        "v.parquet",
        &script,
    );
}

#[test]
fn duckdb_reads_lists_of_vectors() {
    let script = format!(
        "import duckdb\nrows = [row[0] for row in duckdb.sql(f\"select embedding from read_parquet('{{path}}')\").fetchall()]\n{ABOUT}"
    );
    check(
        "duckdb_reads_lists_of_vectors",
        &["duckdb"],
        "v.parquet",
        &script,
    );
}

#[test]
fn lancedb_searches_lists_of_vectors() {
    let script = format!(
        "import lancedb, pyarrow.parquet as pq, tempfile\n\
         table = lancedb.connect(tempfile.mkdtemp()).create_table('v', pq.read_table(path))\n\
         rows = table.to_arrow()['embedding'].to_pylist()\n\
         found = table.search(rows[7]).distance_type('cosine').limit(1).to_list()\n\
         assert found[0]['embedding'] == rows[7], found\n{ABOUT}"
    );
    check(
        "lancedb_searches_lists_of_vectors",
        &["lancedb", "pyarrow"],
        "v.parquet",
        &script,
    );
}

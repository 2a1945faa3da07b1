//! Common tools read the outputs: `pyarrow`, `pandas`, `polars`,
//! `duckdb`, `numpy`, LanceDB, PostgreSQL with
//! pgvector.
//!
//! Each test writes rows with this library, has a few lines of Python read them and say as JSON what
//! they found, and compares that. Skipped by name where the Python packages are absent.

// Exact floats are the point here; rows stay far below what a cast could cut.
#![allow(clippy::cast_precision_loss, clippy::float_cmp)]

mod arrays_and_lines;
mod dtypes;
mod multi;
mod parquet;
mod pgvector;
mod rows;
mod sparse;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::rows::{DIMENSIONS, component, id, kept, write};

/// A script's output for a file of `count` rows, as JSON; `None` where the packages are absent.
///
/// The script finds the file in `path`, and hands its answer to `say`. `ends(ROWS)` picks the rows to compare
/// out of a list: the first 20 and the last 20.
fn read(test: &str, modules: &[&str], name: &str, count: usize, script: &str) -> Option<Value> {
    let python = support::python(test, modules)?;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    write(&path, count);
    Some(run(test, &python, &path, folder.path(), script))
}

/// A script's output for `path`, as JSON; it may leave files in `folder`.
fn run(test: &str, python: &Path, path: &Path, folder: &Path, script: &str) -> Value {
    // Standard output may hold a progress bar.
    let answer = folder.join("answer");
    let prelude = "import json, math, sys\npath = sys.argv[1]\n\
        say = lambda value: json.dump(value, open(sys.argv[2], 'w'), default=lambda x: x.tolist())\n\
        ends = lambda rows: list(rows[:20]) + list(rows[-20:])\n";
    let output = Command::new(python)
        .args(["-c", &format!("{prelude}{script}")])
        .args([path, &answer])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{test}:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&std::fs::read(answer).unwrap()).unwrap()
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

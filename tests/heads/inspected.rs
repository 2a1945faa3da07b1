//! `inspect` of outputs of every kind, and of several in one file.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::program;
use crate::reused::{KINDS, double, embed, lines, write};
use crate::support::cases::stderr;

const TEXTS: [&str; 5] = [
    "a cat sat on a mat",
    "It rains.",
    "Berlin had 3,520,031 people in 2019.",
    "x",
    "the the the",
];

/// The exit code of `inspect`, and what it found in a file.
fn inspect(file: &Path, more: &[&str]) -> (Option<i32>, Value) {
    let mut command = program();
    command
        .args(["inspect", "--json", "--verify", "3"])
        .arg(file);
    let output = command.args(more).output().unwrap();
    let found = serde_json::from_slice(&output.stdout);
    let found = found.unwrap_or_else(|_| panic!("{file:?}: {}", stderr(&output)));
    (output.status.code(), found)
}

fn names(columns: &Value) -> Vec<&str> {
    let columns = columns.as_array().unwrap().iter();
    let mut names: Vec<&str> = columns.map(|it| it["column"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn rows_of_every_kind_are_embedded_again() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.jsonl");
    let records = TEXTS.iter().map(|text| json!({ "text": text }));
    write(&input, records);
    for (model, options, matrix) in KINDS {
        let formats = ["old.parquet", "old.arrow", "old.arrows", "old.jsonl.gz"];
        for name in formats.into_iter().chain(matrix) {
            let out = folder.path().join(name);
            let more = ["--keep", "text", "--overwrite"];
            let output = embed(model, &input, &out, &[options, &more].concat());
            assert!(output.status.success(), "{}", stderr(&output));
            let (code, found) = inspect(&out, &[]);
            let of_file = &found["files"][0];
            assert_eq!(code, Some(0), "{name} {options:?}: {found:#}");
            assert_eq!(found["verified"]["same"], true, "{name} {options:?}");
            assert_eq!(found["verified"]["rows"], 3, "{name} {options:?}");
            assert_eq!(of_file["problems"], json!([]), "{name} {options:?}");
            // Of several kinds, each has its column, and its own verdict.
            let kinds = of_file["provenance"]["vectors"].as_array();
            if let Some(kinds) = kinds {
                let of_file = names(&of_file["columns"]);
                let verified = names(&found["verified"]["columns"]);
                assert_eq!(verified.len(), kinds.len(), "{name} {options:?}");
                assert!(verified.iter().all(|it| of_file.contains(it)));
            }
        }
    }
}

/// A column of other numbers is found, and the others are told as they are.
#[test]
fn the_kind_that_differs_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.jsonl");
    write(&input, TEXTS.iter().map(|text| json!({ "text": text })));
    let out = folder.path().join("out.jsonl");
    let options = ["--vectors", "dense,sparse,multi", "--keep", "text"];
    let output = embed("heads/bert", &input, &out, &options);
    assert!(output.status.success(), "{}", stderr(&output));
    let rows: Vec<Value> = lines(&out)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for changed in ["embedding", "embedding_sparse", "embedding_multi"] {
        let mut rows = rows.clone();
        for row in &mut rows {
            match &mut row[changed] {
                Value::Array(values) => values.reverse(),
                sparse => double(sparse),
            }
        }
        let record = fs::read(folder.path().join("out.jsonl.json")).unwrap();
        let other = folder.path().join("other.jsonl");
        write(&other, rows.into_iter());
        fs::write(folder.path().join("other.jsonl.json"), record).unwrap();
        let (code, found) = inspect(&other, &[]);
        let verified = &found["verified"];
        assert_eq!(code, Some(1), "{changed}");
        assert_eq!(verified["column"], changed);
        assert_eq!(verified["same"], false, "{changed}");
        for column in verified["columns"].as_array().unwrap() {
            let same = column["column"] != changed;
            assert_eq!(column["same"], same, "{changed}: {verified:#}");
        }
    }
    // Maps from tokens to weights are not read back: the other kinds are verified.
    let named = folder.path().join("named.jsonl");
    let options = [&options[..], &["--sparse-tokens"]].concat();
    let output = embed("heads/bert", &input, &named, &options);
    assert!(output.status.success(), "{}", stderr(&output));
    let (code, found) = inspect(&named, &[]);
    assert_eq!(code, Some(0), "{found:#}");
    let columns = ["embedding", "embedding_multi"];
    assert_eq!(names(&found["verified"]["columns"]), columns);
    assert_eq!(names(&found["files"][0]["columns"]), columns);
}

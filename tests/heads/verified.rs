//! `verify-model` of every kind, each by its own rule, and references that differ in what another rule would not see.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::program;
use crate::reused::{double, embed, lines, write};
use crate::support::{cases::stderr, npy::Matrix};

/// Compares a fixture's model with a reference for its records.
fn verify(fixture: &str, against: &Path, more: &[&str]) -> Output {
    let folder = Path::new("fixtures").join(fixture);
    let mut command = program();
    command.arg("verify-model").arg(folder.join("model"));
    command.args(["-p", "native", "--against"]).arg(against);
    command.arg("--texts").arg(folder.join("records.jsonl"));
    command.args(more).output().unwrap()
}

/// The result in JSON, which must be this verdict.
fn compared(fixture: &str, against: &Path, more: &[&str], equal: bool) -> Value {
    let output = verify(fixture, against, &[more, &["--json"]].concat());
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{fixture} {more:?}: {}", stderr(&output)));
    let code = i32::from(!equal);
    assert_eq!(output.status.code(), Some(code), "{fixture}: {found:#}");
    assert_eq!(found["equal"], equal, "{fixture} {more:?}: {found:#}");
    found["compared"].clone()
}

/// The fixture's vectors, as `embed` writes them.
fn made(fixture: &str, out: &Path, options: &[&str]) {
    let records = Path::new("fixtures").join(fixture).join("records.jsonl");
    let output = embed(fixture, &records, out, options);
    assert!(output.status.success(), "{}", stderr(&output));
}

fn rows(path: &Path) -> Vec<Value> {
    let rows = lines(path).into_iter();
    rows.map(|line| serde_json::from_str(&line).unwrap())
        .collect()
}

/// A copy of an output of JSON lines with other rows, and the same provenance.
fn with_rows(path: &Path, rows: &[Value]) -> PathBuf {
    let other = path.with_file_name("other.jsonl");
    let record = path.with_extension("jsonl.json");
    fs::copy(record, other.with_extension("jsonl.json")).unwrap();
    write(&other, rows.iter().cloned());
    other
}

#[test]
fn a_doubled_entry_that_the_cosine_hides_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.jsonl");
    made("sparse/distilbert", &out, &[]);
    let found = compared("sparse/distilbert", &out, &[], true);
    assert_eq!(found["measure"], "greatest_difference");
    // The least entry that is above the limit, in the row of the greatest length.
    let mut rows = rows(&out);
    let values = |row: &Value| -> Vec<f64> {
        serde_json::from_value(row["embedding"]["values"].clone()).unwrap()
    };
    let square = |row: &Value| values(row).iter().map(|it| it * it).sum::<f64>();
    let row = (0..rows.len())
        .max_by(|a, b| square(&rows[*a]).total_cmp(&square(&rows[*b])))
        .unwrap();
    let above = values(&rows[row]).into_iter().enumerate();
    let above = above.filter(|(_, value)| *value > 2e-3);
    let (entry, value) = above.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    rows[row]["embedding"]["values"][entry] = json!(2.0 * value);
    let other = with_rows(&out, &rows);
    let found = compared("sparse/distilbert", &other, &[], false);
    assert!(
        found["cosine"]["least"].as_f64().unwrap() > 0.9999,
        "{found:#}"
    );
    assert!(
        (found["apart"].as_f64().unwrap() - value).abs() < 1e-5,
        "{found:#}"
    );
    assert_eq!(found["worst"]["row"], row + 1);
    let said = stderr(&verify("sparse/distilbert", &other, &[]));
    assert!(
        said.contains("the largest difference of two entries"),
        "{said}"
    );
}

/// References in full, as a matrix of rows, and by another program's kind of output; none has a provenance.
#[test]
fn sparse_references_of_every_form_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let full = Path::new("fixtures/sparse/distilbert/expected.npy");
    compared("sparse/distilbert", full, &[], true);
    for ending in ["npz", "parquet", "arrow", "jsonl"] {
        let out = folder.path().join(format!("out.{ending}"));
        made("sparse/distilbert", &out, &[]);
        let _ = fs::remove_file(folder.path().join(format!("out.{ending}.json")));
        let found = compared("sparse/distilbert", &out, &[], true);
        assert_eq!(found["cosine"]["texts"], rows_of("sparse/distilbert"));
    }
    // Of another vocabulary.
    let out = folder.path().join("other.npz");
    made("heads/bert", &out, &["--vectors", "sparse"]);
    let other = verify("sparse/modernbert", &out, &[]);
    assert_eq!(other.status.code(), Some(1), "{}", stderr(&other));
    assert!(
        stderr(&other).contains("holds no vectors"),
        "{}",
        stderr(&other)
    );
}

fn rows_of(fixture: &str) -> usize {
    lines(&Path::new("fixtures").join(fixture).join("records.jsonl")).len()
}

#[test]
fn a_vector_of_the_next_text_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--vectors", "multi"];
    let said = |output: &Output, words: &str| {
        let said = stderr(output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(words), "{said}");
    };
    let lines = folder.path().join("out.jsonl");
    made("heads/bert", &lines, &options);
    let found = compared("heads/bert", &lines, &options, true);
    assert_eq!(found["cosine"]["texts"], rows_of("heads/bert"));
    let mut rows = rows(&lines);
    let own = rows[1]["embedding"].as_array().unwrap().len();
    let moved = rows[2]["embedding"].as_array_mut().unwrap().remove(0);
    rows[1]["embedding"].as_array_mut().unwrap().push(moved);
    let other = with_rows(&lines, &rows);
    let found = compared("heads/bert", &other, &options, false);
    assert_eq!(found["worst"]["row"], 2);
    assert_eq!(found["worst"]["vectors"], json!([own, own + 1]));
    let words = format!(
        "text 2 has {own} vectors of tokens, but {} in the reference",
        own + 1
    );
    said(&verify("heads/bert", &other, &options), &words);
    // The same in a matrix: it is its file of lengths that tells.
    let matrix = folder.path().join("out.npy");
    made("heads/bert", &matrix, &options);
    compared("heads/bert", &matrix, &options, true);
    let lengths = folder.path().join("out.npy.lengths.npy");
    let mut bytes = fs::read(&lengths).unwrap();
    let first = bytes.len() - 8 * rows.len();
    bytes[first + 8] += 1;
    bytes[first + 16] -= 1;
    fs::write(&lengths, bytes).unwrap();
    said(&verify("heads/bert", &matrix, &options), &words);
    // Without it the vectors are those of one text after another, and all of them must be there.
    fs::remove_file(lengths).unwrap();
    compared("heads/bert", &matrix, &options, true);
    let mut bytes = fs::read(&matrix).unwrap();
    let count = Matrix::read(&matrix).rows;
    let shape = format!("({count},");
    let mut places = bytes.windows(shape.len());
    let place = 1 + places.position(|it| it == shape.as_bytes()).unwrap();
    let fewer = format!("{}", count - 1);
    assert_eq!(fewer.len(), count.to_string().len());
    bytes[place..place + fewer.len()].copy_from_slice(fewer.as_bytes());
    bytes.truncate(bytes.len() - 4 * 16);
    fs::write(&matrix, bytes).unwrap();
    said(
        &verify("heads/bert", &matrix, &options),
        "vectors of tokens, but there are more texts",
    );
}

#[test]
fn scores_of_pairs_and_of_texts_are_compared_by_value() {
    let folder = tempfile::tempdir().unwrap();
    for (fixture, options) in [
        ("scores/bert", &["--query-field", "query"][..]),
        ("scores/bert-three-labels", &["--query-field", "query"]),
        ("scores/single-texts", &["--scores"]),
    ] {
        let expected = Path::new("fixtures").join(fixture).join("expected.npy");
        let found = compared(fixture, &expected, options, true);
        assert_eq!(found["measure"], "greatest_difference");
        assert_eq!(found["kind"], "scores");
        assert!(found["apart"].as_f64().unwrap() < 2e-5, "{found:#}");
        // A positive factor leaves the cosine of a single number as it is.
        let other = folder.path().join("other.npy");
        let mut bytes = fs::read(&expected).unwrap();
        let last = bytes.len() - 4;
        let value = f32::from_le_bytes(bytes[last..].try_into().unwrap());
        for (by, equal) in [(0.002, false), (0.0005, true)] {
            let spoiled = value + f32::copysign(by, value);
            bytes[last..].copy_from_slice(&spoiled.to_le_bytes());
            fs::write(&other, &bytes).unwrap();
            let found = compared(fixture, &other, options, equal);
            assert_eq!(found["worst"]["row"], rows_of(fixture), "{fixture} {by}");
        }
        let spoiled = value + f32::copysign(0.002, value);
        bytes[last..].copy_from_slice(&spoiled.to_le_bytes());
        fs::write(&other, &bytes).unwrap();
        let said = stderr(&verify(fixture, &other, options));
        assert!(
            said.contains("the largest difference of two scores"),
            "{said}"
        );
    }
}

#[test]
fn each_of_several_kinds_is_compared_with_its_column() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--vectors", "dense,sparse,multi"];
    let kinds = |found: &Value| -> Vec<String> {
        let columns = found["columns"].as_array().unwrap().iter();
        let kinds = columns.map(|it| it["kind"].as_str().unwrap().to_owned());
        kinds.collect()
    };
    for (ending, named) in [("parquet", "embedding"), ("arrow", "v"), ("jsonl", "v")] {
        let out = folder.path().join(format!("{named}.{ending}"));
        made(
            "heads/bert",
            &out,
            &[&options[..], &["--embedding-field", named]].concat(),
        );
        let found = compared("heads/bert", &out, &options, true);
        assert_eq!(kinds(&found), ["dense", "sparse", "multi"], "{ending}");
        // Of a file with more kinds those are compared that are asked for.
        let found = compared("heads/bert", &out, &["--vectors", "multi,dense"], true);
        assert_eq!(kinds(&found).len(), 2, "{ending}");
        let found = compared("heads/bert", &out, &["--vectors", "sparse"], true);
        assert_eq!(
            (&found["kind"], found.get("columns")),
            (&json!("sparse"), None)
        );
    }
    let out = folder.path().join("v.jsonl");
    for (kind, column) in [("dense", "v"), ("sparse", "v_sparse"), ("multi", "v_multi")] {
        let mut rows = rows(&out);
        match &mut rows[3][column] {
            Value::Array(values) => values.reverse(),
            sparse => double(sparse),
        }
        let other = with_rows(&out, &rows);
        let found = compared("heads/bert", &other, &options, false);
        assert_eq!(found["kind"], kind);
        assert_eq!(found["worst"]["row"], 4, "{kind}");
        for column in found["columns"].as_array().unwrap() {
            assert_eq!(column["same"], column["kind"] != kind, "{kind}: {found:#}");
        }
        let said = stderr(&verify("heads/bert", &other, &options));
        assert!(said.contains(&format!("{kind} vectors: the ")), "{said}");
    }
    // A kind that the file does not have.
    let sparse = folder.path().join("sparse.jsonl");
    made("heads/bert", &sparse, &["--vectors", "sparse"]);
    let lacking = verify("heads/bert", &sparse, &["--vectors", "dense,sparse"]);
    assert_eq!(lacking.status.code(), Some(1));
    let said = stderr(&lacking);
    assert!(
        said.contains("holds no dense vectors") && said.contains("--vectors"),
        "{said}"
    );
}

//! Vectors of tokens by the real binary against sentence-transformers' `MultiVectorEncoder`, every vector of every case.
//!
//! Cases live in `fixtures/multi`; `generate.py` beside them made them. A case's reference was made one text at a time, so
//! agreement here also shows that batching changes nothing.

mod jobs;
mod outputs;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::cases::{described, embed, graph_engines, stderr};
use support::npy::Matrix;

/// How far a component may be from the reference.
const TOLERANCE: f32 = 2e-5;

type Vectors = Vec<Vec<f32>>;

fn cases() -> Vec<PathBuf> {
    support::cases::all("fixtures/multi", 73)
}

fn case(name: &str) -> PathBuf {
    Path::new("fixtures/multi").join(name)
}

/// The rows of a JSONL output; none where a row is null.
fn rows(path: &Path) -> Vec<Option<Vectors>> {
    let text = std::fs::read_to_string(path).unwrap();
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        serde_json::from_value(row["embedding"].clone()).unwrap()
    };
    text.lines().map(row).collect()
}

fn embedded(case: &Path, more: &[&str]) -> Result<Vec<Option<Vectors>>, String> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.jsonl");
    let output = embed(case, &out, &[&["-q"], more].concat());
    match output.status.success() {
        true => Ok(rows(&out)),
        false => Err(stderr(&output)),
    }
}

/// The reference's rows.
fn expected(case: &Path) -> Vec<Vectors> {
    let all = Matrix::read(&case.join("expected.npy"));
    let mut next = 0;
    let described = described(case);
    let lengths = described["lengths"].as_array().unwrap().iter();
    lengths
        .map(|length| {
            let own = next..next + usize::try_from(length.as_u64().unwrap()).unwrap();
            next = own.end;
            own.map(|row| all.row(row).to_vec()).collect()
        })
        .collect()
}

/// The difference between rows and the reference, if there is one.
fn difference(ours: &[Option<Vectors>], expected: &[Vectors]) -> Option<String> {
    if ours.len() != expected.len() {
        return Some(format!("{} rows instead of {}", ours.len(), expected.len()));
    }
    for (row, (ours, expected)) in ours.iter().zip(expected).enumerate() {
        let Some(ours) = ours else {
            return Some(format!("row {row} is null"));
        };
        if ours.len() != expected.len() {
            let (ours, expected) = (ours.len(), expected.len());
            return Some(format!(
                "row {row} has {ours} vectors instead of {expected}"
            ));
        }
        for (token, (ours, expected)) in ours.iter().zip(expected).enumerate() {
            let apart = ours.iter().zip(expected).map(|(a, b)| (a - b).abs());
            let apart = apart.fold(0.0, |most: f32, it| if it <= most { most } else { it });
            if ours.len() != expected.len() || apart.is_nan() || apart > TOLERANCE {
                return Some(format!("row {row}, vector {token} is {apart} apart"));
            }
        }
    }
    None
}

fn every_case_equals_the_reference_on(engine: &[&str]) {
    let compare = |case: &PathBuf| {
        let failure = match embedded(case, engine) {
            Ok(ours) => difference(&ours, &expected(case)),
            Err(error) => Some(error),
        };
        failure.map(|failure| format!("{}: {failure}", case.display()))
    };
    let stride = support::cases::stride_on(engine[1]);
    let failures: Vec<String> = (cases().iter().step_by(stride))
        .filter_map(compare)
        .collect();
    assert!(failures.is_empty(), "{engine:?}: {}", failures.join("\n"));
}

#[test]
fn every_case_equals_the_reference_on_the_native_engine() {
    every_case_equals_the_reference_on(&["-p", "native"]);
}

#[test]
fn every_case_equals_the_reference_as_a_built_graph() {
    for engine in graph_engines("every_case_equals_the_reference_as_a_built_graph") {
        let engine: Vec<&str> = engine.iter().map(String::as_str).collect();
        every_case_equals_the_reference_on(&engine);
    }
}

#[test]
fn batches_of_any_size_and_jobs_in_parts_give_the_same_bits() {
    for name in ["bert-query", "pylate-document", "pooling"] {
        let case = case(name);
        let plain = embedded(&case, &[]).unwrap();
        for more in [
            &["--batch-size", "1"][..],
            &["--window", "2"],
            &["--batch-tokens", "64"],
        ] {
            assert_eq!(embedded(&case, more).unwrap(), plain, "{name} {more:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.jsonl");
        for _ in 0..2 {
            let output = embed(&case, &out, &["-q", "--resume", "--part-rows", "3"]);
            assert!(output.status.success(), "{}", stderr(&output));
            assert_eq!(rows(&out), plain, "{name}");
        }
    }
}

#[test]
fn reduced_precision_stays_near() {
    let exact = expected(&case("bert-document"));
    for precision in ["int16", "int8", "bf16"] {
        let ours = embedded(&case("bert-document"), &["--precision", precision]).unwrap();
        for (ours, exact) in ours.iter().flatten().zip(&exact) {
            assert_eq!(ours.len(), exact.len());
            for (ours, exact) in ours.iter().zip(exact) {
                let cosine: f32 = ours.iter().zip(exact).map(|(a, b)| a * b).sum();
                assert!(cosine > 0.99, "{precision}: {cosine}");
            }
        }
    }
}

#[test]
fn types_of_components_are_those_of_dense_vectors() {
    let case = case("bert-document");
    let exact = expected(&case);
    let half = embedded(&case, &["--dtype", "f16"]).unwrap();
    for (ours, exact) in half.iter().flatten().flatten().zip(exact.iter().flatten()) {
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-3;
        assert!(ours.iter().zip(exact).all(near));
    }
    let bits = embedded(&case, &["--dtype", "ubinary"]).unwrap();
    for (ours, exact) in bits.iter().flatten().flatten().zip(exact.iter().flatten()) {
        let byte = exact
            .iter()
            .fold(0_u16, |byte, it| byte << 1 | u16::from(*it > 0.0));
        assert_eq!(ours[..], [f32::from(byte)]);
    }
}

#[test]
fn rejected_rows_are_null_and_others_keep_their_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("records.jsonl");
    let texts = "{\"id\": \"a\", \"text\": \"a cat sat on a mat\"}\n{\"id\": \"b\"}\n{\"id\": \"c\", \"text\": \"x\"}\n";
    std::fs::write(&records, texts).unwrap();
    for format in ["jsonl", "parquet", "arrow"] {
        let out = folder.path().join("out").with_extension(format);
        let output = Command::new(env!("CARGO_BIN_EXE_embedctl"))
            .env("EMBEDCTL_NO_CONFIG", "1")
            .args(["embed", "-q", "--no-cache", "--on-error", "null", "-m"])
            .arg(case("bert-document").join("model"))
            .arg(&records)
            .arg("-o")
            .arg(&out)
            .output()
            .unwrap();
        // Rejects are told by the exit code.
        assert!(out.exists(), "{}", stderr(&output));
        if format == "jsonl" {
            let rows = rows(&out);
            assert_eq!(rows.len(), 3);
            assert!(rows[1].is_none());
            let rows: Vec<_> = [0, 2].map(|row| rows[row].clone()).into();
            let exact = expected(&case("bert-document"));
            let exact = [0, 5].map(|row| exact[row].clone());
            assert_eq!(difference(&rows, &exact), None);
        }
    }
}

#[test]
fn other_kinds_of_options_are_refused_with_the_reason() {
    for (name, more, words) in [
        (
            "bert-document",
            &["--pooling", "mean"][..],
            "one vector for a text",
        ),
        (
            "bert-document",
            &["--dimensions", "4"],
            "one vector for a text",
        ),
        (
            "bert-document",
            &["--vectors", "dense"],
            "each token a vector",
        ),
        ("bert-query", &["--pool-factor", "2"], "about documents"),
        (
            "bert-query",
            &["--max-length", "9"],
            "always have 32 tokens",
        ),
        ("bert-document", &["-f", "pgcopy"], "one for each token"),
    ] {
        let error = embedded(&case(name), more).unwrap_err();
        assert!(error.contains(words), "{more:?}: {error}");
    }
}

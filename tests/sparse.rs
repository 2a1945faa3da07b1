//! Sparse vectors of the real binary against sentence-transformers' `SparseEncoder`, every row of every case.
//!
//! Cases live in `fixtures/sparse`; `generate.py` beside them made them. A case's reference was made one text at a time, so
//! agreement here also shows that batching changes nothing.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use support::cases::{embed, graph_engines, stderr};
use support::npy::Matrix;

/// How far an entry may be from the reference, of a weight of 1 or less; of larger ones so much of their size.
const TOLERANCE: f32 = 2e-5;

/// Weights from which on both must have an entry.
const SUPPORT: f32 = 1e-4;

type Entries = BTreeMap<usize, f32>;

fn cases() -> Vec<PathBuf> {
    support::cases::all("fixtures/sparse", 36)
}

fn case(name: &str) -> PathBuf {
    Path::new("fixtures/sparse").join(name)
}

/// The rows of a JSONL output; none where a row is null.
fn rows(path: &Path) -> Vec<Option<Entries>> {
    let text = std::fs::read_to_string(path).unwrap();
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let parts = row["embedding"].as_object()?;
        let indices = parts["indices"].as_array().unwrap().iter();
        let indices: Vec<usize> = indices
            .map(|it| usize::try_from(it.as_u64().unwrap()).unwrap())
            .collect();
        assert!(indices.is_sorted_by(|one, next| one < next), "{indices:?}");
        let values = parts["values"].as_array().unwrap().iter();
        #[allow(clippy::cast_possible_truncation)] // they are float32
        let values = values.map(|it| it.as_f64().unwrap() as f32);
        assert_eq!(values.len(), indices.len());
        Some(indices.into_iter().zip(values).collect())
    };
    text.lines().map(row).collect()
}

fn embedded(case: &Path, more: &[&str]) -> Result<Vec<Option<Entries>>, String> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.jsonl");
    let output = embed(case, &out, &[&["-q"], more].concat());
    match output.status.success() {
        true => Ok(rows(&out)),
        false => Err(stderr(&output)),
    }
}

/// The difference between rows and the reference, if there is one.
fn difference(ours: &[Option<Entries>], expected: &Matrix) -> Option<String> {
    if ours.len() != expected.rows {
        return Some(format!("{} rows instead of {}", ours.len(), expected.rows));
    }
    for (row, ours) in ours.iter().enumerate() {
        let Some(ours) = ours else {
            return Some(format!("row {row} is null"));
        };
        if let Some(beyond) = ours.keys().find(|index| **index >= expected.width) {
            return Some(format!("row {row} has an entry {beyond}"));
        }
        for (index, &wanted) in expected.row(row).iter().enumerate() {
            let own = ours.get(&index).copied();
            let apart = (own.unwrap_or(0.0) - wanted).abs();
            let is_far = apart.is_nan() || apart > TOLERANCE * wanted.abs().max(1.0);
            if is_far || (wanted.abs() > SUPPORT && own.is_none()) {
                return Some(format!("row {row}, entry {index}: {own:?} and {wanted}"));
            }
        }
    }
    None
}

fn compare(case: &Path, more: &[&str]) -> Option<String> {
    let expected = Matrix::read(&case.join("expected.npy"));
    let failure = match embedded(case, more) {
        Ok(ours) => difference(&ours, &expected),
        Err(error) => Some(error),
    };
    failure.map(|failure| format!("{}: {failure}", case.display()))
}

#[test]
fn every_case_equals_the_reference_on_the_native_engine() {
    let cases = cases();
    let failures: Vec<String> = (cases.iter())
        .filter_map(|case| compare(case, &["-p", "native"]))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_exported_case_equals_the_reference_on_rten() {
    let cases = cases();
    let exported: Vec<_> = (cases.iter())
        .filter(|case| case.join("model/onnx/model.onnx").exists())
        .collect();
    assert!(exported.len() >= 3, "only {} cases", exported.len());
    for case in exported {
        assert_eq!(compare(case, &["-p", "rten"]), None);
    }
}

#[test]
fn every_case_equals_the_reference_as_a_built_graph() {
    for engine in graph_engines("every_case_equals_the_reference_as_a_built_graph") {
        let engine: Vec<&str> = engine.iter().map(String::as_str).collect();
        // A query's weights are those of its tokens there, without a network.
        let has_none = |case: &PathBuf| {
            ["route-query", "weights-by-token"]
                .iter()
                .any(|name| case.ends_with(name))
        };
        let cases = cases().into_iter().filter(|case| !has_none(case));
        let failures: Vec<String> = (cases.step_by(support::cases::stride_on(engine[1])))
            .filter_map(|case| compare(&case, &engine))
            .collect();
        assert!(failures.is_empty(), "{engine:?}: {}", failures.join("\n"));
    }
}

/// A row's terms do not depend on how rows are batched, nor on tiles of the vocabulary and blocks of tokens.
#[test]
fn batches_change_no_bit() {
    for name in ["roberta", "sum-log1p_relu", "modernbert"] {
        let case = case(name);
        let usual = embedded(&case, &["-p", "native"]).unwrap();
        let alone = embedded(&case, &["-p", "native", "--batch-size", "1"]).unwrap();
        assert!(usual == alone, "{name}");
    }
}

#[test]
fn reduced_precision_says_how_close_terms_are() {
    for precision in ["int16", "int8"] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.jsonl");
        let more = ["-p", "native", "--precision", precision];
        let output = embed(&case("distilbert"), &out, &more);
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("cosine"), "{said}");
        let (found, exact) = (rows(&out), embedded(&case("distilbert"), &[]).unwrap());
        let cosine = |one: &Entries, two: &Entries| {
            let dot: f32 = one
                .iter()
                .map(|(index, it)| it * two.get(index).unwrap_or(&0.0))
                .sum();
            let norm = |row: &Entries| row.values().map(|it| it * it).sum::<f32>().sqrt();
            dot / norm(one) / norm(two)
        };
        for (found, exact) in found.iter().zip(&exact) {
            let cosine = cosine(found.as_ref().unwrap(), exact.as_ref().unwrap());
            assert!(cosine > 0.98, "{precision}: {cosine}");
        }
    }
}

#[test]
fn the_summary_counts_entries() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.jsonl");
    let output = embed(&case("distilbert"), &out, &[]);
    let said = stderr(&output);
    let counts: Vec<usize> = rows(&out)
        .iter()
        .map(|row| row.as_ref().unwrap().len())
        .collect();
    let most = counts.iter().max().unwrap();
    assert!(said.contains(&format!("{most} at most")), "{said}");
    assert!(said.contains("entries"), "{said}");
}

#[test]
fn tokens_stand_in_place_of_indices() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.jsonl");
    let case = case("weights-by-token");
    let output = embed(&case, &out, &["--sparse-tokens"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(&out).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let indexed = embedded(&case, &[]).unwrap();
    let map = first["embedding"].as_object().unwrap();
    assert_eq!(map.len(), indexed[0].as_ref().unwrap().len());
    let mut weights: Vec<f64> = map.values().map(|it| it.as_f64().unwrap()).collect();
    let mut others: Vec<f64> = (indexed[0].as_ref().unwrap().values())
        .map(|it| it.to_string().parse().unwrap())
        .collect();
    weights.sort_by(f64::total_cmp);
    others.sort_by(f64::total_cmp);
    assert_eq!(weights, others);
}

/// Parts, a job that stops and resumes, and shards give the rows of one run.
#[test]
fn jobs_give_the_rows_of_one_run() {
    let case = case("distilbert");
    let whole = embedded(&case, &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one.jsonl");
    for _ in 0..2 {
        let output = embed(&case, &one, &["--resume", "--part-rows", "3"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(rows(&one) == whole);
    }
    let parts = format!("{}/", folder.path().join("parts").display());
    for shard in ["1/2", "2/2"] {
        let more = ["-f", "jsonl", "--part-rows", "2", "--shard", shard];
        let output = embed(&case, Path::new(&parts), &more);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(&parts)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .collect();
    files.sort();
    let all: Vec<_> = files.iter().flat_map(|file| rows(file)).collect();
    assert!(all == whole, "{files:?}");
    // Another number of entries is another vector.
    let output = embed(&case, &one, &["--resume", "--max-active-dims", "3"]);
    assert!(!output.status.success());
}

/// A job whose parts were written by a run that stopped goes on from them.
#[test]
fn a_stopped_job_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let case = folder.path().join("case");
    std::fs::create_dir(&case).unwrap();
    let model = self::case("distilbert")
        .join("model")
        .canonicalize()
        .unwrap();
    std::fs::write(case.join("case.json"), "{\"args\": []}").unwrap();
    let good = std::fs::read_to_string(self::case("distilbert").join("records.jsonl")).unwrap();
    // The run stops at a bad record.
    std::fs::write(case.join("records.jsonl"), format!("{good}broken\n")).unwrap();
    let out = folder.path().join("out.jsonl");
    let model = model.to_string_lossy().into_owned();
    let more = [
        "--resume",
        "--part-rows",
        "2",
        "--window",
        "2",
        "-m",
        &model,
    ];
    let run = |records: &str| {
        std::fs::write(case.join("records.jsonl"), records).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_embedctl"));
        command.env("EMBEDCTL_NO_CONFIG", "1").arg("embed");
        command.arg(case.join("records.jsonl")).arg("-o").arg(&out);
        command.args(["--threads", "2", "--no-cache"]).args(more);
        command.output().unwrap()
    };
    let stopped = run(&format!("{good}broken\n"));
    assert!(!stopped.status.success());
    assert!(!out.exists());
    let output = run(&good);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("resumed"), "{said}");
    assert!(rows(&out) == embedded(&self::case("distilbert"), &[]).unwrap());
}

/// `inspect` reads outputs of every format, and so does `verify-model`.
#[test]
fn outputs_are_inspected_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let case = case("distilbert");
    let program = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_embedctl"));
        command.env("EMBEDCTL_NO_CONFIG", "1");
        command
    };
    let said = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(output);
        assert!(output.status.success(), "{text}");
        text
    };
    for ending in [
        "npz",
        "parquet",
        "arrow",
        "arrows",
        "jsonl",
        "jsonl.zst",
        "pgcopy",
    ] {
        let out = folder.path().join(format!("out.{ending}"));
        said(&embed(&case, &out, &[]));
        let text = said(&program().arg("inspect").arg(&out).output().unwrap());
        assert!(
            text.contains("8 vectors of 320 dimensions"),
            "{ending}: {text}"
        );
    }
    let verified = |against: &Path| {
        let mut command = program();
        command
            .arg("verify-model")
            .arg(case.join("model"))
            .arg("--against");
        command
            .arg(against)
            .args(["--texts".as_ref(), case.join("records.jsonl").as_os_str()]);
        said(&command.output().unwrap())
    };
    verified(&case.join("expected.npy"));
    verified(&folder.path().join("out.parquet"));
}

#[cfg(unix)] // the model is a link
#[test]
fn rejected_rows_are_null() {
    let folder = tempfile::tempdir().unwrap();
    let case = folder.path();
    std::fs::write(case.join("case.json"), "{\"args\": []}").unwrap();
    std::fs::write(
        case.join("records.jsonl"),
        "{\"text\": \"a cat\"}\n{\"text\": 7}\n",
    )
    .unwrap();
    let model = self::case("distilbert")
        .join("model")
        .canonicalize()
        .unwrap();
    std::os::unix::fs::symlink(&model, case.join("model")).unwrap();
    for format in ["jsonl", "parquet", "arrow", "pgcopy"] {
        let out = case.join(format!("out.{format}"));
        let output = embed(case, &out, &["--on-error", "null"]);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    }
    let found = rows(&case.join("out.jsonl"));
    assert!(found[0].is_some() && found[1].is_none());
}

#[test]
fn what_has_no_meaning_for_sparse_vectors_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    for (name, ending, more, words) in [
        ("distilbert", "npy", &[][..], "-f parquet"),
        ("distilbert", "fbin", &[], "-f parquet"),
        ("distilbert", "jsonl", &["--dtype", "f16"], "--dtype"),
        (
            "distilbert",
            "jsonl",
            &["--dimensions", "8"],
            "--dimensions",
        ),
        ("distilbert", "jsonl", &["--pooling", "mean"], "--pooling"),
        (
            "distilbert",
            "parquet",
            &["--vector-type", "list"],
            "--vector-type",
        ),
        (
            "distilbert",
            "jsonl",
            &["--vectors", "dense"],
            "--vectors dense",
        ),
        ("distilbert", "pgcopy", &["--sparse-tokens"], "-f jsonl"),
        (
            "route-query",
            "jsonl",
            &["--task", "document", "--normalize", "true"],
            "--normalize",
        ),
    ] {
        let out = folder.path().join(format!("out.{ending}"));
        let mut all: Vec<&str> = more.to_vec();
        if name == "route-query" {
            all.retain(|word| !["--task", "document"].contains(word));
        }
        let output = embed(&case(name), &out, &all);
        let said = stderr(&output);
        assert_eq!(
            output.status.code(),
            Some(if ending == "x" { 1 } else { 2 }),
            "{said}"
        );
        assert!(said.contains(words), "{said}");
        assert!(!out.exists());
    }
    // And the reverse.
    let dense = Path::new("fixtures/parity/bert-cls");
    for more in [
        &["--sparse-tokens"][..],
        &["--max-active-dims", "3"],
        &["--vectors", "sparse"],
    ] {
        let out = folder.path().join("out.jsonl");
        let mut command = Command::new(env!("CARGO_BIN_EXE_embedctl"));
        command.env("EMBEDCTL_NO_CONFIG", "1").arg("embed");
        command.args(["fixtures/sparse/bert/records.jsonl", "-m"]);
        let output = command
            .arg(dense.join("model"))
            .arg("-o")
            .arg(&out)
            .args(more);
        let output = output.output().unwrap();
        assert!(!output.status.success(), "{more:?}");
        assert!(stderr(&output).contains(more[0]), "{}", stderr(&output));
    }
}

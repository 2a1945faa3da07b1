//! Layers beside a network (bge-m3's) by the real binary against FlagEmbedding's `BGEM3FlagModel`, every number of every
//! case.
//!
//! Cases live in `fixtures/heads`; `generate.py` beside them made them.

mod inspected;
mod killed;
mod reused;
mod several;
#[path = "../support/mod.rs"]
mod support;
mod verified;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use support::cases::{pooling_engine, stderr};
use support::npy::Matrix;

/// How far a number may be from the reference.
const TOLERANCE: f32 = 2e-5;

const CASES: [&str; 3] = ["xlm-roberta", "roberta", "bert"];

fn case(name: &str) -> PathBuf {
    Path::new("fixtures/heads").join(name)
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_embedctl"));
    command.env("EMBEDCTL_NO_CONFIG", "1");
    command
}

/// Runs the binary on the records of a case, with the model in `model`.
fn embed_with(model: &Path, name: &str, out: &Path, more: &[&str]) -> Output {
    let mut command = program();
    command.args(["embed", "-q", "--no-cache", "--max-length", "64", "-m"]);
    command
        .arg(model)
        .arg(case(name).join("records.jsonl"))
        .arg("-o");
    command.arg(out).args(more).output().unwrap()
}

fn embed(name: &str, out: &Path, more: &[&str]) -> Output {
    embed_with(&case(name).join("model"), name, out, more)
}

/// The objects of a run into JSONL.
fn objects(name: &str, more: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.jsonl");
    let output = embed(name, &out, more);
    assert!(
        output.status.success(),
        "{name} {more:?}: {}",
        stderr(&output)
    );
    let text = fs::read_to_string(&out).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The embeddings of a run into JSONL.
fn rows(name: &str, more: &[&str]) -> Vec<Value> {
    let objects = objects(name, more).into_iter();
    objects.map(|mut row| row["embedding"].take()).collect()
}

fn described(name: &str) -> Value {
    serde_json::from_slice(&fs::read(case(name).join("case.json")).unwrap()).unwrap()
}

fn vector(value: &Value) -> Vec<f32> {
    serde_json::from_value(value.clone()).unwrap()
}

fn assert_near(ours: &[f32], expected: &[f32], place: &str) {
    assert_eq!(ours.len(), expected.len(), "{place}");
    for (a, b) in ours.iter().zip(expected) {
        assert!((a - b).abs() <= TOLERANCE, "{place}: {a} instead of {b}");
    }
}

fn the_dense_vector_is_flag_embeddings(engine: &[&str]) {
    for name in CASES {
        let expected = Matrix::read(&case(name).join("dense.npy"));
        let found = rows(name, engine);
        assert_eq!(found.len(), expected.rows);
        for (row, ours) in found.iter().enumerate() {
            assert_near(
                &vector(ours),
                expected.row(row),
                &format!("{name}, row {row}"),
            );
        }
    }
}

/// Weights of tokens; those above 1e-4 have the same places.
fn lexical_weights_are_flag_embeddings(engine: &[&str]) {
    for name in CASES {
        let expected: Vec<BTreeMap<u32, f32>> =
            serde_json::from_value(described(name)["sparse"].clone()).unwrap();
        assert!(expected.iter().any(|row| row.len() > 10), "{name}");
        let found = rows(name, &[&["--vectors", "sparse"], engine].concat());
        assert_eq!(found.len(), expected.len());
        for (row, (ours, expected)) in found.iter().zip(&expected).enumerate() {
            let indices: Vec<u32> = serde_json::from_value(ours["indices"].clone()).unwrap();
            assert!(indices.is_sorted(), "{name}, row {row}");
            let ours: BTreeMap<u32, f32> =
                indices.into_iter().zip(vector(&ours["values"])).collect();
            let places = ours.keys().chain(expected.keys());
            for place in places {
                let of = |row: &BTreeMap<u32, f32>| row.get(place).copied();
                let (a, b) = (of(&ours), of(expected));
                let apart = (a.unwrap_or(0.0) - b.unwrap_or(0.0)).abs();
                assert!(
                    apart <= TOLERANCE,
                    "{name}, row {row}, token {place}: {a:?} {b:?}"
                );
                let counts = a.unwrap_or(0.0).max(b.unwrap_or(0.0)) > 1e-4;
                assert!(
                    !counts || a.is_some() == b.is_some(),
                    "{name}, row {row}, token {place}"
                );
            }
        }
    }
}

fn token_vectors_are_flag_embeddings(engine: &[&str]) {
    for name in CASES {
        let (expected, about) = (Matrix::read(&case(name).join("multi.npy")), described(name));
        let lengths = about["lengths"].as_array().unwrap();
        let mut next = 0;
        for (row, (ours, length)) in rows(name, &[&["--vectors", "multi"], engine].concat())
            .iter()
            .zip(lengths)
            .enumerate()
        {
            let ours = ours.as_array().unwrap();
            assert_eq!(
                ours.len() as u64,
                length.as_u64().unwrap(),
                "{name}, row {row}"
            );
            for ours in ours {
                assert_near(
                    &vector(ours),
                    expected.row(next),
                    &format!("{name}, row {row}"),
                );
                next += 1;
            }
        }
        assert_eq!(next, expected.rows, "{name}");
    }
}

#[test]
fn every_kind_is_flag_embeddings_on_the_native_engine_and_with_pooling_in_the_graph() {
    let test = "every_kind_is_flag_embeddings_on_the_native_engine_and_with_pooling_in_the_graph";
    for engine in std::iter::once(Vec::new()).chain(pooling_engine(test)) {
        let engine: Vec<&str> = engine.iter().map(String::as_str).collect();
        the_dense_vector_is_flag_embeddings(&engine);
        lexical_weights_are_flag_embeddings(&engine);
        token_vectors_are_flag_embeddings(&engine);
    }
}

#[test]
fn batches_and_jobs_change_no_bit() {
    for kind in ["sparse", "multi"] {
        let plain = rows("xlm-roberta", &["--vectors", kind]);
        for more in [["--batch-size", "1"], ["--window", "2"], ["--threads", "1"]] {
            let found = rows("xlm-roberta", &[&["--vectors", kind][..], &more].concat());
            assert_eq!(found, plain, "{kind} {more:?}");
        }
        let job = rows(
            "xlm-roberta",
            &["--vectors", kind, "--resume", "--part-rows", "3"],
        );
        assert_eq!(job, plain, "{kind}");
        for precision in ["int16", "int8", "bf16"] {
            let found = rows(
                "xlm-roberta",
                &["--vectors", kind, "--precision", precision],
            );
            assert_eq!(found.len(), plain.len(), "{kind} {precision}");
        }
    }
    // Vectors of another kind, or of other layers, do not mix.
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("parts");
    let out = Path::new(out.to_str().unwrap()).join("");
    let run = |model: &Path, kind: &str| {
        let more = [
            "-f",
            "jsonl",
            "--part-rows",
            "3",
            "--resume",
            "--vectors",
            kind,
        ];
        embed_with(model, "bert", &out, &more)
    };
    let model = folder.path().join("model");
    copy(&case("bert").join("model"), &model);
    for (kind, others) in [
        ("sparse", ["multi", "dense"]),
        ("multi", ["sparse", "dense"]),
    ] {
        let _ = fs::remove_dir_all(&out);
        let _ = fs::remove_dir_all(folder.path().join("_parts.embedctl"));
        let begun = run(&model, kind);
        assert!(begun.status.success(), "{}", stderr(&begun));
        for other in others {
            assert_eq!(run(&model, other).status.code(), Some(2), "{kind} {other}");
        }
    }
    let other = case("xlm-roberta").join("model/colbert_linear.pt");
    fs::copy(other, model.join("colbert_linear.pt")).unwrap();
    let changed = run(&model, "multi");
    assert_eq!(changed.status.code(), Some(2));
    assert!(
        stderr(&changed).contains("colbert_linear.pt"),
        "{}",
        stderr(&changed)
    );
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(&path, &target).unwrap()),
        }
    }
}

/// Every program but that of a layer is refused, and a file of another shape is told.
#[test]
fn bad_layers_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("model"), folder.path().join("out.jsonl"));
    copy(&case("xlm-roberta").join("model"), &model);
    let file = model.join("sparse_linear.pt");
    let good = fs::read(&file).unwrap();
    let pickle = |old: &[u8], new: &[u8]| {
        let at = good.windows(old.len()).position(|it| it == old).unwrap();
        [&good[..at], new, &good[at + old.len()..]].concat()
    };
    let vector_layer = fs::read(model.join("colbert_linear.pt")).unwrap();
    for (content, words) in [
        (
            pickle(
                b"torch._utils\n_rebuild_tensor_v2",
                b"builtins.xxx\n__import__________",
            ),
            "asks for",
        ),
        (
            pickle(b"collections\nOrderedDict", b"subprocess_\nOrderedDict"),
            "asks for",
        ),
        (good[..good.len() / 2].to_vec(), "cut short"),
        (Vec::new(), "torch.save"),
        (b"\x80\x02}q\x00.".to_vec(), "torch.save"),
        (vector_layer, "16 weights"),
    ] {
        fs::write(&file, content).unwrap();
        let output = embed_with(&model, "xlm-roberta", &out, &["--vectors", "sparse"]);
        let said = stderr(&output);
        assert!(!output.status.success() && !out.exists());
        assert!(
            said.contains("sparse_linear.pt") && said.contains(words),
            "{said}"
        );
    }
    // The layer is not read for dense vectors.
    let output = embed_with(&model, "xlm-roberta", &out, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn kinds_are_named_and_refused_where_there_is_no_layer() {
    let info = program()
        .arg("info")
        .arg(case("bert").join("model"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&info.stdout).into_owned();
    assert!(said.contains("--vectors sparse, --vectors multi"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("model"), folder.path().join("out.jsonl"));
    copy(&case("bert").join("model"), &model);
    fs::remove_file(model.join("sparse_linear.pt")).unwrap();
    fs::remove_file(model.join("colbert_linear.pt")).unwrap();
    for (kind, word) in [
        ("sparse", "fetch sparse_linear.pt"),
        ("multi", "fetch colbert_linear.pt"),
    ] {
        let output = embed_with(&model, "bert", &out, &["--vectors", kind]);
        assert!(!output.status.success());
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
    }
}

/// An ONNX file that gives states runs the layers, too: here one that embedctl has made.
#[test]
fn other_engines_give_the_same_vectors() {
    let folder = tempfile::tempdir().unwrap();
    for name in CASES {
        let model = folder.path().join(name);
        copy(&case(name).join("model"), &model);
        fs::create_dir(model.join("onnx")).unwrap();
        let mut command = program();
        command
            .arg("export")
            .arg(&model)
            .arg(model.join("onnx/model.onnx"));
        let exported = command.output().unwrap();
        assert!(exported.status.success(), "{}", stderr(&exported));
        for kind in ["sparse", "multi"] {
            let out = folder.path().join(format!("{name}-{kind}.jsonl"));
            let output = embed_with(&model, name, &out, &["--vectors", kind, "-p", "rten"]);
            assert!(output.status.success(), "{}", stderr(&output));
            let text = fs::read_to_string(&out).unwrap();
            let native = rows(name, &["--vectors", kind]);
            assert_eq!(text.lines().count(), native.len());
            for (line, native) in text.lines().zip(&native) {
                let ours: Value = serde_json::from_str(line).unwrap();
                assert_alike(kind, &ours["embedding"], native, &format!("{name}: {line}"));
            }
        }
    }
}

/// Vectors of one kind that must be the same up to the tolerance.
fn assert_alike(kind: &str, ours: &Value, native: &Value, place: &str) {
    match kind {
        "dense" => assert_near(&vector(ours), &vector(native), place),
        "sparse" => {
            // A weight near 0 may be there in one of them.
            let entries = |row: &Value| -> BTreeMap<u64, f32> {
                let indices = row["indices"].as_array().unwrap().iter();
                let entries = indices.map(|it| it.as_u64().unwrap());
                let entries = entries.zip(vector(&row["values"]));
                entries.filter(|(_, value)| *value > 1e-4).collect()
            };
            let (ours, native) = (entries(ours), entries(native));
            assert!(ours.keys().eq(native.keys()), "{place}");
            let values = |row: BTreeMap<u64, f32>| row.into_values().collect::<Vec<_>>();
            assert_near(&values(ours), &values(native), place);
        }
        _ => {
            let (ours, native) = (ours.as_array().unwrap(), native.as_array().unwrap());
            assert_eq!(ours.len(), native.len(), "{place}");
            for (ours, native) in ours.iter().zip(native) {
                assert_near(&vector(ours), &vector(native), place);
            }
        }
    }
}

/// Matrices, and what reads outputs back.
#[test]
fn outputs_in_every_format_are_inspected_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, endings) in [
        (
            "sparse",
            &["npz", "parquet", "arrow", "jsonl", "pgcopy"][..],
        ),
        ("multi", &["npy", "parquet", "arrow", "jsonl"]),
    ] {
        for ending in endings {
            let out = folder.path().join(format!("{kind}.{ending}"));
            let output = embed("bert", &out, &["--vectors", kind]);
            assert!(output.status.success(), "{}", stderr(&output));
            let inspected = program().arg("inspect").arg(&out).output().unwrap();
            assert!(inspected.status.success(), "{}", stderr(&inspected));
        }
        let mut command = program();
        command.arg("verify-model").arg(case("bert").join("model"));
        command.args(["--vectors", kind, "--max-length", "64", "--against"]);
        command
            .arg(folder.path().join(format!("{kind}.parquet")))
            .arg("--texts");
        let verified = command
            .arg(case("bert").join("records.jsonl"))
            .output()
            .unwrap();
        assert!(verified.status.success(), "{}", stderr(&verified));
    }
}

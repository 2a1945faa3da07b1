//! Vectors of every kind that are copied from an earlier output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::program;
use crate::support::cases::stderr;
use embedctl_testing::stride;

/// Texts of the earlier output, one of them twice; the last two records have none.
const OLD: [&str; 5] = ["a cat sat on a mat", "It rains.", "", "x", "It rains."];
/// Texts that it lacks.
const NEW: [&str; 3] = [
    "Berlin had 3,520,031 people in 2019.",
    "東京",
    "the the the",
];

/// Every kind and set of kinds: the model, the options, and the output that is a matrix, if there is one.
pub(super) const KINDS: [(&str, &[&str], Option<&str>); 8] = [
    ("heads/bert", &["--vectors", "dense"], Some("old.npy")),
    ("heads/bert", &["--vectors", "sparse"], Some("old.npz")),
    ("heads/bert", &["--vectors", "multi"], Some("old.npy")),
    (
        "heads/bert",
        &["--vectors", "multi", "--dtype", "f16"],
        Some("old.npy"),
    ),
    ("heads/bert", &["--vectors", "dense,sparse,multi"], None),
    (
        "heads/bert",
        &["--vectors", "dense,multi", "--dimensions", "8,16"],
        None,
    ),
    (
        "sparse/distilbert",
        &["--max-active-dims", "9"],
        Some("old.npz"),
    ),
    (
        "multi/pylate-document",
        &["--pool-factor", "2"],
        Some("old.npy"),
    ),
];

pub(super) fn write(path: &Path, records: impl Iterator<Item = Value>) {
    let lines: Vec<String> = records.map(|record| record.to_string()).collect();
    fs::write(path, lines.join("\n")).unwrap();
}

pub(super) fn embed(model: &str, records: &Path, out: &Path, more: &[&str]) -> Output {
    let mut command: Command = program();
    command.args(["embed", "--no-cache", "-m"]);
    command.arg(Path::new("fixtures").join(model).join("model"));
    command.arg(records).arg("-o").arg(out);
    command.args(more).output().unwrap()
}

pub(super) fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(str::to_owned).collect()
}

struct Scene {
    _folder: tempfile::TempDir,
    old: PathBuf,
    new: PathBuf,
    place: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (
            folder.path().join("in-old.jsonl"),
            folder.path().join("in.jsonl"),
        );
        let texts = OLD.iter().enumerate();
        let records = texts.map(|(id, text)| json!({"id": id, "text": text}));
        write(
            &old,
            records.chain([json!({"id": 8}), json!({"id": 9, "text": null})]),
        );
        let texts = NEW.iter().chain(&OLD).chain(&NEW).rev().enumerate();
        write(
            &new,
            texts.map(|(id, text)| json!({"id": id, "text": text})),
        );
        Self {
            old,
            new,
            place: folder.path().to_owned(),
            _folder: folder,
        }
    }

    /// The rows of a run that reuses `earlier`, which must have copied all that it can.
    fn reusing(&self, model: &str, options: &[&str], earlier: &Path, copied: usize) -> Vec<String> {
        let out = self.place.join("reusing.jsonl");
        let more = ["--overwrite", "--reuse", earlier.to_str().unwrap()];
        let output = embed(model, &self.new, &out, &[options, &more].concat());
        let said = stderr(&output);
        assert!(output.status.success(), "{earlier:?} {options:?}: {said}");
        let says = format!("{copied} vectors copied from an earlier output");
        assert!(said.contains(&says), "{earlier:?} {options:?}: {said}");
        lines(&out)
    }
}

#[test]
fn vectors_of_every_kind_are_copied_bit_by_bit() {
    for (number, (model, options, matrix)) in KINDS.into_iter().enumerate() {
        let scene = Scene::new();
        let plain = scene.place.join("plain.jsonl");
        let output = embed(model, &scene.new, &plain, options);
        assert!(output.status.success(), "{}", stderr(&output));
        let plain = lines(&plain);
        let names = [
            "old.parquet",
            "old.arrow",
            "old.arrows",
            "old.jsonl",
            "old.jsonl.gz",
            "old.jsonl.zst",
            "parts/",
        ];
        let names = names.into_iter().chain(matrix);
        for name in names.skip(number % stride(3)).step_by(stride(3)) {
            let earlier = scene.place.join(name);
            let more: &[&str] = match name {
                "parts/" => &["-f", "parquet", "--part-rows", "2"],
                _ => &["--keep", "text"],
            };
            // Two records have no text. Rows without a dense vector are told apart in Parquet alone.
            let skips = Some(name) == matrix
                || options.contains(&"dense") && name.starts_with("old.") && name != "old.parquet";
            let on_error = if skips { "skip" } else { "null" };
            let more = [options, more, &["--on-error", on_error]].concat();
            let output = embed(model, &scene.old, &earlier, &more);
            assert_eq!(output.status.code(), Some(3), "{name}: {}", stderr(&output));
            assert_eq!(
                scene.reusing(model, options, &earlier, 5),
                plain,
                "{name} {options:?}"
            );
        }
    }
}

#[test]
fn what_is_copied_are_the_numbers_of_the_file() {
    let scene = Scene::new();
    for (kinds, keys) in [
        ("sparse", &["embedding"][..]),
        ("multi", &["embedding"]),
        (
            "dense,sparse,multi",
            &["embedding", "embedding_sparse", "embedding_multi"],
        ),
    ] {
        let options = ["--vectors", kinds];
        let earlier = scene.place.join("changed.jsonl");
        let more = ["--keep", "text", "--overwrite", "--on-error", "skip"];
        let output = embed(
            "heads/bert",
            &scene.old,
            &earlier,
            &[&options[..], &more].concat(),
        );
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        // Without its hashes the file is taken as it is: other numbers show that they are read.
        let record = earlier.with_extension("jsonl.json");
        let mut made: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
        made.as_object_mut().unwrap().remove("sha256");
        fs::write(&record, made.to_string()).unwrap();
        let mut rows: Vec<Value> = lines(&earlier)
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for row in &mut rows {
            for key in keys {
                double(&mut row[*key]);
            }
        }
        write(&earlier, rows.iter().cloned());
        let found = scene.reusing("heads/bert", &options, &earlier, 5);
        for line in &found {
            let row: Value = serde_json::from_str(line).unwrap();
            let text = texts_of(&scene.new, &row["id"]);
            if let Some(old) = rows.iter().find(|old| old["text"] == text) {
                for key in keys {
                    assert_eq!(row[*key], old[*key], "{kinds}: {text}");
                }
            }
        }
    }
}

/// Doubles every number but those of indices: a power of two changes no digit of a float.
pub(super) fn double(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(double),
        Value::Object(parts) => double(&mut parts["values"]),
        // By way of text, so that it has the digits that a float needs.
        number => {
            let doubled = number.as_f64().unwrap() as f32 * 2.0;
            *number = serde_json::from_str(&doubled.to_string()).unwrap();
        }
    }
}

/// The text of a record.
fn texts_of(records: &Path, id: &Value) -> Value {
    let rows = lines(records);
    let mut rows = rows
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let row = rows.find(|row| row["id"] == *id);
    row.unwrap()["text"].clone()
}

/// Adds one to the first length beside a matrix, whose hashes are not recorded any more.
fn change_a_length(matrix: &Path) {
    let beside = |ending: &str| PathBuf::from(format!("{}{ending}", matrix.display()));
    let mut lengths = fs::read(beside(".lengths.npy")).unwrap();
    lengths[128] += 1;
    fs::write(beside(".lengths.npy"), lengths).unwrap();
    let mut made: Value = serde_json::from_slice(&fs::read(beside(".json")).unwrap()).unwrap();
    made.as_object_mut().unwrap().remove("sha256");
    fs::write(beside(".json"), made.to_string()).unwrap();
}

#[test]
fn outputs_that_cannot_be_reused_are_refused_with_the_reason() {
    let scene = Scene::new();
    let embedded = |name: &str, options: &[&str]| {
        let out = scene.place.join(name);
        let more = [options, &["--keep", "text", "--on-error", "skip"]].concat();
        let output = embed("heads/bert", &scene.old, &out, &more);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        out
    };
    let sparse = embedded("sparse.parquet", &["--vectors", "sparse"]);
    let unequal = embedded("multi.npy", &["--vectors", "multi"]);
    change_a_length(&unequal);
    let bytes = embedded(
        "bytes.parquet",
        &["--vectors", "multi", "--dtype", "ubinary"],
    );
    for (earlier, options, word) in [
        (
            &sparse,
            &["--vectors", "multi"][..],
            "made with other settings",
        ),
        (
            &sparse,
            &["--vectors", "dense,sparse"],
            "made with other settings",
        ),
        (
            &unequal,
            &["--vectors", "multi"],
            "the number of vectors differs from the sum in the `.lengths.npy` file beside it",
        ),
        (
            &bytes,
            &["--vectors", "multi", "--dtype", "ubinary"],
            "cannot be read back",
        ),
    ] {
        let out = scene.place.join("refused.jsonl");
        let more = [options, &["--reuse", earlier.to_str().unwrap()]].concat();
        let output = embed("heads/bert", &scene.new, &out, &more);
        assert!(!output.status.success(), "{earlier:?}");
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
        assert!(!out.exists());
    }
}

//! Late chunking by the real binary against transformers, every chunk of every case.
//!
//! Cases live in `fixtures/late`; `generate.py` beside them made them, with the models of `fixtures/parity`. The texts go
//! from none to ten times as long as the models' limits.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use support::cases::stderr;
use support::npy::Matrix;

/// How far a component may be from the reference.
const TOLERANCE: f32 = 2e-5;

const TEXTS: &str = "fixtures/late/texts.jsonl";

/// A chunk: its text's id, its place, its vector.
type Chunk = (String, u64, u64, Vec<f32>);

struct Case {
    name: String,
    model: PathBuf,
    args: Vec<String>,
    chunks: Value,
    expected: Matrix,
}

impl Case {
    fn of(name: &str) -> Self {
        let folder = Path::new("fixtures/late").join(name);
        let described = std::fs::read(folder.join("case.json")).unwrap();
        let described: Value = serde_json::from_slice(&described).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            name: name.to_owned(),
            model: Path::new("fixtures/parity")
                .join(text(&described["model"]))
                .join("model"),
            args: (described["args"].as_array().unwrap().iter())
                .map(text)
                .collect(),
            chunks: described["chunks"].clone(),
            expected: Matrix::read(&folder.join("expected.npy")),
        }
    }

    fn all() -> Vec<Self> {
        let folders = std::fs::read_dir("fixtures/late").unwrap();
        let folders = folders.map(|entry| entry.unwrap().path());
        let mut names: Vec<String> = folders
            .filter(|path| path.join("case.json").exists())
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        assert!(names.len() >= 27, "only {} cases found", names.len());
        names.iter().map(|name| Self::of(name)).collect()
    }

    fn run(&self, input: &str, out: &Path, more: &[&str]) -> Output {
        let mut command = command(input);
        command
            .arg("-m")
            .arg(&self.model)
            .arg("--late")
            .args(&self.args)
            .arg("-o")
            .arg(out)
            .args(more);
        command.output().unwrap()
    }

    fn chunks(&self, more: &[&str]) -> Result<Vec<Chunk>, String> {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.jsonl");
        let output = self.run(TEXTS, &out, &[&["-q"], more].concat());
        match output.status.success() {
            true => Ok(rows(&out)),
            false => Err(stderr(&output)),
        }
    }

    /// What differs from the reference, if anything does.
    fn difference(&self, more: &[&str]) -> Option<String> {
        let found = match self.chunks(more) {
            Ok(chunks) => self.compare(&chunks),
            Err(error) => Some(error),
        };
        found.map(|found| format!("{} {more:?}: {found}", self.name))
    }

    fn compare(&self, ours: &[Chunk]) -> Option<String> {
        let mut places = Vec::new();
        for (id, chunks) in self.chunks.as_array().unwrap().iter().enumerate() {
            for chunk in chunks.as_array().unwrap() {
                places.push((id.to_string(), chunk[0].as_u64(), chunk[1].as_u64()));
            }
        }
        let own = ours.iter();
        let own: Vec<_> = own
            .map(|(id, start, end, _)| (id.clone(), Some(*start), Some(*end)))
            .collect();
        if own != places {
            return Some("texts are cut elsewhere".into());
        }
        for (row, (.., vector)) in ours.iter().enumerate() {
            let expected = self.expected.row(row);
            let apart = vector.iter().zip(expected).map(|(a, b)| (a - b).abs());
            let apart = apart.fold(0.0, |most: f32, it| if it <= most { most } else { it });
            if vector.len() != expected.len() || apart.is_nan() || apart > TOLERANCE {
                return Some(format!("chunk {row} ({:?}) is {apart} apart", own[row]));
            }
        }
        None
    }
}

fn command(input: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_embedctl"));
    command
        .env("EMBEDCTL_NO_CONFIG", "1")
        .args(["embed", input, "--threads", "2", "--no-cache"]);
    command
}

fn rows(path: &Path) -> Vec<Chunk> {
    let text = std::fs::read_to_string(path).unwrap();
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| row[name].as_u64().unwrap();
        let id = row["id"].as_str();
        let id = id.map_or_else(|| row["id"].to_string(), str::to_owned);
        let vector = serde_json::from_value(row["embedding"].clone()).unwrap();
        (id, number("chunk_start"), number("chunk_end"), vector)
    };
    text.lines().map(row).collect()
}

#[test]
fn every_chunk_equals_the_reference_on_the_native_engine() {
    let cases = Case::all();
    let failures: Vec<String> = (cases.iter())
        .filter_map(|case| case.difference(&["-p", "native"]))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn other_engines_give_the_same() {
    let mut failures = Vec::new();
    let library = support::onnxruntime("other_engines_give_the_same");
    for name in [
        "bert",
        "dense",
        "modernbert",
        "prompt-excluded",
        "qwen3-mean",
    ] {
        let case = Case::of(name);
        failures.extend(case.difference(&["-p", "rten"]));
        if let Some(library) = &library {
            let library = library.to_str().unwrap();
            failures.extend(case.difference(&["-p", "cpu", "--ort-lib", library]));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn batches_windows_and_parts_change_no_bit() {
    for name in ["bert", "overlap", "modernbert"] {
        let case = Case::of(name);
        let plain = case.chunks(&["-p", "native"]).unwrap();
        // A text that repeats an earlier one runs once.
        let of = |id: &str| -> Vec<_> {
            let own = plain.iter().filter(|chunk| chunk.0 == id);
            own.map(|(_, start, end, vector)| (*start, *end, vector.clone()))
                .collect()
        };
        assert_eq!(of("0"), of("9"));
        for more in [
            &["--batch-size", "1"][..],
            &["--window", "1"],
            &["--window", "3", "--batch-tokens", "64"],
        ] {
            let more = [&["-p", "native"], more].concat();
            assert_eq!(case.chunks(&more).unwrap(), plain, "{name} {more:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.jsonl");
        for _ in 0..2 {
            let more = ["-q", "--resume", "--part-rows", "3", "-p", "native"];
            let output = case.run(TEXTS, &out, &more);
            assert!(output.status.success(), "{}", stderr(&output));
            assert_eq!(rows(&out), plain, "{name}");
        }
    }
}

#[test]
fn a_chunk_knows_the_text_around_it_and_outputs_do_not_mix() {
    let case = Case::of("bert");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let run = |out: &str, more: &[&str], late: &[&str]| {
        let mut command = command(TEXTS);
        command
            .arg("-m")
            .arg(&case.model)
            .args(&case.args)
            .args(late);
        command.args(["-q", "-p", "native", "--chunk-text", "-o"]);
        command.arg(path(out)).args(more).output().unwrap()
    };
    let success = |output: Output| assert!(output.status.success(), "{}", stderr(&output));
    success(run("late.jsonl", &["--resume"], &["--late"]));
    success(run("plain.jsonl", &["--resume"], &[]));
    let (late, plain) = (rows(&path("late.jsonl")), rows(&path("plain.jsonl")));
    let places = |rows: &[Chunk]| -> Vec<_> {
        rows.iter()
            .map(|row| (row.0.clone(), row.1, row.2))
            .collect()
    };
    assert_eq!(places(&late), places(&plain));
    let of_one = |row: &&(&Chunk, &Chunk)| row.0.0 == "1";
    let apart: Vec<_> = late.iter().zip(&plain).filter(|row| of_one(&row)).collect();
    assert!(apart.len() > 20 && apart.iter().all(|(late, plain)| late.3 != plain.3));
    // Empty text: no chunk of its own, and the vector of its row.
    let of = |rows: &[Chunk]| rows.iter().find(|row| row.0 == "3").unwrap().3.clone();
    let near = of(&late)
        .iter()
        .zip(of(&plain))
        .all(|(a, b)| (a - b).abs() < TOLERANCE);
    assert!(near);

    let made = std::fs::read(path("late.jsonl.json")).unwrap();
    let made: Value = serde_json::from_slice(&made).unwrap();
    assert_eq!(made["late_chunking"], true);
    assert_eq!(made["rows"]["chunks"], late.len());
    assert_eq!(made["rows"]["truncated"], 0);
    let made = std::fs::read(path("plain.jsonl.json")).unwrap();
    assert!(!String::from_utf8(made).unwrap().contains("late_chunking"));

    let refused = |output: Output, words: &str| {
        let error = stderr(&output);
        assert!(!output.status.success() && error.contains(words), "{error}");
    };
    refused(run("late.jsonl", &["--resume"], &[]), "late_chunking");
    refused(
        run("plain.jsonl", &["--resume"], &["--late"]),
        "late_chunking",
    );
    let late_output = path("late.jsonl");
    let late_output = late_output.to_str().unwrap();
    refused(
        run("more.jsonl", &["--reuse", late_output], &[]),
        "late_chunking",
    );
    let plain_output = path("plain.jsonl");
    let reuse = ["--reuse", plain_output.to_str().unwrap()];
    refused(run("more.jsonl", &reuse, &["--late"]), "the text around it");
}

#[test]
fn a_dry_run_counts_chunks_and_the_tokens_of_their_rows() {
    for name in ["bert", "modernbert"] {
        let case = Case::of(name);
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.jsonl");
        let output = case.run(TEXTS, &out, &["-q"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let made = std::fs::read(folder.path().join("out.jsonl.json")).unwrap();
        let made: Value = serde_json::from_slice(&made).unwrap();
        let mut command = command(TEXTS);
        command
            .arg("-m")
            .arg(&case.model)
            .arg("--late")
            .args(&case.args);
        let output = command
            .args(["--dry-run", "--log-format", "json"])
            .output()
            .unwrap();
        let survey: Value = serde_json::from_slice(&output.stdout).unwrap();
        let sample = &survey["sample"];
        assert_eq!(sample["rows"], made["rows"]["chunks"], "{survey}");
        // The run counts the repeated text again.
        let (counted, ran) = (
            sample["tokens"].as_u64(),
            made["tokens"]["embedded"].as_u64(),
        );
        assert!(
            counted <= ran && counted > ran.map(|ran| ran * 9 / 10),
            "{survey} {made}"
        );
    }
}

#[test]
fn texts_that_fail_are_rejected_with_all_of_their_chunks() {
    let case = Case::of("bert");
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("records.jsonl");
    let text = "One sentence here. Two sentences now. And a third one. ".repeat(9);
    let lines = format!(
        "{{\"id\": \"a\", \"text\": {text:?}}}\n{{\"id\": \"b\"}}\n{{\"id\": \"c\", \"text\": {text:?}}}\n"
    );
    std::fs::write(&records, lines).unwrap();
    let out = folder.path().join("out.jsonl");
    let output = case.run(records.to_str().unwrap(), &out, &["--on-error", "skip"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let rows = rows(&out);
    let of = |id: &str| rows.iter().filter(|row| row.0 == id).count();
    assert!(of("a") > 5 && of("a") == of("c") && of("b") == 0);
}

#[test]
fn models_and_options_without_meaning_are_refused_with_the_reason() {
    for (model, args, words) in [
        (
            "family-qwen3",
            &["--chunk-tokens", "9"][..],
            "pooling is lasttoken",
        ),
        (
            "pool-weightedmean-booleans",
            &["--chunk-tokens", "9"],
            "pooling is weightedmean",
        ),
        (
            "family-xlm-roberta",
            &["--chunk-tokens", "9"],
            "pooling is cls",
        ),
        (
            "static-of-model2vec",
            &["--chunk-tokens", "9"],
            "finished vectors",
        ),
        (
            "graph-pooled-only-dense",
            &["--chunk-tokens", "9", "-p", "rten"],
            "finished vectors",
        ),
        ("family-modernbert", &[], "--chunk-tokens"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(TEXTS);
        command
            .arg("-m")
            .arg(Path::new("fixtures/parity").join(model).join("model"));
        command.args(["--chunk", "sentences", "--late", "-o"]);
        let output = command
            .arg(folder.path().join("out.jsonl"))
            .args(args)
            .output()
            .unwrap();
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{model}: {error}");
        assert!(error.contains(words), "{model}: {error}");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "{model}"
        );
    }
    let output = command(TEXTS)
        .args(["--late", "-o", "x.jsonl"])
        .output()
        .unwrap();
    assert!(stderr(&output).contains("--chunk"), "{}", stderr(&output));
    let mut command = command(TEXTS);
    command.args([
        "-m",
        "fixtures/multi/bert-document/model",
        "--chunk",
        "sentences",
    ]);
    let output = command
        .args(["--chunk-tokens", "9", "--late", "-o", "x.jsonl"])
        .output();
    let error = stderr(&output.unwrap());
    assert!(error.contains("a vector for each token"), "{error}");
}

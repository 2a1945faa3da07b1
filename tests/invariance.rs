//! A text's vector is its own: it does not depend on batch, window, threads, order or neighbours, and
//! rows come out in the order in which they went in.

mod support;

use std::path::Path;
use std::process::Command;

use embedctl_testing::stride;
use support::npy::{Matrix, apart};

const MODEL: &str = "fixtures/models/all-MiniLM-L6-v2";

/// Texts of very different lengths, empty and repeated ones among them.
fn texts() -> Vec<String> {
    let quotes = std::fs::read_to_string("fixtures/inputs/quotes.txt").unwrap();
    let lines: Vec<&str> = quotes.lines().collect();
    let mut texts: Vec<String> = lines.iter().take(40).map(ToString::to_string).collect();
    texts.push(String::new());
    texts.push("x".into());
    texts.push(lines.join(" "));
    texts.push(lines[..12].join(" "));
    texts.push(lines[3].into());
    texts
}

fn embed(texts: &[String], library: Option<&Path>, args: &[&str]) -> Matrix {
    let provider = if library.is_some() { "cpu" } else { "rten" };
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (
        folder.path().join("texts.txt"),
        folder.path().join("out.npy"),
    );
    std::fs::write(&input, texts.join("\n") + "\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_embedctl"));
    command.env("EMBEDCTL_NO_CONFIG", "1");
    command.arg("embed").arg(&input).arg("-o").arg(&out);
    command.args(["-m", MODEL, "-q", "-p", provider]).args(args);
    if let Some(library) = library {
        command.env("EMBEDCTL_ORT_LIB", library);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Matrix::read(Path::new(&out))
}

fn assert_close(a: &Matrix, b: &Matrix, pairs: impl Iterator<Item = (usize, usize)>, what: &str) {
    assert_eq!((a.rows, a.width), (b.rows, b.width), "{what}");
    for (i, j) in pairs {
        let worst = apart(a.row(i), b.row(j));
        assert!(
            worst <= 1e-5,
            "{what}: row {i} is {worst} away from row {j}"
        );
    }
}

fn check(library: Option<&Path>) {
    let texts = texts();
    let usual = embed(&texts, library, &[]);
    let same = || (0..texts.len()).map(|row| (row, row));
    let variants = [
        &["--batch-size", "1"][..],
        &["--batch-size", "3", "--threads", "1"],
        &["--batch-tokens", "4096", "--threads", "3"],
        &["--batch-tokens", "1"],
        &["--window", "1"],
        &["--window", "7", "--threads", "2"],
    ];
    for args in variants.into_iter().step_by(stride(3)) {
        let other = embed(&texts, library, args);
        assert_close(&usual, &other, same(), &format!("{args:?}"));
    }
    let reversed: Vec<String> = texts.iter().rev().cloned().collect();
    let other = embed(&reversed, library, &[]);
    let last = texts.len() - 1;
    assert_close(
        &usual,
        &other,
        (0..texts.len()).map(|row| (row, last - row)),
        "reversed",
    );
}

#[test]
fn vectors_depend_on_nothing_but_their_text_on_rten() {
    check(None);
}

#[test]
fn vectors_depend_on_nothing_but_their_text_on_onnxruntime() {
    let library = support::onnxruntime("vectors_depend_on_nothing_but_their_text_on_onnxruntime");
    if let Some(library) = library {
        check(Some(&library));
    }
}

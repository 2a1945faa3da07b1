//! Every pair of values of all options of `embed` and `score`: each run is refused by a stated rule, or its output equals
//! that of a second, naive implementation of what a command line means.
//!
//! `crossings.py` holds the options with their values and makes the cases, `oracle.py` says what each of them means,
//! `inputs.py` writes their inputs, and `outputs.py` reads what a run wrote with other programs' readers. To see one
//! failing case again, run the command that the failure ends with.

#[path = "../support/mod.rs"]
mod support;

use std::process::Command;

/// Runs all cases of a command.
fn cross(command: &str) {
    let test = &format!("every_pair_of_options_of_{command}");
    let modules = ["numpy", "polars", "pyarrow", "tokenizers"];
    let Some(python) = support::python(test, &modules) else {
        return;
    };
    let mut crossings = Command::new(python);
    crossings
        .arg("tests/crossings/crossings.py")
        .arg(env!("CARGO_BIN_EXE_embedctl"))
        .args(["--only", command]);
    if let Some(library) = support::onnxruntime(test) {
        crossings.arg("--ort").arg(library);
    }
    let output = crossings.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    eprintln!("{}", said.trim_end());
}

#[test]
fn every_pair_of_options_of_embed() {
    cross("embed");
}

#[test]
fn every_pair_of_options_of_score() {
    cross("score");
}

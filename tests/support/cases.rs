//! Cases of `fixtures`: a folder each, with a model, records, a reference, and `case.json`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The folders of all cases in `fixtures`, in order.
///
/// # Panics
/// If there are fewer than `least`: a test over too few shows nothing.
pub fn all(fixtures: &str, least: usize) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(fixtures).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> = folders
        .filter(|path| path.join("case.json").exists())
        .collect();
    cases.sort();
    assert!(cases.len() >= least, "only {} cases found", cases.len());
    cases
}

/// The distance between the cases that an engine runs. The native one runs every case; other engines do so in CI, and a third
/// of the cases elsewhere.
pub fn stride_on(provider: &str) -> usize {
    match provider {
        "native" => 1,
        _ => embedctl_testing::stride(3),
    }
}

/// A case's `case.json`.
///
/// # Panics
/// If it cannot be read.
pub fn described(case: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(case.join("case.json")).unwrap()).unwrap()
}

/// Runs the binary on the records of a case, with its arguments and `more`.
///
/// # Panics
/// If the case is damaged, or the binary cannot be run.
pub fn embed(case: &Path, out: &Path, more: &[&str]) -> Output {
    let described = described(case);
    let args = described["args"].as_array().unwrap().iter();
    let mut command = Command::new(env!("CARGO_BIN_EXE_embedctl"));
    command
        .env("EMBEDCTL_NO_CONFIG", "1")
        .arg("embed")
        .arg(case.join("records.jsonl"))
        .arg("-m")
        .arg(case.join("model"))
        .arg("-o")
        .arg(out)
        .args(["--threads", "2", "--no-cache"])
        .args(args.map(|arg| arg.as_str().unwrap()))
        .args(more);
    command.output().unwrap()
}

/// The providers that run graphs built from checkpoints, each with the arguments for that, for the test named `test`: rten,
/// and ONNX Runtime where it is here.
pub fn graph_engines(test: &str) -> Vec<Vec<String>> {
    let of = |provider: &str, more: &[&str]| {
        let all = ["-p", provider, "--weights", "safetensors"];
        all.iter().chain(more).map(|&arg| arg.to_owned()).collect()
    };
    let library = super::onnxruntime(test);
    let library = library.map(|path| of("cpu", &["--ort-lib", path.to_str().unwrap()]));
    [of("rten", &[])].into_iter().chain(library).collect()
}

/// ONNX Runtime's CPU provider as a GPU's works: graphs built from checkpoints pool their rows. For the test named `test`;
/// `None` where ONNX Runtime is not here.
pub fn pooling_engine(test: &str) -> Option<Vec<String>> {
    let library = super::onnxruntime(test)?;
    let arguments = [
        "-p",
        "cpu",
        "--weights",
        "safetensors",
        "--ort-lib",
        library.to_str().unwrap(),
        "--provider-option",
        "cpu.pooling=graph",
    ];
    Some(arguments.map(str::to_owned).into())
}

/// The messages of a run.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

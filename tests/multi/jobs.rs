//! Jobs: parts, shards, runs that stopped, and settings that may not mix.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::outputs::{parted, plain, program};
use crate::{case, embed, rows, stderr};

type Rows = Vec<Vec<Vec<f32>>>;

/// The rows of a file.
fn read(path: &Path) -> Rows {
    match path.extension().is_some_and(|it| it == "npy") {
        true => parted(path),
        false => rows(path).into_iter().map(Option::unwrap).collect(),
    }
}

/// The parts of a folder, in order.
fn parts(folder: &str, format: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_part = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.split_once('.')
            .is_some_and(|(_, ending)| ending == format)
    };
    let mut parts: Vec<PathBuf> = entries.filter(is_part).collect();
    parts.sort();
    parts
}

#[test]
fn shards_give_the_rows_of_one_run() {
    let whole = plain("pylate-document", &[]);
    for format in ["npy", "jsonl"] {
        let folder = tempfile::tempdir().unwrap();
        let out = format!("{}/", folder.path().join("parts").display());
        for shard in ["1/2", "2/2"] {
            let more = ["-q", "-f", format, "--part-rows", "2", "--shard", shard];
            let output = embed(&case("pylate-document"), Path::new(&out), &more);
            assert!(output.status.success(), "{}", stderr(&output));
        }
        let parts = parts(&out, format);
        assert!(parts.len() > 2, "{parts:?}");
        let all: Rows = parts.iter().flat_map(|part| read(part)).collect();
        assert!(all == whole, "{format}");
        let inspected = program().arg("inspect").arg(&out).output().unwrap();
        assert!(inspected.status.success(), "{}", stderr(&inspected));
        // A part whose lengths are lost is made again.
        if format == "npy" {
            fs::remove_file(format!("{}.lengths.npy", parts[0].display())).unwrap();
            let inspected = program().arg("inspect").arg(&out).output().unwrap();
            assert!(!inspected.status.success());
        }
    }
}

/// A job whose parts were written by a run that stopped resumes from them: a single file, and a folder.
#[test]
fn a_stopped_job_resumes() {
    let whole = plain("bert-document", &[]);
    let model = case("bert-document").join("model");
    let good = fs::read_to_string(case("bert-document").join("records.jsonl")).unwrap();
    for (name, format) in [
        ("out.npy", "npy"),
        ("out.jsonl", "jsonl"),
        ("npy/", "npy"),
        ("jsonl/", "jsonl"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (records, out) = (folder.path().join("in.jsonl"), folder.path().join(name));
        let run = |records_text: &str| {
            fs::write(&records, records_text).unwrap();
            let mut command = program();
            command
                .arg("embed")
                .arg(&records)
                .arg("-o")
                .arg(&out)
                .arg("-m")
                .arg(&model);
            command.args(["-f", format, "--threads", "2", "--no-cache", "--resume"]);
            command
                .args(["--part-rows", "2", "--window", "2"])
                .output()
                .unwrap()
        };
        // The run stops at a bad record.
        let stopped = run(&format!("{good}broken\n"));
        assert!(!stopped.status.success());
        let output = run(&good);
        let said = stderr(&output);
        assert!(output.status.success(), "{name}: {said}");
        assert!(said.contains("resumed"), "{name}: {said}");
        let all: Rows = match name.ends_with('/') {
            true => parts(&out.to_string_lossy(), format)
                .iter()
                .flat_map(|part| read(part))
                .collect(),
            false => read(&out),
        };
        assert!(all == whole, "{name}");
    }
}

/// Each setting that changes vectors is told by a job that was begun with another.
#[test]
fn settings_that_change_vectors_do_not_mix() {
    let case = case("bert-document");
    let folder = tempfile::tempdir().unwrap();
    let calibration = folder.path().join("calibration.npy");
    let output = embed(&case, &calibration, &["-q"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let ranges = calibration.to_string_lossy().into_owned();
    let out = format!("{}/", folder.path().join("parts").display());
    let run = |more: &[&str]| -> Output {
        let own = ["-q", "-f", "jsonl", "--part-rows", "3", "--resume"];
        embed(&case, Path::new(&out), &[&own[..], more].concat())
    };
    let begun = run(&["--task", "document"]);
    assert!(begun.status.success(), "{}", stderr(&begun));
    for (more, word) in [
        (&["--task", "query"][..], "multi.role"),
        (
            &["--task", "document", "--pool-factor", "2"],
            "multi.pool_factor",
        ),
        (
            &["--task", "document", "--pool-factor", "1.5"],
            "multi.pool_factor",
        ),
        (&["--task", "document", "--prompt", "x "], "prompt"),
        (&["--task", "document", "--max-length", "12"], "max_length"),
        (&["--task", "document", "--dtype", "f16"], "dtype"),
        (
            &[
                "--task",
                "document",
                "--dtype",
                "int8",
                "--calibration",
                &ranges,
            ],
            "dtype",
        ),
    ] {
        let output = run(more);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {said}");
        assert!(said.contains(word), "{more:?}: {said}");
    }
    let again = run(&["--task", "document"]);
    assert!(again.status.success(), "{}", stderr(&again));
}

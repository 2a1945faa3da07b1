//! Forms of outputs: a matrix with lengths beside it, types of components, and the estimate of `--dry-run`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::npy::Matrix;
use crate::{case, described, embed, embedded, expected, rows, stderr};

type Rows = Vec<Vec<Vec<f32>>>;

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_embedctl"));
    command.env("EMBEDCTL_NO_CONFIG", "1");
    command
}

/// What a run says, if it succeeds.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(output);
    assert!(output.status.success(), "{text}");
    text
}

/// The numbers in a file of lengths.
fn lengths(matrix: &Path) -> Vec<usize> {
    let bytes = fs::read(format!("{}.lengths.npy", matrix.display())).unwrap();
    let header = String::from_utf8_lossy(&bytes[..128]).into_owned();
    let lengths: Vec<usize> = bytes[128..]
        .chunks_exact(8)
        .map(|eight| usize::try_from(u64::from_le_bytes(eight.try_into().unwrap())).unwrap())
        .collect();
    let shape = format!(
        "'descr': '<i8', 'fortran_order': False, 'shape': ({},), ",
        lengths.len()
    );
    assert!(header.contains(&shape), "{header}");
    lengths
}

/// The rows of a matrix, parted by the lengths beside it.
pub fn parted(path: &Path) -> Rows {
    let matrix = Matrix::read(path);
    let mut next = 0;
    let rows = lengths(path).into_iter().map(|length| {
        let own = next..next + length;
        next = own.end;
        own.map(|row| matrix.row(row).to_vec()).collect()
    });
    let rows = rows.collect();
    assert_eq!(next, matrix.rows, "{}", path.display());
    rows
}

/// The same rows as JSONL has them.
pub fn plain(name: &str, more: &[&str]) -> Rows {
    let rows = embedded(&case(name), more).unwrap();
    rows.into_iter().map(Option::unwrap).collect()
}

#[test]
fn a_matrix_has_all_vectors_and_lengths_part_them() {
    for name in [
        "bert-query",
        "pylate-document",
        "pooling",
        "kept-tokens",
        "stanford-document",
    ] {
        if !case(name).exists() {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.npy");
        said(&embed(&case(name), &out, &["-q"]));
        assert_eq!(parted(&out), plain(name, &[]), "{name}");
        let lines = fs::read_to_string(folder.path().join("out.npy.rows.jsonl")).unwrap();
        let lines: Vec<Value> = lines
            .lines()
            .map(|it| serde_json::from_str(it).unwrap())
            .collect();
        let places: Vec<u64> = lines.iter().map(|it| it["row"].as_u64().unwrap()).collect();
        let count = described(&case(name))["lengths"].as_array().unwrap().len() as u64;
        assert_eq!(places, (0..count).collect::<Vec<_>>());
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let beside = [
            "out.npy",
            "out.npy.json",
            "out.npy.lengths.npy",
            "out.npy.rows.jsonl",
        ];
        assert_eq!(names, beside);
    }
}

/// Damage to any of an output's files is told by `inspect`, and the comparison takes the matrix.
#[test]
fn outputs_are_inspected_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let case = case("bert-document");
    let verified = |against: &Path| {
        let mut command = program();
        command.arg("verify-model").arg(case.join("model"));
        command.arg("--against").arg(against).arg("--texts");
        said(&command.arg(case.join("records.jsonl")).output().unwrap());
    };
    let inspected = |out: &Path| program().arg("inspect").arg(out).output().unwrap();
    for ending in ["npy", "parquet", "arrow", "arrows", "jsonl", "jsonl.zst"] {
        let out = folder.path().join(format!("out.{ending}"));
        said(&embed(&case, &out, &[]));
        let text = said(&inspected(&out));
        assert!(
            text.contains("189 vectors of 8 dimensions"),
            "{ending}: {text}"
        );
        verified(&out);
    }
    let out = folder.path().join("out.npy");
    for ending in ["", ".lengths.npy", ".rows.jsonl"] {
        let file = format!("{}{ending}", out.display());
        let good = fs::read(&file).unwrap();
        for at in [0, 100, good.len() / 2, good.len() - 1] {
            let mut damaged = good.clone();
            damaged[at] ^= 1;
            fs::write(&file, &damaged).unwrap();
            assert!(!inspected(&out).status.success(), "{file}, byte {at}");
        }
        fs::write(&file, &good).unwrap();
    }
    fs::remove_file(format!("{}.lengths.npy", out.display())).unwrap();
    assert!(!inspected(&out).status.success());
}

/// An output that takes the place of another leaves no lengths of it, and no file of somebody else goes.
#[test]
fn files_of_an_earlier_output_go_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.npy");
    let beside = folder.path().join("out.npy.lengths.npy");
    let case = case("bert-document");
    fs::write(&beside, "of somebody else").unwrap();
    let refused = embed(&case, &out, &["-q"]);
    assert!(
        stderr(&refused).contains("out.npy.lengths.npy"),
        "{}",
        stderr(&refused)
    );
    said(&embed(&case, &out, &["-q", "--force"]));
    assert_eq!(parted(&out), plain("bert-document", &[]));
    // One vector for a text.
    let dense = || {
        let mut command = program();
        command.args(["embed", "-q", "--no-cache", "--force", "-m"]);
        command
            .arg("fixtures/parity/prompt-name-argument/model")
            .arg(case.join("records.jsonl"));
        said(&command.arg("-o").arg(&out).output().unwrap());
    };
    dense();
    assert!(!beside.exists());
    fs::write(&beside, "of somebody else").unwrap();
    dense();
    assert_eq!(fs::read_to_string(&beside).unwrap(), "of somebody else");
}

#[test]
fn rejected_records_have_no_row_in_a_matrix() {
    let folder = tempfile::tempdir().unwrap();
    let (out, records) = (
        folder.path().join("out.npy"),
        folder.path().join("in.jsonl"),
    );
    let good = fs::read_to_string(case("bert-document").join("records.jsonl")).unwrap();
    let (first, rest) = good.split_once('\n').unwrap();
    fs::write(&records, format!("{first}\n{{\"text\": 7}}\n{rest}")).unwrap();
    let run = |on_error: &str| {
        let mut command = program();
        command.args([
            "embed",
            "-q",
            "--no-cache",
            "--force",
            "--on-error",
            on_error,
            "-m",
        ]);
        command
            .arg(case("bert-document").join("model"))
            .arg(&records);
        command.arg("-o").arg(&out).output().unwrap()
    };
    let skipped = run("skip");
    assert_eq!(skipped.status.code(), Some(3), "{}", stderr(&skipped));
    assert_eq!(parted(&out), plain("bert-document", &[]));
    let refused = run("null");
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("has no nulls"),
        "{}",
        stderr(&refused)
    );
}

/// The quantization of dense vectors, over all vectors of tokens: from a calibration in every format.
#[test]
fn int8_divides_each_components_range() {
    let folder = tempfile::tempdir().unwrap();
    let case = case("bert-document");
    let exact = expected(&case);
    let all = || exact.iter().flatten();
    let width = exact[0][0].len();
    let ends = |column: usize| {
        let values = all().map(move |vector| vector[column]);
        values.fold((f32::MAX, f32::MIN), |(min, max), it| {
            (min.min(it), max.max(it))
        })
    };
    let ranges: Vec<(f32, f32)> = (0..width).map(ends).collect();
    let mut first: Option<Rows> = None;
    for (ending, dtype) in [
        ("npy", "f32"),
        ("parquet", "f32"),
        ("jsonl", "f32"),
        ("arrow", "f32"),
    ] {
        let calibration = folder.path().join(format!("calibration.{ending}"));
        said(&embed(&case, &calibration, &["-q", "--dtype", dtype]));
        let given = calibration.to_string_lossy().into_owned();
        for (dtype, least) in [("int8", -128.0), ("uint8", 0.0)] {
            let ours = plain(
                "bert-document",
                &["--dtype", dtype, "--calibration", &given],
            );
            for (ours, exact) in ours.iter().flatten().zip(all()) {
                for ((step, exact), (min, max)) in ours.iter().zip(exact).zip(&ranges) {
                    let size = (max - min) / 255.0;
                    let from = min + (step - least) * size;
                    // Vectors may be apart by the parity's tolerance.
                    assert!(
                        (-3e-5..size + 3e-5).contains(&(exact - from)),
                        "{exact} {from} {size}"
                    );
                }
            }
            if dtype == "int8" {
                assert_eq!(first.get_or_insert_with(|| ours.clone()), &ours, "{ending}");
            }
        }
    }
    let refused = embedded(&case, &["--dtype", "int8"]).unwrap_err();
    assert!(refused.contains("--calibration"), "{refused}");
    // In a matrix and in Parquet, which `inspect` reads.
    let given = folder
        .path()
        .join("calibration.npy")
        .to_string_lossy()
        .into_owned();
    for ending in ["npy", "parquet", "arrow"] {
        let out = folder.path().join(format!("int8.{ending}"));
        let more = ["-q", "--dtype", "int8", "--calibration", &given];
        said(&embed(&case, &out, &more));
        let text = said(&program().arg("inspect").arg(&out).output().unwrap());
        assert!(text.contains("int8"), "{text}");
    }
}

/// The estimate of an output's size is near the size that it has.
#[test]
fn a_dry_run_tells_how_large_the_output_becomes() {
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("in.jsonl");
    let words = [
        "a cat",
        "sat on",
        "the mat",
        "and slept",
        "until noon",
        "in the sun",
    ];
    let text = |row: usize| {
        let count = 1 + row % 13;
        (0..count)
            .map(|word| words[(row + word) % words.len()])
            .collect::<Vec<_>>()
            .join(" ")
    };
    let lines =
        (0..1500).map(|row| format!("{{\"id\": {row}, \"text\": \"{} {row}\"}}\n", text(row)));
    fs::write(&records, lines.collect::<String>()).unwrap();
    for ending in ["parquet", "npy", "jsonl", "arrow"] {
        let out = folder.path().join(format!("out.{ending}"));
        let run = |more: &[&str]| {
            let mut command = program();
            command.args(["embed", "--no-cache", "-m"]);
            command
                .arg(case("bert-document").join("model"))
                .arg(&records);
            said(&command.arg("-o").arg(&out).args(more).output().unwrap())
        };
        let found = run(&["--dry-run", "--log-format", "json"]);
        let line = found.lines().find(|line| line.starts_with('{')).unwrap();
        let found: Value = serde_json::from_str(line).unwrap();
        let plainly = run(&["--dry-run"]);
        assert!(
            plainly.contains("times as large as one vector per text"),
            "{plainly}"
        );
        assert!(!out.exists());
        let summary = run(&["-q", "--log-format", "json"]);
        drop(summary);
        let files = fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
        let own = files.filter(|it| {
            let name = it.file_name().into_string().unwrap();
            name.starts_with(&format!("out.{ending}"))
        });
        let size: u64 = own.map(|it| it.metadata().unwrap().len()).sum();
        let estimate = found["estimate"]["bytes"].as_f64().unwrap();
        let off = estimate / size as f64;
        assert!((0.8..1.25).contains(&off), "{ending}: {estimate} of {size}");
        let each = found["vectors_per_row"].as_f64().unwrap();
        assert!((5.0..40.0).contains(&each), "{each}");
    }
    let rows = rows(&folder.path().join("out.jsonl"));
    assert_eq!(rows.len(), 1500);
}

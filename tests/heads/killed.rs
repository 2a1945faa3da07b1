//! Runs of every kind of vectors that a signal ends, and what the next run makes of them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{cases::stderr, wait_for};
use crate::{case, program};

/// So many that the first part is long there before the last.
const RECORDS: usize = 40_000;

/// Each kind, and the format of a file of it; a folder of parts is tried with each, too.
const KINDS: [(&[&str], &str); 4] = [
    (&["--vectors", "sparse"], "jsonl"),
    (&["--vectors", "multi"], "arrow"),
    (&["--vectors", "multi", "--dtype", "f16"], "parquet"),
    (&["--vectors", "dense,sparse,multi"], "parquet"),
];

fn command(records: &Path, out: &str, options: &[&str]) -> Command {
    let mut command = program();
    command.current_dir(records.parent().unwrap());
    command.args([
        "embed",
        "-q",
        "--no-cache",
        "--resume",
        "--part-rows",
        "500",
        "-m",
    ]);
    command.arg(fs::canonicalize(case("bert").join("model")).unwrap());
    command.args(["in.jsonl", "-o", out]).args(options);
    command
}

/// The files below `folder` whose names begin with `part-`, with their content.
fn parts(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.map(|entry| {
        (
            entry.file_name().to_string_lossy().into_owned(),
            entry.path(),
        )
    });
    let parts = named.filter(|(name, _)| name.starts_with("part-"));
    // A part may go while it is looked for.
    let mut parts: Vec<_> = parts
        .filter_map(|(name, path)| Some((name, fs::read(path).ok()?)))
        .collect();
    parts.sort();
    parts
}

/// Kills a run once it has published a part, and completes it.
fn killed_and_completed(records: &Path, out: &str, parts_in: &str, options: &[&str]) {
    let folder = records.parent().unwrap().join(parts_in);
    let mut running = command(records, out, options)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the first part", || {
        (!parts(&folder).is_empty()).then_some(())
    });
    running.kill().unwrap();
    assert!(
        !running.wait().unwrap().success(),
        "{out}: it ended before it was killed"
    );
    let output = command(records, out, options)
        .args(["--stats", "stats.json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{out}: {}", stderr(&output));
    let stats = fs::read(records.with_file_name("stats.json")).unwrap();
    let stats: serde_json::Value = serde_json::from_slice(&stats).unwrap();
    // The parts of the killed run are not embedded again.
    let embedded = stats["embedded"].as_u64().unwrap();
    assert!(
        (1..=RECORDS as u64 - 500).contains(&embedded),
        "{out}: {stats}"
    );
}

#[test]
fn a_killed_run_of_every_kind_is_completed_bit_by_bit() {
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("in.jsonl");
    let lines: Vec<String> = (0..RECORDS)
        .map(|id| {
            format!(
                "{{\"id\":{id},\"text\":\"a cat {id} sat on the mat of {}\"}}\n",
                id % 97
            )
        })
        .collect();
    fs::write(&records, lines.concat()).unwrap();
    for (options, ending) in KINDS {
        let (whole, killed) = (format!("whole.{ending}"), format!("killed.{ending}"));
        let output = command(&records, &whole, options).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        killed_and_completed(&records, &killed, &format!("{killed}.parts"), options);
        let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
        assert!(read(&whole) == read(&killed), "{ending} {options:?}");
        fs::remove_file(folder.path().join(&whole)).unwrap();
        fs::remove_file(folder.path().join(&killed)).unwrap();
        let more = [options, &["-f", "parquet"]].concat();
        let output = command(&records, "whole/", &more).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        killed_and_completed(&records, "killed/", "killed", &more);
        let of = |name: &str| parts(&folder.path().join(name));
        assert!(of("whole") == of("killed"), "{options:?}");
        for name in ["whole", "killed", "_whole.embedctl", "_killed.embedctl"] {
            fs::remove_dir_all(folder.path().join(name)).unwrap();
        }
    }
}

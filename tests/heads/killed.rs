//! Runs of every kind of vectors, and of scores, that a signal ends, and what the next run makes of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program;
use crate::support::{cases::stderr, wait_for};
use embedctl_testing::stride;

/// So many that the first part is long there before the last.
const RECORDS: usize = 16_000;

/// A kind of output.
struct Killed {
    command: &'static str,
    /// The fixture that has the model.
    fixture: &'static str,
    options: &'static [&'static str],
    /// The endings of the files that are tried.
    files: &'static [&'static str],
}

/// Each kind; a folder of parts is tried with each, too.
const HEADS: [Killed; 4] = [
    Killed {
        command: "embed",
        fixture: "heads/bert",
        options: &["--vectors", "sparse"],
        files: &["jsonl", "npz"],
    },
    Killed {
        command: "embed",
        fixture: "heads/bert",
        options: &["--vectors", "multi"],
        files: &["arrow", "npy"],
    },
    Killed {
        command: "embed",
        fixture: "heads/bert",
        options: &["--vectors", "dense,sparse,multi"],
        files: &["parquet"],
    },
    Killed {
        command: "embed",
        fixture: "heads/bert",
        options: &["--vectors", "multi", "--dtype", "f16"],
        files: &["parquet"],
    },
];

const SCORES: Killed = Killed {
    command: "score",
    fixture: "scores/bert-three-labels",
    options: &["--query-field", "query"],
    files: &["parquet", "npy"],
};

/// A masked-LM head, whose logits are pooled.
const SPLADE: Killed = Killed {
    command: "embed",
    fixture: "sparse/distilbert",
    options: &["--max-active-dims", "24"],
    files: &["npz"],
};

/// Records, and the outputs made of them.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let line = |id: usize| {
            let (query, mat) = (id % 13, id % 97);
            format!(
                "{{\"id\":{id},\"query\":\"who is {query}?\",\"text\":\"a cat {id} sat on the mat of {mat}\"}}\n"
            )
        };
        let lines: String = (0..RECORDS).map(line).collect();
        fs::write(folder.path().join("in.jsonl"), lines).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, kind: &Killed, out: &str, more: &[&str]) -> Command {
        let model = Path::new("fixtures").join(kind.fixture).join("model");
        let mut command = program();
        command.current_dir(self.folder.path()).arg(kind.command);
        command.args(["-q", "--no-cache", "--resume", "--part-rows", "200", "-m"]);
        command.arg(fs::canonicalize(model).unwrap());
        command.args(["in.jsonl", "-o", out]).args(kind.options);
        command.args(more);
        command
    }

    /// Makes an output without a stop.
    fn make(&self, kind: &Killed, out: &str, more: &[&str]) {
        let output = self.run(kind, out, more).output().unwrap();
        assert!(output.status.success(), "{out}: {}", stderr(&output));
    }

    /// Kills a run once it has published a part, and completes it.
    fn make_after_a_kill(&self, kind: &Killed, out: &str, parts_in: &str, more: &[&str]) {
        let mut running = self
            .run(kind, out, more)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let folder = self.path(parts_in);
        wait_for("the first part", || {
            (!parts(&folder).is_empty()).then_some(())
        });
        running.kill().unwrap();
        assert!(
            !running.wait().unwrap().success(),
            "{out}: it ended before it was killed"
        );
        self.make(kind, out, &[more, &["--stats", "stats.json"]].concat());
        let stats = fs::read(self.path("stats.json")).unwrap();
        let stats: serde_json::Value = serde_json::from_slice(&stats).unwrap();
        // The parts of the killed run are not embedded again.
        let embedded = stats["embedded"].as_u64().unwrap();
        assert!(
            (1..=RECORDS as u64 - 200).contains(&embedded),
            "{out}: {stats}"
        );
    }

    fn tries(&self, kind: &Killed) {
        for ending in kind.files.iter().step_by(stride(2)) {
            let (whole, killed) = (format!("whole.{ending}"), format!("killed.{ending}"));
            self.make(kind, &whole, &[]);
            self.make_after_a_kill(kind, &killed, &format!("{killed}.parts"), &[]);
            let mut compared = 0;
            // A matrix has files beside it: its rows, and how many vectors each has.
            for beside in ["", ".rows.jsonl", ".lengths.npy"] {
                let of = |name: &str| fs::read(self.path(&format!("{name}{beside}"))).ok();
                let (whole, killed) = (of(&whole), of(&killed));
                compared += usize::from(whole.is_some());
                assert!(whole == killed, "{ending}{beside} {:?}", kind.options);
            }
            let files = match (*ending, kind.options.contains(&"multi")) {
                ("npy", true) => 3,
                ("npy" | "npz", _) => 2,
                _ => 1,
            };
            assert_eq!(compared, files, "{ending} {:?}", kind.options);
        }
        let more = ["-f", "parquet"];
        self.make(kind, "whole/", &more);
        self.make_after_a_kill(kind, "killed/", "killed", &more);
        let of = |name: &str| parts(&self.path(name));
        assert!(of("whole") == of("killed"), "{:?}", kind.options);
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => fs::remove_dir_all(path).unwrap(),
                false if path.ends_with("in.jsonl") => {}
                false => fs::remove_file(path).unwrap(),
            }
        }
    }
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

#[test]
fn a_killed_run_of_every_kind_is_completed_bit_by_bit() {
    let scene = Scene::new();
    let kinds = HEADS.iter().step_by(stride(4));
    kinds.for_each(|kind| scene.tries(kind));
}

#[test]
fn a_killed_run_of_scores_is_completed_bit_by_bit() {
    Scene::new().tries(&SCORES);
}

#[test]
fn a_killed_run_of_a_splade_model_is_completed_bit_by_bit() {
    Scene::new().tries(&SPLADE);
}

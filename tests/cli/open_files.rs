//! Folders of more parts than a process may have open files.

use std::fs;
use std::process::Command;

use crate::jobs::{code, json};
use crate::sandbox::{Run, Sandbox};
use embedctl_testing::stride;

/// Parts of a folder, each of a row.
const PARTS: usize = 120;

/// Runs a command that may have 100 open files.
fn limited(sandbox: &Sandbox, command: &Command) -> Run {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 100; exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    let set = |(name, value): (_, Option<_>)| Some((name, value?));
    shell
        .env_clear()
        .envs(command.get_envs().filter_map(set))
        .current_dir(sandbox.path(""));
    sandbox.finish(&mut shell)
}

#[test]
fn folders_have_more_parts_than_there_may_be_open_files() {
    let sandbox = Sandbox::new();
    let line = |n| format!("{{\"id\": {n}, \"text\": \"number {n}\"}}\n");
    sandbox.write("old.jsonl", (0..PARTS).map(line).collect::<String>());
    sandbox.write("new.jsonl", (0..PARTS).rev().map(line).collect::<String>());
    let mut made = Vec::new();
    for format in ["parquet", "npy", "arrow"].into_iter().step_by(stride(3)) {
        let line = format!("old.jsonl -o {format}/ -f {format} --part-rows 1");
        code(&sandbox.embed(&line), 0);
        let inspect = sandbox.command(["inspect", "--json", format]);
        let run = limited(&sandbox, &inspect);
        code(&run, 0);
        let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(found["files"].as_array().unwrap().len(), PARTS);
        let search = sandbox.command(["search", "--json", "--like-row", "77", "-k", "200", format]);
        let run = limited(&sandbox, &search);
        code(&run, 0);
        assert_eq!(run.stdout.lines().count(), PARTS - 1);
        let reuse = format!("new.jsonl -o new.npy --force --stats stats.json --reuse {format}/");
        code(&limited(&sandbox, &sandbox.embed_command(&reuse)), 0);
        assert_eq!(json(&sandbox.path("stats.json"))["reused"], PARTS);
        made.push(fs::read(sandbox.path("new.npy")).unwrap());
    }
    assert!(made.windows(2).all(|two| two[0] == two[1]));
}

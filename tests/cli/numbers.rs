//! `embed --stats`: what other programs are told of a run.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::sandbox::{Sandbox, copy_folder, in_repository};
use crate::support;

fn stats(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&fs::read_to_string(sandbox.path("stats.json")).unwrap()).unwrap()
}

#[test]
fn a_finished_run_has_its_summary_in_the_file() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "a.jsonl",
        "{\"text\": \"one\"}\n{\"text\": \"one\"}\n{\"txt\": 1}\n",
    );
    let line = "a.jsonl -o out.npy --on-error skip --log-format json --stats stats.json";
    let output = sandbox.embed_command(line).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let files = sandbox.files();
    let made = [
        "a.jsonl",
        "out.npy",
        "out.npy.json",
        "out.npy.rows.jsonl",
        "stats.json",
    ];
    assert_eq!(files, made);

    let stats = stats(&sandbox);
    let said = String::from_utf8(output.stderr).unwrap();
    let said = said
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let summary = said
        .into_iter()
        .find(|said| said["event"] == "summary")
        .unwrap();
    for (name, value) in summary.as_object().unwrap() {
        if !["level", "time", "event", "message"].contains(&name.as_str()) {
            assert_eq!(&stats[name], value, "{name}");
        }
    }
    assert_eq!(stats["schema"], 2);
    assert_eq!(
        (&stats["state"], &stats["exit_code"]),
        (&"rejected".into(), &3.into())
    );
    assert_eq!(
        (&stats["embedded"], &stats["repeated"]),
        (&2.into(), &1.into())
    );
    assert_eq!(stats["progress"]["share"], 1.0);
    assert!(stats["updated_at"].as_f64() >= stats["started_at"].as_f64());
}

#[test]
fn a_failed_run_says_so() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", "{\"text\": \"one\"}\n{\"txt\": 1}\n");
    let run = sandbox.embed("a.jsonl -o out.npy --stats stats.json");
    assert_eq!(run.code, Some(1), "{run}");
    let stats = stats(&sandbox);
    assert_eq!(
        (&stats["state"], &stats["exit_code"]),
        (&"failed".into(), &1.into())
    );
    assert!(
        stats["error"].as_str().unwrap().contains("a.jsonl:2"),
        "{stats}"
    );
}

/// Looks until the numbers are as they should be.
fn wait_for(sandbox: &Sandbox, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    support::wait_for(what, || {
        let text = fs::read_to_string(sandbox.path("stats.json")).ok()?;
        // Whenever we look, it is whole.
        let stats: Value = serde_json::from_str(&text).unwrap();
        is_so(&stats).then_some(stats)
    })
}

#[test]
fn a_run_is_followed_while_it_lasts() {
    let sandbox = Sandbox::new();
    let line = "-o out.npy --window 1 --stats-interval 1 --stats stats.json";
    let mut command = sandbox.embed_command(line);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let running = wait_for(&sandbox, "start", |stats| stats["state"] == "running");
    assert_eq!(running["exit_code"], Value::Null);
    assert_eq!(running["engine"]["engine"], "native");
    stdin.write_all(b"one\ntwo\nthree\n").unwrap();
    let later = wait_for(&sandbox, "row", |stats| {
        stats["embedded"].as_u64() > Some(0)
    });
    assert!(later["updated_at"].as_f64() > running["updated_at"].as_f64());
    drop(stdin);
    assert!(child.wait().unwrap().success());
    let done = stats(&sandbox);
    assert_eq!(
        (&done["state"], &done["embedded"]),
        (&"done".into(), &3.into())
    );
}

#[test]
fn files_that_cannot_be_meant_are_refused_before_anything_is_written() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one\n");
    sandbox.write("a.parquet", "an earlier output");
    sandbox.write("c.npy", "vectors");
    fs::create_dir(sandbox.path("folder")).unwrap();
    for (line, code, words) in [
        (
            "--stats out.npy",
            2,
            "--stats out.npy is the same file as -o out.npy",
        ),
        ("--stats out.npy.json", 2, "out.npy.json"),
        ("--stats a.txt", 2, "the input a.txt"),
        ("--stats -", 2, "means standard output"),
        ("--stats a.txt -o parts/", 2, "the input a.txt"),
        (
            "--stats folder/a.json -o folder",
            2,
            "the folder that -o names",
        ),
        (
            "--reuse folder --stats folder/a.json",
            2,
            "that --reuse names",
        ),
        ("--reuse a.parquet --stats a.parquet", 2, "read for --reuse"),
        (
            "--dtype int8 --calibration c.npy --stats c.npy",
            2,
            "--calibration c.npy",
        ),
        (
            "--model folder --stats folder/config.json",
            2,
            "the model folder is read",
        ),
        ("--stats nowhere/stats.json", 1, "in an existing folder"),
        ("--stats folder", 1, "is not a regular file"),
        #[cfg(unix)]
        ("--stats /dev/null", 1, "is not a regular file"),
    ] {
        let output = if line.contains("-o ") {
            ""
        } else {
            "-o out.npy"
        };
        let run = sandbox.embed(&format!("a.txt {output} {line}"));
        assert_eq!(run.code, Some(code), "{run}");
        assert!(run.stderr.contains(words), "{run}");
        let files = ["a.parquet", "a.txt", "c.npy", "folder"];
        assert_eq!(sandbox.files(), files);
        assert!(!sandbox.path("folder/a.json").exists(), "{run}");
    }
}

#[test]
#[cfg(unix)]
fn others_may_read_them_as_any_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one\n");
    let run = sandbox.embed("a.txt -o out.npy --stats stats.json");
    assert_eq!(run.code, Some(0), "{run}");
    let mode = |name: &str| {
        fs::metadata(sandbox.path(name))
            .unwrap()
            .permissions()
            .mode()
    };
    assert_eq!(mode("stats.json"), mode("a.txt"));
}

/// Reduced precision is measured by rows of the input, the longest of them too, be it that a later window has them.
#[test]
fn precision_is_measured_on_long_rows_wherever_they_stand() {
    let sandbox = Sandbox::new();
    let limit = 600;
    // Rotary positions: the network knows no limit of its own.
    let model = in_repository("fixtures/parity/family-llama-lasttoken/model");
    copy_folder(&model, &sandbox.path("model"));
    for (file, limit) in [
        ("config.json", ": 128,"),
        ("tokenizer_config.json", ": 48,"),
    ] {
        let text = fs::read_to_string(model.join(file)).unwrap();
        assert!(text.contains(limit), "{file}");
        sandbox.write(&format!("model/{file}"), text.replace(limit, ": 2048,"));
    }
    let (short, more) = ("one two three\n".repeat(3), "six seven\n".repeat(20));
    let long = format!("{}\n", "word ".repeat(1000));
    for (texts, has_long) in [
        (format!("{short}{long}"), true),
        (format!("{long}{short}"), true),
        (format!("{short}{more}{long}{more}"), true),
        (format!("{short}{more}"), false),
    ] {
        sandbox.write("in.txt", &texts);
        for precision in ["int16", "int8"] {
            let run = sandbox.run(&format!(
                "embed in.txt -o out.npy --force -v --provider native --precision {precision} \
                 --min-cosine 0 --model model --max-length {limit} --window 4"
            ));
            assert_eq!(run.code, Some(0), "{run}");
            let inspected = sandbox.run("inspect out.npy --json");
            let inspected: Value = serde_json::from_str(&inspected.stdout).unwrap();
            let engine = &inspected["files"][0]["provenance"]["engine"];
            let tokens = &engine["cosine"]["tokens"];
            let (least, most) = (&tokens["least"], tokens["most"].as_u64().unwrap());
            assert_eq!(most == limit, has_long, "{most} in {inspected}");
            assert_eq!(engine["arithmetic"], 2);
            let said = format!("texts of {least} to {most} tokens");
            assert!(run.stderr.contains(&said), "{said}: {run}");
        }
    }
}

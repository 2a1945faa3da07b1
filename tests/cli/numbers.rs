//! `embed --stats` and `--metrics`: what other programs are told of a run.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::Stdio;

use regex::Regex;
use serde_json::Value;

use crate::sandbox::{Sandbox, copy_folder, in_repository};
use crate::support;

fn stats(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&fs::read_to_string(sandbox.path("stats.json")).unwrap()).unwrap()
}

/// Samples by name and labels, of a text that must keep to the grammar of the format.
fn metrics(sandbox: &Sandbox) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(sandbox.path("run.prom")).unwrap();
    let comment = Regex::new(r"^# (HELP [a-z_]+ \S.*|TYPE [a-z_]+ (counter|gauge))$").unwrap();
    let sample = Regex::new(
        r#"^([a-z_]+\{[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\[\\"n])*")*\}) (\S+)$"#,
    )
    .unwrap();
    let mut samples = BTreeMap::new();
    let mut family = String::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if line.starts_with('#') {
            assert!(comment.is_match(line), "{line}");
            family = line.split(' ').nth(2).unwrap().to_owned();
        } else {
            let found = sample.captures(line).unwrap_or_else(|| panic!("{line}"));
            assert!(line.starts_with(&format!("{family}{{")), "{line}");
            let value = found[2].parse().unwrap();
            assert_eq!(samples.insert(found[1].to_owned(), value), None, "{line}");
        }
    }
    samples
}

/// The value of the one sample of a metric that bears `label`.
fn value(samples: &BTreeMap<String, f64>, name: &str, label: &str) -> f64 {
    let start = format!("embedctl_{name}{{");
    let mut found =
        (samples.iter()).filter(|(key, _)| key.starts_with(&start) && key.contains(label));
    let (_, &value) = found
        .next()
        .unwrap_or_else(|| panic!("no {name}: {samples:?}"));
    assert!(found.next().is_none(), "{name}");
    value
}

const BOTH: &str = "--stats stats.json --metrics run.prom";

#[test]
fn a_finished_run_has_its_summary_in_both() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "a.jsonl",
        "{\"text\": \"one\"}\n{\"text\": \"one\"}\n{\"txt\": 1}\n",
    );
    let line = format!("a.jsonl -o out.npy --on-error skip --log-format json {BOTH}");
    let output = sandbox.embed_command(&line).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let files = sandbox.files();
    let made = [
        "a.jsonl",
        "out.npy",
        "out.npy.json",
        "out.npy.rows.jsonl",
        "run.prom",
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
    assert_eq!(stats["schema"], 1);
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

    let samples = metrics(&sandbox);
    let labels = "engine=\"rten\",provider=\"rten\",output=\"out.npy\"";
    for (name, expected) in [
        ("records_read_total", 3.0),
        ("rows_embedded_total", 2.0),
        ("rows_rejected_total", 1.0),
        ("rows_repeated_total", 1.0),
        ("rows_truncated_total", 0.0),
        (
            "tokens_total",
            stats["stages"]["real_tokens"].as_f64().unwrap(),
        ),
        ("input_read_bytes_total", 43.0),
        ("run_progress_ratio", 1.0),
        ("run_finished", 1.0),
        ("run_exit_code", 3.0),
    ] {
        assert!(
            (value(&samples, name, labels) - expected).abs() < 1e-9,
            "{name}: {samples:?}"
        );
    }
    for stage in ["read", "tokenize", "infer", "pool", "write", "wait"] {
        let seconds = value(
            &samples,
            "stage_seconds_total",
            &format!("stage=\"{stage}\""),
        );
        assert!(seconds >= 0.0);
    }
}

#[test]
fn a_parser_of_prometheus_own_reads_them() {
    let test = "metrics in Python";
    let Some(python) = support::python(test, &[]) else {
        return;
    };
    let has = std::process::Command::new(&python)
        .args(["-c", "import prometheus_client"])
        .output();
    if !has.is_ok_and(|output| output.status.success()) {
        let _: Option<()> = support::skip(test, "prometheus", "prometheus_client");
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one\n");
    let odd = "a\"b\\c.npy";
    let mut command = sandbox.embed_command(&format!("a.txt {BOTH} -o"));
    let run = sandbox.finish(command.arg(odd));
    assert_eq!(run.code, Some(0), "{run}");
    let script = "import sys\n\
        from prometheus_client.parser import text_string_to_metric_families as read\n\
        found = {s.name: s for f in read(open(sys.argv[1]).read()) for s in f.samples}\n\
        rows = found['embedctl_rows_embedded_total']\n\
        assert rows.value == 1 and rows.labels['output'] == sys.argv[2], rows";
    let mut command = std::process::Command::new(python);
    let output = command
        .args(["-c", script])
        .arg(sandbox.path("run.prom"))
        .arg(odd)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_failed_run_says_so_in_both() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", "{\"text\": \"one\"}\n{\"txt\": 1}\n");
    let run = sandbox.embed(&format!("a.jsonl -o out.npy {BOTH}"));
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
    let samples = metrics(&sandbox);
    assert!((value(&samples, "run_exit_code", "") - 1.0).abs() < 1e-9);
    assert!((value(&samples, "run_finished", "") - 1.0).abs() < 1e-9);
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
    let line = format!("-o out.npy --window 1 --stats-interval 1 {BOTH}");
    let mut command = sandbox.embed_command(&line);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let running = wait_for(&sandbox, "start", |stats| stats["state"] == "running");
    assert_eq!(running["exit_code"], Value::Null);
    assert_eq!(running["engine"]["engine"], "rten");
    stdin.write_all(b"one\ntwo\nthree\n").unwrap();
    let later = wait_for(&sandbox, "row", |stats| {
        stats["embedded"].as_u64() > Some(0)
    });
    assert!(later["updated_at"].as_f64() > running["updated_at"].as_f64());
    let samples = metrics(&sandbox);
    assert!(value(&samples, "run_finished", "").abs() < 1e-9);
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
        ("--metrics out.npy.json", 2, "out.npy.json"),
        ("--stats a.txt", 2, "the input a.txt"),
        (
            "--stats both --metrics both",
            2,
            "--metrics both is the same file as --stats both",
        ),
        ("--stats -", 2, "means standard output"),
        ("--stats a.txt -o parts/", 2, "the input a.txt"),
        ("--stats both --metrics both -o parts/", 2, "--stats both"),
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
        (
            "--reuse a.parquet --metrics a.parquet",
            2,
            "read for --reuse",
        ),
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
        ("--metrics folder", 1, "is not a regular file"),
        #[cfg(unix)]
        ("--metrics /dev/null", 1, "is not a regular file"),
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
    let run = sandbox.embed(&format!("a.txt -o out.npy {BOTH}"));
    assert_eq!(run.code, Some(0), "{run}");
    let mode = |name: &str| {
        fs::metadata(sandbox.path(name))
            .unwrap()
            .permissions()
            .mode()
    };
    assert_eq!(mode("run.prom"), mode("a.txt"));
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

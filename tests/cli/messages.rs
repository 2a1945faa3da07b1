//! Options that every command takes: how much is said, and in which form.

use insta::assert_snapshot;
use serde_json::Value;

use crate::sandbox::{Run, Sandbox};

fn run(options: &str) -> Run {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\ntwo\n");
    sandbox.embed(&format!("texts.txt -o out.npy {options}"))
}

fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn quiet() {
    let run = run("-q");
    assert_eq!(
        (run.code, run.stdout.as_str(), run.stderr.as_str()),
        (Some(0), "", "")
    );
}

#[test]
fn verbose() {
    assert_snapshot!(run("-v"));
}

#[test]
fn very_verbose_is_verbose() {
    let run = run("-vv");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("running on native"), "{run}");
}

#[test]
fn json() {
    assert_snapshot!(run("--log-format json"));
}

#[test]
fn json_of_an_error() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n");
    let run = sandbox.embed("texts.txt/none.txt -o out.npy --log-format json");
    assert_snapshot!(run);
    let object = &objects(&run.stderr)[0];
    assert_eq!(object["level"], "error");
    assert_eq!(object["causes"].as_array().map(Vec::len), Some(1));
}

#[test]
fn progress_without_a_terminal_is_lines() {
    assert_snapshot!(run("--progress always"));
}

#[test]
fn progress_in_json_is_events() {
    let run = run("--progress always --log-format json");
    let objects = objects(&run.stderr.replace("[NUMBER]", "1"));
    let events: Vec<&Value> = objects.iter().map(|object| &object["event"]).collect();
    assert!(events.contains(&&Value::from("progress")), "{run}");
    assert_eq!(events.last(), Some(&&Value::from("summary")), "{run}");
}

#[test]
fn colours_come_when_asked_for() {
    let coloured = |options: &str| {
        let sandbox = Sandbox::new();
        sandbox
            .embed(&format!("missing.txt -o out.npy {options}"))
            .stderr
            .contains("\u{1b}[")
    };
    assert!(coloured("--color always"));
    assert!(!coloured("--color never"));
    assert!(!coloured(""), "standard error is no terminal");
}

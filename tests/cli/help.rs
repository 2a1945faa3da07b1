//! What `embedctl` says about itself.

use std::time::{Duration, Instant};

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn short_help() {
    assert_snapshot!(Sandbox::new().run("-h"));
}

#[test]
fn long_help() {
    assert_snapshot!(Sandbox::new().run("--help"));
}

#[test]
fn embed_short_help() {
    assert_snapshot!(Sandbox::new().run("embed -h"));
}

#[test]
fn embed_long_help() {
    assert_snapshot!(Sandbox::new().run("embed --help"));
}

#[test]
fn completions_help() {
    assert_snapshot!(Sandbox::new().run("completions --help"));
}

#[test]
fn man_help() {
    assert_snapshot!(Sandbox::new().run("man --help"));
}

#[test]
fn version() {
    assert_snapshot!(Sandbox::new().run("--version"));
}

#[test]
fn nothing_to_do() {
    let run = Sandbox::new().run("");
    assert_eq!(run.code, Some(2));
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("Usage: embedctl"), "{run}");
}

#[test]
fn unknown_command() {
    assert_snapshot!(Sandbox::new().run("embedd"));
}

#[test]
fn unknown_option() {
    assert_snapshot!(Sandbox::new().run("embed texts.txt -o out.npy --normalise true"));
}

#[test]
fn a_usage_error_is_json_where_json_is_asked_for() {
    assert_snapshot!(Sandbox::new().run("embed texts.txt --log-format json"));
}

/// Nothing is opened, searched or loaded before the arguments are understood.
#[test]
fn help_comes_at_once() {
    let sandbox = Sandbox::new();
    let fastest = (0..20)
        .map(|_| {
            let start = Instant::now();
            assert_eq!(sandbox.run("--help").code, Some(0));
            start.elapsed()
        })
        .min();
    assert!(fastest < Some(Duration::from_millis(10)), "{fastest:?}");
}

//! `embedctl man`.

use std::fs;

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn page_of_the_tool() {
    assert_snapshot!(Sandbox::new().run("man"));
}

#[test]
fn page_of_a_command() {
    let run = Sandbox::new().run("man embed");
    assert_eq!(run.code, Some(0));
    for text in [
        ".TH embedctl-embed 1",
        "\\-\\-batch\\-tokens",
        ".SH EXAMPLES",
        ".SH \"EXIT CODES\"",
    ] {
        assert!(run.stdout.contains(text), "no {text} in:\n{run}");
    }
}

#[test]
fn all_pages_into_a_folder() {
    let sandbox = Sandbox::new();
    let run = sandbox.run("man --dir pages");
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(run.stdout, "");
    let mut pages: Vec<String> = fs::read_dir(sandbox.path("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let expected = [
        "embedctl-bench.1",
        "embedctl-cache.1",
        "embedctl-compare.1",
        "embedctl-completions.1",
        "embedctl-config.1",
        "embedctl-devices.1",
        "embedctl-download.1",
        "embedctl-embed.1",
        "embedctl-export.1",
        "embedctl-info.1",
        "embedctl-inspect.1",
        "embedctl-man.1",
        "embedctl-score.1",
        "embedctl-search.1",
        "embedctl-serve.1",
        "embedctl-tokens.1",
        "embedctl-verify-model.1",
        "embedctl.1",
    ];
    assert_eq!(pages, expected);
}

#[test]
fn unknown_page() {
    assert_snapshot!(Sandbox::new().run("man nothing"));
}

//! Help and version.

#[cfg(unix)]
use std::process::{Child, Stdio};
#[cfg(unix)]
use std::time::Duration;

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, usage};

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
fn download_long_help() {
    assert_snapshot!(Sandbox::new().run("download --help"));
}

#[test]
fn serve_long_help() {
    assert_snapshot!(Sandbox::new().run("serve --help"));
}

#[test]
fn devices_help() {
    assert_snapshot!(Sandbox::new().run("devices --help"));
}

#[test]
fn completions_help() {
    assert_snapshot!(Sandbox::new().run("completions --help"));
}

#[test]
fn help_is_a_command_too() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run("help").stdout, sandbox.run("--help").stdout);
    assert_eq!(
        sandbox.run("help embed").stdout,
        sandbox.run("embed --help").stdout
    );
    assert_eq!(sandbox.run("help embedd").code, Some(2));
}

/// Arguments that may be left out stand in brackets, others don't, also in errors.
#[test]
fn usage_lines_tell_required_arguments_apart() {
    let sandbox = Sandbox::new();
    for (command, usage) in [
        (
            "embed",
            "embedctl embed [OPTIONS] --output <OUT> [INPUT]...",
        ),
        ("download", "embedctl download [OPTIONS] <MODEL>..."),
        ("completions", "embedctl completions [OPTIONS] <SHELL>"),
        ("man", "embedctl man [OPTIONS] [COMMAND]"),
        ("serve", "embedctl serve [OPTIONS]"),
        ("info", "embedctl info [OPTIONS] [MODEL]"),
        ("export", "embedctl export [OPTIONS] <MODEL> <OUT.onnx>"),
        ("inspect", "embedctl inspect [OPTIONS] <FILE>..."),
        ("config", "embedctl config [OPTIONS] [COMMAND]"),
        ("devices", "embedctl devices [OPTIONS]"),
        ("bench", "embedctl bench [OPTIONS]"),
        ("cache", "embedctl cache [OPTIONS] [list|size]"),
    ] {
        let line = format!("Usage: {usage}\n");
        let help = sandbox.run(&format!("{command} -h")).stdout;
        assert!(help.contains(&line), "{help}");
        let wrong = sandbox.run(&format!("{command} --nonsense")).stderr;
        assert!(wrong.contains(line.trim()), "{wrong}");
    }
}

#[test]
fn tips_are_not_absurd() {
    let sandbox = Sandbox::new();
    for line in [
        "--dtype f16",
        "--gpus 1",
        "--batch-size -1",
        "--max-length -5",
    ] {
        let run = sandbox.run(&format!("embed texts.txt -o out.npy {line}"));
        assert_eq!(run.code, Some(2), "{run}");
        assert!(!run.stderr.contains("tip:"), "{run}");
    }
    let run = sandbox.run("embed texts.txt -o out.npy --batch-size -1");
    let words =
        "invalid value '-1' for '--batch-size <RECORDS>': must be a whole number of at least 1";
    assert!(run.stderr.contains(words), "{run}");
    let run = sandbox.run("embed texts.txt --ouput out.npy");
    assert!(run.stderr.contains("'--output'"), "{run}");
}

#[test]
fn names_of_other_tools_are_explained() {
    let sandbox = Sandbox::new();
    for (line, tip) in [
        ("--column body", "here it is '--text-field'"),
        ("--chunk-size=100", "here it is '--chunk-tokens'"),
        ("--gpu", "here it is '--provider cuda'"),
        ("--normalize", "'--normalize true'"),
        ("--precision f16", "here it is 'fp16'"),
        ("--precision bfloat16", "here it is 'bf16'"),
        ("--dtype fp16", "here it is 'f16'"),
        ("--id key", "here it is '--id-field'"),
        ("-j 4", "here it is '--threads'"),
        ("--prefix x", "here it is '--prompt'"),
        ("--instruction x", "here it is '--prompt'"),
        ("--overlap 8", "here it is '--chunk-overlap'"),
        ("--skip-errors", "here it is '--on-error skip'"),
        ("--device cpu", "here it is '--provider native,cpu'"),
        (
            "--input texts.txt",
            "inputs are arguments: 'embedctl embed INPUT… -o OUT'",
        ),
        (
            "--append",
            "an output is written whole; '--reuse OLD -o NEW' copies vectors of texts that OLD has",
        ),
        (
            "--update",
            "an output is written whole; '--reuse OLD -o NEW' copies vectors of texts that OLD has",
        ),
        (
            "--query x",
            "to search an output: 'embedctl search OUT QUERY…'",
        ),
        (
            "--recursive",
            "a folder stands for the files in it and in its subfolders",
        ),
        ("--port 80", "a server is started by 'embedctl serve'"),
        ("--host x", "a server is started by 'embedctl serve'"),
    ] {
        let run = sandbox.run(&format!("embed texts.txt -o out.npy {line}"));
        assert_eq!(run.code, Some(2), "{run}");
        let tip = format!("tip: {tip}\n");
        assert!(run.stderr.contains(&tip), "{run}");
        assert_eq!(run.stderr.matches("tip:").count(), 1, "{run}");
    }
    let run = sandbox.run("search out.parquet --query x");
    let tip = "tip: queries are arguments: 'embedctl search OUT QUERY…', or --queries FILE";
    assert!(run.stderr.contains(tip), "{run}");
    for (command, tip) in [
        (
            "search out.parquet",
            "the output is an argument: 'embedctl search OUT QUERY…', or --queries FILE",
        ),
        ("tokens", "inputs are arguments: 'embedctl tokens INPUT…'"),
        (
            "score",
            "inputs are arguments: 'embedctl score INPUT… -o OUT'",
        ),
    ] {
        let run = sandbox.run(&format!("{command} --input texts.txt"));
        assert!(run.stderr.contains(&format!("tip: {tip}\n")), "{run}");
    }
    for misspelt in ["serach", "seach", "searh"] {
        let run = sandbox.run(&format!("{misspelt} out.parquet x"));
        assert!(
            run.stderr
                .contains("tip: a similar subcommand exists: 'search'"),
            "{run}"
        );
    }
    // An option that this command does not have is not advised.
    let run = sandbox.run("devices -j 4");
    assert!(!run.stderr.contains("tip:"), "{run}");
    sandbox.write("texts.txt", "one\n");
    for file in ["texts.txt", "no/such.jsonl"] {
        let run = sandbox.run(file);
        let tip = "tip: to embed a file: 'embedctl embed FILE -o OUT.parquet'";
        assert!(run.code == Some(2) && run.stderr.contains(tip), "{run}");
    }
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

/// Nothing is opened, searched or loaded before the arguments are understood. Counted is the time that
/// the processor spends on it, which a busy machine doesn't change much.
#[test]
#[cfg(unix)]
fn help_comes_at_once() {
    let sandbox = Sandbox::new();
    let fastest = (0..10)
        .map(|_| {
            let child = sandbox.command(["--help"]).stdout(Stdio::null()).spawn();
            processor_time(child.unwrap())
        })
        .min();
    // A library or a model that is opened takes a multiple of this; the help itself takes about 10 ms.
    assert!(fastest < Some(Duration::from_millis(50)), "{fastest:?}");
}

/// Waits for a process; the time that it spent computing.
#[cfg(unix)]
fn processor_time(child: Child) -> Duration {
    let usage = usage(child);
    let spent = |time: libc::timeval| {
        let micros = i128::from(time.tv_sec) * 1_000_000 + i128::from(time.tv_usec);
        Duration::from_micros(u64::try_from(micros).unwrap())
    };
    spent(usage.ru_utime) + spent(usage.ru_stime)
}

//! Text from outside in what the program says: it neither steers a terminal nor passes for a message of its own, and
//! JSON stays JSON.

use std::fs;

use crate::sandbox::{Run, SMALL_MODEL, Sandbox, copy_folder, in_repository};

/// Clears the screen, names the window, and colours what follows.
const ESCAPES: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}";

/// No character of a run's text does more than to be seen.
fn assert_plain(run: &Run) {
    for text in [&run.stdout, &run.stderr] {
        let found = text.chars().find(|character| {
            (character.is_control() && !"\n\t".contains(*character)) || *character == '\u{202e}'
        });
        assert_eq!(found, None, "{run}");
    }
}

fn run(sandbox: &Sandbox, arguments: &[&str]) -> Run {
    let mut command = sandbox.command(arguments);
    command.env("EMBEDCTL_MODEL", in_repository(SMALL_MODEL));
    let output = command.output().unwrap();
    // Unfiltered: JSON is to be read.
    let run = Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    assert_plain(&run);
    run
}

#[cfg(unix)]
#[test]
fn names_of_files_do_not_steer_the_terminal() {
    let sandbox = Sandbox::new();
    let name = format!("{ESCAPES}.txt");
    let forged = format!("a\nerror: forged{ESCAPES}.jsonl");
    sandbox.write(&format!("here{name}"), "text\n");
    sandbox.write(&forged, "{\"text\": 1}\n");
    sandbox.write("x.txt", "text\n");
    for log in ["text", "json"] {
        let log = format!("--log-format={log}");
        for arguments in [
            &["embed", &name, "-o", "out.npy"][..],
            &[
                "embed",
                &format!("here{name}"),
                "-o",
                &format!("no{ESCAPES}/out.npy"),
            ],
            &[
                "embed",
                &forged,
                "-o",
                "out.npy",
                "--on-error",
                "skip",
                "--provider",
                "tract",
            ],
            &["embed", &forged, "-o", "out.npy", "--provider", "tract"],
            &["embed", "x.txt", "-o", "out.npy", "-m", ESCAPES],
            &["embed", "x.txt", "-o", "out.npy", "--provider", ESCAPES],
            &["embed", "x.txt", "-o", "out.npy", ESCAPES],
            &["embed", "x.txt", "-o", "out.npy", &format!("--{ESCAPES}")],
            &["download", "--locked", &name],
            &["download", "--check", &name],
            &["devices", "--ort-lib", &name],
            &[ESCAPES],
        ] {
            let run = run(&sandbox, &[arguments, &[&log]].concat());
            assert_ne!(run.code, Some(0), "{arguments:?}: {run}");
            assert!(run.stderr.contains("\\u"), "{arguments:?}: {run}");
            assert!(!run.stderr.contains("\nerror: forged"), "{run}");
            if log.ends_with("json") {
                for line in run.stderr.lines() {
                    serde_json::from_str::<serde_json::Value>(line)
                        .unwrap_or_else(|error| panic!("{error}: {line}"));
                }
            }
            for made in sandbox
                .files()
                .iter()
                .filter(|name| name.starts_with("out"))
            {
                fs::remove_file(sandbox.path(made)).unwrap();
            }
        }
    }
}

#[test]
fn a_variable_does_not_steer_the_terminal() {
    let sandbox = Sandbox::new();
    for variable in [
        "EMBEDCTL_MODEL",
        "EMBEDCTL_PROVIDER",
        "HF_ENDPOINT",
        "HF_HUB_CACHE",
        "EMBEDCTL_ORT_LIB",
    ] {
        let mut command = sandbox.command(["embed", "x.txt", "-o", "out.npy", "--color=always"]);
        let run = sandbox.finish(command.env(variable, ESCAPES));
        assert_ne!(run.code, Some(0), "{run}");
        // Colours are our own.
        let plain = run
            .stderr
            .replace("\u{1b}[1m", "")
            .replace("\u{1b}[31m", "")
            .replace("\u{1b}[0m", "");
        assert!(
            !plain.contains("\u{1b}[2J") && !plain.contains('\u{9b}'),
            "{variable}: {run}"
        );
    }
}

#[test]
fn keys_and_texts_of_records_do_not_steer_the_terminal() {
    let sandbox = Sandbox::new();
    let key = serde_json::Value::from(ESCAPES);
    sandbox.write("a.jsonl", format!("{{{key}: {key}, \"text\": [{key}]}}\n"));
    let field = format!("--text-field={ESCAPES}a");
    for option in [
        "--keep=text:int",
        &field,
        &format!("--keep={ESCAPES}:int"),
        &format!("--id-field={ESCAPES}b"),
    ] {
        let run = run(
            &sandbox,
            &[
                "embed",
                "a.jsonl",
                "-o",
                "out.npy",
                "--provider",
                "tract",
                option,
            ],
        );
        assert_ne!(run.code, Some(0), "{run}");
    }
}

#[test]
fn what_a_model_says_does_not_steer_the_terminal() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "text\n");
    let escapes = serde_json::Value::from(ESCAPES);
    for (file, content) in [
        (
            "modules.json",
            format!("[{{\"idx\":0,\"name\":\"0\",\"path\":\"\",\"type\":{escapes}}}]"),
        ),
        ("modules.json", format!("{{{escapes}: 1}}")),
        (
            "config.json",
            format!("{{\"model_type\": {escapes}, \"hidden_size\": {escapes}}}"),
        ),
        (
            "tokenizer.json",
            format!("{{{escapes}: 1, \"version\": {escapes}}}"),
        ),
        (
            "1_Pooling/config.json",
            format!("{{\"pooling_mode\": {escapes}}}"),
        ),
        (
            "config_sentence_transformers.json",
            format!("{{\"prompts\": {escapes}}}"),
        ),
        (
            "sentence_bert_config.json",
            format!("{{\"max_seq_length\": {escapes}}}"),
        ),
    ] {
        copy_folder(&in_repository(SMALL_MODEL), &sandbox.path("model"));
        sandbox.write(&format!("model/{file}"), content);
        let run = run(
            &sandbox,
            &[
                "embed",
                "a.txt",
                "-o",
                "out.npy",
                "-m",
                "./model",
                "--provider",
                "tract",
            ],
        );
        assert_ne!(run.code, None, "{file}: {run}");
        for made in sandbox
            .files()
            .iter()
            .filter(|name| name.starts_with("out"))
        {
            fs::remove_file(sandbox.path(made)).unwrap();
        }
    }
}

//! Text from outside in what the program says: it neither steers a terminal nor passes for a message of its own, and
//! JSON stays JSON.

use std::fs;

use crate::sandbox::{ONNX_MODEL, Run, SMALL_MODEL, Sandbox, copy_folder, in_repository};

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
    command.env("EMBEDCTL_MODEL", in_repository(ONNX_MODEL));
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

// Options and files that ask for too much.

#[test]
fn a_field_that_is_nested_beyond_reason() {
    let sandbox = Sandbox::new();
    sandbox.write("x.jsonl", "{\"text\": \"a\"}\n");
    let field = "a.".repeat(20_000) + "b";
    let run = run(
        &sandbox,
        &["embed", "x.jsonl", "-o", "out.npy", "--text-field", &field],
    );
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("more than 127 dots"), "{run}");
    assert!(run.stderr.len() < 1000, "{run}");
}

#[test]
fn more_fields_to_keep_than_there_is_memory_for() {
    let sandbox = Sandbox::new();
    sandbox.write("x.jsonl", "{\"text\": \"a\"}\n");
    let names: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let run = run(
        &sandbox,
        &[
            "embed",
            "x.jsonl",
            "-o",
            "out.npy",
            "--keep",
            &names.join(","),
        ],
    );
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr.contains("names 20000 fields, but takes 1024"),
        "{run}"
    );
}

#[test]
fn widths_that_disagree_name_the_file() {
    let sandbox = Sandbox::new();
    sandbox.write("x.txt", "text\n");
    let from = in_repository("fixtures/parity/bert-dense-tanh/model");
    for (field, of) in [
        ("in_features\": 48", "in_features\": 50"),
        ("out_features\": 24", "out_features\": 25"),
    ] {
        let model = sandbox.path("model");
        copy_folder(&from, &model);
        let file = model.join("2_Dense/config.json");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(field), "{text}");
        fs::write(&file, text.replace(field, of)).unwrap();
        let run = run(
            &sandbox,
            &[
                "embed", "x.txt", "-o", "out.npy", "-m", "./model", "-p", "rten",
            ],
        );
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains("2_Dense/model.safetensors"), "{run}");
        assert!(!run.stderr.contains("bug"), "{run}");
        fs::remove_dir_all(&model).unwrap();
    }
}

/// Names of files, columns and models in tables and JSON on standard output: no line is another's.
#[cfg(unix)]
#[test]
fn tables_show_names_of_others_on_one_line() {
    let sandbox = Sandbox::new();
    let forged = format!("x\nforged{ESCAPES}\tline");
    let key = serde_json::Value::from(forged.as_str());
    sandbox.write("in.jsonl", format!("{{{key}: \"a\", \"text\": \"b\"}}\n"));
    let model = sandbox.path(&forged);
    copy_folder(&in_repository(SMALL_MODEL), &model);
    let model = model.to_str().unwrap();
    let out = format!("{forged}.jsonl");
    let keep = format!("--keep={}", forged.replace(['\u{1b}', '\u{7}'], ""));
    let field = format!("--vector-name={forged}");
    let embed = [
        "embed",
        "in.jsonl",
        "-m",
        model,
        "--provider",
        "rten",
        "-o",
        &out,
    ];
    for more in [&[][..], &["--dry-run"], &[&keep], &[&field]] {
        for json in [false, true] {
            let mut arguments = [&embed[..], more].concat();
            arguments.extend([
                "--force",
                "--log-format",
                if json { "json" } else { "text" },
            ]);
            let run = run(&sandbox, &arguments);
            assert!(
                !run.stderr.contains("\nforged") && !run.stdout.contains("\nforged"),
                "{run}"
            );
        }
    }
    assert!(sandbox.path(&out).exists());
    for arguments in [
        &["inspect", out.as_str()][..],
        &["inspect", "--json", &out],
        &["info", model],
        &["info", "--json", model],
        &["config"],
        &[
            "verify-model",
            model,
            "--against",
            &out,
            "--texts",
            "in.jsonl",
        ],
    ] {
        let mut command = sandbox.command(arguments);
        command.env("EMBEDCTL_PROMPT", &forged);
        let output = command.output().unwrap();
        let run = Run {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        assert_plain(&run);
        assert!(
            run.stdout.contains("forged") || run.code != Some(0) || arguments[0] == "config",
            "{run}"
        );
        // A message's further lines are set in.
        let told = run
            .stdout
            .lines()
            .map(str::trim_start)
            .chain(run.stderr.lines());
        for line in told {
            assert!(!line.starts_with("forged"), "{arguments:?}: {run}");
        }
    }
}

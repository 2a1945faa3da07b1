//! Settings in files: where they are found, what goes before what, and what they may not say.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::sandbox::{Run, SMALL_MODEL, Sandbox, in_repository};

/// The program, reading what files are in the sandbox: a project in `project`, run in `project/sub`.
fn command(sandbox: &Sandbox, line: &str) -> Command {
    let mut command = sandbox.command(line.split_whitespace());
    command
        .current_dir(sandbox.path("project/sub"))
        .env_remove("EMBEDCTL_NO_CONFIG");
    command
}

fn run(sandbox: &Sandbox, line: &str) -> Run {
    sandbox.finish(&mut command(sandbox, line))
}

/// Files of a project and of its user.
fn sandbox(project: &str, user: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("project/sub")).unwrap();
    fs::create_dir_all(sandbox.path(".config/embedctl")).unwrap();
    for (path, text) in [
        ("project/embedctl.toml", project),
        (".config/embedctl/config.toml", user),
    ] {
        if !text.is_empty() {
            sandbox.write(path, text);
        }
    }
    sandbox
}

/// The values of embed's settings, with where they come from.
fn setting(json: &Value, key: &str) -> (Vec<String>, String) {
    let settings = json["settings"].as_array().unwrap();
    let found = settings
        .iter()
        .find(|one| one["command"] == "embed" && one["key"] == key);
    let found = found.unwrap_or_else(|| panic!("no {key}"));
    let values = found["values"].as_array().unwrap().iter();
    let values = values
        .map(|value| value.as_str().unwrap().to_owned())
        .collect();
    let place = match (&found["source"], &found["file"]) {
        (_, Value::String(file)) => {
            format!("{}:{}", file.rsplit('/').next().unwrap(), found["line"])
        }
        (source, _) => source.as_str().unwrap().to_owned(),
    };
    (values, place)
}

fn json(run: &Run) -> Value {
    assert_eq!(run.code, Some(0), "{run}");
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn nearer_places_go_before_farther_ones() {
    let project = "batch-size = 1\nwindow = 2\n[embed]\nbatch_size = 3\nkeep = ['a', 'b:int']\n";
    let user = "batch-size = 4\nthreads = 5\nwindow = 6\nprovider = 'rten'\n[bench]\nsamples = 7\n";
    let sandbox = sandbox(project, user);
    let mut command = command(&sandbox, "config embed --json");
    let shown = json(&sandbox.finish(command.env("EMBEDCTL_PROVIDER", "cpu")));
    for (key, values, place) in [
        ("batch-size", &["3"][..], "embedctl.toml:4"),
        ("window", &["2"], "embedctl.toml:2"),
        ("threads", &["5"], "config.toml:2"),
        ("keep", &["a", "b:int"], "embedctl.toml:5"),
        ("provider", &["cpu"], "environment"),
        ("text-field", &["text"], "default"),
    ] {
        let expected = (
            values.iter().map(ToString::to_string).collect(),
            place.to_owned(),
        );
        assert_eq!(setting(&shown, key), expected, "{key}");
    }
    let kinds: Vec<&Value> = shown["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| &file["kind"])
        .collect();
    assert_eq!(kinds, ["project", "user"]);
}

#[test]
fn a_run_obeys_files_and_what_is_typed_goes_before_them() {
    let model = in_repository(SMALL_MODEL);
    let user = format!(
        "model = '{}'\nprovider = 'rten'\nthreads = 1\n",
        model.display()
    );
    let project = "[embed]\ndimensions = 8\nprompt = 'passage: '\nkeep = ['year']\non-error = 'skip'\nquiet = true\n";
    let sandbox = sandbox(project, &user);
    sandbox.write(
        "project/sub/a.jsonl",
        "{\"text\": \"one\", \"year\": 1999}\n",
    );
    let provenance = |line: &str| {
        let line = format!("embed a.jsonl -o out.jsonl --force {line}");
        let run = run(&sandbox, &line);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run}");
        let read =
            |name: &str| fs::read_to_string(sandbox.path(&format!("project/sub/{name}"))).unwrap();
        assert!(read("out.jsonl").contains("\"year\":1999"));
        serde_json::from_str::<Value>(&read("out.jsonl.json")).unwrap()
    };
    let by_files = provenance("");
    assert_eq!(
        (&by_files["dimensions"], &by_files["prompt"]),
        (&8.into(), &"passage: ".into())
    );
    let typed = provenance("--dimensions 4");
    assert_eq!(typed["dimensions"], 4);
    // A typed option goes before settings that it excludes.
    assert_eq!(provenance("--prompt-name query")["prompt"], "");
    let run = run(
        &sandbox,
        "embed a.jsonl -o other.jsonl --no-config --offline",
    );
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("all-MiniLM-L6-v2"), "{run}");
}

#[test]
fn one_file_can_be_named_in_place_of_all() {
    let sandbox = sandbox("batch-size = 1\n", "batch-size = 2\n");
    sandbox.write("named.toml", "window = 3\n");
    let path = sandbox.path("named.toml");
    for by_variable in [false, true] {
        let mut command = command(&sandbox, "config embed --json");
        match by_variable {
            true => command.env("EMBEDCTL_CONFIG", &path),
            false => command.arg("--config").arg(&path),
        };
        let shown = json(&sandbox.finish(&mut command));
        assert_eq!(setting(&shown, "window").1, "named.toml:1");
        assert_eq!(setting(&shown, "batch-size").1, "default");
    }
    let run = run(&sandbox, "config --config gone.toml");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("gone.toml"), "{run}");
}

#[test]
fn paths_are_relative_to_their_file() {
    let sandbox = sandbox("model = './models/own'\n", "rejects = 'rejects.jsonl'\n");
    let shown = json(&run(&sandbox, "config embed --json"));
    assert_eq!(setting(&shown, "model").0, ["[FOLDER]/project/models/own"]);
    assert!(setting(&shown, "rejects").0[0].ends_with(".config/embedctl/rejects.jsonl"));
    let sandbox = self::sandbox("model = 'org/name'\n", "");
    let shown = json(&run(&sandbox, "config embed --json"));
    assert_eq!(setting(&shown, "model").0, ["org/name"]);
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for (file, words) in [
        (
            "batch-sizes = 3\n",
            "embedctl.toml:1: no command has an option batch-sizes; did you mean batch-size?",
        ),
        (
            "\n[embed]\nsamples = 3\n",
            "embedctl.toml:3: embed has no option samples",
        ),
        ("[embedd]\nforce = true\n", "did you mean embed?"),
        (
            "[embed]\nbatch-size = -3\n",
            "'[FOLDER]/project/embedctl.toml:2 (--batch-size <RECORDS>)': must be a whole",
        ),
        (
            "[embed]\nbatch-size = 'many'\n",
            "embedctl.toml:2 (--batch-size <RECORDS>)",
        ),
        (
            "[embed]\nbatch-size = [1, 2]\n",
            "embedctl.toml:2: batch-size takes one value, not a list",
        ),
        (
            "[embed]\nwindow = 2026-11-21\n",
            "embedctl.toml:2: window takes a string, a number",
        ),
        (
            "offline = 'yes'\n",
            "embedctl.toml:1: offline takes true or false",
        ),
        (
            "verbose = 9\n",
            "embedctl.toml:1: verbose takes a number from 0 to 3",
        ),
        (
            "prompt = 'a'\nprompt-name = 'query'\n",
            "prompt and prompt-name exclude each other",
        ),
        (
            "batch-size = 1\nbatch_size = 2\n",
            "embedctl.toml:2: batch-size is already set on line 1",
        ),
        ("[embed\n", "embedctl.toml:1: this is not TOML"),
        ("config = 'other.toml'\n", "no command has an option config"),
    ] {
        let sandbox = sandbox(file, "");
        let run = run(&sandbox, "embed a.txt -o out.npy");
        assert_eq!(run.code, Some(2), "{file}{run}");
        assert!(run.stderr.contains(words), "{file}{run}");
        // Questions about the program itself are answered all the same.
        assert_eq!(self::run(&sandbox, "embed --help").code, Some(0));
        assert_eq!(self::run(&sandbox, "--version --no-config").code, Some(0));
    }
}

#[test]
fn a_projects_file_leads_to_no_code_no_secret_and_no_other_place() {
    for (key, value) in [
        ("ort-lib", "'lib.so'"),
        ("ort_lib", "'/lib.so'"),
        ("provider-option", "['openvino.x=y']"),
        ("cache-dir", "'cache'"),
        ("output", "'/home/me/.profile'"),
        ("rejects", "'rejects.jsonl'"),
        ("stats", "'stats.json'"),
        ("force", "true"),
        ("overwrite", "true"),
        ("local-dir", "'model'"),
    ] {
        for table in ["", "[embed]\n", "[download]\n"] {
            let entry = format!("{table}{key} = {value}\n");
            let sandbox = sandbox(&entry, "");
            let run = run(&sandbox, "embed a.txt -o out.npy");
            assert_eq!(run.code, Some(2), "{entry}{run}");
            let refused = run.stderr.contains("a project's file may not set");
            let unknown = !table.is_empty() && run.stderr.contains("has no option");
            assert!(refused || unknown, "{entry}{run}");
        }
        let sandbox = sandbox("", &format!("{key} = {value}\n"));
        let run = run(&sandbox, "config --json");
        assert_eq!(run.code, Some(0), "{key}{run}");
    }
}

#[test]
#[cfg(unix)]
fn files_that_others_may_write_to_are_not_trusted() {
    use std::os::unix::fs::PermissionsExt;
    let open = |path| fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    let sandbox = sandbox("batch-size = 1\n", "ort-lib = '/lib.so'\n");
    open(sandbox.path("project/embedctl.toml"));
    let run = run(&sandbox, "config embed --json");
    assert!(
        run.stderr
            .contains("embedctl.toml is ignored: others than you"),
        "{run}"
    );
    assert_eq!(setting(&json(&run), "batch-size").1, "default");

    open(sandbox.path(".config/embedctl/config.toml"));
    let run = self::run(&sandbox, "config embed --json");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr.contains(
            "ort-lib can run code or disclose secrets, and other users can change the file"
        ),
        "{run}"
    );
}

#[test]
fn a_failure_names_the_files_that_options_came_from() {
    let sandbox = sandbox("model = './nowhere'\nprovider = 'rten'\n", "");
    sandbox.write("project/sub/a.txt", "one\n");
    let run = run(&sandbox, "embed a.txt -o out.npy --offline");
    assert_eq!(run.code, Some(1), "{run}");
    let hint = "hint: settings files also set options ([FOLDER]/project/embedctl.toml): `embedctl config` shows them\n";
    assert!(run.stderr.ends_with(hint), "{run}");
}

#[test]
fn a_model_that_looks_like_an_option_is_a_model() {
    for table in ["", "[info]\n"] {
        for (kind, value) in [
            ("project", "--ort-lib=../evil.so"),
            ("project", "--json"),
            ("project", "--help"),
            ("project", "-v"),
            ("user", "--"),
        ] {
            let text = format!("{table}model = '{value}'\n");
            let sandbox = match kind {
                "project" => sandbox(&text, ""),
                _ => sandbox("", &text),
            };
            sandbox.write("project/evil.so", "no library");
            let run = run(&sandbox, "info --offline");
            assert_ne!(run.code, Some(0), "{text}{run}");
            assert!(
                run.stderr.contains(&format!("model {value}: ")),
                "{text}{run}"
            );
            assert!(!run.stderr.contains("evil.so is"), "{text}{run}");
            // A typed option goes before it.
            let run = self::run(&sandbox, "info org/typed --offline");
            assert!(run.stderr.contains("model org/typed: "), "{text}{run}");
        }
    }
}

#[test]
fn keys_and_values_steer_no_terminal() {
    let steers = ['\u{9b}', '\u{202e}', '\u{1b}', '\u{7f}'];
    for text in [
        "\"a\\u009b31m\\u202eb\" = 1\n",
        "\"a\u{9b}31m\u{202e}b\" = 1\n",
        "\"a\u{9b}\u{202e}b\" = {}\n[embed]\n",
        "batch-size = \"\\u009b\\u202e\\u001b[2J\"\n",
        "[\"\\u009b\\u202e\"]\nx = 1\n",
        "prompt = 'a'\n\"prompt\u{202e}\" = 'b'\n",
        "= \u{9b}\u{202e}\n",
    ] {
        for line in [
            "embed a.txt -o out.npy",
            "config",
            "embed a.txt -o out.npy --log-format json --color always",
        ] {
            let sandbox = sandbox(text, "");
            let run = run(&sandbox, line);
            // `config` shows values as they are, whether a command would take them or not.
            let is_shown = line == "config" && run.code == Some(0);
            assert!(is_shown || run.code == Some(2), "{text:?}: {run}");
            let mut shown = run.stderr.replace("\u{1b}[1m", "");
            shown.push_str(&run.stdout);
            assert!(!shown.contains(steers), "{text:?}, {line}: {shown:?}");
        }
    }
}

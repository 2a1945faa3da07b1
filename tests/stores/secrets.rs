//! No output byte holds a secret, wherever it was typed, echoed, printed or written.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::hub::http::{Reply, Request, Server, Step};
use crate::sandbox::Sandbox;
use embedctl_testing::stride;

/// In every secret here, and in nothing else.
const MARK: &str = "5ecret";

/// A server that sends back all that it was asked, in the words of S3 and of the Hub.
fn echo(rows: &'static str) -> Server {
    Server::start(None, move |request| {
        if request.path.starts_with("/open/") {
            let reply = Reply::ranged(request, rows.as_bytes()).with("ETag", "\"1\"");
            return match (request.method.as_str(), request.path.ends_with("cut.jsonl")) {
                ("GET", true) if request.header("range").is_some() => refusal(request),
                ("GET", true) => Reply {
                    steps: vec![(rows.len() / 2, Step::Cut)],
                    ..reply
                },
                _ => reply,
            };
        }
        if request.path.starts_with("/moved/") {
            let location = "/closed/k.jsonl?X-Amz-Signature=redirected5ecret&Expires=600";
            return Reply::new(302).with("Location", location);
        }
        refusal(request)
    })
}

fn refusal(request: &Request) -> Reply {
    let header = |name| request.header(name).unwrap_or_default();
    let words = format!(
        "no {} {}?{} for {} {} {}",
        request.method,
        request.path,
        request.query,
        header("authorization"),
        header("x-amz-security-token"),
        header("range"),
    );
    let body = format!("<Error><Code>AccessDenied</Code><Message>{words}</Message></Error>");
    Reply::new(403).with("x-error-message", words).body(body)
}

/// All bytes that a run has written anywhere, but for the files that were there before.
fn written(sandbox: &Sandbox, command: &mut Command, before: &[&str]) -> Vec<(String, Vec<u8>)> {
    let output = command.output().unwrap();
    let mut all = vec![
        ("standard output".to_owned(), output.stdout),
        ("standard error".to_owned(), output.stderr),
    ];
    fn below(folder: &Path, before: &[&str], all: &mut Vec<(String, Vec<u8>)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, before, all);
            } else if !before.iter().any(|name| path.ends_with(name)) {
                all.push((path.display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    below(&sandbox.path(""), before, &mut all);
    all
}

fn holds(bytes: &[u8], part: &str) -> bool {
    bytes
        .windows(part.len())
        .any(|window| window == part.as_bytes())
}

fn assert_none(case: &str, written: &[(String, Vec<u8>)]) {
    for (name, bytes) in written {
        let shown = String::from_utf8_lossy(bytes);
        assert!(!holds(bytes, MARK), "{case}: {name}: {shown}");
        // The same in base64, as a header sends it.
        assert!(!holds(bytes, "NWVjcmV0"), "{case}: {name}: {shown}");
    }
}

const ROWS: &str =
    "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"three\"}\n{\"text\": \"four\"}\n";

#[test]
fn no_output_shows_a_secret() {
    let server = echo(ROWS);
    let host = server.host();
    let typed = |path: &str| {
        [
            format!("http://{host}/{path}?X-Amz-Signature=0123456789abcdef5ecret&X-Amz-Date=2026"),
            format!("http://{host}/{path}?sig=5ecret"),
            format!("http://{host}/{path}?5ecret"),
            format!("http://me:5ecret@{host}/{path}"),
            format!("http://5ecret@{host}/{path}"),
            format!("http://me:p%405ecret@{host}/{path}?token=5ecret%2F"),
        ]
    };
    let options = "--keep text --stats stats.json -v";
    let mut lines: Vec<String> = Vec::new();
    // Refused, sent elsewhere and refused, broken in the middle, read to the end.
    for path in [
        "closed/k.jsonl",
        "moved/k.jsonl",
        "open/cut.jsonl",
        "open/k.jsonl",
    ] {
        for input in typed(path) {
            for output in [
                "out.parquet",
                "out.jsonl",
                "out/ -f jsonl --part-rows 1 --window 1",
            ] {
                lines.push(format!("embed {input} -o {output} {options}"));
            }
            lines.push(format!("embed {input} --dry-run {options}"));
            lines.push(format!("embed {input} -o out.jsonl --log-format json -v"));
            lines.push(format!("embed {input} -o out.jsonl --window nothing"));
            lines.push(format!("inspect {input}"));
            lines.push(format!(
                "inspect --json {input} --storage-option aws_secret_access_key={MARK}"
            ));
            lines.push(format!("bench --input {input} --samples 1 --duration 0.1"));
        }
    }
    for secret in [
        "--storage-option aws_secret_access_key=5ecret",
        "--storage-option aws_session_token=abc5ecret",
        "--storage-option=AWS_Secret_Access_Key=5ecret/x",
        "--storage-option 5ecret",
        "--storage-option=5ecret",
        "--storage-option passwort5ecret",
        "--storage-option aws_endpoint_url=http://me:5ecret@127.0.0.1:1/",
        "--storage-option colour_key=5ecret",
    ] {
        for input in ["s3://bucket/k.jsonl", "a.txt", "s3://bucket/"] {
            lines.push(format!("embed {input} -o out.jsonl {secret} {options}"));
            lines.push(format!(
                "embed {input} -o out/ -f jsonl {secret} --log-format json"
            ));
            lines.push(format!(
                "embed a.txt -o s3://bucket/out/ -f jsonl {secret} {options}"
            ));
            lines.push(format!("inspect {input} {secret}"));
        }
    }
    for address in [
        "s3://AKIA5ecret:5ecret@bucket/k.jsonl",
        "s3://AKIA:ab/cd5ecret/x@bucket/k.jsonl",
        "gs://5ecret@bucket/k.jsonl",
        "s3://bucket/k.jsonl?X-Amz-Signature=5ecret",
        "az://container/k.jsonl?sv=2026&sig=5ecret",
        "hf://me:5ecret@datasets/org/name/k.jsonl",
        "ftp://me:5ecret@host/k.jsonl?x=5ecret",
        "https://me:a/b5ecret@127.0.0.1:1/k.jsonl",
    ] {
        for line in [
            "embed ADDRESS -o out.jsonl",
            "embed a.txt -o ADDRESS",
            "inspect ADDRESS",
            "info ADDRESS",
            "embed a.txt -o out.jsonl -m ADDRESS",
            "download ADDRESS",
            "embed ADDRESS --no-such-option",
            "embed a.txt -o out.jsonl --rejects ADDRESS",
            "embed a.txt -o out.jsonl --reuse ADDRESS",
        ] {
            let line = line.replace("ADDRESS", address);
            lines.push(format!("{line} -v"));
            lines.push(format!("{line} --log-format json"));
        }
    }
    let endpoint = format!("http://{host}");
    let shows_none = |line: &str| {
        let sandbox = Sandbox::new();
        sandbox.write("a.txt", "one\n");
        let mut command = match line.strip_prefix("embed ") {
            Some(rest) => sandbox.embed_command(rest),
            None => sandbox.command(line.split_whitespace()),
        };
        command.envs([
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ACCESS_KEY_ID", "testkey"),
            ("AWS_SECRET_ACCESS_KEY", "env5ecretkey"),
            ("AWS_SESSION_TOKEN", "env5ecrettoken"),
            ("AWS_REGION", "us-east-1"),
        ]);
        assert_none(line, &written(&sandbox, &mut command, &[]));
    };
    // Most of a run is its wait before it tries again.
    let (lines, at_once) = (&lines, 48);
    thread::scope(|scope| {
        for first in (0..at_once).step_by(stride(6)) {
            // Those that wait follow one another.
            let some = lines.iter().skip(first).step_by(at_once);
            scope.spawn(|| some.for_each(|line| shows_none(line)));
        }
    });
}

#[test]
fn the_hint_to_go_on_shows_no_secret_and_says_so() {
    let rows: &'static str = Box::leak(ROWS.repeat(2000).into_boxed_str());
    let server = echo(rows);
    let host = server.host();
    let sandbox = Sandbox::new();
    let line = format!(
        "http://me:5ecret@{host}/open/cut.jsonl?sig=5ecret -o out/ -f jsonl --part-rows 100 --window 50 \
         --storage-option aws_secret_access_key=5ec --storage-option aws_region=eu"
    );
    let run = sandbox.embed(&line);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("rows in"), "{run}");
    for part in [
        "embed --resume",
        "@",
        "/open/cut.jsonl?[redacted]",
        "aws_secret_access_key=[redacted]",
        "aws_region=eu",
        "replace [redacted] with the secret",
    ] {
        assert!(run.stderr.contains(part), "{part}: {run}");
    }
    assert!(!run.stderr.contains("5ec"), "{run}");
}

#[test]
fn what_stands_in_the_environment_and_in_files_is_not_shown() {
    let server = echo(ROWS);
    let host = server.host();
    let variables = [
        ("HF_ENDPOINT", format!("http://me:5ecret@{host}")),
        ("HF_ENDPOINT", format!("http://{host}/?token=5ecret")),
        ("HF_ENDPOINT", "me:5ecret@nowhere".to_owned()),
        ("HTTP_PROXY", format!("http://me:5ecret@{host}")),
        (
            "EMBEDCTL_MODEL",
            "https://me:5ecret@host/model?sig=5ecret".to_owned(),
        ),
        (
            "AWS_ENDPOINT_URL",
            format!("http://me:5ecret@{host}/?sig=5ecret"),
        ),
        ("HF_TOKEN", "hf_5ecret".to_owned()),
    ];
    for (number, (variable, value)) in variables.into_iter().enumerate() {
        let lines = [
            "download org/name",
            "embed a.txt -o out.jsonl -m org/name -v",
            "info org/name --log-format json",
            "embed hf://datasets/org/name/k.jsonl -o out.jsonl",
            "embed s3://bucket/k.jsonl -o out.jsonl",
            "info",
            "config --all",
            "config --json",
        ];
        for line in lines.iter().skip(number % stride(3)).step_by(stride(3)) {
            let sandbox = Sandbox::new();
            sandbox.write("a.txt", "one\n");
            let mut command = sandbox.command(line.split_whitespace());
            command.env(variable, &value);
            assert_none(
                &format!("{variable}={value} {line}"),
                &written(&sandbox, &mut command, &[]),
            );
        }
    }
    let settings = format!(
        "[embed]\nstorage-option = ['aws_secret_access_key=5ecret', 'aws_endpoint_url=http://me:5ecret@{host}', '5ecret']\n\
         model = 'https://me:5ecret@host/?sig=5ecret'\n"
    );
    for settings in [settings.clone(), settings.replace(", '5ecret'", "")] {
        for line in [
            "config",
            "config --json",
            "config embed --all",
            "embed s3://bucket/k.jsonl -o out.jsonl",
            "embed a.txt -o out/ -f jsonl -v",
            "embed s3://bucket/k.jsonl -o out.jsonl --log-format json",
        ] {
            let sandbox = Sandbox::new();
            sandbox.write("a.txt", "one\n");
            sandbox.write("settings.toml", &settings);
            let mut command = sandbox.command(line.split_whitespace());
            command
                .env_remove("EMBEDCTL_NO_CONFIG")
                .args(["--config", "settings.toml"]);
            assert_none(line, &written(&sandbox, &mut command, &["settings.toml"]));
        }
    }
}

//! The page for browsers in a headless Chromium.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::sandbox::{REAL_MODEL, Sandbox, in_repository};
use crate::server::Server;
use crate::support;

const QUERY: &str = "laughing every day";
const HOSTILE: &str = "<img src=x onerror='window.hostile=true'><b>bold</b>";

/// What a browser finds on these visits.
fn visits(sandbox: &Sandbox, chromium: &Path, python: &Path, wanted: &Value) -> Vec<Value> {
    let mut command = Command::new(python);
    command
        .arg(in_repository("tests/serve/page.py"))
        .args([chromium, &sandbox.path("profile")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(wanted.to_string().as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn strings(value: &Value) -> Vec<&str> {
    let all = value.as_array().unwrap().iter();
    all.map(|one| one.as_str().unwrap()).collect()
}

/// Whatever the model, the page can be used by everybody, and nothing that others wrote runs in it.
fn check_conduct(case: &str, found: &Value, address: &str) {
    assert_eq!(found["error"], "none", "{case}: {found}");
    assert_eq!(found["status"], "done", "{case}: {found}");
    assert_eq!(found["faults"], json!([]), "{case}");
    // Keys reach everything, in the order of the page, and are seen where they are.
    let stops = strings(&found["stops"]);
    assert_eq!(stops[0], "text", "{case}: {stops:?}");
    for stop in ["submit", "All routes"] {
        assert!(stops.contains(&stop), "{case}: {stops:?}");
    }
    assert!(
        found["focus"].as_str().unwrap().starts_with("solid"),
        "{case}: {found}"
    );
    // All parts have names.
    let names = found["names"].as_array().unwrap();
    for name in names {
        assert!(
            !name[1].as_str().unwrap().is_empty() || name[0] == "main",
            "{case}: {name} has no name"
        );
    }
    assert!(
        names.iter().any(|it| it[0] == "textbox"),
        "{case}: {names:?}"
    );
    // As WCAG wants it of small text, on a light ground and on a dark one.
    for scheme in ["light", "dark"] {
        let least = &found[scheme];
        assert!(
            least["ratio"].as_f64().unwrap() >= 4.5,
            "{case}, {scheme}: {least}"
        );
    }
    assert_ne!(found["light"]["ground"], found["dark"]["ground"], "{case}");
    // Nothing is beyond the edge of a narrow window.
    assert_eq!(found["overflow"], 0, "{case}");
    assert_eq!(
        found["hostile"]["ran"], false,
        "{case}: {}",
        found["hostile"]
    );
    assert_eq!(
        found["hostile"]["asked"], false,
        "{case}: {}",
        found["hostile"]
    );
    let violations = strings(&found["hostile"]["violations"]);
    assert!(
        violations.contains(&"connect-src"),
        "{case}: {violations:?}"
    );
    for request in strings(&found["requests"]) {
        let request = request.replace("any:right@", "");
        let is_own = request.starts_with(&format!("http://{address}/")) || request == "data:,";
        // The one that the policy has kept from being sent.
        let is_refused = request.starts_with("http://localhost:") && request.ends_with("/health");
        assert!(is_own || is_refused, "{case}: {request}");
    }
    assert_eq!(strings(&found["commands"]).len(), 3, "{case}");
}

/// A corpus of proverbs, and a model beside it, by the names that a person would give.
fn start_like_quotes(sandbox: &Sandbox) -> Server {
    let quotes = std::fs::read_to_string(in_repository("fixtures/inputs/quotes.txt")).unwrap();
    sandbox.write("quotes.txt", quotes);
    std::os::unix::fs::symlink(in_repository(REAL_MODEL), sandbox.path("all-MiniLM-L6-v2"))
        .unwrap();
    let run =
        sandbox.run("embed quotes.txt -o quotes.parquet --keep text -p native -m all-MiniLM-L6-v2");
    assert_eq!(run.code, Some(0), "{run}");
    let listen = match std::env::var_os("EMBEDCTL_UPDATE_DOCS") {
        Some(_) => "127.0.0.1:8080",
        None => "127.0.0.1:0",
    };
    Server::start(sandbox, &["--like", "quotes.parquet", "--listen", listen])
}

#[test]
fn the_page_shows_what_the_model_makes_of_a_text() {
    let name = "serve::page";
    let (Some(chromium), Some(python)) = (support::chromium(name), support::python(name, &[]))
    else {
        return;
    };
    let sandbox = Sandbox::new();
    let quotes = start_like_quotes(&sandbox);
    // Behind a key, with a text that would like to be markup.
    sandbox.write(
        "hostile.jsonl",
        json!({"id": HOSTILE, "text": HOSTILE}).to_string(),
    );
    sandbox.write("keys.txt", "right\n");
    let small = in_repository("fixtures/parity/dense-two-layers/model");
    let run = sandbox.run(&format!(
        "embed hostile.jsonl -o hostile.jsonl.parquet --keep text -p native -m {}",
        small.display()
    ));
    assert_eq!(run.code, Some(0), "{run}");
    let keyed = Server::start(
        &sandbox,
        &[
            "--like",
            "hostile.jsonl.parquet",
            "--api-key-file",
            "keys.txt",
        ],
    );
    let start = |model: &str| {
        let model = in_repository(model).display().to_string();
        Server::start(&sandbox, &["-m", &model, "-p", "native"])
    };
    let reranker = start("fixtures/scores/bert/model");
    let classifier = start("fixtures/scores/single-texts/model");
    let sparse = start("fixtures/sparse/distilbert/model");
    let picture = sandbox.path("page.png");
    let wanted = json!([
        {"url": format!("http://{}/", quotes.address), "text": QUERY, "screenshot": picture},
        {"url": format!("http://any:right@{}/", keyed.address), "text": HOSTILE},
        {"url": format!("http://{}/", reranker.address), "text": "who?", "documents": "one\ntwo"},
        {"url": format!("http://{}/", classifier.address), "text": "I like you."},
        {"url": format!("http://{}/", sparse.address), "text": "I like you."},
        // A name that its owner lets lead to this machine.
        {"url": format!("http://evil.example:{}/", quotes.address.rsplit(':').next().unwrap())},
    ]);
    let found = visits(&sandbox, &chromium, &python, &wanted);
    let servers = [&quotes, &keyed, &reranker, &classifier, &sparse];
    for (number, (found, server)) in found.iter().zip(servers).enumerate() {
        check_conduct(&format!("visit {number}"), found, &server.address);
    }
    check_numbers(&sandbox, &quotes, &found[0]);

    let rows = found[1]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(
        (&rows[0][2], &rows[0][3]),
        (&json!(HOSTILE), &json!(HOSTILE))
    );
    assert!(strings(&found[1]["commands"])[0].contains("Authorization: Bearer KEY"));
    assert_eq!(
        found[2]["rows"].as_array().unwrap().len(),
        2,
        "{}",
        found[2]
    );
    assert!(strings(&found[2]["stops"]).contains(&"documents"));
    let labels = found[3]["rows"].as_array().unwrap();
    assert!(labels.len() > 1 && labels[0][2].is_string(), "{labels:?}");
    assert!(
        found[4]["numbers"].as_str().unwrap().contains(": "),
        "{}",
        found[4]
    );
    let refused = found[5]["body"].as_str().unwrap();
    assert!(refused.contains("another site's page"), "{refused}");

    if std::env::var_os("EMBEDCTL_UPDATE_DOCS").is_some() {
        std::fs::copy(picture, in_repository("docs/serve.png")).unwrap();
    }
}

/// The page's numbers are those of the routes and of the command.
fn check_numbers(sandbox: &Sandbox, server: &Server, found: &Value) {
    let ask = |path: &str, body: Value| -> Value {
        let (status, answer) = server.post(path, &body);
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).unwrap()
    };
    let tokens = ask("/tokenize", json!({"inputs": QUERY}));
    let tokens = tokens[0].as_array().unwrap();
    let ids: Vec<String> = tokens.iter().map(|it| it["id"].to_string()).collect();
    assert_eq!(strings(&found["ids"]), ids);
    assert_eq!(strings(&found["tokens"])[1], "laughing");
    let vector = ask("/embed", json!({"inputs": QUERY}));
    let first = vector[0].as_array().unwrap().iter().take(16);
    let first: Vec<String> = first
        .map(|it| format!("{:.4}", it.as_f64().unwrap()))
        .collect();
    assert_eq!(found["numbers"], format!("{}, …", first.join(", ")));
    let run = sandbox.run(&format!("search quotes.parquet --json {QUERY}"));
    let row = |line: &str| {
        let hit: Value = serde_json::from_str(line).unwrap();
        let id = match &hit["id"] {
            Value::String(id) => id.clone(),
            id => id.to_string(),
        };
        let score = format!("{:.4}", hit["score"].as_f64().unwrap());
        json!([hit["rank"].to_string(), score, id, hit["text"]])
    };
    let rows: Vec<Value> = run.stdout.lines().map(row).collect();
    assert_eq!(rows.len(), 10, "{run}");
    assert_eq!(found["rows"], json!(rows));
    let facts = strings(&found["facts"]).join("\n");
    for fact in [
        "384 components, float32, length 1",
        "none",
        "256 tokens at most",
        "quotes.parquet",
    ] {
        assert!(facts.contains(fact), "{fact}: {facts}");
    }
    assert_eq!(found["title"], "all-MiniLM-L6-v2 · embedctl serve");
    // A person can run the commands as they are.
    for command in strings(&found["commands"]) {
        assert!(
            command.starts_with(&format!("curl http://{}/", server.address)),
            "{command}"
        );
        assert!(command.contains(QUERY), "{command}");
    }
}

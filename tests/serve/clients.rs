//! Programs that speak the server's protocols: clients in Python and Node, and the documentation's curl commands.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::sandbox::{REAL_MODEL, Sandbox, in_repository};
use crate::server::Server;
use crate::support;

/// A server behind a key that is like an output of three texts.
fn start_like_vectors(sandbox: &Sandbox, output: &str) -> Server {
    let model = in_repository(REAL_MODEL).display().to_string();
    sandbox.write("texts.txt", TEXTS.join("\n"));
    let run = sandbox.run(&format!("embed texts.txt -o {output} -m {model} -p native"));
    assert_eq!(run.code, Some(0), "{run}");
    sandbox.write("keys.txt", "sk-right\n");
    Server::start(sandbox, &["--like", output, "--api-key-file", "keys.txt"])
}

const TEXTS: [&str; 3] = [
    "A cat sits on a mat.",
    "Interest rates rose.",
    "What is Deep Learning?",
];

/// Runs a script of clients, which are to agree.
fn run_clients(sandbox: &Sandbox, command: &mut Command, server: &Server) {
    let url = format!("http://{}", server.address);
    let command = command.args([&url, "sk-right"]);
    let output = command.current_dir(sandbox.path("")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.ends_with("all clients agree\n"), "{said}");
}

/// Every client gives the vectors that `embed` writes.
#[test]
fn clients_in_python_get_the_batch_jobs_vectors() {
    let Some(python) = support::clients("serve::clients") else {
        return;
    };
    let sandbox = Sandbox::new();
    let server = start_like_vectors(&sandbox, "vectors.npy");
    let script = in_repository("tests/serve/clients.py");
    run_clients(&sandbox, Command::new(python).arg(script), &server);
}

#[test]
fn clients_in_node_get_the_batch_jobs_vectors() {
    let Some(folder) = support::node_clients("serve::clients") else {
        return;
    };
    let sandbox = Sandbox::new();
    let server = start_like_vectors(&sandbox, "vectors.jsonl");
    let rows = std::fs::read_to_string(sandbox.path("vectors.jsonl")).unwrap();
    let vector = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        row["embedding"].clone()
    };
    let vectors: Vec<Value> = rows.lines().map(vector).collect();
    sandbox.write("vectors.json", json!(vectors).to_string());
    sandbox.write("texts.json", json!(TEXTS).to_string());
    let script = in_repository("tests/serve/clients.mjs");
    let mut command = Command::new("node");
    run_clients(&sandbox, command.arg(script).arg(folder), &server);
}

#[test]
fn clients_of_rerankers_rank_documents() {
    let Some(python) = support::clients("serve::clients") else {
        return;
    };
    let sandbox = Sandbox::new();
    sandbox.write("keys.txt", "sk-right\n");
    let model = in_repository("fixtures/scores/bert/model");
    let model = model.display().to_string();
    let options = [
        "--served-model-name",
        "ranker",
        "--api-key-file",
        "keys.txt",
    ];
    let server = Server::start(
        &sandbox,
        &[&["-m", &model, "-p", "native"], &options[..]].concat(),
    );
    let query = "who wrote Faust?";
    let documents = [
        "Goethe wrote Faust.",
        "It rains.",
        "Faust is a play.",
        "Nobody knows.",
    ];
    // Relevance is between 0 and 1.
    let body = json!({"query": query, "texts": documents, "raw_scores": false});
    let (status, ranked) = server.post_with("/rerank", &body, "Authorization: Bearer sk-right\r\n");
    assert_eq!(status, 200, "{ranked}");
    let ranked: Vec<Value> = serde_json::from_str(&ranked).unwrap();
    let mut relevance = vec![Value::Null; documents.len()];
    for one in ranked {
        relevance[usize::try_from(one["index"].as_u64().unwrap()).unwrap()] = one["score"].clone();
    }
    let expected =
        json!({"query": query, "documents": documents, "relevance": relevance, "model": "ranker"});
    sandbox.write("expected.json", expected.to_string());
    let script = in_repository("tests/serve/rerank_clients.py");
    run_clients(&sandbox, Command::new(python).arg(script), &server);
}

/// The answer to a command of text-embeddings-inference's quick tour.
fn ask(curl: &Path, server: &Server, path: &str, body: &str) -> Value {
    let output = Command::new(curl)
        .args([
            "--silent",
            &format!("{}{path}", server.address),
            "-X",
            "POST",
            "-d",
            body,
        ])
        .args(["-H", "Content-Type: application/json"])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

const RERANK: &str = r#"{"query":"What is Deep Learning?", "texts": ["Deep Learning is not...", "Deep learning is..."], "raw_scores": false}"#;
const PREDICT: &str = r#"{"inputs":"I like you."}"#;
const EMBED_SPARSE: &str = r#"{"inputs":"I like you."}"#;

/// The commands of text-embeddings-inference's quick tour, as they are.
#[test]
fn the_quick_tours_curl_commands_work() {
    let Some(curl) = support::program("curl", "serve::clients::the_quick_tours_curl_commands_work")
    else {
        return;
    };
    let sandbox = Sandbox::new();
    let model = in_repository(REAL_MODEL).display().to_string();
    let server = Server::start(&sandbox, &["-m", &model, "-p", "native"]);
    let ask = |path, body| ask(&curl, &server, path, body);
    let vectors = ask("/embed", r#"{"inputs":"What is Deep Learning?"}"#);
    assert_eq!(vectors[0].as_array().unwrap().len(), 384);
    let openai = ask(
        "/v1/embeddings",
        r#"{"input":"What is Deep Learning?","model":"text-embeddings-inference"}"#,
    );
    assert_eq!(openai["data"][0]["embedding"], vectors[0]);
    for (path, body) in [
        ("/rerank", RERANK),
        ("/predict", PREDICT),
        ("/embed_sparse", EMBED_SPARSE),
    ] {
        assert_eq!(ask(path, body)["error_type"], "backend", "{path}");
    }
}

/// The same commands for models that have these heads.
#[test]
fn the_quick_tours_curl_commands_of_other_heads_work() {
    let test = "serve::clients::the_quick_tours_curl_commands_of_other_heads_work";
    let Some(curl) = support::program("curl", test) else {
        return;
    };
    let sandbox = Sandbox::new();
    let serve = |name: &str| {
        let model = in_repository("fixtures").join(name).join("model");
        let model = model.display().to_string();
        Server::start(&sandbox, &["-m", &model, "-p", "native"])
    };
    let number = |it: &Value| it.as_f64().expect("a number");

    let ranked = ask(&curl, &serve("scores/bert"), "/rerank", RERANK);
    let ranked = ranked.as_array().unwrap();
    let scores: Vec<f64> = ranked.iter().map(|it| number(&it["score"])).collect();
    assert!(scores.is_sorted_by(|one, next| one >= next), "{ranked:?}");
    assert!(
        scores.iter().all(|it| (0.0..=1.0).contains(it)),
        "{ranked:?}"
    );
    let mut places: Vec<f64> = ranked.iter().map(|it| number(&it["index"])).collect();
    places.sort_by(f64::total_cmp);
    assert_eq!(places, [0.0, 1.0]);

    let labels = ask(&curl, &serve("scores/single-texts"), "/predict", PREDICT);
    let labels = labels.as_array().unwrap();
    assert!(labels.len() > 1, "{labels:?}");
    let named = |it: &Value| it["label"].is_string() && it["score"].is_f64();
    assert!(labels.iter().all(named), "{labels:?}");

    let server = serve("sparse/distilbert");
    let rows = ask(&curl, &server, "/embed_sparse", EMBED_SPARSE);
    let entries = rows[0].as_array().unwrap();
    assert!(!entries.is_empty() && rows.as_array().unwrap().len() == 1);
    let places: Vec<f64> = entries.iter().map(|it| number(&it["index"])).collect();
    assert!(places.is_sorted_by(|one, next| one < next), "{places:?}");
    assert!(entries.iter().all(|it| number(&it["value"]) > 0.0));
}

/// The recipe of docs/serve.md, line by line: the nearest row of a corpus to a query.
#[test]
fn the_recipe_finds_the_nearest_rows() {
    let Some(python) = support::clients("serve::recipe") else {
        return;
    };
    let guide = std::fs::read_to_string(in_repository("docs/serve.md")).unwrap();
    let (_, recipe) = guide
        .split_once("## The nearest rows of a corpus\n")
        .unwrap();
    let block = |language: &str| {
        let (_, rest) = recipe.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    };
    let sandbox = Sandbox::new();
    sandbox.write(
        "texts.txt",
        "A cat sits on a mat.\nOn a rug there is a cat.\nInterest rates rose.\n",
    );
    let commands = block("sh");
    let mut commands = commands
        .lines()
        .map(|line| line.strip_prefix("embedctl ").unwrap());
    let model = in_repository(REAL_MODEL).display().to_string();
    let run = sandbox.run(&format!(
        "{} -m {model} -p native",
        commands.next().unwrap()
    ));
    assert_eq!(run.code, Some(0), "{run}");
    let serve: Vec<&str> = commands
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .collect();
    let server = Server::start(&sandbox, &serve);
    let script = block("python").replace("127.0.0.1:8080", &server.address);
    let output = Command::new(python)
        .args(["-c", &script])
        .current_dir(sandbox.path(""))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let cats = said
        .find("a cat")
        .or(said.find("A cat"))
        .expect("rows about cats");
    assert!(
        cats < said.find("Interest").expect("all three rows"),
        "{said}"
    );
}

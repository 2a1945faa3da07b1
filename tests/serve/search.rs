//! `/search` finds the rows that `embedctl search` finds, in every output that it is like.

use serde_json::{Value, json};

use crate::sandbox::{REAL_MODEL, Sandbox, in_repository};
use crate::server::Server;
use embedctl_testing::stride;

const QUERY: &str = "laughing every day";

fn folder(model: &str) -> String {
    in_repository(model).display().to_string()
}

/// Texts with ids, of which some are about the query.
fn write_texts(sandbox: &Sandbox) {
    let quotes = std::fs::read_to_string(in_repository("fixtures/inputs/quotes.txt")).unwrap();
    let line = |(number, text): (usize, &str)| {
        let id = match number % 2 {
            0 => json!(number),
            _ => json!(format!("n{number}")),
        };
        json!({"id": id.to_string(), "text": text}).to_string()
    };
    let lines: Vec<String> = quotes.lines().take(80).enumerate().map(line).collect();
    sandbox.write("texts.jsonl", lines.join("\n"));
}

/// The rows that the server finds.
fn found(server: &Server, body: &Value) -> Vec<Value> {
    let (status, answer) = server.post("/search", body);
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    answer["hits"].as_array().unwrap().clone()
}

/// Those that the command finds.
fn expected(sandbox: &Sandbox, output: &str, options: &str) -> Vec<Value> {
    let run = sandbox.run(&format!("search {output} --json {options} {QUERY}"));
    assert_eq!(run.code, Some(0), "{run}");
    let lines = run.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_server_like_an_output_finds_the_rows_of_a_search() {
    let sandbox = Sandbox::new();
    write_texts(&sandbox);
    let heads = "fixtures/heads/bert/model";
    let cases = [
        (REAL_MODEL, "out.parquet", "--keep text", ""),
        (REAL_MODEL, "out.npy", "--keep text --dtype f16", ""),
        (REAL_MODEL, "out.jsonl", "--dimensions 64,256", ""),
        (REAL_MODEL, "parts/", "--keep text --part-rows 64", ""),
        (heads, "heads.parquet", "--keep text", ""),
        (heads, "sparse.parquet", "--vectors sparse", ""),
        (heads, "maps.jsonl", "--vectors sparse --sparse-tokens", ""),
        (
            heads,
            "both.arrow",
            "--vectors dense,sparse --keep text",
            "--vectors sparse",
        ),
    ];
    for (model, output, options, serve) in cases.into_iter().step_by(stride(3)) {
        let case = format!("{model} {output} {options}");
        let run = sandbox.run(&format!(
            "embed texts.jsonl -o {output} --force -p native -m {} {options}",
            folder(model)
        ));
        assert_eq!(run.code, Some(0), "{case}: {run}");
        let arguments: Vec<&str> = ["--like", output]
            .into_iter()
            .chain(serve.split_whitespace())
            .collect();
        let server = Server::start(&sandbox, &arguments);
        let hits = found(&server, &json!({"query": QUERY}));
        let rows = expected(&sandbox, output, serve);
        assert_eq!((hits.len(), rows.len()), (10, 10), "{case}");
        for (hit, row) in hits.iter().zip(&rows) {
            for field in ["rank", "row", "id", "text"] {
                assert_eq!(hit[field], row[field], "{case}: {hit} {row}");
            }
            let score = |it: &Value| it["score"].as_f64().unwrap();
            assert!(
                (score(hit) - score(row)).abs() < 2e-6,
                "{case}: {hit} {row}"
            );
        }
        let said = server.messages();
        assert!(said.contains("found by POST /search"), "{case}: {said}");
    }
}

/// Queries get the model's prompt for them, as in a search, unless another one is asked for.
#[test]
fn a_search_takes_the_models_prompt_for_queries() {
    let sandbox = Sandbox::new();
    write_texts(&sandbox);
    // It has no prompt for documents.
    let model = folder("fixtures/parity/family-qwen3/model");
    let run = sandbox.run(&format!(
        "embed texts.jsonl -o out.parquet -p native -m {model}"
    ));
    assert_eq!(run.code, Some(0), "{run}");
    let answer = |server: &Server, body: Value| -> Value {
        let (status, answer) = server.post("/search", &body);
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).unwrap()
    };
    let server = Server::start(&sandbox, &["--like", "out.parquet"]);
    let usual = answer(&server, json!({"query": QUERY}));
    let named = answer(&server, json!({"query": QUERY, "prompt_name": "query"}));
    assert_eq!(usual, named);
    let prompt = usual["prompt"].as_str().unwrap();
    assert!(prompt.starts_with("Instruct: "), "{usual}");
    let rows = |hits: &[Value]| {
        hits.iter()
            .map(|hit| hit["row"].clone())
            .collect::<Vec<_>>()
    };
    let hits = usual["hits"].as_array().unwrap();
    assert_eq!(rows(hits), rows(&expected(&sandbox, "out.parquet", "")));
    let server = Server::start(&sandbox, &["--like", "out.parquet", "--prompt", "other: "]);
    let other = answer(&server, json!({"query": QUERY}));
    assert_eq!(other["prompt"], "other: ");
}

/// A model with a route or a task for queries: the server says which option gives it, and then finds what a search finds.
#[test]
fn a_server_names_the_task_that_a_search_takes() {
    let sandbox = Sandbox::new();
    write_texts(&sandbox);
    for (model, embedded, task) in [
        ("fixtures/sparse/route-by-default/model", "", "query"),
        (
            "fixtures/sparse/route-by-default/model",
            "--task document",
            "query",
        ),
        (
            "fixtures/parity/tasks-in-the-checkpoint/model",
            "--task retrieval.passage",
            "retrieval.query",
        ),
    ] {
        let run = sandbox.run(&format!(
            "embed texts.jsonl -o out.parquet --force -p native -m {} {embedded}",
            folder(model)
        ));
        assert_eq!(run.code, Some(0), "{model}: {run}");
        let server = Server::start(&sandbox, &["--like", "out.parquet"]);
        let said = server.messages();
        assert!(
            said.contains(&format!("--task {task} gives them theirs")),
            "{model}: {said}"
        );
        drop(server);
        let server = Server::start(&sandbox, &["--like", "out.parquet", "--task", task]);
        let rows = |hits: Vec<Value>| {
            hits.iter()
                .map(|hit| hit["row"].clone())
                .collect::<Vec<_>>()
        };
        let found = rows(found(&server, &json!({"query": QUERY})));
        assert_eq!(
            found,
            rows(expected(&sandbox, "out.parquet", "")),
            "{model}"
        );
        assert!(!server.messages().contains("gives them theirs"), "{model}");
    }
}

#[test]
fn an_output_that_has_changed_is_not_searched() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "a b\nc d\n");
    let model = folder("fixtures/parity/dense-two-layers/model");
    let embed = format!("embed texts.txt -o out.parquet --force -p native -m {model}");
    assert_eq!(sandbox.run(&embed).code, Some(0));
    let server = Server::start(&sandbox, &["--like", "out.parquet"]);
    let body = json!({"query": "a"});
    assert_eq!(found(&server, &body).len(), 2);
    sandbox.write("texts.txt", "a b\nc d\ne f\n");
    assert_eq!(sandbox.run(&embed).code, Some(0));
    let (status, answer) = server.post("/search", &body);
    assert_eq!(status, 424, "{answer}");
    assert!(
        answer.contains("out.parquet has changed since the server was started"),
        "{answer}"
    );
    // Vectors are those of the model all the same.
    assert_eq!(server.post("/embed", &json!({"inputs": "a"})).0, 200);
}

#[test]
fn a_server_without_an_output_or_like_scores_has_no_rows() {
    let sandbox = Sandbox::new();
    sandbox.write("pairs.jsonl", r#"{"query": "a", "text": "b"}"#);
    let model = folder("fixtures/scores/bert/model");
    let run = sandbox.run(&format!(
        "score pairs.jsonl -o scores.jsonl -p native -m {model} --query-field query"
    ));
    assert_eq!(run.code, Some(0), "{run}");
    for arguments in [["--like", "scores.jsonl"], ["-m", &model]] {
        let server = Server::start(&sandbox, &arguments);
        let (status, answer) = server.post("/search", &json!({"query": "a"}));
        assert_eq!(status, 424, "{answer}");
        assert!(answer.contains("start it with --like"), "{answer}");
    }
}

//! Clients of the real binary that send too much, read slowly, close early or use strange names.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, in_repository};
use crate::server::Server;
use crate::support::DEADLINE;

fn model(name: &str) -> String {
    in_repository("fixtures")
        .join(name)
        .join("model")
        .display()
        .to_string()
}

fn embedder() -> String {
    model("parity/dense-two-layers")
}

/// Bytes of a request.
fn request(path: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// The answer to these bytes, head and body.
fn send(server: &Server, bytes: &str) -> String {
    let mut stream = connect(server);
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    all
}

/// An answer of several megabytes, of which a client has read the first bytes.
fn begin_long(server: &Server) -> (TcpStream, Vec<u8>) {
    let body = json!({"inputs": "a b ".repeat(100_000)}).to_string();
    let mut stream = connect(server);
    let bytes = request("/tokenize", "application/json", &body);
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut first = vec![0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(first, b"HTTP/1.1 200");
    (stream, first)
}

#[test]
fn tokens_of_a_text_of_8_mib_are_not_listed() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &["-m", &embedder(), "--timeout", "5"]);
    let body = json!({"inputs": "a b ".repeat(2 << 20 | 1_000)}).to_string();
    assert!(body.len() > 8 << 20);
    assert!(
        send(&server, &request("/tokenize", "application/json", &body)).starts_with("HTTP/1.1 413")
    );
    let body = json!({"inputs": "a b ".repeat((2 << 20) - 10)}).to_string();
    let start = Instant::now();
    let answer = send(&server, &request("/tokenize", "application/json", &body));
    assert!(answer.starts_with("HTTP/1.1 413"), "{}", &answer[..200]);
    assert!(answer.contains("tokens are listed of 1048576"), "{answer}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn refusals_before_the_body_reach_clients_that_send_all_first() {
    let sandbox = Sandbox::new();
    sandbox.write("keys.txt", "secret\n");
    let (model, json) = (embedder(), "application/json");
    let server = Server::start(&sandbox, &["-m", &model]);
    let keyed = Server::start(&sandbox, &["-m", &model, "--api-key-file", "keys.txt"]);
    let body = " ".repeat(8 << 20);
    for (server, path, kind, status) in [
        (&keyed, "/embed", json, "401"),
        (&server, "/nowhere", json, "404"),
        (&server, "/embed", "text/plain", "415"),
        (&server, "/predict", json, "424"),
    ] {
        let answer = send(server, &request(path, kind, &body));
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{path}: {answer:?}"
        );
        assert!(
            answer.to_lowercase().contains("connection: close"),
            "{answer}"
        );
    }
}

#[test]
fn a_client_that_closes_its_sending_side_gets_its_answer() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &["-m", &embedder()]);
    let texts = vec!["one more text of some words ".repeat(10); 2000];
    let body = json!({"inputs": texts}).to_string();
    let mut stream = connect(&server);
    stream
        .write_all(request("/embed", "application/json", &body).as_bytes())
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    // It may have been asked whether it is there.
    let answer = all.trim_start_matches("HTTP/1.1 100 Continue\r\n\r\n");
    assert!(
        answer.starts_with("HTTP/1.1 200"),
        "{:?}",
        answer.get(..100)
    );
    assert!(all.ends_with("]]"));
}

#[test]
fn requests_with_two_lengths_and_strange_names_are_refused() {
    let sandbox = Sandbox::new();
    let server = Server::start(
        &sandbox,
        &["-m", &embedder(), "--allow-host", "proxy.example"],
    );
    let answer = send(
        &server,
        "POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    for (host, status) in [
        ("evil.example:8080", "403"),
        ("proxy.example", "200"),
        ("localhost:8080", "200"),
        ("127.0.0.1:8080", "200"),
    ] {
        let request = format!("GET /info HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = send(&server, &request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{host}: {answer}"
        );
    }
}

#[test]
fn options_of_other_servers_are_taken() {
    let sandbox = Sandbox::new();
    let names = [
        "--served-model-name",
        "mine",
        "--served-model-name",
        "other",
    ];
    let mut command = sandbox.command([
        "serve",
        "-m",
        &embedder(),
        "--host",
        "127.0.0.1",
        "--port",
        "0",
    ]);
    let server = Server::spawn(
        command
            .args(names)
            .args(["--allow-origin", "https://app.example"]),
    );
    assert!(
        server.address.starts_with("127.0.0.1:"),
        "{}",
        server.address
    );
    let models: Value = serde_json::from_str(&server.get("/v1/models").1).unwrap();
    assert_eq!(
        (&models["data"][0]["id"], &models["data"][1]["id"]),
        (&json!("mine"), &json!("other"))
    );
    for (name, status) in [("mine", 200), ("other", 200), ("model", 404)] {
        let body = json!({"model": name, "input": "a"});
        assert_eq!(server.post("/v1/embeddings", &body).0, status, "{name}");
        assert_eq!(server.post("/api/embed", &body).0, status, "{name}");
        assert_eq!(
            server.get(&format!("/v1/models/{name}")).0,
            status,
            "{name}"
        );
    }
    let loaded: Value = serde_json::from_str(&server.get("/api/ps").1).unwrap();
    assert_eq!(loaded["models"][1]["model"], "other", "{loaded}");
    assert_eq!(server.post("/v1/models/mine", &json!({})).0, 405);
    let asks = "OPTIONS /embed HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nOrigin: https://app.example\r\n\
                Access-Control-Request-Method: POST\r\n\r\n";
    let answer = send(&server, asks).to_lowercase();
    assert!(
        answer.contains("access-control-allow-origin: https://app.example"),
        "{answer}"
    );
    let (status, vectors) = server.post("/embed", &json!({"inputs": ["a b", "c"]}));
    assert_eq!(status, 200);
    let (_, similar) = server.post(
        "/similarity",
        &json!({"inputs": {"source_sentence": "a b", "sentences": ["a b", "c"]}}),
    );
    let similar: Vec<f64> = serde_json::from_str(&similar).unwrap();
    assert!(
        (similar[0] - 1.0).abs() < 1e-6 && similar[1] < 1.0,
        "{similar:?}"
    );
    let (_, ollama) = server.post("/api/embed", &json!({"input": ["a b", "c"]}));
    let ollama: Value = serde_json::from_str(&ollama).unwrap();
    assert_eq!(
        ollama["embeddings"],
        serde_json::from_str::<Value>(&vectors).unwrap()
    );
    for (options, words) in [
        ("--host 127.0.0.1:8080", "--host"),
        (
            "--host 127.0.0.1 --listen 127.0.0.1:0",
            "cannot be used with",
        ),
        ("--port 70000", "70000"),
    ] {
        let run = sandbox.run(&format!("serve -m no/such-model {options}"));
        assert_eq!(run.code, Some(2), "{options}: {run}");
        assert!(run.stderr.contains(words), "{options}: {run}");
    }
}

#[test]
fn documents_are_ranked_as_cohere_and_jina_have_it() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &["-m", &model("scores/bert"), "-p", "native"]);
    let texts = json!(["deep learning", "it rains", "a cat"]);
    let (_, own) = server.post(
        "/rerank",
        &json!({"query": "what is it?", "texts": texts, "raw_scores": false}),
    );
    let own: Value = serde_json::from_str(&own).unwrap();
    let (status, other) = server.post(
        "/v1/rerank",
        &json!({"query": "what is it?", "documents": texts, "top_n": 2}),
    );
    assert_eq!(status, 200, "{other}");
    let other: Value = serde_json::from_str(&other).unwrap();
    assert_eq!(other["results"].as_array().unwrap().len(), 2);
    for (one, other) in own
        .as_array()
        .unwrap()
        .iter()
        .zip(other["results"].as_array().unwrap())
    {
        assert_eq!(
            (&one["index"], &one["score"]),
            (&other["index"], &other["relevance_score"])
        );
    }
}

/// The time that one read may take passes twice meanwhile.
#[cfg(unix)]
#[test]
fn a_slow_but_steady_reader_gets_all_of_its_answer_after_a_signal() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &["-m", &embedder(), "--client-timeout", "1"]);
    let (mut stream, mut read) = begin_long(&server);
    let reader = std::thread::spawn(move || {
        let (start, mut piece) = (Instant::now(), vec![0; 40_000]);
        while start.elapsed() < Duration::from_secs(2) {
            let length = stream.read(&mut piece).unwrap();
            read.extend_from_slice(&piece[..length]);
            // The reader's own pace.
            std::thread::park_timeout(Duration::from_millis(10));
        }
        stream.read_to_end(&mut read).unwrap();
        read
    });
    let (code, messages) = server.signal(libc::SIGTERM);
    let read = reader.join().unwrap();
    assert!(
        read.len() > 8_000_000 && read.ends_with(b"]]"),
        "{} bytes",
        read.len()
    );
    assert_eq!(code, Some(0), "{messages}");
}

#[cfg(unix)]
#[test]
fn an_answer_that_is_cut_makes_the_exit_code_an_error() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(["serve", "-m", &embedder(), "--listen", "127.0.0.1:0"]);
    let server = Server::spawn(command.env("EMBEDCTL_LAST_SECONDS", "1"));
    let (_stream, _) = begin_long(&server);
    let (code, messages) = server.signal(libc::SIGTERM);
    assert_eq!(code, Some(130), "{messages}");
    assert!(messages.contains("answers were cut"), "{messages}");
}

//! Batching, the queue, deadlines, and the end of a server.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::model::{FakeModel, numbers};
use crate::server::{Answer, Server, request};
use embedctl_serve::{Notice, ServerOptions};

fn body(texts: &[&str]) -> Vec<u8> {
    json!({"inputs": texts}).to_string().into_bytes()
}

/// Sends a request without waiting for its answer.
fn begin(server: &Server, texts: &[&str]) -> std::net::TcpStream {
    let mut stream = server.connect();
    let bytes = request("/embed", "application/json", &body(texts));
    stream.write_all(&bytes).unwrap();
    stream
}

#[test]
fn an_idle_worker_runs_at_once_and_a_busy_one_finds_a_batch() {
    let server = Server::usual();
    server.gate.set(false);
    let mut first = begin(&server, &["first"]);
    server.gate.wait_for(1);
    assert_eq!(server.gate.batches(), [["first"]]);
    let mut others: Vec<_> = ["a", "b", "c"].map(|text| begin(&server, &[text])).into();
    server.wait_for("embedctl_serve_queue_tokens", 3.0);
    server.gate.set(true);
    for (stream, text) in others.iter_mut().zip(["a", "b", "c"]) {
        assert_eq!(Answer::read(stream).json(), json!([numbers(text)]));
    }
    assert_eq!(Answer::read(&mut first).json(), json!([numbers("first")]));
    let mut batches = server.gate.batches();
    batches[1].sort();
    assert_eq!(batches[1..], [["a", "b", "c"]]);
}

#[test]
fn a_short_request_that_meets_an_idle_worker_runs_on_its_own_thread() {
    let server = Server::usual();
    let thread = |text: &str| {
        let answer = Answer::read(&mut begin(&server, &[text]));
        assert_eq!(answer.json(), json!([numbers(text)]));
        server.gate.last_thread().unwrap()
    };
    // The first one has no pace to go by, and a slow moment may make it a bad one.
    assert!(thread("first").starts_with("worker"));
    assert!((0..1000).any(|_| thread("short") == "http"));
    for _ in 0..10 {
        assert!(thread(&"long".repeat(20)).starts_with("worker"));
    }
}

#[test]
fn a_small_request_waits_for_a_batch_of_a_large_one_and_not_for_all_of_it() {
    let server = Server::usual();
    server.gate.set(false);
    let mut blocking = begin(&server, &["first"]);
    server.gate.wait_for(1);
    let long = "x".repeat(200);
    let mut large = begin(&server, &vec![long.as_str(); 20]);
    server.wait_for("embedctl_serve_queue_tokens", 4000.0);
    let mut small = begin(&server, &["small"]);
    server.wait_for("embedctl_serve_queue_tokens", 4005.0);
    server.gate.set(true);
    for stream in [&mut small, &mut large, &mut blocking] {
        assert_eq!(Answer::read(stream).status, 200);
    }
    let batches = server.gate.batches();
    let at = batches
        .iter()
        .position(|batch| batch.contains(&"small".to_owned()));
    assert_eq!(at, Some(2), "{batches:?}");
    // The token budget holds.
    assert!(batches.iter().all(|batch| batch.concat().len() <= 256));
}

#[test]
fn two_workers_share_what_waits() {
    let server = Server::start(FakeModel::new(2), ServerOptions::default());
    server.gate.set(false);
    let mut streams = vec![begin(&server, &["first"])];
    server.gate.wait_for(1);
    streams.push(begin(&server, &["second"]));
    server.gate.wait_for(2);
    let text = "y".repeat(50);
    streams.push(begin(&server, &[text.as_str(); 4]));
    server.wait_for("embedctl_serve_queue_tokens", 200.0);
    server.gate.set(true);
    for stream in &mut streams {
        assert_eq!(Answer::read(stream).status, 200);
    }
    let sizes: Vec<usize> = server.gate.batches()[2..].iter().map(Vec::len).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 4);
    assert!(sizes.len() >= 2, "{sizes:?}");
}

#[test]
fn a_full_queue_refuses_and_has_room_again_later() {
    let options = ServerOptions {
        max_queue: 4,
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    server.gate.set(false);
    let mut first = begin(&server, &["a", "b", "c"]);
    server.gate.wait_for(1);
    let mut fits = begin(&server, &["d"]);
    server.wait_for("embedctl_serve_queue_inputs", 4.0);
    for path in ["/embed", "/v1/embeddings"] {
        let answer = server.post(path, r#"{"inputs": "e", "input": "e"}"#);
        assert_eq!(answer.status, 429, "{answer:?}");
        assert!(answer.head.contains("retry-after: "), "{}", answer.head);
        assert!(
            answer.body.contains("the queue is full (4 inputs)"),
            "{answer:?}"
        );
    }
    assert_eq!(
        server.get("/health").status,
        200,
        "a full queue is no illness"
    );
    let told = server.notices.lock().unwrap().clone();
    let warnings = told.iter().filter(|it| matches!(it, Notice::Warning(_)));
    assert_eq!(warnings.count(), 1, "one line for many refusals: {told:?}");
    server.gate.set(true);
    assert_eq!(Answer::read(&mut first).status, 200);
    assert_eq!(Answer::read(&mut fits).status, 200);
    server.wait_for("embedctl_serve_queue_inputs", 0.0);
    // On its own even a request that is larger than the queue is taken.
    let answer = server.post("/embed", body(&["1", "2", "3", "4", "5", "6"]));
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn a_client_that_leaves_takes_its_rows_along() {
    let server = Server::usual();
    server.gate.set(false);
    let mut first = begin(&server, &["first"]);
    server.gate.wait_for(1);
    let gone = begin(&server, &["gone", "gone too"]);
    server.wait_for("embedctl_serve_queue_tokens", 12.0);
    gone.shutdown(Shutdown::Both).unwrap();
    server.wait_for("embedctl_serve_queue_tokens", 0.0);
    server.wait_for("embedctl_serve_queue_inputs", 1.0);
    server.gate.set(true);
    assert_eq!(Answer::read(&mut first).status, 200);
    assert_eq!(server.gate.batches(), [["first"]]);
}

#[test]
fn a_request_that_takes_too_long_is_told_so() {
    let options = ServerOptions {
        timeout: Duration::from_millis(100),
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    server.gate.set(false);
    let answer = server.post("/embed", body(&["late"]));
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.body.contains("not done within 0.1 s"), "{answer:?}");
    assert!(answer.head.contains("retry-after"), "{}", answer.head);
    assert_eq!(server.metric("embedctl_serve_queue_inputs"), 0.0);
}

#[test]
fn one_requests_failure_is_not_anothers() {
    let server = Server::usual();
    for bad in ["fail", "panic"] {
        server.gate.set(false);
        let before = server.gate.batches().len();
        let mut first = begin(&server, &["first"]);
        server.gate.wait_for(before + 1);
        let mut good = begin(&server, &["good"]);
        let mut failing = begin(&server, &[bad]);
        server.wait_for("embedctl_serve_queue_inputs", 3.0);
        server.gate.set(true);
        assert_eq!(Answer::read(&mut first).status, 200);
        assert_eq!(Answer::read(&mut good).json(), json!([numbers("good")]));
        assert_eq!(Answer::read(&mut failing).status, 424, "{bad}");
    }
}

#[test]
fn an_engine_that_only_fails_is_unhealthy_until_it_works() {
    let server = Server::usual();
    for _ in 0..3 {
        assert_eq!(server.get("/health").status, 200);
        assert_eq!(server.post("/embed", body(&["fail"])).status, 424);
    }
    assert_eq!(server.get("/health").status, 503);
    assert_eq!(server.post("/embed", body(&["good"])).status, 200);
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn a_signal_lets_requests_end_and_takes_no_more() {
    let server = Server::usual();
    server.gate.set(false);
    let mut first = begin(&server, &["first"]);
    server.gate.wait_for(1);
    let _idle = server.connect();
    server.cancel.cancel();
    let start = std::time::Instant::now();
    while server.get("/health").status != 503 {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    let refused = server.post("/embed", body(&["new"]));
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(
        refused.head.contains("connection: close"),
        "{}",
        refused.head
    );
    let gate = Arc::clone(&server.gate);
    let address = server.address.clone();
    let ended = thread::spawn(move || server.end());
    gate.set(true);
    assert_eq!(Answer::read(&mut first).json(), json!([numbers("first")]));
    ended.join().unwrap().unwrap();
    assert!(
        std::net::TcpStream::connect(address).is_err(),
        "nobody listens any more"
    );
}

#[test]
fn a_drain_has_an_end() {
    let options = ServerOptions {
        drain: Duration::from_millis(100),
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    server.gate.set(false);
    let _first = begin(&server, &["first"]);
    server.gate.wait_for(1);
    server.cancel.cancel();
    let gate = Arc::clone(&server.gate);
    let notices = Arc::clone(&server.notices);
    let address = server.address.clone();
    let ended = thread::spawn(move || server.end());
    // The time is over once nobody listens; then the batch ends, and nobody is answered any more.
    let start = std::time::Instant::now();
    // Another error than a refusal may come of the many connections of other tests.
    let refused = || match std::net::TcpStream::connect(&address) {
        Ok(_) => false,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
    };
    while !refused() {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    assert!(notices.lock().unwrap().contains(&Notice::Draining(1)));
    gate.set(true);
    let error = ended.join().unwrap().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("not done in time and have no answer: 1"),
        "{error}"
    );
}

/// Every route has its time: a tokenizer that is at work is not waited for, and keeps its room until it is done.
#[test]
fn tokenizing_takes_room_and_time_as_vectors_do() {
    let options = ServerOptions {
        max_queue: 4,
        timeout: Duration::from_millis(200),
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    server.gate.set(false);
    // Too long for the connection's own thread.
    let slow = format!("slow {}", "x".repeat(20_000));
    for (path, rest) in [("/embed", 1.0), ("/tokenize", 2.0)] {
        let answer = server.post(path, body(&[&slow]));
        assert_eq!(answer.status, 503, "{path}: {answer:?}");
        assert!(answer.body.contains("not done within 0.2 s"), "{answer:?}");
        assert_eq!(server.metric("embedctl_serve_queue_inputs"), rest);
    }
    for path in ["/embed", "/tokenize"] {
        let answer = server.post(path, body(&["a", "b", "c"]));
        assert_eq!(answer.status, 429, "{path}: {answer:?}");
    }
    server.gate.set(true);
    server.wait_for("embedctl_serve_queue_inputs", 0.0);
    assert_eq!(server.post("/tokenize", body(&["a", "b", "c"])).status, 200);
}

#[test]
fn the_tokens_of_a_mebibyte_are_listed_at_a_time() {
    let server = Server::usual();
    let text = "x".repeat(1 << 19);
    let answer = server.post("/tokenize", body(&[&text, &text, "x"]));
    assert_eq!(answer.status, 413, "{}", answer.head);
    assert!(answer.body.contains("1048577 bytes of text"), "{answer:?}");
    let answer = server.post("/tokenize", body(&[&text, &text]));
    assert_eq!(answer.status, 200, "{}", answer.head);
}

/// A client that has sent all may close its side, and is asked after a second whether it is there.
#[test]
fn a_half_closed_client_gets_its_answer() {
    let server = Server::usual();
    server.gate.set(false);
    let mut first = begin(&server, &["first"]);
    first.shutdown(Shutdown::Write).unwrap();
    server.gate.wait_for(1);
    assert_eq!(server.get("/health").status, 200);
    let mut second = begin(&server, &["second"]);
    second.shutdown(Shutdown::Write).unwrap();
    let asked = Server::one_answer(&mut second);
    assert_eq!(asked.status, 100, "{asked:?}");
    server.gate.set(true);
    let answer = Server::one_answer(&mut second);
    assert_eq!(answer.json(), json!([numbers("second")]));
    let asked = Server::one_answer(&mut first);
    assert_eq!(asked.status, 100, "{asked:?}");
    assert_eq!(Answer::read(&mut first).json(), json!([numbers("first")]));
}

/// What is sent behind a request is read while it is answered, and not lost.
#[test]
fn requests_behind_one_another_are_answered_in_turn() {
    let server = Server::usual();
    server.gate.set(false);
    let kept = |text: &str| {
        let bytes = request("/embed", "application/json", &body(&[text]));
        String::from_utf8(bytes)
            .unwrap()
            .replace("Connection: close\r\n", "")
    };
    let mut stream = server.connect();
    stream.write_all(kept("one").as_bytes()).unwrap();
    server.gate.wait_for(1);
    stream
        .write_all((kept("two") + &kept("three")).as_bytes())
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.get("/health").status, 200);
    server.gate.set(true);
    for text in ["one", "two", "three"] {
        let mut answer = Server::one_answer(&mut stream);
        while answer.status == 100 {
            answer = Server::one_answer(&mut stream);
        }
        assert_eq!(answer.json(), json!([numbers(text)]), "{text}");
    }
    assert_eq!(Answer::read(&mut stream).status, 0);
}

/// What was accepted is given whole, to one who reads slowly too.
#[test]
fn an_answer_that_is_being_read_is_given_whole_before_the_end() {
    let options = ServerOptions {
        client_timeout: Duration::from_secs(1),
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    let (mut stream, mut read) = begin_long(&server);
    server.cancel.cancel();
    let address = server.address.clone();
    let ended = thread::spawn(move || server.end());
    // Slow but steady: a part while the time limit of one read passes twice, then the rest.
    let start = std::time::Instant::now();
    let mut piece = vec![0; 40_000];
    while start.elapsed() < Duration::from_millis(2200) {
        let length = stream.read(&mut piece).unwrap();
        read.extend_from_slice(&piece[..length]);
        // The reader's own pace.
        thread::park_timeout(Duration::from_millis(10));
    }
    assert!(
        std::net::TcpStream::connect(address).is_err(),
        "it is ending"
    );
    stream.read_to_end(&mut read).unwrap();
    assert!(read.ends_with(b"]]"), "{} bytes", read.len());
    ended.join().unwrap().unwrap();
}

/// An answer that could not be given whole is an error.
#[test]
fn an_answer_that_is_cut_is_told() {
    let options = ServerOptions {
        drain: Duration::from_millis(200),
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    let (_stream, _) = begin_long(&server);
    server.cancel.cancel();
    let error = server.end().unwrap_err().to_string();
    assert!(error.contains("answers were cut"), "{error}");
}

/// A client that has the first bytes of an answer of some 25 MB.
fn begin_long(server: &Server) -> (std::net::TcpStream, Vec<u8>) {
    let mut stream = server.connect();
    let texts = vec!["x".repeat(1000); 400];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let bytes = request("/tokenize", "application/json", &body(&texts));
    stream.write_all(&bytes).unwrap();
    let mut first = vec![0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(first, b"HTTP/1.1 200");
    (stream, first)
}

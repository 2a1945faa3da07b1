//! Clients that are slow, rude, or many.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::model::FakeModel;
use crate::server::{Answer, Server, key_of, request};
use embedctl_serve::ServerOptions;

fn impatient() -> Server {
    let options = ServerOptions {
        client_timeout: Duration::from_millis(200),
        max_body: 64 << 20,
        ..ServerOptions::default()
    };
    Server::start(FakeModel::new(1), options)
}

/// Reads until the server ends the connection.
fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn slow_heads_and_idle_connections_are_closed() {
    let server = impatient();
    for begun in [
        "",
        "POST /embed HT",
        "POST /embed HTTP/1.1\r\nHost: x\r\nA: ",
    ] {
        let mut stream = server.connect();
        stream.write_all(begun.as_bytes()).unwrap();
        rest(&mut stream);
    }
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn slow_bodies_are_refused() {
    let server = impatient();
    let whole = request("/embed", "application/json", br#"{"inputs": "a"}"#);
    let mut stream = server.connect();
    stream.write_all(&whole[..whole.len() - 5]).unwrap();
    let answer = Answer::read(&mut stream);
    assert_eq!(answer.status, 408, "{answer:?}");
    assert!(answer.body.contains("did not arrive within"), "{answer:?}");
}

#[test]
fn a_client_that_does_not_read_loses_its_connection() {
    let server = impatient();
    // Several megabytes of tokens, more than the buffers of a connection hold.
    let body = json!({"inputs": vec!["x".repeat(1000); 400]}).to_string();
    let mut stream = server.connect();
    let bytes = request("/tokenize", "application/json", body.as_bytes());
    stream.write_all(&bytes).unwrap();
    server.wait_for("embedctl_serve_connections", 2.0);
    // The connection that asks for the metric is the other one.
    server.wait_for("embedctl_serve_connections", 1.0);
    server.wait_for("embedctl_serve_body_bytes", 0.0);
    assert!(rest(&mut stream).len() < 20_000_000);
}

#[test]
fn bytes_that_are_no_request_are_refused() {
    let server = Server::usual();
    let long = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n",
        "a".repeat(200_000)
    );
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(5_000));
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], // TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /embed HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\nzz\r\n",
        long.as_bytes(),
        many.as_bytes(),
    ] {
        let answer = server.send(bytes);
        assert!(answer.status == 0 || (400..500).contains(&answer.status), "{answer:?}");
    }
    // All but the one with a wrong body.
    server.wait_for("embedctl_serve_refused_total{reason=\"not_http\"}", 8.0);
    for kind in ["text/plain", "application/jsonp"] {
        let answer = server.send(request("/embed", kind, br#"{"inputs": "a"}"#));
        assert_eq!(answer.status, 415, "{kind}");
    }
    // What programs send that say nothing of a body's type, and what a page of another site could send as well.
    for kind in ["application/x-www-form-urlencoded", ""] {
        let plain = request("/embed", kind, br#"{"inputs": "a"}"#);
        assert_eq!(server.send(plain.clone()).status, 200, "{kind}");
        let of_page = String::from_utf8(plain).unwrap();
        let of_page = of_page.replacen("\r\n", "\r\nOrigin: https://example.com\r\n", 1);
        assert_eq!(server.send(of_page).status, 415, "{kind}");
    }
    let charset = "application/json; charset=utf-8";
    let answer = server.send(request("/embed", charset, br#"{"inputs": "a"}"#));
    assert_eq!(answer.status, 200);
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn deep_and_endless_bodies_are_refused() {
    let options = ServerOptions {
        max_body: 1 << 20,
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    let deep = format!("{{\"inputs\": {}", "[".repeat(200_000));
    assert_eq!(server.post("/embed", deep).status, 422);
    // A body without an announced length: nine times the limit are read, and no more.
    let mut stream = server.connect();
    let head = "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
    let mut sent = 0;
    while sent < 1 << 30 && stream.write_all(&chunk).is_ok() {
        sent += 0x10000;
    }
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    // A client that asks first sends nothing.
    let asks = "POST /embed HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n\
                Content-Type: application/json\r\nContent-Length: 999999999\r\n\r\n";
    let answer = server.send(asks);
    assert_eq!(answer.status, 413, "{answer:?}");
    assert_eq!(server.metric("embedctl_serve_body_bytes"), 0.0);
}

#[test]
fn connections_beyond_the_limit_are_told_so_and_idle_ones_do_no_harm() {
    let options = ServerOptions {
        max_connections: Some(100),
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    let idle: Vec<TcpStream> = (0..99).map(|_| server.connect()).collect();
    server.wait_for("embedctl_serve_connections", 100.0);
    // The connection that asked for the metric may still count.
    let start = std::time::Instant::now();
    while server.post("/embed", r#"{"inputs": "a"}"#).status != 200 {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    // One more is the last, unless that of the request before still counts: then it is refused, and the next one is the last.
    let mut more = Vec::new();
    let start = std::time::Instant::now();
    loop {
        more.push(server.connect());
        let answer = server.get("/health");
        if answer.status == 503 {
            assert!(answer.body.contains("too many connections"), "{answer:?}");
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{answer:?}");
    }
    drop((idle, more));
    let start = std::time::Instant::now();
    while server.get("/health").status != 200 {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn killed_clients_leave_nothing_behind() {
    let server = Server::usual();
    for length in [1, 30, 90, 1000] {
        for _ in 0..20 {
            let body = json!({"inputs": vec!["some text"; 50]}).to_string();
            let bytes = request("/embed", "application/json", body.as_bytes());
            let mut stream = server.connect();
            let _ = stream.write_all(&bytes[..length.min(bytes.len())]);
        }
    }
    server.wait_for("embedctl_serve_connections", 1.0);
    server.wait_for("embedctl_serve_queue_inputs", 0.0);
    assert_eq!(server.metric("embedctl_serve_body_bytes"), 0.0);
    assert_eq!(server.metric("embedctl_serve_requests_in_flight"), 1.0);
}

/// The refusal comes before the body is read, and is seen by a client that first sends all.
#[test]
fn refusals_before_the_body_are_seen() {
    let options = ServerOptions {
        max_body: 1 << 20,
        keys: Some(key_of("right")),
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    let body = vec![b' '; 6 << 20];
    for (path, kind, key, status) in [
        ("/embed", "application/json", "wrong", 401),
        ("/nowhere", "application/json", "right", 404),
        ("/info", "application/json", "right", 405),
        ("/embed", "text/plain", "right", 415),
        ("/rerank", "application/json", "right", 424),
        ("/embed", "application/json", "right", 413),
    ] {
        let mut stream = server.connect();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        let answer = Answer::read(&mut stream);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.head.contains("connection: close"), "{}", answer.head);
    }
}

/// A proxy that reads the other of two lengths takes what is in the body for another client's request.
#[test]
fn a_request_with_two_lengths_is_refused() {
    let server = Server::usual();
    let good = request("/embed", "application/json", br#"{"inputs": "a"}"#);
    let good = String::from_utf8(good)
        .unwrap()
        .replace("Connection: close\r\n", "");
    for lengths in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "transfer-encoding:chunked\r\ncontent-length:0",
    ] {
        let head = format!(
            "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{lengths}\r\n\r\n"
        );
        let smuggled = format!("{head}0\r\n\r\n{good}");
        let answer = server.send(&smuggled);
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.head.contains("connection: close"), "{}", answer.head);
        assert!(!answer.body.contains("HTTP/1.1"), "one answer: {answer:?}");
        let mut stream = server.connect();
        stream.write_all(good.as_bytes()).unwrap();
        assert_eq!(Server::one_answer(&mut stream).status, 200);
        stream.write_all(smuggled.as_bytes()).unwrap();
        assert_eq!(Answer::read(&mut stream).status, 400, "{lengths}");
    }
    // One in chunks is taken, and is the last of its connection.
    let chunked = "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n\
                   f\r\n{\"inputs\": \"a\"}\r\n0\r\n\r\n";
    let answer = server.send(chunked);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.head.contains("connection: close"), "{}", answer.head);
}

/// Large answers that nobody reads are in the way of other large ones, and of nothing else.
#[test]
fn answers_that_are_not_read_keep_nobody_from_being_served() {
    let options = ServerOptions {
        memory: 40 << 20,
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    // Some 25 MB of tokens.
    let large = json!({"inputs": vec!["x".repeat(1000); 400]}).to_string();
    let large = request("/tokenize", "application/json", large.as_bytes());
    let mut unread = server.connect();
    unread.write_all(&large).unwrap();
    let mut first = [0; 12];
    unread.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let refused = server.send(&large);
    assert_eq!(refused.status, 429, "{}", refused.head);
    assert!(refused.body.contains("large answers"), "{refused:?}");
    let mut others: Vec<TcpStream> = (0..10).map(|_| server.connect()).collect();
    for stream in &mut others {
        let bytes = request("/embed", "application/json", br#"{"inputs": "a"}"#);
        stream.write_all(&bytes).unwrap();
        assert_eq!(Answer::read(stream).status, 200);
    }
    assert!(rest(&mut unread).ends_with("]]"));
    assert_eq!(server.send(&large).status, 200);
}

/// A page of another site may have made its own name lead to this machine.
#[test]
fn strange_names_of_this_machine_are_refused() {
    let ask = |server: &Server, host: &str, path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        server.send(head).status
    };
    let server = Server::usual();
    for host in ["evil.example:8080", "localhost.evil.example"] {
        assert_eq!(ask(&server, host, "/info"), 403, "{host}");
        assert_eq!(ask(&server, host, "/health"), 200, "{host}");
    }
    for host in ["localhost:8080", "127.0.0.1", "[::1]:8080"] {
        assert_eq!(ask(&server, host, "/info"), 200, "{host}");
    }
    let options = ServerOptions {
        allow_hosts: vec!["Proxy.example".to_owned()],
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    assert_eq!(ask(&server, "proxy.example:8080", "/info"), 200);
    assert_eq!(ask(&server, "evil.example:8080", "/info"), 403);
    let options = ServerOptions {
        keys: Some(key_of("right")),
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    let keyed = "proxy.example\r\nAuthorization: Bearer right";
    assert_eq!(ask(&server, keyed, "/info"), 200, "a page has no key");
}

#[test]
fn pages_of_allowed_origins_may_read_answers() {
    let options = ServerOptions {
        allow_origins: vec!["https://app.example".to_owned()],
        keys: Some(key_of("right")),
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    let ask = |origin: &str, head: &str| {
        server.send(format!(
            "{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nOrigin: {origin}\r\n\
             Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n\r\n"
        ))
    };
    let asked = ask("https://app.example", "OPTIONS /embed");
    assert_eq!(asked.status, 204, "{asked:?}");
    for line in [
        "access-control-allow-origin: https://app.example",
        "access-control-allow-methods: get, post",
        "access-control-allow-headers: authorization",
        "vary: origin",
    ] {
        assert!(asked.head.contains(line), "{line}: {}", asked.head);
    }
    // A refusal can be read, too.
    let answer = ask("https://app.example", "GET /info");
    assert_eq!(answer.status, 401);
    let line = "access-control-allow-origin: https://app.example";
    assert!(answer.head.contains(line), "{}", answer.head);
    let strange = ask("https://evil.example", "OPTIONS /embed");
    assert_eq!(strange.status, 401, "{strange:?}");
    assert!(!strange.head.contains("allow-origin"), "{}", strange.head);
    let server = Server::usual();
    let head = "OPTIONS /embed HTTP/1.1\r\nHost: x\r\nConnection: close\r\nOrigin: https://app.example\r\n\
                Access-Control-Request-Method: POST\r\n\r\n";
    assert_eq!(server.send(head).status, 405, "without the option");
}
